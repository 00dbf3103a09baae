"""What the child process of a check may use."""

from __future__ import annotations

import os
import resource
import threading
from dataclasses import dataclass
from time import sleep  # this one: students' Python gets another

_WATCH_S = 0.02
CPU_S, WALL_S = 3600, 14400.0
"""Time stands behind what is counted (`submission.WORK_LIMIT`, `steps.MOST_STEPS`) and decides nothing where that does.

docs/reference/verdicts.md has the margins: the slowest right check takes 35 s of processor time, and what its counts
allow ends within a third of the limit. Elapsed time, which other programs stretch, is for a child that hangs: its end
is the grader's fault, never a student's.
"""


@dataclass(frozen=True)
class Limits:
    """`wall_s` is kept by the parent; the others by the kernel. `memory_bytes` is address space, simulator only.

    `threads` of the simulator, 0 for as many as there are cores; `resident_bytes` is the most memory in use at any
    moment, 0 for no limit.
    """

    wall_s: float = WALL_S
    cpu_s: int = CPU_S
    memory_bytes: int = 12 << 30
    file_bytes: int = 64 << 20
    threads: int = 0
    resident_bytes: int = 0

    def apply(self, *, on_gpu: bool) -> None:
        """Set the limits of this process and of all that it starts."""
        _lower(resource.RLIMIT_CPU, self.cpu_s, grace=5)  # SIGXCPU, which tells more than the SIGKILL that follows
        _lower(resource.RLIMIT_FSIZE, self.file_bytes)
        _lower(resource.RLIMIT_CORE, 0)
        if self.resident_bytes:
            log = os.dup(2)  # pytest puts a file of its own in the place of stderr while tests run
            threading.Thread(target=self._watch_memory, args=(log,), daemon=True).start()
        if not on_gpu:  # a CUDA context maps far more address space than it uses
            _lower(resource.RLIMIT_AS, self.memory_bytes)


    def require_memory(self, log: int = 2) -> None:
        """End this process, and say why, if it ever used more memory than it may.

        Address space, which the kernel limits, says little of use. Whoever answers asks once more before: looks in
        between only end sooner what has to end, and when they happen changes nothing.
        """
        if self.resident_bytes and _peak_bytes() > self.resident_bytes:
            os.write(log, f"MemoryError: more than {self.resident_bytes >> 20} MB in use\n".encode())
            os._exit(1)

    def _watch_memory(self, log: int) -> None:
        while True:
            self.require_memory(log)
            sleep(_WATCH_S)


def _peak_bytes() -> int:
    """Most memory that this process had in use at any moment."""
    with open("/proc/self/status", "rb") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(b"VmHWM"))


def _lower(which: int, value: int, *, grace: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(which, (min(value, ceiling), ceiling))
