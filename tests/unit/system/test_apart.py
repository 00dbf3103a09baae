"""Work that a fork does, which leaves nothing behind, and ends as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("no forks there", allow_module_level=True)

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
