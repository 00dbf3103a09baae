"""Windows 8 and newer: VirtualAlloc for address space, job objects for limits and for children that end together.

A job's limits hold for all processes in it, and one whose last handle is closed ends them: a child of a process that
was killed is killed with it. Files have no limit of size. Names and numbers are those of winbase.h and winnt.h.
"""

from __future__ import annotations

import ctypes
import errno
import msvcrt
import os
import subprocess
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any, NoReturn

NEEDED_VARIABLES = ("SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS")
"""Variables of the environment without which no process starts, or finds a folder to write to."""
_PAGE = 4096
_LOOK_S = 0.1  # Ctrl-C is seen between two waits, not within one

_POINTER, _SIZE, _DWORD = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "VirtualAlloc": (_POINTER, [_POINTER, _SIZE, _DWORD, _DWORD]),
    "VirtualFree": (ctypes.c_int, [_POINTER, _SIZE, _DWORD]),
    "GetCurrentProcess": (_POINTER, []),
    "CreateJobObjectW": (_POINTER, [_POINTER, _POINTER]),
    "SetInformationJobObject": (ctypes.c_int, [_POINTER, ctypes.c_int, _POINTER, _DWORD]),
    "AssignProcessToJobObject": (ctypes.c_int, [_POINTER, _POINTER]),
    "TerminateJobObject": (ctypes.c_int, [_POINTER, _DWORD]),
    "CloseHandle": (ctypes.c_int, [_POINTER]),
    "K32GetProcessMemoryInfo": (ctypes.c_int, [_POINTER, _POINTER, _DWORD]),
}
_kernel32: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined] # there on Windows
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(_kernel32, _name)
    _function.restype, _function.argtypes = _result, _arguments


def _refused(what: str) -> OSError:
    number = ctypes.get_last_error()  # type: ignore[attr-defined] # there on Windows
    return OSError(errno.ENOMEM, f"{what} (Windows' error {number})")


# ---------------------------------------------------------------- address space

_COMMIT, _RESERVE, _RELEASE, _READWRITE = 0x1000, 0x2000, 0x8000, 0x04


def reserve(nbytes: int, place: int, file: int | None = None) -> int:
    """The address of so much address space, at `place` if that is free. Raises OSError.

    What is reserved costs nothing, and nothing may be written there before `commit`. No file can back it.
    """
    if file is not None:
        raise OSError(errno.ENOTSUP, "shared memory of whole programs needs Linux")
    for wanted in (place, None):  # Windows refuses a place that is taken
        if got := _kernel32.VirtualAlloc(wanted, nbytes, _RESERVE, _READWRITE):
            return int(got)
    raise _refused("cannot reserve address space")


def commit(address: int, nbytes: int) -> None:
    """Make a stretch of reserved space usable, whole pages of it. Raises OSError where memory is short."""
    first = address // _PAGE * _PAGE
    if not _kernel32.VirtualAlloc(first, address + nbytes - first, _COMMIT, _READWRITE):
        raise _refused(f"no memory for {nbytes:,} bytes")


def release(address: int, nbytes: int) -> None:
    """Give address space back, all that was reserved at once."""
    _kernel32.VirtualFree(address, 0, _RELEASE)


def discard(address: int, nbytes: int) -> None:
    """Give back the pages of a stretch backed by a file, of which there are none."""


# ---------------------------------------------------------------- jobs


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64), ("PerJobUserTimeLimit", ctypes.c_int64), ("LimitFlags", _DWORD),
        ("MinimumWorkingSetSize", _SIZE), ("MaximumWorkingSetSize", _SIZE), ("ActiveProcessLimit", _DWORD),
        ("Affinity", _SIZE), ("PriorityClass", _DWORD), ("SchedulingClass", _DWORD),
    )  # fmt: skip


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", _BasicLimits), ("io", ctypes.c_uint64 * 6), ("ProcessMemoryLimit", _SIZE), ("JobMemoryLimit", _SIZE),
        ("PeakProcessMemoryUsed", _SIZE), ("PeakJobMemoryUsed", _SIZE),
    )  # fmt: skip


