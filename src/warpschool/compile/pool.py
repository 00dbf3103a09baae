"""The compilers of this process: as many as are needed at once, and the few that wait for work.

A process may lend a waiting one to a fork of its own: `WorkerPool.lend`.
"""

from __future__ import annotations

import atexit
import threading

from ptxsim import system
from warpschool.compile.processes import Answer, Compiler, CompilerProcess, Request
from warpschool.compile.result import CompileLimits
from warpschool.compile.toolchain import Toolchain
from warpschool.errors import CompileLimitError, CompilerMissing

_LENT_COMPILATIONS = 20  # what a loan counts for: most are fewer
_MOST_IDLE = 2
_SPENT_RESULTS = ("NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_INTERNAL_ERROR", "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE")


class WorkerPool:
    """Workers for all threads of this process: as many at once as there are processors, a few kept waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(system.processors())
        self._idle: list[tuple[Toolchain, Compiler]] = []

    def compile(
        self, toolchain: Toolchain, request: Request, limits: CompileLimits
    ) -> tuple[Answer, Compiler]:
        """Compile on some worker; gives the worker too, for its version and architectures."""
        with self._slots:
            worker = self._take(toolchain)
            try:
                try:
                    answer = worker.compile(request, limits)
                except (CompileLimitError, CompilerMissing):
                    if not worker.is_borrowed:
                        raise
                    worker = CompilerProcess(toolchain)  # of our own, whose end tells the reason
                    answer = worker.compile(request, limits)
                if answer.result in _SPENT_RESULTS:
                    worker.kill()
            finally:
                self._give(toolchain, worker)
            return answer, worker

    def _take(self, toolchain: Toolchain) -> Compiler:
        while True:
            with self._lock:
                entry = next((e for e in reversed(self._idle) if e[0] == toolchain), None)
                if entry is not None:
                    self._idle.remove(entry)
            if entry is None:
                return CompilerProcess(toolchain)
            if entry[1].healthy:
                return entry[1]
            entry[1].kill()

    def _give(self, toolchain: Toolchain, worker: Compiler) -> None:
        with self._lock:
            keep = worker.healthy and len(self._idle) < _MOST_IDLE
            if keep:
                self._idle.append((toolchain, worker))
        if not keep:
            worker.kill()

    def warm_up(self, toolchain: Toolchain) -> Compiler:
        """Make sure that one worker waits, and give it for a look at its version."""
        with self._slots:
            worker = self._take(toolchain)
            self._give(toolchain, worker)
            return worker

    def lend(self) -> tuple[Toolchain, Compiler] | None:
        """A waiting worker, for one fork of this process, which is to `borrow` it; nobody else takes it meanwhile."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def borrow(self, toolchain: Toolchain, worker: Compiler) -> None:
        """In the fork: use a worker that the process before the fork has lent."""
        worker.is_borrowed = True
        self._idle.append((toolchain, worker))

    def take_back(self, toolchain: Toolchain, worker: Compiler) -> None:
        """Let a worker wait again whose borrower has ended; one that still has something to answer is killed."""
        worker.compilations += _LENT_COMPILATIONS
        self._give(toolchain, worker)

    def idle_pids(self) -> list[int]:
        """The waiting workers' process ids."""
        with self._lock:
            return [worker.pid for _, worker in self._idle if isinstance(worker, CompilerProcess)]

    def close(self) -> None:
        """Kill the waiting workers, and let go of one that is borrowed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, worker in idle:
            if worker.is_borrowed:
                worker.abandon()
            else:
                worker.kill()

    def after_fork(self) -> None:
        """In a forked child: the workers are the parent's; let go of them, without a lock that nobody will open."""
        idle = list(self._idle)
        WorkerPool.__init__(self)
        for _, worker in idle:
            worker.abandon()


pool = WorkerPool()
atexit.register(pool.close)
system.after_fork(lambda: pool.after_fork())
