"""The processor that a benchmark runs on: its name, and how much of its time was used. Standard library only."""

from __future__ import annotations

import platform
import resource
from pathlib import Path


def name() -> str:
    """What the processor calls itself."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text("utf-8").splitlines() if known.is_file() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def spent_s() -> float:
    """Processor time of this process and of all that it started and saw the end of: load changes it little."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
