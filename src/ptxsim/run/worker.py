"""Host threads of a launch: what each of them owns, how they are started, and how they are stopped.

Threads have large stacks and wait for work: starting one for each launch would cost more than many launches do.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.jit import MASKED, Code, exact_function
from ptxsim.codegen.layout import EXACT_CELL_BYTES as CELL_BYTES
from ptxsim.codegen.layout import QUEUE_BYTES
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.limits import WARP
from ptxsim.memory import Allocation, Memory
from ptxsim.record import Terms
from ptxsim.run.ordering import Order

T = TypeVar("T")
_APART = 128
"""Bytes between what two host threads write: cores hand lines of memory to each other in pairs."""
_PATIENCE_S = 0.15
"""How long an interrupted launch waits for a worker that LLVM keeps busy; its thread ends by itself."""
STACK_BYTES = 256 << 20
"""Stack of a thread: code that LLVM compiled quickly keeps every vector there. Address space, not memory."""
_MOST_IDLE = 8
"""Threads that are kept: their stacks take address space."""


@dataclass(frozen=True)
class Setup:
    """What all workers of a launch share: `params` with the addresses of variables behind it, budgets and limits."""

    code: Code
    terms: Terms
    memory: Memory
    variables: Mapping[str, Allocation]
    params: np.ndarray
    shared_bytes: int
    """static and dynamic shared memory"""
    block_budget: int
    launch_budget: int
    print_limit: int


def available_threads() -> int:
    """Cores to use: $WARPSCHOOL_THREADS, else by affinity and the cgroup's quota, where there is one."""
    if os.environ.get("WARPSCHOOL_THREADS", "").isdecimal():
        return max(1, int(os.environ["WARPSCHOOL_THREADS"]))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return cores


