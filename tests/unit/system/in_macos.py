"""What `ptxsim.system` promises, asked where macOS is played: started by `test_macos.py` through `macos_stub`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from ptxsim import Memory, system

_PAGE = 16384
"""Of macOS. What is reserved begins at a multiple of the real system's, which may be smaller."""


def memory() -> None:
    array = Memory().allocate(1 << 20, "x")
    assert (array.view() == 0xFF).all()
    array.view().view(np.float32)[:] = 1
    assert array.view().view(np.float32).sum() == 1 << 18


def file() -> None:
    """Whole pages of a stretch read as zeros once they are given back, and nothing else does."""
    size = 1 << 20
    with tempfile.TemporaryFile() as backing:
        backing.truncate(size)
        place = system.reserve(size, 0, backing.fileno())
        whole = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * size).from_address(place))
        whole[:] = 7
        asked = place + 100
        first, last = -(-asked // _PAGE) * _PAGE - place, (asked + 3 * _PAGE) // _PAGE * _PAGE - place
        system.discard(asked, 3 * _PAGE)
        assert last - first == 2 * _PAGE and (whole[first:last] == 0).all()
        assert (whole[:first] == 7).all() and (whole[last:] == 7).all()
        system.discard(place + first - 200, 200)
        assert (whole[:first] == 7).all()
        system.release(place, size)


def orphans() -> None:
    """A child whose parent is gone ends, with a pipe and without."""
    for more in ("", ", stdin=0"):
        child = (
            "import os, time\nfrom ptxsim import system\n"
            f"system.die_with_parent(os.getppid(){more})\nprint('up', flush=True)\ntime.sleep(600)"
        )
        parent = (
            "import subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, {write(child)!r}], stdin=subprocess.PIPE)\n"
            "sys.stdin.read()"
        )
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, write(parent)], stdin=pipe, stdout=pipe) as process:
            assert process.stdout.readline() == b"up\n"
            process.stdin.close()
            assert process.stdout.read() == b""  # whose other end is the child's too


def limits() -> None:
    system.limit(cpu_s=1000, memory_bytes=1 << 30, file_bytes=1 << 20)
    system.limit_next(100.0, 1 << 30)
    system.limit_next(0)
    assert system.processors() == os.cpu_count() and system.peak_bytes() > 0


def waiting() -> None:
    pipe = subprocess.PIPE
    child = system.start([sys.executable, "-S", write("print('up', flush=True)")], stdin=pipe, stdout=pipe, bufsize=0)
    pipes = system.Pipes(child.stdin, child.stdout)
    come = b""
    try:
        while True:
            come += pipes.receive(time.monotonic() + 300)
    except EOFError:
        assert come == b"up\n" and child.wait() == 0


def write(code: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False, dir=FOLDER) as target:
        target.write(code)
    return target.name


with tempfile.TemporaryDirectory() as FOLDER:
    for work in (memory, file, orphans, limits, waiting):
        work()
        print(work.__name__, flush=True)
