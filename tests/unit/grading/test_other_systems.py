"""What a check does where the system is not Linux: nothing that only Linux has, as a Mac would run it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap

from typer.testing import CliRunner

from ptxsim import system
from warpschool.cli.app import app
from warpschool.grading import confinement

MAC = textwrap.dedent("""
    import ctypes, resource, sys
    sys.platform = "darwin"

    def refuse(which, values, real=resource.setrlimit):
        if which == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")  # what macOS says
        real(which, values)

    class Library:
        def __init__(self, name, *a, real=ctypes.CDLL, **k):
            self.real = real(name, *a, **k)

        def __getattr__(self, name):
            assert name not in ("prctl", "syscall"), "asked the C library for what only Linux has"
            return getattr(self.real, name)

    ctypes.CDLL = Library
    resource.setrlimit = refuse
""")


def test_nothing_confines_and_nothing_is_asked_of_the_kernel(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(confinement.ctypes, "CDLL", None)
    confinement.landlock_version.cache_clear()
    try:
        assert confinement.landlock_version() == 0 and not confinement.confine(readable=(), writable=())
        assert "no Landlock" in confinement.confinement_problem()
    finally:
        confinement.landlock_version.cache_clear()


def test_the_most_memory_is_told_by_the_system(monkeypatch):
    linux = system.peak_bytes()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.peak_bytes() == used  # bytes there, kilobytes on Linux
    assert linux > 1 << 20


def test_a_limit_of_address_space_that_is_refused_is_left_out():
    text = MAC + "from warpschool.grading.limits import Limits\nLimits().apply(on_gpu=False)\nprint('set')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "set\n", done.stderr


def test_a_check_ends_with_whoever_asked_for_it():
    """Without Linux's signal it looks itself whether its parent is there."""
    child = MAC + (
        "import os, time\nfrom ptxsim import system\nsystem.die_with_parent(os.getppid())\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    parent = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}])\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        os.kill(int(process.stdout.readline()), 0)
        process.stdin.close()
        assert process.stdout.read() == b""  # its other end is closed when the child is gone


def test_classes_are_graded_on_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    done = CliRunner().invoke(app, ["grade", "lab02"])
    assert done.exit_code != 0 and "classes are graded on Linux" in done.output
