"""The process that becomes clang. Started as a script by `clang.py`, never imported by it.

It closes the file system (Landlock, where the kernel has it) and sets limits, both of which outlive `exec`. Where a
system's processes cannot become others, as on Windows, it waits for clang: its limits, and its end, are clang's too.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Arguments: seconds of processor time, bytes of memory, bytes of a file, folders to read (joined as in PATH),
    the command. Exit status 126: the command cannot be started."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path += [here, os.path.dirname(os.path.dirname(here))]  # started with -I: its neighbours are not on the path
    from child import close_file_system  # type: ignore[import-not-found] # its neighbour

    from ptxsim import system

    cpu_s, memory_bytes, file_bytes, readable, *command = sys.argv[1:]
    system.limit(file_bytes=int(file_bytes), cpu_s=int(cpu_s), cpu_grace_s=1)
    close_file_system(readable.split(os.pathsep))
    system.limit(memory_bytes=int(memory_bytes))
    try:
        system.become(command)
    except OSError:
        os._exit(126)


if __name__ == "__main__":
    main()
