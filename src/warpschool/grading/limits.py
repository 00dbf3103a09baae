"""What the child process of a check may use."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """`wall_s` is kept by the parent; the others by the kernel. `memory_bytes` is address space, simulator only.

    `threads` of the simulator, 0 for as many as there are cores.
    """

    wall_s: float = 180.0
    cpu_s: int = 600
    memory_bytes: int = 12 << 30
    file_bytes: int = 64 << 20
    threads: int = 0

    def apply(self, *, on_gpu: bool) -> None:
        """Set the limits of this process and of all that it starts."""
        _lower(resource.RLIMIT_CPU, self.cpu_s, grace=5)  # SIGXCPU, which tells more than the SIGKILL that follows
        _lower(resource.RLIMIT_FSIZE, self.file_bytes)
        _lower(resource.RLIMIT_CORE, 0)
        if not on_gpu:  # a CUDA context maps far more address space than it uses
            _lower(resource.RLIMIT_AS, self.memory_bytes)


def _lower(which: int, value: int, *, grace: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(which, (min(value, ceiling), ceiling))