_EXTENDED = 9
_PROCESS_TIME, _PROCESS_MEMORY, _DIE_ON_EXCEPTION, _KILL_ON_CLOSE = 0x2, 0x100, 0x400, 0x2000
_KILLED = 0x77617270
"""Exit code of what `end` ends: no program's own."""
_OUT_OF_TIME = (1816, 0xC0000044)  # ERROR_NOT_ENOUGH_QUOTA, STATUS_QUOTA_EXCEEDED
_STATUS = {
    0xC0000005: "access violation", 0xC00000FD: "stack overflow", 0xC000001D: "illegal instruction",
    0xC0000094: "division by zero", 0xC0000374: "heap corruption", 0xC0000409: "abort", 0xC000013A: "Ctrl-C",
    0xC0000017: "out of memory", 0xC000012D: "out of memory",
}  # fmt: skip


class _Job:
    """A job object. The handle is closed with the last reference to this: then what is in the job ends, if asked to."""

    def __init__(self, flags: int = 0) -> None:
        self._handle = _kernel32.CreateJobObjectW(None, None)
        if not self._handle:
            raise _refused("cannot make a job object")
        self._flags, self._cpu_s, self._memory_bytes = flags | _DIE_ON_EXCEPTION, 0.0, 0
        self.set()

    def set(self, *, cpu_s: float | None = None, memory_bytes: int | None = None) -> None:
        """Set limits of each process, 0 for none; what is not given stays."""
        self._cpu_s = self._cpu_s if cpu_s is None else cpu_s
        self._memory_bytes = self._memory_bytes if memory_bytes is None else memory_bytes
        limits = _Limits()
        limits.basic.LimitFlags = self._flags
        if self._cpu_s:
            limits.basic.LimitFlags |= _PROCESS_TIME
            limits.basic.PerProcessUserTimeLimit = int(self._cpu_s * 1e7)
        if self._memory_bytes:
            limits.basic.LimitFlags |= _PROCESS_MEMORY
            limits.ProcessMemoryLimit = self._memory_bytes
        if not _kernel32.SetInformationJobObject(
            self._handle, _EXTENDED, ctypes.byref(limits), ctypes.sizeof(limits)
        ):
            raise _refused("cannot limit a job object")

    def add(self, process: int) -> None:
        """Put a process into the job, by its handle; what it starts comes with it."""
        if not _kernel32.AssignProcessToJobObject(self._handle, process):
            raise _refused("cannot put a process into a job object")

    def kill(self) -> None:
        _kernel32.TerminateJobObject(self._handle, _KILLED)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            _kernel32.CloseHandle(self._handle)


# ---------------------------------------------------------------- this process

_own: list[_Job] = []
"""The job that this process has put itself into, if it has."""


def _own_job() -> _Job:
    if not _own:
        job = _Job()
        job.add(_kernel32.GetCurrentProcess())
        _own.append(job)
    return _own[0]


class _MemoryCounters(ctypes.Structure):
    _fields_ = (
        ("cb", _DWORD), ("PageFaultCount", _DWORD), ("PeakWorkingSetSize", _SIZE), ("others", _SIZE * 7),
    )  # fmt: skip


def processors() -> int:
    """How many processors this process may use."""
    return os.cpu_count() or 1


def peak_bytes() -> int:
    """Most memory that this process had in use at any moment."""
    counters = _MemoryCounters(cb=ctypes.sizeof(_MemoryCounters))
    process = _kernel32.GetCurrentProcess()
    if not _kernel32.K32GetProcessMemoryInfo(process, ctypes.byref(counters), ctypes.sizeof(counters)):
        raise _refused("cannot read how much memory is in use")
    return int(counters.PeakWorkingSetSize)


def limit(
    *, cpu_s: int | None = None, cpu_grace_s: int = 0, file_bytes: int | None = None, memory_bytes: int | None = None
) -> None:  # fmt: skip
    """Limit this process and all that it starts. `memory_bytes` is what it has committed; files are not limited."""
    _own_job().set(cpu_s=cpu_s, memory_bytes=memory_bytes)


def limit_next(cpu_s: float, memory_bytes: int = 0) -> None:
    """Limit what this process does from now on, until the next call: with 0 nothing."""
    _own_job().set(cpu_s=cpu_s and time.process_time() + cpu_s, memory_bytes=memory_bytes)


def die_with_parent(parent: int, *, by_signal: bool = True, stdin: int | None = None) -> None:
    """End when process `parent` is gone: its job, in which `start` has put this one, sees to that."""


