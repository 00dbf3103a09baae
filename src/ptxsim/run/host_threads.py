"""Threads with large stacks that wait for work: starting one for each launch would cost more than many launches do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from ptxsim.errors import MemoryLimitExceeded

STACK_BYTES = 256 << 20
"""Stack of a thread: code that LLVM compiled quickly keeps every vector there. Address space, not memory."""
_MOST_IDLE = 8
"""Threads that are kept: their stacks take address space."""


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
