"""Python as on Windows, as far as Linux can play it: started as `played` says.

Modules, functions and constants that Windows lacks are taken away, `sys.platform` says win32, and the functions of
kernel32 that `ptxsim.system.windows` calls are played with what Windows demands of their arguments: reserved memory
that is not committed faults, a taken address is refused, structures have their sizes, a job whose handle is closed ends
its processes. Child processes are started through this file again. What Windows itself does is not tested by this.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import io
import os
import resource
import struct
import subprocess
import sys
import types
from typing import ClassVar

from played import play

LACKING = {
    "os": (
        "getuid geteuid getgid getresuid getresgid getgroups setsid killpg getpgid fork sched_getaffinity "
        "sched_setaffinity set_blocking waitid mkfifo getloadavg statvfs uname memfd_create getpriority setpriority "
        "register_at_fork O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_PATH sysconf pwrite pread chown lchown nice"
    ),
    "select": "poll epoll",
    "signal": (
        "SIGXCPU SIGXFSZ SIGPROF SIGHUP SIGQUIT SIGTSTP SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGCHLD setitimer alarm "
        "pthread_sigmask ITIMER_PROF ITIMER_REAL"
    ),
    "socket": "AF_UNIX send_fds recv_fds",
    "mmap": "MAP_PRIVATE MAP_ANONYMOUS MAP_SHARED MAP_NORESERVE PROT_READ PROT_WRITE",
}  # fmt: skip
NO_MODULES = (
    "fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "syslog",
    "colorama",  # which pytest uses there if it is installed: it would talk to a console that is not played
)  # fmt: skip

REAL_SETRLIMIT, REAL_KILL, REAL_GROUP = resource.setrlimit, os.kill, os.killpg
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ANONYMOUS, FIXED_NOREPLACE = 0x22 | 0x4000, 0x100000
SELF = ctypes.c_void_p(-1).value


class Kernel32:
    """The functions, by their names; each is a `Function`."""

    def __init__(self) -> None:
        self.reserved: dict[int, int] = {}
        self.jobs: dict[int, dict] = {}
        self.next = 0x100

    def __getattr__(self, name: str):
        found = Function(getattr(type(self), f"_{name}"), self)
        setattr(self, name, found)
        return found

    def _VirtualAlloc(self, address, size, kind, protection):
        assert protection == 0x04 and size > 0
        if kind == 0x2000:
            flags = ANONYMOUS | (FIXED_NOREPLACE if address else 0)
            assert address is None or address % 65536 == 0
            got = LIBC.mmap(address, size, 0, flags, -1, 0)
            if got in (None, SELF):
                return None
            self.reserved[got] = size
            return got
        assert kind == 0x1000
        inside = any(start <= address and address + size <= start + most for start, most in self.reserved.items())
        assert inside, "commits what is not reserved"
        first, end = address // 4096 * 4096, -(-(address + size) // 4096) * 4096
        return address if LIBC.mprotect(first, end - first, 3) == 0 else None

    def _VirtualFree(self, address, size, kind):
        assert kind == 0x8000 and size == 0
        return LIBC.munmap(address, self.reserved.pop(address)) == 0

    def _GetCurrentProcess(self):
        return SELF

    def _CreateJobObjectW(self, security, name):
        self.next += 4
        self.jobs[self.next] = {"flags": 0, "processes": []}
        return self.next

    def _SetInformationJobObject(self, job, kind, limits, size):
        assert (kind, size) == (9, 144)
        data = ctypes.string_at(limits, size)
        self.jobs[job] |= {
            "cpu_s": struct.unpack_from("<q", data, 0)[0] / 1e7, "flags": struct.unpack_from("<I", data, 16)[0],
            "memory": struct.unpack_from("<Q", data, 112)[0],
        }  # fmt: skip
        self._limit(self.jobs[job])
        return 1

    def _AssignProcessToJobObject(self, job, process):
        self.jobs[job]["processes"].append(process)
        self._limit(self.jobs[job])
        return 1

    @staticmethod
    def _limit(job) -> None:
        if SELF in job["processes"]:
            most = int(job["cpu_s"]) + 1 if job["flags"] & 0x2 else resource.RLIM_INFINITY
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            REAL_SETRLIMIT(resource.RLIMIT_CPU, (most, hard))

    def _TerminateJobObject(self, job, code):
        for process in self.jobs[job]["processes"]:
            Child.ended[process] = code
            with contextlib.suppress(ProcessLookupError):
                REAL_GROUP(process, 9)
        return 1

    def _CloseHandle(self, handle):
        job = self.jobs.get(handle)
        if job and job["flags"] & 0x2000:
            self._TerminateJobObject(handle, 0)
        self.jobs.pop(handle, None)
        return 1

    def _K32GetProcessMemoryInfo(self, process, counters, size):
        assert process == SELF and size == 72
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        data = struct.pack("<IIQ", 72, 0, peak)
        ctypes.memmove(counters, data, len(data))
        return 1


class Function:
    """One function, which wants to be told its types before it is called."""

    restype = argtypes = None

    def __init__(self, work, owner) -> None:
        self.work, self.owner = work, owner

    def __call__(self, *given):
        assert self.argtypes is not None and len(given) == len(self.argtypes), self.work.__name__
        return self.work(self.owner, *given)


class Child(subprocess.Popen):
    """subprocess on Windows: a handle, flags, exit codes that are not negative, no open files but the three."""

    ended: ClassVar[dict[int, int]] = {}

    def __init__(self, command, *, creationflags=0, pass_fds=(), start_new_session=False, preexec_fn=None, **options):
        assert not pass_fds and not start_new_session and preexec_fn is None, "Windows has none of these"
        env = options.get("env")
        assert env is None or "SYSTEMROOT" in env, "no process starts without it"
        super().__init__(command, start_new_session=True, **options)
        self._handle = self.pid

    def _handle_exitstatus(self, status, *more, **named):
        super()._handle_exitstatus(status, *more, **named)
        if self.returncode is not None and self.returncode < 0:
            crashed = {-11: 0xC0000005, -24: 1816}
            self.returncode = self.ended.get(self.pid, crashed.get(self.returncode, 1))


def no_library(name, *arguments, real=ctypes.CDLL, **named):
    assert name is not None, "there is no C library to be had by None"
    return real(name, *arguments, **named)


def locking(number: int, mode: int, nbytes: int, *, lockf=fcntl.lockf, how=fcntl.LOCK_EX | fcntl.LOCK_NB) -> None:
    assert (mode, nbytes) == (2, 1)
    lockf(number, how, nbytes)


def pretend() -> None:
    """From here on this process is on Windows."""
    os.environ.setdefault("SYSTEMROOT", "C:\\Windows")
    for name, lacking in LACKING.items():
        module = importlib.import_module(name)
        for one in lacking.split():
            if hasattr(module, one):
                delattr(module, one)
    for name in NO_MODULES:
        sys.modules[name] = None
    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
    kernel32 = Kernel32()
    ctypes.WinDLL = lambda name, use_last_error=False: kernel32 if name == "kernel32" and use_last_error else None
    ctypes.get_last_error = lambda: 8
    ctypes.CDLL = no_library
    subprocess.Popen = Child
    io._WindowsConsoleIO = type("_WindowsConsoleIO", (), {})  # what pytest asks for
    sys.platform = "win32"


if __name__ == "__main__":
    play(__file__, pretend)
