"""Long kernels with inputs, and what is right of what they leave: for both tiers, and for measuring first launches."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "benchmarks" / "kernels" / "first_launch"
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class LongKernel:
    """A launch of the kernel `name` in the file of that name."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    verify: Callable[[Arrays], None]
    """asserts that the arrays among the arguments are right after the launch"""
    label: str = ""

    @property
    def source(self) -> str:
        """Its CUDA C++."""
        return (FOLDER / f"{self.name}.cu").read_text(encoding="utf-8")

    def __str__(self) -> str:
        return f"{self.name}-{self.label}"


def long_kernels() -> Iterator[LongKernel]:
    """Every kernel at sizes that fill its blocks and at such that do not; the first of each is what is measured."""
    for count in (70, 1):
        yield _sha256(count)
    for count in (100, 1):
        yield _nbody(count)
    for length in (45, 1):
        yield _attention(length)
    for shape in ((70, 45, 77), (1, 31, 33)):
        yield _product("pipeline", shape, 32, 256)
        yield _product("sgemm", shape, 64, 64)
    for count in (1500, 33):
        yield _radix_sort(count)
        yield _bitonic_sort(count)
    for count in (3, 1):
        yield _fft(count)
    for count in (70, 1):
        yield _aes(count)
        yield _lu(count)


# ---------------------------------------------------------------- SHA-256


def _sha256(count: int) -> LongKernel:
    messages = np.random.default_rng(1).integers(0, 256, (count, 64), np.uint8)
    words, digests = messages.view(">u4").astype(np.uint32), np.zeros((count, 8), np.uint32)

    def verify(arrays: Arrays) -> None:
        told = [d.astype(">u4").tobytes() for d in arrays[2]]
        assert told == [hashlib.sha256(m.tobytes()).digest() for m in messages]

    arguments = words, _round_constants(), digests, np.int32(count)
    return LongKernel("sha256", (2,), (64,), arguments, verify, str(count))


def _primes(count: int) -> list[int]:
    found: list[int] = []
    n = 2
    while len(found) < count:
        if all(n % p for p in found):
            found.append(n)
        n += 1
    return found


def _round_constants() -> np.ndarray:
    """The first 32 bits of the fractions of the cube roots of the first 64 primes."""
    return np.array([_cube_root(p << 96) & 0xFFFFFFFF for p in _primes(64)], np.uint32)


def _cube_root(n: int) -> int:
    """Rounded down; of numbers below 2^108."""
    root = 0
    for bit in reversed(range(36)):
        if (root | 1 << bit) ** 3 <= n:
            root |= 1 << bit
    return root


# ---------------------------------------------------------------- n-body


def _nbody(count: int) -> LongKernel:
    bodies = np.random.default_rng(2).random((count, 4), np.float32)
    softening = np.float32(0.01)

    def verify(arrays: Arrays) -> None:
        wide = bodies.astype(np.float64)
        away = wide[None, :, :3] - wide[:, None, :3]
        pull = wide[None, :, 3] * ((away**2).sum(2) + float(softening)) ** -1.5
        assert np.allclose(arrays[1][:, :3], (pull[..., None] * away).sum(1), rtol=1e-4, atol=1e-4 * count)

    arguments = bodies, np.zeros_like(bodies), np.int32(count), softening
    return LongKernel("nbody", (2,), (64,), arguments, verify, str(count))


# ---------------------------------------------------------------- attention


def _attention(length: int) -> LongKernel:
    q, k, v = np.random.default_rng(3).standard_normal((3, 2, length, 64), np.float32)

    def verify(arrays: Arrays) -> None:
        scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
        weights = np.exp(scores - scores.max(2, keepdims=True))
        expected = weights / weights.sum(2, keepdims=True) @ v.astype(np.float64)
        assert np.allclose(arrays[3], expected, rtol=1e-4, atol=1e-5)

    return LongKernel("attention", (2, 2), (32,), (q, k, v, np.zeros_like(q), np.int32(length)), verify, str(length))


# ---------------------------------------------------------------- matrix products


