"""Device memory in a memory file that another process can map, and launches from a thread of their own."""

from __future__ import annotations

import mmap
import os
import threading
import weakref

import numpy as np
import pytest

import ptxsim
from ptxsim import Memory, system
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.run import threads, worker

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 x)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory files on this system")


@pytest.fixture
def file():
    descriptor = os.memfd_create("test")
    yield descriptor
    os.close(descriptor)


def test_another_mapping_of_the_file_sees_what_a_kernel_writes(file):
    memory = ptxsim.Memory(file=file)
    x = memory.allocate(400, "x")
    ptxsim.parse(PTX).kernel("one").launch(1, 100, (x,), memory)
    with mmap.mmap(file, memory.capacity) as other:
        start = x.address - memory.base
        assert np.array_equal(np.frombuffer(other[start : start + 400], np.uint32), np.arange(100))


@pytest.mark.slow
def test_addresses_are_given_anew_as_late_as_may_be(file):
    shared, own = ptxsim.Memory(file=file), ptxsim.Memory()
    for memory, again in ((shared, False), (own, True)):
        first = memory.allocate(1000)
        memory.free(first)
        assert (memory.allocate(1000).address == first.address) is again
    seen = set()
    for _ in range(5):  # a gigabyte each: after the arena's end comes its start
        large = shared.allocate(1 << 30)
        seen.add(large.address)
        shared.free(large)
    assert 1 < len(seen) < 5


def test_the_pages_of_what_was_large_go_back(file):
    memory = ptxsim.Memory(file=file)
    before = os.fstat(file).st_blocks
    memory.free(memory.allocate(16 << 20))
    assert os.fstat(file).st_blocks - before < (1 << 20) // 512


def test_a_launching_thread_needs_no_other(monkeypatch):
    memory = ptxsim.Memory()
    x = memory.allocate(400, "x")
    kernel = ptxsim.parse(PTX).kernel("one")
    kernel.launch(1, 32, (x,), memory)
    ran, handed, start = [], [], threads.start

    def run_noted(self, first, last):
        ran.append(threading.current_thread())
        return run(self, first, last)

    run = worker.HostWorker.run
    monkeypatch.setattr(worker.HostWorker, "run", run_noted)
    monkeypatch.setattr(threads, "start", lambda works: handed.extend(works) or start(works))
    records = []
    task = ptxsim.launching_thread(lambda: records.append(kernel.launch(1, 32, (x,), memory)))
    assert task.wait(60) and len(handed) == 1  # the thread itself
    assert ran[0] is not threading.current_thread() and records[0].counters["global_store_requests"] == 1


def test_launches_that_did_the_same_are_counted_once(monkeypatch):
    from ptxsim.codegen.unit import CounterPlan

    memory = ptxsim.Memory()
    x = memory.allocate(400, "x")
    kernel = ptxsim.parse(PTX).kernel("one")
    evaluated, evaluate = [], CounterPlan.evaluate
    monkeypatch.setattr(CounterPlan, "evaluate", lambda self, cells: evaluated.append(1) or evaluate(self, cells))
    first, same = (kernel.launch(1, 32, (x,), memory) for _ in range(2))
    assert first.counters == same.counters and len(evaluated) == 1
    assert kernel.launch(2, 32, (x,), memory).counters != first.counters and len(evaluated) == 2


def test_arenas_that_only_wait_for_the_collector_take_nobodys_address_space(monkeypatch):
    class Session:
        def __init__(self):
            self.memory, self.own = Memory(capacity=1 << 22), self

    session = Session()
    ended = weakref.ref(session)

    def reserve(nbytes, place, file=None, _reserve=system.reserve):
        if ended() is not None:
            raise OSError("there is address space for one")
        return _reserve(nbytes, place, file)

    monkeypatch.setattr(system, "reserve", reserve)
    with pytest.raises(MemoryLimitExceeded, match="not reserve even 1 MB"):
        Memory(capacity=1 << 22)
    del session
    assert Memory(capacity=1 << 22).capacity == 1 << 22
