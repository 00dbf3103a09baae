"""What the child process of a check may use."""

from __future__ import annotations

import os
import resource
import threading
import time
from dataclasses import dataclass

_WATCH_S = 0.02


@dataclass(frozen=True)
class Limits:
    """`wall_s` is kept by the parent; the others by the kernel. `memory_bytes` is address space, simulator only.

    `threads` of the simulator, 0 for as many as there are cores; `resident_bytes` is memory in use, 0 for no limit.
    """

    wall_s: float = 180.0
    cpu_s: int = 600
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
            threading.Thread(target=_watch_memory, args=(self.resident_bytes, log), daemon=True).start()
        if not on_gpu:  # a CUDA context maps far more address space than it uses
            _lower(resource.RLIMIT_AS, self.memory_bytes)


def _watch_memory(most_bytes: int, log: int) -> None:
    """End this process, and say why, once it uses more memory: address space, which is limited, says little of use."""
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm", "rb", buffering=0) as file:
        while True:
            file.seek(0)
            if int(file.read(200).split()[1]) * page > most_bytes:
                os.write(log, f"MemoryError: more than {most_bytes >> 20} MB in use\n".encode())
                os._exit(1)
            time.sleep(_WATCH_S)


def _lower(which: int, value: int, *, grace: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(which, (min(value, ceiling), ceiling))
