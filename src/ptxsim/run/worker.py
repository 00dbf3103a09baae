"""Host threads of a launch: what each of them owns, and how they are stopped."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.jit import MASKED, exact_function
from ptxsim.codegen.layout import EXACT_CELL_BYTES as CELL_BYTES
from ptxsim.codegen.layout import QUEUE_BYTES
from ptxsim.limits import WARP
from ptxsim.record import Triple
from ptxsim.run.host_threads import start
from ptxsim.run.ordering import Order

if TYPE_CHECKING:
    from ptxsim.run.launching import Launching

T = TypeVar("T")
_APART = 128
"""Bytes between what two host threads write: cores hand lines of memory to each other in pairs."""
_PATIENCE_S = 0.15
"""How long an interrupted launch waits for a worker that LLVM keeps busy; its thread ends by itself."""


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

    def __init__(self, launch: Launching, shadows: dict[int, np.ndarray]) -> None:
        self.launch = launch
        unit = launch.unit
        plan, sites = unit.plan, launch.code.translation.most_sites
        warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
        self.counters = _aligned(8 * max(1, plan.size), _APART).view(np.uint64)
        self.sites = (L.Site * sites)()
        self.hazards = (L.HazardRecord * L.HAZARD_CAPACITY)()
        self.seen = np.zeros(sites * L.HAZARD_KINDS, np.uint8)
        self.contexts = _contexts(unit.context.size, launch.block)
        self.context_bytes = unit.context.size * warps
        self.shared = _aligned(launch.shared_bytes + 64)
        cell = CELL_BYTES if launch.options.exact else 4
        self.shadow = _aligned(((launch.shared_bytes >> unit.shared_granule_log2) + 16) * cell)
        allocations = launch.kernel.memory.allocations
        self.allocations = (L.Site * max(1, len(allocations)))()
        for entry, a in zip(self.allocations, allocations, strict=False):
            shadow = shadows.get(a.address)
            entry.low, entry.high = a.address, a.end
            entry.shadow = shadow.ctypes.data if shadow is not None else 0
        self.shadows = shadows
        prints = any(name.startswith("print_") for name in unit.helpers)
        self.print_buffer = np.zeros(launch.print_limit if prints else 8, np.uint8)
        s = self.struct = L.Worker.from_buffer(_aligned(ctypes.sizeof(L.Worker), _APART).data)
        s.nctaid[:] = launch.grid
        s.shared, s.shadow = self.shared.ctypes.data, self.shadow.ctypes.data
        s.shared_bytes, s.dynamic_bytes = launch.shared_bytes, launch.dynamic_bytes
        s.other_site = L.NO_SITE
        s.params, s.counters = launch.params.ctypes.data, self.counters.ctypes.data
        s.sites, s.hazards = ctypes.addressof(self.sites), ctypes.addressof(self.hazards)
        s.hazard_seen = self.seen.ctypes.data
        s.allocations, s.allocation_count = ctypes.addressof(self.allocations), len(allocations)
        self.masked_counters: np.ndarray | None = None
        self.error: BaseException | None = None
        self.compile_then_run: object = None
        if launch.code.masked_plan is not None:
            self._enter_masked()
        else:
            callback = MASKED(self._first_masked)
            self.compile_then_run = callback
            # not ctypes.cast: its result and the callback would keep each other, this worker and its arena alive
            s.masked = ctypes.c_void_p.from_buffer(callback).value
        self.pending = _aligned(QUEUE_BYTES * warps if unit.copies_async else 64)
        s.pending = self.pending.ctypes.data
        s.block_budget, s.launch_budget = launch.block_budget, launch.launch_budget
        s.print, s.print_limit = self.print_buffer.ctypes.data, launch.print_limit

    def listen(self, *, partial: bool) -> None:
        """Follows what happens before what, for the exact race shadow."""
        words = self.contexts[: self.context_bytes].view(np.uint32)
        rows = words.reshape(-1, self.launch.unit.context.size // 4)
        self.struct.exact = 1
        self.struct.time = 1
        self.struct.landed = exact_function("ws_exact_landed")
        self.order = Order(self.struct, rows, len(rows), partial=partial)

    def run(self, first: int, last: int) -> None:
        """Runs blocks first..last-1; releases the GIL."""
        self.launch.code.run(ctypes.addressof(self.struct), self.contexts.ctypes.data, first, last)

    def _enter_masked(self) -> None:
        """Counters for `masked`, and its address in place of the call that compiles it."""
        code = self.launch.code
        assert code.masked_plan is not None
        self.masked_counters = _aligned(8 * max(1, code.masked_plan.size), _APART).view(np.uint64)
        self.struct.masked_counters = self.masked_counters.ctypes.data
        self.struct.masked = code.masked_address

    def _first_masked(self, context: int, worker: int) -> int:
        """Called by the driver when lanes part for the first time: compiles `masked`, then runs it."""
        try:
            self.launch.code.compile_masked()
            self._enter_masked()
        except BaseException as error:  # must not escape into machine code: the launch raises it afterwards
            self.error = error
            self.struct.fault = L.FAULT_STOPPED
            return L.FAULTED << 16
        return MASKED(self.launch.code.masked_address)(context, worker)

    @property
    def steps(self) -> int:
        """Loop iterations that this worker's blocks have taken."""
        s = self.struct
        return int(self.launch.launch_budget - s.launch_budget + s.started - s.budget)

    def stop(self) -> None:
        """Makes the running range end soon."""
        self.struct.stop = 1
        self.struct.budget = 0

    def printed(self) -> bytes:
        return self.print_buffer[: self.struct.print_used].tobytes()


def _contexts(size: int, block: Triple) -> np.ndarray:
    """The warps' contexts with what never changes: each warp's index and the lanes that exist."""
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // WARP)
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


def in_threads(workers: list[Worker], work: Callable[[Worker], None]) -> None:
    """Runs `work` for each worker in a thread of its own; Ctrl-C stops them within a moment."""
    tasks = start([lambda w=w: work(w) for w in workers])  # type: ignore[misc]
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