def after_fork(work: Callable[[], object]) -> None:
    """Have work done in each process that is forked from this one: there are none."""


def around_fork(take: Callable[[], object], give: Callable[[], object]) -> None:
    """Have locks taken before a fork and given back behind it: there are none."""


def wait(ended: Callable[[float | None], bool]) -> None:
    """Wait by a method that waits some seconds at most, or forever; Ctrl-C ends the waiting."""
    while not ended(_LOOK_S):
        pass


# ---------------------------------------------------------------- files


def lock(file: int) -> bool:
    """Lock an open file, by number, while it is open or this process lives; False where another process has."""
    os.lseek(file, 0, os.SEEK_SET)
    try:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined] # there on Windows
    except OSError:
        return False
    return True


def open_plain(path: str | os.PathLike[str]) -> int:
    """Open a file for reading that may be anything; no link is followed. Raises OSError."""
    if os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a link")
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0))


def private_folder(base: str, name: str) -> str | None:
    """A folder in the temporary one, which is this user's own on Windows."""
    folder = os.path.join(base, name)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    return folder


# ---------------------------------------------------------------- child processes


def usual_layout() -> None:
    """There is one way to lay out memory."""


def line_up(library: str) -> None:
    """Addresses stay the system's own choice."""


APART_STACK_BYTES = 0
"""Nothing is done apart, and no limit counts a stack."""


def apart(stdin: int, work: Callable[..., object], *arguments: object) -> None:
    """Do it here: there are no forks."""
    work(*arguments)


_NEW_GROUP, _NO_WINDOW = 0x200, 0x08000000


def start(command: Sequence[str], *, fixed_addresses: bool = False, **options: Any) -> subprocess.Popen[bytes]:
    """A child that `end` ends with all that it has started; options as subprocess has them.

    Addresses are the system's own choice here, the same until it is started anew.
    """
    job = _Job(_KILL_ON_CLOSE)
    process = subprocess.Popen(command, creationflags=_NEW_GROUP | _NO_WINDOW, **options)
    try:
        job.add(int(process._handle))  # type: ignore[attr-defined] # subprocess keeps it there on Windows
    except OSError:
        if process.poll() is None:
            process.kill()
            raise
    process.__dict__["job"] = job  # ends with it
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and what it started, none of which is asked. It is still to be waited for."""
    if process.returncode is None:
        process.__dict__["job"].kill()


def become(command: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Run another program in the place of this one, with the limits that it has. Raises OSError."""
    os._exit(subprocess.run(command, env=environment, check=False).returncode)


def how_ended(code: int) -> str:
    """What an exit code of subprocess tells of an end that was no process's own; "" for one that was.

    "time" is a limit of `limit` and `limit_next`, "killed" is `end`; exceptions have their name.
    """
    if code in _OUT_OF_TIME:
        return "time"
    if code == _KILLED:
        return "killed"
    return _STATUS.get(code, f"status {code:#x}") if code >= 1 << 31 else ""


class Pipes:
    """A child's standard input and output, with deadlines of `time.monotonic`.

    Windows has no waiting for a pipe with an end to it: threads read and write.
    """

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._in, self._out = stdin.fileno(), stdout.fileno()
        self._come: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        piece = b"-"
        while piece:
            piece = b""
            with suppress(OSError):
                piece = os.read(self._out, 1 << 20)
            self._come.put(piece)

    def send(self, data: bytes, deadline: float) -> None:
        """Raises EOFError where the child has gone, TimeoutError at the deadline."""
        written, failed = threading.Event(), []

        def write() -> None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._in, view) :]
            except OSError as error:
                failed.append(error)
            written.set()

        threading.Thread(target=write, daemon=True).start()
        while not written.wait(_LOOK_S):
            if time.monotonic() > deadline:
                raise TimeoutError
        if failed:
            raise EOFError

    def receive(self, deadline: float) -> bytes:
        """What has come; waits for the first byte. Raises as `send` does."""
        while time.monotonic() <= deadline:
            with suppress(Empty):
                if piece := self._come.get(timeout=_LOOK_S):
                    return piece
                self._come.put(b"")  # it stays so
                raise EOFError
        raise TimeoutError

    def is_quiet(self) -> bool:
        """Whether the child's end is open and there is nothing to be read."""
        return self._come.empty()
