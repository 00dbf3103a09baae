"""Cooperative groups' collectives against NumPy: lanes of the engine together and parted, and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

SOURCE = Path(__file__).parent / "libraries" / "collectives.cu"
THREADS = 128
X = np.random.default_rng(11).integers(1, 1 << 30, THREADS, np.uint32)
HOW = pytest.mark.parametrize("how", ["whole", pytest.param("parted", marks=pytest.mark.slow), "oracle"])
MASK = (1 << 32) - 1
SCANS_FROM = 7
"""The results that `reductions` leaves from this number on depend on the place in the group."""


@cache
def _ptx() -> str:
    return compile_cuda(SOURCE.read_text(encoding="utf-8"), name=SOURCE.name).ptx


def run(kernel: str, words: int, how: str, *, x: np.ndarray = X, grid: int = 1, **options) -> np.ndarray:
    """What a kernel leaves in its output; the engine also finds nothing wrong."""
    arguments = _ptx(), kernel, (grid,), (THREADS,), x, np.zeros(words, np.uint32)
    if how == "oracle":
        return oracle_launch.launch(*arguments).arrays[-1]
    found = engine_launch.launch(*arguments, parted=how == "parted", **options)
    assert not found.record.hazards, found.record.hazards
    return found.arrays[-1]


def _reductions(groups: Sequence[Sequence[int]]) -> np.ndarray:
    """What `reductions` leaves for groups of threads; 0 for a thread of none."""
    found = np.zeros((12, THREADS), np.uint32)
    for members in groups:
        values = [int(X[m]) for m in members]
        sums = [*accumulate(values)]
        most, mixed = [*accumulate(values, max)], [*accumulate(values, lambda a, b: a ^ b)]
        real = np.float32(sum(v % 64 for v in values)).view(np.uint32)
        whole = (
            sums[-1], min(values), max(values), reduce(lambda a, b: a & b, values), reduce(lambda a, b: a | b, values),
            mixed[-1], reduce(lambda a, b: a * b & MASK, values),
        )  # fmt: skip
        for k, member in enumerate(members):
            before = (sums[k - 1], mixed[k - 1]) if k else (0, 0)
            each = (*whole, sums[k], before[0], most[k], before[1], int(real))
            found[:, member] = np.array(each, np.uint64).astype(np.uint32)
    return found


def _tiles(size: int) -> np.ndarray:
    x, lanes = X.reshape(-1, size), np.arange(size)
    ranks, tiles = np.tile(lanes, THREADS // size), np.repeat(np.arange(THREADS // size), size)
    even = x % 2 == 0
    match_any = (x[:, :, None] % 4 == x[:, None, :] % 4).sum(axis=2)
    rows = [
        np.broadcast_to(x[:, 1:2], x.shape), x[:, np.maximum(lanes - 1, 0)],
        np.where(lanes + 2 < size, x[:, np.minimum(lanes + 2, size - 1)], x), x[:, lanes ^ 1],
        np.broadcast_to((x % 8 == 0).any(axis=1, keepdims=True) + 2 * even.all(axis=1, keepdims=True), x.shape),
        np.broadcast_to((even << lanes).sum(axis=1, keepdims=True), x.shape),
        ranks + 100 * tiles + 10000 * size + THREADS // size, match_any, np.zeros_like(x),
    ]  # fmt: skip
    return np.concatenate([_reductions(tiles_of(size)), np.array([np.reshape(row, -1) for row in rows], np.uint32)])


def tiles_of(size: int) -> list[range]:
    return [range(first, first + size) for first in range(0, THREADS, size)]


def _by_label(label: np.ndarray) -> list[list[int]]:
    """The groups of threads of a warp with one label."""
    warps = np.arange(THREADS) // 32
    return [np.flatnonzero((warps == w) & (label == v)).tolist() for w in range(4) for v in np.unique(label)]


@HOW
@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles(size, how):
    wanted = _tiles(size)
    found = run(f"tiles{size}", wanted.size, how).reshape(wanted.shape)
    assert [k for k in range(len(wanted)) if (found[k] != wanted[k]).any()] == []


@pytest.mark.parametrize("how", ["whole", pytest.param("parted", marks=pytest.mark.slow)])
def test_tiles_larger_than_a_warp(how):
    """Their warps wait for each other by looking at memory, which the oracle does not do in turns."""
    found = run("large_tiles", 6 * THREADS, how).reshape(6, THREADS)
    x = X.reshape(2, 64)
    sums = np.cumsum(x, axis=1, dtype=np.uint32)
    votes = (x % 32 == 0).any(axis=1, keepdims=True) + 2 * (x > 5).all(axis=1, keepdims=True)
    ranks = np.arange(64) + 1000 * np.arange(2)[:, None]
    wanted = (sums[:, -1:], sums, sums - x, x[:, 40:41], votes, ranks)
    for row, values in zip(found, wanted, strict=True):
        assert (row.reshape(2, 64) == values).all()


@HOW
def test_coalesced_threads(how):
    found = run("coalesced", 14 * THREADS, how).reshape(14, THREADS)
    groups = [g for g in _by_label(X % 3 == 0) if X[g[0]] % 3 == 0]
    wanted = np.zeros((14, THREADS), np.uint32)
    wanted[:12] = _reductions(groups)
    for members in groups:
        wanted[12, members] = np.arange(len(members)) + 100 * len(members)
        wanted[13, members] = X[members[-1]]
    assert (found == wanted).all()


@HOW
def test_partitions_by_label_and_by_predicate(how):
    found = run("parted", 26 * THREADS, how).reshape(26, THREADS)
    assert (found[:12] == _reductions(_by_label(X % 3))).all()
    assert (found[12:24] == _reductions(_by_label(X % 2))).all()
    lanes = np.arange(THREADS) % 32
    assert (found[24] == np.where(lanes < 20, 20, 12)).all()
    assert (found[25] == 800 + lanes % 8).all()


@HOW
def test_updates_and_stores_of_reductions(how):
    small = X % 1000
    found = run("updates", 3 + 4 * THREADS, how, x=small)
    counts = int((small % 4).sum())
    assert found[:3].tolist() == [small.sum(), small.max(), counts]
    assert (found[3:] == (np.arange(4 * THREADS) < counts)).all()
    stored = run("stored", 4, how)
    assert (stored == X.reshape(4, 32).sum(axis=1, dtype=np.uint32)).all()


@pytest.mark.parametrize("parted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_whole_grid_meets(parted):
    blocks = 3
    x = np.random.default_rng(5).integers(0, 1 << 20, THREADS * blocks, np.uint32)
    how = "parted" if parted else "whole"
    found = run("whole_grid", 3 * x.size, how, x=x, grid=blocks, cooperative=True).reshape(3, -1)
    second = x[::-1] * 3 + np.repeat(np.arange(blocks), THREADS) + 10 * blocks + 1000
    assert (found[0] == x * 3).all() and (found[1] == second).all()
    assert (found[2] == np.roll(second, -THREADS)).all()
