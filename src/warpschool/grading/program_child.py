"""Becomes one command, confined: `python -m warpschool.grading.program_child JOB`, the job as JSON.

A student's program has host code, which could do all that a process can. So this process gives up what the command
does not need (files, sockets, other processes, all but some processor time and memory) and becomes it by exec: what it
gave up stays given up. The compilers of such a program run the same way. Imports the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

from warpschool.grading.confinement import confine

REFUSED = 71
"""How this process ends where the kernel does not offer the whole confinement and the job wants it."""
_PR_SET_PDEATHSIG = 1


def main(text: str) -> int:
    """Become the job's command; returns only where that cannot be."""
    job: dict[str, Any] = json.loads(text)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    for which, value in (
        (resource.RLIMIT_CPU, job["cpu_s"]), (resource.RLIMIT_FSIZE, job["file_bytes"]),
        (resource.RLIMIT_AS, job["memory_bytes"]), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        _lower(which, value)
    for number in (signal.SIGXFSZ, signal.SIGPIPE):  # Python ignores them, and what it becomes would, too
        signal.signal(number, signal.SIG_DFL)
    os.chdir(job["folder"])
    whole = confine(
        readable=job["readable"], writable=[job["folder"]], executable=job["executable"], processes=job["processes"]
    )
    if job["must"] and not whole:
        return REFUSED
    os.execve(job["command"][0], job["command"], job["environment"])


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    last = most + 1 if which == resource.RLIMIT_CPU and (hard == resource.RLIM_INFINITY or most < hard) else most
    resource.setrlimit(which, (most, last))  # SIGXCPU tells more than the SIGKILL that follows a second later


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1]))
