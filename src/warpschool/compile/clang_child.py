"""The process that becomes clang. Started as a script by `clang.py`, never imported by it.

It closes the file system (Landlock, where the kernel has it) and sets limits, both of which outlive `exec`. What a
system does not have, as macOS has no limit of address space that counts, is left out: the parent's clock still ends it.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # started with -I: its neighbours are not on the path
from child import close_file_system  # type: ignore[import-not-found] # its neighbour, found by the line above


def limit(what: int, soft: int, hard: int) -> None:
    """Lower one limit, not past what the process has; a system that knows no such limit refuses it."""
    present = resource.getrlimit(what)[1]
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (soft, hard))


def main() -> None:
    """Arguments: seconds of processor time, bytes of memory, bytes of a file, folders to read (joined by a colon),
    the command. Exit status 126: the command cannot be started."""
    cpu_s, memory_bytes, file_bytes, readable, *command = sys.argv[1:]
    limit(resource.RLIMIT_CORE, 0, 0)
    limit(resource.RLIMIT_FSIZE, int(file_bytes), int(file_bytes))
    limit(resource.RLIMIT_CPU, int(cpu_s), int(cpu_s) + 1)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and so would clang
    if sys.platform == "linux":
        close_file_system(readable.split(":"))
    limit(resource.RLIMIT_AS, int(memory_bytes), int(memory_bytes))
    try:
        os.execve(command[0], command, dict(os.environ))
    except OSError:
        os._exit(126)


if __name__ == "__main__":
    main()
