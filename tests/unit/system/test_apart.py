"""Work that a fork does, which leaves nothing behind, and ends as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from ptxsim import system

if sys.platform == "win32":
    pytest.skip("no forks there", allow_module_level=True)
import resource

PROGRAM = """
import os
from ptxsim import system
seen = []
def work():
    seen.append(1)
    {work}
read, write = os.pipe()
system.apart(read, work)
print("on", seen, flush=True)
"""


def ran(work: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM.format(work=work)], capture_output=True, text=True, timeout=60)


def test_what_is_done_apart_leaves_nothing_but_what_it_wrote():
    done = ran("os.write(1, b'written '); system.limit_next(5.0)")
    assert (done.stdout, done.returncode) == ("written on []\n", 0)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGPROF])
def test_a_death_apart_is_the_process_s_own(number):
    done = ran(f"os.kill(os.getpid(), {int(number)}); __import__('time').sleep(50)")
    assert (done.stdout, done.returncode) == ("", -number)


def test_an_error_apart_ends_the_process():
    done = ran("raise SystemError('what')")
    assert (done.stdout, done.returncode) == ("", 1)


def test_what_is_done_apart_ends_when_nobody_holds_the_pipe():
    program = PROGRAM.format(work="__import__('time').sleep(50)").replace("os.pipe()", "os.pipe(); os.close(write)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("", -signal.SIGKILL)


PLACES = """
import ctypes, mmap, os, resource, sys
from ptxsim import system
system.usual_layout()
more = [mmap.mmap(-1, 4096 * pages) for pages in map(int, sys.argv[2:])]
system.line_up(sys.argv[1])
ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def work():
    system.limit_next(5.0, 3 << 29)
    places = [libc.malloc(size) for size in (40, 4000, 400000, 4000000)]
    first = next(line for line in open("/proc/self/maps") if os.path.basename(sys.argv[1]) in line)
    mapped = int(open("/proc/self/statm").read().split()[0]) << 12
    left = resource.getrlimit(resource.RLIMIT_AS)[0] - mapped
    os.write(1, f"{first.split('-')[0]} {places} {(1 << 28) < left < (3 << 29)}".encode())
read, write = os.pipe()
system.apart(read, work)
"""


def limited_stack() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def limited_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def fixed_addresses() -> bool:
    """Whether this system lets a process have the same addresses each time."""
    command = [sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).personality(0xFFFFFFFF))"]
    process = system.start(command, fixed_addresses=True, stdout=subprocess.PIPE)
    return bool(int(process.communicate()[0]) & 0x0040000)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are the system's choice elsewhere")
def test_a_library_and_what_is_done_apart_find_the_same_addresses_in_every_process():
    library = next(Path(find_spec("llvmlite").origin).parent.glob("binding/*.so"))

    def places(*more: int, fixed: bool = True, before: Callable[[], None] | None = None) -> str:
        command = [sys.executable, "-c", PLACES, str(library), *map(str, more)]
        process = system.start(command, fixed_addresses=fixed, stdout=subprocess.PIPE, text=True, preexec_fn=before)
        return process.communicate(timeout=60)[0]

    first = places()
    assert first.endswith(" True") and len(first.split()) == 6
    assert places(1, 300, 20000) == places(fixed=False) == places(7, fixed=False) == first
    if resource.getrlimit(resource.RLIMIT_STACK)[1] == resource.RLIM_INFINITY:
        assert places(before=limited_stack) == first
        if fixed_addresses():
            assert places(before=limited_memory) == first