class Worker:
    """One host thread's share of a launch."""

    def __init__(self, setup: Setup, shadows: dict[int, np.ndarray]) -> None:
        self.setup = setup
        terms, unit = setup.terms, setup.code.translation.unit
        plan, sites = unit.plan, setup.code.translation.most_sites
        self.counters = _aligned(8 * max(1, plan.size), _APART).view(np.uint64)
        self.sites = (L.Site * sites)()
        self.hazards = (L.HazardRecord * L.HAZARD_CAPACITY)()
        self.seen = np.zeros(sites * L.HAZARD_KINDS, np.uint8)
        self.contexts = _contexts(unit.context.size, terms)
        self.context_bytes = unit.context.size * terms.warps
        self.shared = _aligned(setup.shared_bytes + 64)
        cell = CELL_BYTES if unit.options.exact else 4
        self.shadow = _aligned(((setup.shared_bytes >> unit.shared_granule_log2) + 16) * cell)
        allocations = setup.memory.allocations
        self.allocations = (L.Site * max(1, len(allocations)))()
        for entry, a in zip(self.allocations, allocations, strict=False):
            shadow = shadows.get(a.address)
            entry.low, entry.high = a.address, a.end
            entry.shadow = shadow.ctypes.data if shadow is not None else 0
        self.shadows = shadows
        prints = any(name.startswith("print_") for name in unit.helpers)
        self.print_buffer = np.zeros(setup.print_limit if prints else 8, np.uint8)
        s = self.struct = L.Worker.from_buffer(_aligned(ctypes.sizeof(L.Worker), _APART).data)
        s.nctaid[:] = terms.grid
        s.shared, s.shadow = self.shared.ctypes.data, self.shadow.ctypes.data
        s.shared_bytes, s.dynamic_bytes = setup.shared_bytes, terms.shared_bytes
        s.other_site = L.NO_SITE
        s.params, s.counters = setup.params.ctypes.data, self.counters.ctypes.data
        s.sites, s.hazards = ctypes.addressof(self.sites), ctypes.addressof(self.hazards)
        s.hazard_seen = self.seen.ctypes.data
        s.allocations, s.allocation_count = ctypes.addressof(self.allocations), len(allocations)
        self.masked_counters: np.ndarray | None = None
        self.error: BaseException | None = None
        self.compile_then_run: object = None
        if setup.code.masked_plan is not None:
            self._enter_masked()
        else:
            callback = MASKED(self._first_masked)
            self.compile_then_run = callback
            # not ctypes.cast: its result and the callback would keep each other, this worker and its arena alive
            s.masked = ctypes.c_void_p.from_buffer(callback).value
        self.pending = _aligned(QUEUE_BYTES * terms.warps if unit.copies_async else 64)
        s.pending = self.pending.ctypes.data
        s.block_budget, s.launch_budget = setup.block_budget, setup.launch_budget
        s.print, s.print_limit = self.print_buffer.ctypes.data, setup.print_limit

    def listen(self, *, partial: bool) -> None:
        """Follows what happens before what, for the exact race shadow."""
        words = self.contexts[: self.context_bytes].view(np.uint32)
        rows = words.reshape(-1, self.setup.code.translation.unit.context.size // 4)
        self.struct.exact = 1
        self.struct.time = 1
        self.struct.landed = exact_function("ws_exact_landed")
        self.order = Order(self.struct, rows, len(rows), partial=partial)

    def run(self, first: int, last: int) -> None:
        """Runs blocks first..last-1; releases the GIL."""
        self.setup.code.run(ctypes.addressof(self.struct), self.contexts.ctypes.data, first, last)

    def _enter_masked(self) -> None:
        """Counters for `masked`, and its address in place of the call that compiles it."""
        code = self.setup.code
        assert code.masked_plan is not None
        self.masked_counters = _aligned(8 * max(1, code.masked_plan.size), _APART).view(np.uint64)
        self.struct.masked_counters = self.masked_counters.ctypes.data
        self.struct.masked = code.masked_address

    def _first_masked(self, context: int, worker: int) -> int:
        """Called by the driver when lanes part for the first time: compiles `masked`, then runs it."""
        try:
            self.setup.code.compile_masked()
            self._enter_masked()
        except BaseException as error:  # must not escape into machine code: the launch raises it afterwards
            self.error = error
            self.struct.fault = L.FAULT_STOPPED
            return L.FAULTED << 16
        return MASKED(self.setup.code.masked_address)(context, worker)

    @property
    def steps(self) -> int:
        """Loop iterations that this worker's blocks have taken."""
        s = self.struct
        return int(self.setup.launch_budget - s.launch_budget + s.started - s.budget)

    def stop(self) -> None:
        """Makes the running range end soon."""
        self.struct.stop = 1
        self.struct.budget = 0

    def printed(self) -> bytes:
        return self.print_buffer[: self.struct.print_used].tobytes()


def _contexts(size: int, terms: Terms) -> np.ndarray:
    """The warps' contexts with what never changes: each warp's index and the lanes that exist."""
    threads, warps = terms.threads, terms.warps
    contexts = _aligned(size * warps)
    words = contexts[: size * warps].reshape(warps, size).view(np.uint32)
    words[:, L.ContextLayout.WARP_INDEX // 4] = np.arange(warps)
    words[:, L.ContextLayout.LIVE // 4] = 0xFFFFFFFF
    words[-1, L.ContextLayout.LIVE // 4] = (1 << (threads - (warps - 1) * WARP)) - 1
    return contexts


def _aligned(nbytes: int, alignment: int = 4096) -> np.ndarray:
    """`nbytes` zero bytes at a multiple of `alignment`, and nothing else as close behind them.

    Most start a page: generated code pins its stack to a page too. Where spills, contexts and shared memory lie by
    chance, accesses 4 KB apart are mistaken for each other by the host's load-store unit and cost up to 40 %.
    """
    raw = np.zeros(nbytes + 2 * alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


# ---------------------------------------------------------------- threads


class Task:
    """Work that a thread has been given."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        """Does the work; an exception ends the thread and is printed, as everywhere."""
        work, self._work = self._work, None
        assert work is not None
        try:
            work()
        finally:
            self._running.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Waits for the end, at most so long; whether it has come. A signal interrupts the main thread's waiting."""
        over = self._running.acquire(timeout=timeout_s)
        if over:
            self._running.release()
        return over


class _Host:
    """One thread, which takes one task after the other."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._called = threading.Lock()
        self._called.acquire()
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, task: Task) -> None:
        self._task = task
        self._called.release()

    def _serve(self) -> None:
        while True:
            self._called.acquire()
            task, self._task = self._task, None
            assert task is not None
            task.run()
            del task
            with _lock:
                if len(_idle) >= _MOST_IDLE:
                    return
                _idle.append(self)


_idle: list[_Host] = []
_lock = threading.Lock()


def _forget() -> None:
    """In a forked process: threads stay behind in the old one."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forget)


def start(works: list[Callable[[], object]]) -> list[Task]:
    """Starts each work in a thread of its own. Raises MemoryLimitExceeded where there is no room for their stacks."""
    with _lock:
        hosts = [_idle.pop() for _ in works[: len(_idle)]]
    try:
        hosts += _new_hosts(len(works) - len(hosts))
    except RuntimeError:
        with _lock:
            _idle.extend(hosts)
        raise MemoryLimitExceeded(
            f"no room for {len(works)} threads with {STACK_BYTES >> 20} MB of address space each",
            next_step="Raise the limit of this process's address space, or set WARPSCHOOL_THREADS=1.",
        ) from None
    tasks = [Task(work) for work in works]
    for host, task in zip(hosts, tasks, strict=True):
        host.take(task)
    return tasks


def _new_hosts(count: int) -> list[_Host]:
    if not count:
        return []
    usual = threading.stack_size(STACK_BYTES)
    try:
        return [_Host() for _ in range(count)]
    finally:
        threading.stack_size(usual)


def in_threads(workers: list[Worker], work: Callable[[Worker], None]) -> None:
    """Runs `work` for each worker in a thread of its own; Ctrl-C stops them within a moment."""
    tasks = start([partial(work, w) for w in workers])
    try:
        for task in tasks:
            task.wait()
    except BaseException:
        waited = 0.0
        while waited < _PATIENCE_S:
            for w in workers:
                w.stop()
            if all(task.wait(0.005) for task in tasks):
                break
            waited += 0.005 * len(tasks)
        raise


def interruptible(work: Callable[[], T]) -> T:
    """work(), which no signal interrupts, in a thread, so that Ctrl-C ends the waiting; the work itself goes on."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again where it was waited for
            errors.append(error)

    (task,) = start([run])
    task.wait()
    if errors:
        raise errors[0]
    return results[0]
