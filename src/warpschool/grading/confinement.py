"""What a process that runs a submission can still do once something in it went wrong: next to nothing.

`confine` closes this process, and all that it starts, off from files (Landlock), the network, other processes and the
parts of the kernel that nothing here needs (Landlock and seccomp). It is called before any thread is there, for
Landlock holds for the thread that calls and for what that one starts. Imports the standard library only.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

_NO_NEW_PRIVS = 38
_SECCOMP, _SET_FILTER, _ALL_THREADS = {"x86_64": 317, "aarch64": 277}, 1, 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_WANTED = 1
_EXECUTE = 1 << 0
_READ = _EXECUTE | 1 << 2 | 1 << 3  # and read a file, list a folder
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a rule about a file may allow; the rest is of folders
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version of Landlock from which so many rights of files are known."""
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
SYSTEM = (
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu", "/sys/devices/system/node",
    "/sys/fs/cgroup", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/fonts", "/usr", "/lib",
    "/lib64", "/bin",
)  # fmt: skip
"""What any Python process reads of the system."""


@functools.cache
def landlock_version() -> int:
    """The version of Landlock that this kernel has; 0 where it has none or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_WANTED))


def confinement_problem() -> str:
    """What of the confinement this machine's kernel does not offer, in one line; "" where it is whole."""
    version = landlock_version()
    if not version:
        return "this kernel has no Landlock (Linux 5.13): a submission that escapes the simulator could read files"
    if not _sock_filters(processes=True):
        return f"no system call filter is known for {platform.machine()}: a submission that escapes could open sockets"
    return ""


def confine(
    *, readable: Iterable[str], writable: Iterable[str], executable: Iterable[str] | None = None,
    processes: bool = True,
) -> bool:  # fmt: skip
    """Close this process off; it may read below some folders and files, and write below others.

    It may execute what it may read, or only what is `executable` where that is given. Without `processes` it starts
    none. Returns whether the kernel offers all of it; what it does not offer is left out.
    """
    filtered = filter_calls(processes=processes)
    return _close_files(readable, writable, executable) and filtered


def filter_calls(*, processes: bool) -> bool:
    """Let this process open no socket, look into no other process and load nothing into the kernel from now on.

    Without `processes` it starts none either, only threads. Returns False where the kernel cannot.
    """
    rows = _sock_filters(processes=processes)
    if not rows:
        return False
    code = b"".join(struct.pack("<HBBI", *row) for row in rows)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(rows), ctypes.addressof(buffer))
    if ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return _syscall(_SECCOMP[platform.machine()], _SET_FILTER, _ALL_THREADS, program) == 0


# ---------------------------------------------------------------- files


def _syscall(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _close_files(readable: Iterable[str], writable: Iterable[str], executable: Iterable[str] | None) -> bool:
    version = landlock_version()
    if not version:
        return False
    rights = (1 << max(count for since, count in _RIGHTS.items() if since <= version)) - 1
    network = _TCP if version >= _NETWORK_SINCE else 0
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    asked = struct.pack("<QQQ", rights, network, scopes)[: 8 + 8 * bool(network) + 8 * bool(scopes)]
    ruleset = _syscall(_CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0)
    if ruleset < 0:
        return False
    for path in readable:
        _allow(ruleset, path, rights & (_READ if executable is None else _READ & ~_EXECUTE))
    for path in executable or ():
        _allow(ruleset, path, rights & _READ)
    for path in (*writable, *_DEVICES):
        _allow(ruleset, path, rights & ~_EXECUTE)  # what was written there is not executed
    done = ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and _syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return done


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allow something below a path; one that is not there needs no rule."""
    with suppress(OSError):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights if os.path.isdir(path) else rights & _OF_FILES
            _syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", allowed, handle), 0)
        finally:
            os.close(handle)


# ---------------------------------------------------------------- system calls


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS: dict[str, tuple[int, ...]] = {
    # name: number on x86-64, on aarch64
    "socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "init_module": (175, 105), "finit_module": (313, 273), "kexec_load": (246, 104),
}  # fmt: skip
_STARTS_PROCESS: dict[str, tuple[int | None, ...]] = {"fork": (57, None), "vfork": (58, None)}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_THREAD = 0x10000  # CLONE_THREAD
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # of the kernel's struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NOT_PERMITTED, _NO_SUCH_CALL = 1, 38
_X32 = 0x40000000
Row = tuple[int, int, int, int]


def _sock_filters(*, processes: bool) -> Sequence[Row]:
    """The filter, a program of the kernel's packet filter: (operation, jump if so, jump if not, value) a row."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES:
        return ()
    column = list(_ARCHITECTURES).index(machine)
    refuse = (_RETURN, 0, 0, _ERRNO | _NOT_PERMITTED)
    rows: list[Row] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), refuse,
        (_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32), refuse,
    ]  # fmt: skip
    refused = [numbers[column] for numbers in _NUMBERS.values()]
    if not processes:
        refused += [n for numbers in _STARTS_PROCESS.values() if (n := numbers[column]) is not None]
    for number in refused:
        rows += [(_EQUAL, 0, 1, number), refuse]
    if not processes:  # the C library asks clone3 first, whose arguments a filter cannot see, and then clone
        rows += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ERRNO | _NO_SUCH_CALL)]
        rows += [(_EQUAL, 0, 3, _CLONE[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_ANY_BIT, 1, 0, _THREAD), refuse]
    return [*rows, (_RETURN, 0, 0, _ALLOW)]
