"""Long kernels with inputs, and what is right of what they leave: for both tiers, and for measuring first launches."""

from __future__ import annotations

import hashlib
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
