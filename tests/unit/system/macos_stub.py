"""Python as on macOS, as far as Linux can play it: started as `played` says.

What only Linux has is taken away or refused: /proc and /sys, prctl and bare system calls, limits of address space,
forks that go on (the frameworks there do not survive one: children are started anew), descriptors of processes and
memory. Pages have 16 KB. Numbers that mean something else there are refused: Linux's MAP_NORESERVE, which asks XNU for
a mapping that must not be written, and its MADV_REMOVE; a poll that asks for nothing, and so is told nothing.

The processor stays the host's, and files are what they are on Linux. What macOS itself does is not tested by this.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import io
import mmap
import os
import platform
import resource
import select
import sys
import tempfile

from played import play

LACKING = {
    "os": (
        "sched_getaffinity sched_setaffinity memfd_create pidfd_open eventfd splice copy_file_range posix_fadvise "
        "posix_fallocate getxattr setxattr listxattr O_PATH O_TMPFILE O_LARGEFILE getresuid getresgid setresuid "
        "setresgid unshare setns getrandom"
    ),
    "select": "epoll",
    "resource": "prlimit",
    "signal": "pidfd_send_signal sigtimedwait sigwaitinfo SIGPWR SIGSTKFLT SIGPOLL SIGRTMIN SIGRTMAX",
    "mmap": "MAP_NORESERVE MAP_POPULATE MAP_STACK",
    "socket": "AF_NETLINK SO_PASSCRED",
}  # fmt: skip
PAGE = 16384
LINUX_NORESERVE, NORESERVE = 0x4000, 0x40
LINUX_ADVICE = frozenset(range(9, 26))
"""Linux's numbers of madvise for which XNU has other meanings, or none."""


class Mmap:
    """The C library's mmap with XNU's flags."""

    def __init__(self, real) -> None:
        self.__dict__["real"] = real

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.real, name, value)

    def __call__(self, place, nbytes, protection, flags, file, offset):
        assert not flags & LINUX_NORESERVE or not protection & mmap.PROT_WRITE, "MAP_RESILIENT_MEDIA, to be written"
        assert offset % PAGE == 0
        return self.real(place, nbytes, protection, flags & ~NORESERVE | LINUX_NORESERVE, file, offset)


class Madvise(Mmap):
    def __call__(self, address, nbytes, advice):
        assert advice not in LINUX_ADVICE and address % PAGE == 0
        return self.real(address, nbytes, advice)


PLAYED = {"mmap": Mmap, "madvise": Madvise}


class Library:
    """A C library without what only Linux's has."""

    def __init__(self, name, *more, real=ctypes.CDLL, **named) -> None:
        self._real, self._is_c = real(name, *more, **named), name is None

    def __getattr__(self, name: str):
        assert not self._is_c or name not in ("prctl", "syscall", "gettid"), f"{name}: only Linux has it"
        found = getattr(self._real, name)
        if self._is_c and name in PLAYED:
            found = PLAYED[name](found)
        setattr(self, name, found)
        return found


class Poll:
    def __init__(self, real=select.poll) -> None:
        self.real = real()

    def register(self, file, events) -> None:
        assert events, "XNU registers nothing for this"
        self.real.register(file, events)

    def poll(self, *left):
        return self.real.poll(*left)


def without_linux_files(function):
    """A function of the file system to which /proc and /sys are not there."""

    def asked(path, *more, **named):
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return function(path, *more, **named)

    return asked


def no_fork():
    raise AssertionError("a fork goes on, which macOS's libraries do not survive")


def refuse_address_space(which, limits, real=resource.setrlimit) -> None:
    if which == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")  # what macOS says
    real(which, limits)


def pretend() -> None:
    """From here on this process is on macOS."""
    for name, lacking in LACKING.items():
        module = importlib.import_module(name)
        for one in lacking.split():
            if hasattr(module, one):
                delattr(module, one)
    for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink"):
        setattr(os, name, without_linux_files(getattr(os, name)))
    builtins.open = io.open = without_linux_files(io.open)
    tempfile._O_TMPFILE_WORKS = False
    os.fork = no_fork
    mmap.PAGESIZE = mmap.ALLOCATIONGRANULARITY = PAGE
    resource.setrlimit = refuse_address_space
    resource.getpagesize = lambda: PAGE
    select.poll = Poll
    ctypes.CDLL = Library
    platform.system = lambda: "Darwin"
    sys.platform = "darwin"


if __name__ == "__main__":
    play(__file__, pretend)