def _product(name: str, shape: tuple[int, int, int], tile: int, threads: int) -> LongKernel:
    m, n, k = shape
    rng = np.random.default_rng(shape)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)

    def verify(arrays: Arrays) -> None:
        assert np.allclose(arrays[2], a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)

    arguments = a, b, np.full((m, n), np.nan, np.float32), *map(np.int32, shape)
    return LongKernel(name, (-(-n // tile), -(-m // tile)), (threads,), arguments, verify, "x".join(map(str, shape)))


# ---------------------------------------------------------------- sorting


def _by_parts(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[k : k + size] for k in range(0, len(x), size)]


def _radix_sort(count: int) -> LongKernel:
    keys = np.random.default_rng(4).integers(0, 1 << 32, count, np.uint32)

    def verify(arrays: Arrays) -> None:
        assert (arrays[1] == np.concatenate([np.sort(part) for part in _by_parts(keys, 1024)])).all()

    return LongKernel(
        "radix_sort", (-(-count // 1024),), (128,), (keys, np.zeros_like(keys), np.int32(count)), verify, str(count)
    )


def _bitonic_sort(count: int) -> LongKernel:
    keys = np.random.default_rng(5).permutation(count).astype(np.float32)
    values = np.arange(count, dtype=np.int32)

    def verify(arrays: Arrays) -> None:
        order = np.concatenate([k + np.argsort(keys[k : k + 512]) for k in range(0, count, 512)])
        assert (arrays[2] == keys[order]).all()
        assert (arrays[3] == values[order]).all()

    arguments = keys, values, np.zeros_like(keys), np.zeros_like(values), np.int32(count)
    return LongKernel("bitonic_sort", (-(-count // 512),), (256,), arguments, verify, str(count))


# ---------------------------------------------------------------- Fourier transform


def _fft(count: int) -> LongKernel:
    x = np.random.default_rng(6).standard_normal((count, 512, 2), np.float32)

    def verify(arrays: Arrays) -> None:
        expected = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1])
        found = arrays[1][..., 0].astype(np.float64) + 1j * arrays[1][..., 1]
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()

    return LongKernel("fft", (count,), (64,), (x, np.zeros_like(x)), verify, str(count))


# ---------------------------------------------------------------- AES


def _doubled(x: int) -> int:
    """x times 2 in the field of 256 elements that AES computes in."""
    return x << 1 ^ (0x11B if x & 0x80 else 0)


def _substitutes() -> list[int]:
    """The S-box (FIPS 197, 5.1.1): the inverse, and an affine map of it."""
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] ^ _doubled(powers[-1]))  # of 3, which generates the field's group
    logarithm = {x: k for k, x in enumerate(powers)}
    box = []
    for x in range(256):
        inverse = powers[-logarithm[x] % 255] if x else 0
        turned = [inverse << k | inverse >> 8 - k for k in range(5)]
        box.append(functools.reduce(operator.xor, turned, 0x63) & 255)
    return box


def _round_keys(key: bytes, box: list[int]) -> list[int]:
    """The 176 bytes of 11 round keys (FIPS 197, 5.2)."""
    found, constant = list(key), 1
    while len(found) < 176:
        word = found[-4:]
        if len(found) % 16 == 0:
            word = [box[x] for x in (*word[1:], word[0])]
            word[0] ^= constant
            constant = _doubled(constant)
        found += [x ^ y for x, y in zip(word, found[-16:], strict=False)]
    return found


def _encrypted(block: bytes, keys: list[int], box: list[int]) -> bytes:
    """One block, step by step as FIPS 197, 5.1, tells it; byte 4c + r is row r of column c."""
    state = [x ^ k for x, k in zip(block, keys, strict=False)]
    for step in range(1, 11):
        state = [box[state[(4 * (k // 4 + k % 4) + k % 4) % 16]] for k in range(16)]
        if step < 10:
            columns = [state[k : k + 4] for k in range(0, 16, 4)]
            state = [
                _doubled(c[r] ^ c[(r + 1) % 4]) ^ c[(r + 1) % 4] ^ c[(r + 2) % 4] ^ c[(r + 3) % 4]
                for c in columns
                for r in range(4)
            ]
        state = [x ^ k for x, k in zip(state, keys[16 * step :], strict=False)]
    return bytes(state)


def _aes(count: int) -> LongKernel:
    box = _substitutes()
    keys = _round_keys(bytes(range(16)), box)
    plain = np.random.default_rng(7).integers(0, 256, (count, 16), np.uint8)
    plain[0] = [17 * k for k in range(16)]  # the example of FIPS 197, C.1

    def verify(arrays: Arrays) -> None:
        found = [bytes(row) for row in arrays[3]]
        assert found[0].hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
        assert found == [_encrypted(bytes(row), keys, box) for row in plain]

    arguments = (
        plain, np.array(box, np.uint32), np.array(keys, np.uint8).view(np.uint32), np.zeros_like(plain), np.int32(count)
    )  # fmt: skip
    return LongKernel("aes", (-(-count // 64),), (64,), arguments, verify, str(count))


# ---------------------------------------------------------------- linear equations


def _lu(count: int) -> LongKernel:
    rng = np.random.default_rng(8)
    a = rng.standard_normal((10, 10, count), np.float32) + 10 * np.eye(10, dtype=np.float32)[..., None]
    b = rng.standard_normal((10, count), np.float32)

    def verify(arrays: Arrays) -> None:
        systems = a.astype(np.float64).transpose(2, 0, 1)
        expected = np.linalg.solve(systems, b.astype(np.float64).T[..., None])[..., 0].T
        assert np.allclose(arrays[2], expected, rtol=1e-4, atol=1e-5)

    return LongKernel("lu", (-(-count // 64),), (64,), (a, b, np.zeros_like(b), np.int32(count)), verify, str(count))
