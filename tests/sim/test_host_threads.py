"""What launches share: threads that wait for work, and memory for copies of arrays."""

from __future__ import annotations

import os
import threading

import llvmlite.binding
import numpy as np
import pytest

from ptxsim.memory import Memory
from ptxsim.run import threads
from ptxsim.run.engine import Snapshot, block_ranges
from warpschool.compile import compile_cuda
from warpschool.errors import WarpschoolError

from .engine_launch import launch


def identities(count: int) -> set[int]:
    """The threads that `count` works at once run in."""
    found: list[int] = []
    together = threading.Barrier(count, timeout=120)

    def work() -> None:
        together.wait()
        found.append(threading.get_ident())

    for task in threads.start([work] * count):
        assert task.wait(120)
    assert len(found) == count
    return set(found)


def settled(count: int) -> None:
    """Waits until that many threads are idle: a task is over a moment before its thread is free."""
    for _ in range(10_000):
        if len(threads._idle) >= count:
            return
        threading.Event().wait(0.01)
    raise AssertionError("no thread became idle")


def test_threads_are_used_again():
    assert len(identities(3)) == 3
    settled(3)
    before = threading.active_count()
    for _ in range(5):
        identities(3)
        settled(3)
    assert threading.active_count() == before


def test_a_wait_ends_at_its_time():
    go = threading.Event()
    (task,) = threads.start([go.wait])
    assert not task.wait(0.01)
    go.set()
    assert task.wait(120)


def test_a_failure_ends_its_thread_alone(monkeypatch):
    told: list[type] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))

    def fail() -> None:
        raise ZeroDivisionError

    (task,) = threads.start([fail])
    assert task.wait(120)
    assert identities(2)
    assert told == [ZeroDivisionError]


def test_a_forked_process_starts_its_own():
    identities(2)
    child = os.fork()
    if child == 0:
        done: list[int] = []
        (task,) = threads.start([lambda: done.append(1)])
        os._exit(0 if task.wait(120) and done else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_process_can_use_llvm_whatever_was_compiled_beside_it():
    """Its finalizers do: they would wait for ever for a lock that another thread held at the fork."""
    held, lock = threading.Event(), llvmlite.binding.ffi.lib._lock

    def compile_beside() -> None:
        with lock:
            held.set()
            threading.Event().wait(0.3)

    (task,) = threads.start([compile_beside])
    assert held.wait(120)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock._lock.acquire(blocking=False) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert task.wait(120)


@pytest.mark.parametrize("blocks, workers", [(1, 2), (16, 2), (64, 2), (1000, 16), (7, 1)])
def test_all_blocks_are_handed_out_once(blocks, workers):
    ranges = list(block_ranges(blocks, workers))
    assert [k for r in ranges for k in r] == list(range(blocks))
    sizes = [len(r) for r in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert len(ranges) == 1 if workers == 1 else sizes[-1] == 1


@pytest.fixture
def allocations():
    memory = Memory()
    found = [memory.allocate(n, name) for n, name in ((4000, "x"), (1 << 20, "y"))]
    for a in found:
        a.view()[:] = np.arange(a.nbytes, dtype=np.uint8)
    return found


def test_a_snapshot_restores(allocations):
    expected = [a.view().copy() for a in allocations]
    for _ in range(3):  # in memory of the one before
        with Snapshot.of(allocations) as outer:
            for a in allocations:
                a.view()[:] = 1
            with Snapshot.of(allocations) as inner:
                assert inner.complete
                outer.restore()
                inner.restore()
            assert all((a.view() == 1).all() for a in allocations)
            outer.restore()
        for a, data in zip(allocations, expected, strict=True):
            np.testing.assert_array_equal(a.view(), data)


def test_memory_of_snapshots_is_handed_on(allocations):
    with Snapshot.of(allocations) as first:
        places = {data.ctypes.data for _, data in first.copies}
    with Snapshot.of(allocations) as second:
        assert {data.ctypes.data for _, data in second.copies} == places


def test_a_snapshot_of_nothing_is_not_complete():
    with Snapshot.of(None) as nothing:
        assert not nothing.complete
    with Snapshot.of([]) as empty:
        assert empty.complete


@pytest.mark.parametrize(
    "body, copied",
    [
        ("y[i] = x[i];", []),
        ("x[i] += y[i];", ["argument 0"]),
        ("atomicAdd(&y[i], x[i]);", ["argument 1"]),
        ("(i & 1 ? x : y)[i] = 1; if (i < 0) z[0] = y[1];", ["argument 1"]),
        ("__shared__ int s[32]; s[threadIdx.x] = x[i]; y[i] = s[threadIdx.x];", []),
        ("*reinterpret_cast<int**>(z)[0] = x[i];", ["argument 0", "argument 2"]),
    ],
)
def test_only_what_is_written_and_read_is_copied_before_blocks_run_at_once(monkeypatch, body, copied):
    source = f'extern "C" __global__ void k(int* x, int* y, int* z) {{ int i = blockIdx.x * 32 + threadIdx.x; {body} }}'
    asked: list[list[str]] = []
    taken = Snapshot.of.__func__
    monkeypatch.setattr(
        Snapshot, "of", classmethod(lambda cls, a: (asked.append([x.name for x in a or ()]), taken(cls, a))[1])
    )
    arrays = [np.zeros(128, np.int32) for _ in range(3)]
    try:
        launch(compile_cuda(source, name="k.cu").ptx, "k", (4,), (32,), *arrays, threads=2)
    except WarpschoolError as error:  # the last body follows a null pointer
        assert "**" in body, error
    assert asked[0] == copied


@pytest.mark.parametrize("body, expected", [("y[i] = x[i] + 1;", 1), ("y[i] = y[i] + x[i] + 1;", 6)])
def test_a_launch_that_runs_again_leaves_what_one_run_leaves(body, expected):
    body += " if (blockIdx.x == 2) { __shared__ int s[32]; x[i] = s[threadIdx.x]; }"  # a hazard: the blocks run again
    source = f'extern "C" __global__ void k(int* x, int* y) {{ int i = blockIdx.x * 32 + threadIdx.x; {body} }}'
    x, y = np.zeros(128, np.int32), np.full(128, 5, np.int32)
    outcome = launch(compile_cuda(source, name="k.cu").ptx, "k", (4,), (32,), x, y, threads=2)
    assert [h.kind for h in outcome.record.hazards] == ["uninitialized"]
    np.testing.assert_array_equal(outcome.arrays[1], np.full(128, expected))
