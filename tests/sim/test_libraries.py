"""Whole libraries on the simulator: CUB, cooperative groups, CUDA's atomics; against NumPy's answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxsim.errors import UnsupportedInstruction
from warpschool.compile import compile_cuda

from . import engine_launch
from .oracle_launch import entry

HERE = Path(__file__).parent / "libraries"
THREADS, ITEMS = 128, 4
ALL = THREADS * ITEMS
X = np.random.default_rng(3).integers(0, 1 << 32, ALL, np.uint64).astype(np.uint32)
BLOCKED = X.reshape(THREADS, ITEMS)
PARTED = pytest.mark.parametrize("parted", [False, pytest.param(True, marks=pytest.mark.slow)])


LOOKS_TOO_FAR = {"merged", "warps"}
"""CUB's merges load the word behind the last one, which nobody has written, and do not use it."""


def run(file: str, kernel: str, words: int, *more: np.ndarray, arch: str = "compute_80", **how) -> np.ndarray:
    """What a kernel of a file leaves in its output, without hazards."""
    source = (HERE / file).read_text(encoding="utf-8")
    ptx = compile_cuda(source, name=file, arch=arch).ptx
    grid = how.pop("grid", 1)
    found = engine_launch.launch(
        ptx, kernel, (grid,), (THREADS,), *(more or (X,)), np.zeros(words, np.uint32), **how
    )
    allowed = {"uninitialized"} if kernel in LOOKS_TOO_FAR else set()
    assert {h.kind for h in found.record.hazards} <= allowed, found.record.hazards
    return found.arrays[-1]


def _stable_by_bits() -> np.ndarray:
    return np.argsort(X >> 4 & 0xFFF, kind="stable")


def _moved() -> np.ndarray:
    moved = (BLOCKED * np.uint32(3) + np.arange(THREADS, dtype=np.uint32)[:, None]).reshape(-1)
    return np.where(np.arange(ALL) < ALL - 5, moved, 0)


def _per_warp(x: np.ndarray) -> np.ndarray:
    return x.reshape(4, -1)


def _warps() -> np.ndarray:
    scan = np.maximum.accumulate(_per_warp(BLOCKED[:, 1]), axis=1).reshape(-1)
    striped = BLOCKED.reshape(4, 32, ITEMS).transpose(0, 2, 1).reshape(-1)
    sums = _per_warp(BLOCKED[:, 0]).sum(axis=1, dtype=np.uint32)
    return np.concatenate([scan, np.zeros(ALL - THREADS), striped, np.sort(_per_warp(X), axis=1).reshape(-1), sums])


def _sums() -> np.ndarray:
    return np.concatenate([[0], np.cumsum(X, dtype=np.uint32)])


_LEFT = np.concatenate([[0], X[:-1]]).astype(np.uint32)
EXPECTED = {
    "transposed": _moved, "vectorized": _moved,
    **dict.fromkeys(("reduce_shuffles", "reduce_raking"), lambda: np.array([X.sum(dtype=np.uint32), X.max()])),
    **dict.fromkeys(("scan_shuffles", "scan_raking"), _sums),
    "radix": lambda: np.concatenate([X[_stable_by_bits()], _stable_by_bits()]),
    "merged": lambda: np.sort(X),
    **dict.fromkeys(("histogram_atomic", "histogram_sort"), lambda: np.bincount(X % 64, minlength=64)),
    "exchanged": lambda: X.reshape(ITEMS, THREADS).T.reshape(-1),
    "neighbours": lambda: np.concatenate([
        _LEFT, np.where(np.arange(ALL) > 0, X - _LEFT, X), (X // 8 != _LEFT // 8) | (np.arange(ALL) == 0),
    ]),
    "warps": _warps,
}  # fmt: skip


@PARTED
@pytest.mark.parametrize("kernel", EXPECTED)
@pytest.mark.thinned(3)
def test_cub(kernel, parted):
    wanted = EXPECTED[kernel]().astype(np.uint32)
    assert (run("cub_block.cu", kernel, len(wanted), parted=parted) == wanted).all()


def _counted(x: np.ndarray, first: bool = True) -> list[int]:
    most, bits = int(x.max()), int(np.bitwise_xor.reduce(x))
    real = np.array([(x % 8).sum()], np.float32).view(np.uint32)[0]
    return [15 * len(x), most, bits, int(x.sum(dtype=np.uint32)), 7, int(real), int(first), 0]


@PARTED
def test_atomics_in_every_scope_and_order(parted):
    found = run("groups_and_atomics.cu", "scopes", 32, X[:256], grid=2, parted=parted, arch="compute_90")
    assert found[:16].tolist() == _counted(X[:256]) * 2
    assert found[16:].tolist() == _counted(X[:128]) + _counted(X[128:256], first=False)


@PARTED
def test_groups_copies_and_leaders(parted):
    found = run("groups_and_atomics.cu", "groups", 512, parted=parted, arch="compute_90")
    assert (found[:128] == X[127::-1]).all()
    assert (found[128:256] == X[128:256] + np.repeat(X[:4], 32)).all()
    assert found[256:260].tolist() == [32] * 4
    assert (found[384:] == X[256:384].reshape(-1, 2)[:, ::-1].reshape(-1)).all()


def test_clocks_go_on():
    assert set(run("groups_and_atomics.cu", "clocks", THREADS, arch="compute_90").tolist()) == {7}


def test_a_ring_of_blocks():
    found = run("clusters.cu", "ring", ALL, grid=4, arch="compute_90").reshape(4, THREADS)
    threads = np.arange(ALL, dtype=np.uint32).reshape(4, THREADS)
    ranks = np.array([[1], [2], [3], [0]], np.uint32)
    wanted = np.roll(X.reshape(4, THREADS), -1, axis=0) + ranks + 40 + 100 * threads + 100000 * 512
    assert (found == wanted.astype(np.uint32)).all()


def test_launches_from_a_kernel_are_refused_in_words():
    declared = ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a, .param .b64 b);"
    body = "{ .param .b32 r; .param .b64 a, b; call (r), cudaLaunchDeviceV2, (a, b); } ret;"
    with pytest.raises(UnsupportedInstruction, match=r"launches kernels \(dynamic") as caught:
        engine_launch.launch(entry(body, declarations=declared), "k", (1,), (1,), np.zeros(1, np.uint32))
    assert "Launch from the host" in caught.value.next_step
