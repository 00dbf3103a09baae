"""Becomes one command, confined: `python -m warpschool.grading.program_child JOB`, the job as JSON.

A student's program has host code, which could do all that a process can. So this process gives up what the command
does not need (files, sockets, other processes, all but some processor time and memory) and becomes it by exec: what it
gave up stays given up. The compilers of such a program run the same way.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ptxsim import system
from warpschool.grading.confinement import confine

REFUSED = 71
"""How this process ends where the kernel does not offer the whole confinement and the job wants it."""


def main(text: str) -> int:
    """Become the job's command; returns only where that cannot be."""
    job: dict[str, Any] = json.loads(text)
    system.die_with_parent(os.getppid())
    system.limit(
        cpu_s=job["cpu_s"], cpu_grace_s=1, file_bytes=job["file_bytes"], memory_bytes=job["memory_bytes"]
    )  # fmt: skip
    os.chdir(job["folder"])
    whole = confine(
        readable=job["readable"], writable=[job["folder"]], executable=job["executable"], processes=job["processes"]
    )
    if job["must"] and not whole:
        return REFUSED
    system.become(job["command"], job["environment"])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1]))
