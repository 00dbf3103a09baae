"""How many of the machine's cores this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ptxsim import system


def available_threads() -> int:
    """Cores to use: $WARPSCHOOL_THREADS, else by affinity and the cgroup's quota, where there is one."""
    asked = os.environ.get("WARPSCHOOL_THREADS", "")
    return max(1, int(asked)) if asked.isdecimal() else min(system.processors(), _quota())


@cache
def _quota() -> int:
    """Whole cores that the cgroup of this process may use; read once, for each launch asks."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):  # none, or "max"
        return system.processors()
