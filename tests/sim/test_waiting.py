"""Latches, semaphores, barriers with a completion, pipelines of stages; clocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

SOURCE = Path(__file__).parent / "libraries" / "waiting.cu"
X = np.random.default_rng(23).integers(0, 1 << 32, 7 * 128, np.uint64).astype(np.uint32)
PARTED = pytest.mark.parametrize("parted", [False, pytest.param(True, marks=pytest.mark.slow)])


@cache
def _ptx() -> str:
    return compile_cuda(SOURCE.read_text(encoding="utf-8"), name=SOURCE.name).ptx


def run(kernel: str, words: int, **options) -> np.ndarray:
    """What a kernel leaves in its output; nothing may be wrong."""
    found = engine_launch.launch(_ptx(), kernel, (1,), (128,), X, np.zeros(words, np.uint32), **options)
    assert not found.record.hazards, found.record.hazards
    return found.arrays[-1]


@PARTED
@pytest.mark.parametrize("order", [None, 5])
def test_latches(parted, order):
    assert (run("latches", 128, parted=parted, order=order) == X[127::-1] * np.uint32(3) + np.uint32(1)).all()


@PARTED
@pytest.mark.parametrize("order", [None, 5])
def test_semaphores(parted, order):
    assert run("semaphores", 3, parted=parted, order=order).tolist() == [X[:128].sum(dtype=np.uint32), 1, 3]


@PARTED
def test_barriers_with_a_completion(parted):
    found = run("completions", 5 * 128, parted=parted).reshape(5, 128)
    assert (found == X[:128] + np.arange(1, 6, dtype=np.uint32)[:, None] * 1000).all()


@PARTED
def test_pipelines_of_stages(parted):
    wanted = np.zeros(128, np.uint32)
    for tile in X.reshape(7, 128):
        wanted = wanted * np.uint32(5) + tile[::-1]
    assert (run("stages", 128, parted=parted) == wanted).all()


@pytest.mark.parametrize("launch", [engine_launch.launch, oracle_launch.launch], ids=["engine", "oracle"])
def test_clocks_rise_and_are_the_same_every_time(launch):
    def told():
        return launch(_ptx(), "clocks", (3,), (64,), X, np.zeros((192, 6), np.uint64)).arrays[-1]

    found = told()
    assert (found == told()).all()
    assert (np.diff(found[:, :4].astype(np.int64), axis=1) > 0).all()
    assert set(found[:, 4].tolist()) == {7}
    assert (found[:, 5] < found[:, 3]).all()


def test_clocks_do_not_tell_how_many_threads_the_host_has():
    def told(threads):
        arguments = _ptx(), "clocks", (9,), (64,), X, np.zeros((576, 6), np.uint64)
        return engine_launch.launch(*arguments, threads=threads).arrays[-1]

    assert (told(1) == told(2)).all()
