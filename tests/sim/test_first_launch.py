"""Long kernels in both tiers: right by the host's arithmetic, counted the same, without hazards."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from ptxsim.run import tiers
from warpschool.compile import compile_cuda

from .engine_launch import launch

KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels" / "first_launch"


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


def _both_tiers(name: str, grid, block, *arguments):
    ptx = compile_cuda((KERNELS / f"{name}.cu").read_text(), name=f"{name}.cu").ptx
    found = [launch(ptx, name, grid, block, *arguments, tier=t) for t in (tiers.STENCILS, tiers.COMPILED)]
    assert found[0].record == found[1].record
    assert not found[0].record.hazards
    assert all((a == b).all() for a, b in zip(found[0].arrays, found[1].arrays, strict=True))
    return found[0].arrays


@pytest.mark.parametrize("count", [1, 70])
def test_sha256(count):
    messages = np.random.default_rng(1).integers(0, 256, (count, 64), np.uint8)
    words, digests = messages.view(">u4").astype(np.uint32), np.zeros((count, 8), np.uint32)
    out = _both_tiers("sha256", (2,), (64,), words, _round_constants(), digests, np.int32(count))[2]
    assert [d.astype(">u4").tobytes() for d in out] == [hashlib.sha256(m.tobytes()).digest() for m in messages]


@pytest.mark.parametrize("count", [1, 100])
def test_nbody(count):
    bodies = np.random.default_rng(2).random((count, 4), np.float32)
    softening = np.float32(0.01)
    out = _both_tiers("nbody", (2,), (64,), bodies, np.zeros_like(bodies), np.int32(count), softening)[1]
    wide = bodies.astype(np.float64)
    away = wide[None, :, :3] - wide[:, None, :3]
    pull = wide[None, :, 3] * ((away**2).sum(2) + float(softening)) ** -1.5
    assert np.allclose(out[:, :3], (pull[..., None] * away).sum(1), rtol=1e-4, atol=1e-4 * count)


@pytest.mark.parametrize("length", [1, 45])
def test_attention(length):
    q, k, v = np.random.default_rng(3).standard_normal((3, 2, length, 64), np.float32)
    out = _both_tiers("attention", (2, 2), (32,), q, k, v, np.zeros_like(q), np.int32(length))[3]
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    weights = np.exp(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ v.astype(np.float64)
    assert np.allclose(out, expected, rtol=1e-4, atol=1e-5)
