"""The processor that a benchmark runs on: its name, and how much of its time was used. Standard library only."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def name() -> str:
    """What the processor calls itself; with its family and model where that is a name of many ("AMD EPYC")."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text("utf-8").splitlines() if known.is_file() else []
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    found = facts.get("model name", "") or platform.processor() or platform.machine()
    if not any(c.isdigit() for c in found) and {"cpu family", "model"} <= facts.keys():
        return f"{found}, family {facts['cpu family']}, model {facts['model']}"
    return found


def spent_s() -> float:
    """Processor time of this process and of all that has come of it: load changes it little.

    What still runs counts on Linux only: processes that wait for work, whose forks judge and compile.
    """
    waited_for = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    running = 0
    for pid in _descendants(os.getpid()):
        with suppress(OSError):  # it has ended just now
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            running += sum(map(int, fields[11:15]))  # its own, and of those of its children that it has waited for
    return waited_for + running / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> Iterator[int]:
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, file.read_text("utf-8").split()):
                yield child
                yield from _descendants(child)
