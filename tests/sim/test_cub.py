"""The rest of CUB's algorithms for blocks and warps against NumPy: by the engine and the oracle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

SOURCE = Path(__file__).parent / "libraries" / "cub_more.cu"
THREADS, ITEMS = 128, 4
ALL = THREADS * ITEMS
X = np.random.default_rng(17).integers(0, 1 << 32, ALL, np.uint64).astype(np.uint32)
LOOKS_TOO_FAR = {"merged_pairs"}
"""CUB's merges load the word behind the last one, which nobody has written, and do not use it."""
_PLACES, _THREADS = np.arange(ALL), np.arange(THREADS)
_MOVED = np.where(_PLACES < ALL - 3, X, 9) + np.repeat(_THREADS, ITEMS)
_STRIPED = np.where(_PLACES < ALL - 3, X, 9) + np.tile(_THREADS, ITEMS)


@cache
def _ptx() -> str:
    return compile_cuda(SOURCE.read_text(encoding="utf-8"), name=SOURCE.name).ptx


def _stored(moved: np.ndarray) -> np.ndarray:
    return np.where(_PLACES < ALL - 5, moved, 0)


def _merged() -> np.ndarray:
    keys = X % 97
    order = np.argsort(-keys.astype(np.int64), kind="stable")
    return np.concatenate([keys[order], order])


def _exchanged() -> np.ndarray:
    blocked = X.reshape(THREADS, ITEMS)
    first = np.array([blocked[p % THREADS, p // THREADS] for p in range(ALL)])
    warps = first.reshape(4, 32 * ITEMS)
    second = np.array([warps[w].reshape(ITEMS, 32).T for w in range(4)]).reshape(-1)
    third = np.zeros(ALL, np.uint32)
    third[_PLACES * 5 % ALL] = second
    return np.concatenate([first, second, third])


def _tails() -> np.ndarray:
    after = np.append(X[1:], X[-1])
    last = _PLACES == ALL - 1
    runs = np.repeat(_THREADS * 10, _THREADS % 8 + 1)
    return np.concatenate([
        np.where(last, X, X - after), (after // 8 != X // 8) | last, runs[:ALL],
        np.roll(X[::ITEMS], -3), [len(runs)],
    ])  # fmt: skip


def _segments() -> np.ndarray:
    x, warp = X[:THREADS], _THREADS // 32
    head, tail = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
    for t in range(THREADS):
        end = t + 1
        while end < THREADS and warp[end] == warp[t] and end % 5 != 0:
            end += 1
        head[t] = x[t:end].sum(dtype=np.uint32)
        end = t + 1
        while end < THREADS and warp[end] == warp[t] and (end - 1) % 5 != 4:
            end += 1
        tail[t] = x[t:end].sum(dtype=np.uint32)
    halves = np.where(_THREADS % 16 == 0, np.repeat(x.reshape(-1, 16).sum(axis=1, dtype=np.uint32), 16), 0)
    sums = np.cumsum(x.reshape(-1, 8), axis=1, dtype=np.uint32) + np.uint32(3)
    before = np.concatenate([np.full((16, 1), 3, np.uint32), sums[:, :-1]], axis=1)
    striped = X.reshape(4, 32, ITEMS).transpose(0, 2, 1)
    return np.concatenate([head, tail, halves, sums.reshape(-1), before.reshape(-1), striped.reshape(-1)])


def _memoized() -> np.ndarray:
    return np.concatenate([[0], np.cumsum(X, dtype=np.uint32)[:-1]]).astype(np.uint32) + np.uint32(1000)


def _radix() -> np.ndarray:
    descending = np.sort(X)[::-1]
    return np.concatenate([descending, descending[np.argsort(descending >> 8, kind="stable")]])


def _floats() -> np.ndarray:
    return np.sort(X.view(np.int32).astype(np.float32) * np.float32(1e-5)).view(np.uint32)


WANTED = {
    **{f"move_{how}": _stored(_MOVED) for how in ("direct", "vectorize", "transpose", "warp_transpose",
                                                 "warp_transpose_timesliced")},
    "move_striped": _stored(_STRIPED),
    "reduce_commutative": np.array([X.sum(dtype=np.uint32), X[:77].sum(dtype=np.uint32)]),
    "scan_memoized": _memoized(), "radix5": _radix(), "radix5_plain": _radix(), "floats_sorted": _floats(),
    "merged_pairs": _merged(), "exchanges": _exchanged(), "tails_and_runs": _tails(), "warp_segments": _segments(),
}  # fmt: skip

@pytest.mark.parametrize("how", ["whole", pytest.param("parted", marks=pytest.mark.slow), "oracle"])
@pytest.mark.parametrize("kernel", WANTED)
@pytest.mark.thinned(7)
def test_cub(kernel, how):
    wanted = WANTED[kernel].astype(np.uint32)
    arguments = _ptx(), kernel, (1,), (THREADS,), X, np.zeros(wanted.size, np.uint32)
    if how == "oracle":
        found = oracle_launch.launch(*arguments).arrays[-1]
    else:
        outcome = engine_launch.launch(*arguments, parted=how == "parted")
        allowed = {"uninitialized"} if kernel in LOOKS_TOO_FAR else set()
        assert {h.kind for h in outcome.record.hazards} <= allowed, outcome.record.hazards
        found = outcome.arrays[-1]
    meant = np.ones(wanted.size, bool)
    if kernel == "warp_segments":  # a segment's sum is its first thread's alone
        heads = (_THREADS % 5 == 0) | (_THREADS % 32 == 0)
        meant[: 2 * THREADS] = np.tile(heads, 2)
    assert np.flatnonzero((found != wanted) & meant).tolist() == []
