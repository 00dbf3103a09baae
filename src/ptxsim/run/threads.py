"""Host threads: how work is handed to them, how it is waited for, and how it is stopped.

Threads have large stacks and wait for work: starting one for each launch would cost more than many launches do.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from ptxsim import system
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.run.worker import HostWorker

T = TypeVar("T")
_PATIENCE_S = 0.15
"""How long an interrupted launch waits for a worker that LLVM keeps busy; its thread ends by itself."""
STACK_BYTES = 256 << 20
"""Stack of a thread: code that LLVM compiled quickly keeps every vector there. Address space, not memory."""
_POLL_S = 0.005
_MOST_IDLE = 8
"""Threads that are kept: their stacks take address space."""


class Task:
    """Work that a thread has been given. A signal interrupts the main thread's waiting for its end.

    The thread holds a lock meanwhile. An Event takes three, which small launches would notice.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work
        self._going_on = threading.Lock()
        self._going_on.acquire()

    def run(self) -> None:
        """Does the work; an exception ends the thread and is printed, as everywhere."""
        work, self._work = self._work, None
        assert work is not None
        try:
            work()
        finally:
            del work  # before anybody goes on: what it refers to is freed at the same time in every run
            self._going_on.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end of the work, so many seconds at most; whether it has ended."""
        ended = self._going_on.acquire(timeout=-1 if timeout is None else timeout)
        if ended:
            self._going_on.release()
        return ended


def _serve(tasks: SimpleQueue[Task]) -> None:
    """What a thread does: one task after the other."""
    while True:
        tasks.get().run()
        with _lock:
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(tasks)


_idle: list[SimpleQueue[Task]] = []
"""What each thread that has nothing to do waits for."""
_lock = threading.Lock()


def _forget() -> None:
    """In a forked process: threads stay behind in the old one."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


system.after_fork(_forget)


def start(works: list[Callable[[], object]]) -> list[Task]:
    """Starts each work in a thread of its own. Raises MemoryLimitExceeded where there is no room for their stacks."""
    with _lock:
        threads = [_idle.pop() for _ in works[: len(_idle)]]
    try:
        threads += _new_threads(len(works) - len(threads))
    except RuntimeError:
        with _lock:
            _idle.extend(threads)
        raise MemoryLimitExceeded(
            f"no room for {len(works)} threads with {STACK_BYTES >> 20} MB of address space each",
            next_step="Raise the limit of this process's address space, or set WARPSCHOOL_THREADS=1.",
        ) from None
    tasks = [Task(work) for work in works]
    for queue, task in zip(threads, tasks, strict=True):
        queue.put(task)
    return tasks


def _new_threads(count: int) -> list[SimpleQueue[Task]]:
    """What that many new threads wait for."""
    if not count:
        return []
    made: list[SimpleQueue[Task]] = [SimpleQueue() for _ in range(count)]
    usual = threading.stack_size(STACK_BYTES)
    try:
        for tasks in made:
            threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    finally:
        threading.stack_size(usual)
    return made


class _Here(threading.local):
    launches = False


_here = _Here()


def launching_thread(work: Callable[[], object]) -> Task:
    """Does some work in a thread whose launches need no other: handing them over would cost more than small ones do.

    No signal interrupts such a launch.
    """

    def run() -> None:
        _here.launches = True
        try:
            work()
        finally:
            _here.launches = False

    return start([run])[0]


def in_threads(
    workers: list[HostWorker], work: Callable[[HostWorker], None], cut_short: Callable[[], bool] | None = None
) -> bool:
    """Runs `work` for each worker in a thread of its own; Ctrl-C stops them within a moment.

    `cut_short` is asked now and then whether to stop them; returns whether that was so. A thread of `launching_thread`
    does one of them itself.
    """
    own = workers[: _here.launches and cut_short is None]
    others = workers[len(own) :]
    tasks = start([partial(work, w) for w in others]) if others else []
    try:
        for worker in own:
            work(worker)
        for task in tasks:
            if cut_short is None:
                system.wait(task.wait)
            while cut_short is not None and not task.wait(_POLL_S):
                if cut_short():
                    _stop(workers, tasks, math.inf)
                    return True
    except BaseException:
        _stop(workers, tasks, _PATIENCE_S)
        raise
    return False


def _stop(workers: list[HostWorker], tasks: list[Task], patience_s: float) -> None:
    """Makes workers end, and waits for that as long as patience lasts."""
    waited = 0.0
    while waited < patience_s:
        for w in workers:
            w.stop()
        if all(task.wait(_POLL_S) for task in tasks):
            return
        waited += _POLL_S * len(tasks)


def interruptible(work: Callable[[], T]) -> T:
    """work(), which no signal interrupts, in a thread, so that Ctrl-C ends the waiting; the work itself goes on."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # raised again where it was waited for
            outcome.set_exception(error)

    system.wait(start([run])[0].wait)
    return outcome.result()
