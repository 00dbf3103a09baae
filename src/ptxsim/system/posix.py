"""Linux and macOS. What only one of them has is asked for by name of the platform, or left out where it is refused."""

from __future__ import annotations

import _thread
import ctypes
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # threading and subprocess take milliseconds to import, which a compiler's child need not wait for
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any, NoReturn

NEEDED_VARIABLES: tuple[str, ...] = ()
"""Variables of the environment without which no process starts."""

# ---------------------------------------------------------------- address space

_NORESERVE = 0x40 if sys.platform == "darwin" else 0x4000
"""MAP_NORESERVE, which Python has from 3.13 on. Linux's number asks macOS for a mapping that must not be written."""
_MADV_REMOVE = 9
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def reserve(nbytes: int, place: int, file: int | None = None) -> int:
    """The address of so much address space, at `place` if that is free; `file`, of that size, backs it.

    Raises OSError.
    """
    flags = _NORESERVE | (mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if file is None else mmap.MAP_SHARED)
    got = _libc.mmap(place, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1 if file is None else file, 0)
    if got in (None, _FAILED):
        raise OSError(ctypes.get_errno(), "cannot reserve address space")
    return int(got)


def commit(address: int, nbytes: int) -> None:
    """Make a stretch of reserved space usable: here all of it is. Raises OSError where memory is short."""


def release(address: int, nbytes: int) -> None:
    """Give address space back, all that was reserved at once."""
    _libc.munmap(address, nbytes)


def discard(address: int, nbytes: int) -> None:
    """Give back the pages that lie whole in a stretch backed by a file; it reads as zeros afterwards."""
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    most = max(address + nbytes - first, 0) // mmap.PAGESIZE * mmap.PAGESIZE
    if sys.platform == "linux":
        _libc.madvise(first, most, _MADV_REMOVE)
    else:  # that number means something else there: the pages are kept
        ctypes.memset(first, 0, most)


class _Line:
    """Above `at` nothing is mapped by `apart` any more; None before `line_up`, and where that cannot be had."""

    at: int | None = None
    taken = 0
    """bytes of address space"""


_SPREAD = (2 << 40) + (2432 << 20)
"""Where addresses are random, those of libraries begin less than this below the top.

2 TB would do. With so much more all references have the PTX that was compared on a GPU (`benchmarks/fidelity.py`).
"""
_STEP = 1 << 30
"""More than a process maps before it calls `line_up`, and twice what it maps from there to `apart`."""
_HUGE = 2 << 20
_ELF, _PART = struct.Struct("<4s28xQ16xH6x"), struct.Struct("<I12xQ16xQ8x")
"""Of a file of machine code: its mark, where its parts are told, and how many; of a part its kind, address and size."""


def usual_layout() -> None:
    """First of all in a process that calls `line_up`: begin it anew, where it must, with another limit of its stack.

    Linux leaves as much room for the stack as the limit says, or without one lays out memory the other way round. A
    process that may not take the space that `line_up` takes has it left out that way.
    """
    if sys.platform != "linux":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = 8 << 20 if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY else _SPREAD
    is_usual = soft != resource.RLIM_INFINITY and soft <= _STEP and wanted < _SPREAD
    if not is_usual and soft != wanted and (hard == resource.RLIM_INFINITY or wanted <= hard):
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
        os.execv(sys.executable, sys.orig_argv)
    if soft == wanted == _SPREAD:
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard))


def line_up(library: str) -> None:
    """Have a library that is loaded next, and `apart`, find the same addresses in every process, whatever it has
    mapped before.

    All address space above a line is taken, 2 TB, for addresses may be random; it is no memory. A process that may not
    take so much, and any that is not on Linux, goes on as it was.
    """
    if sys.platform != "linux":
        return
    lowest, soft = _lowest(), resource.getrlimit(resource.RLIMIT_AS)[0]
    line = (1 << lowest.bit_length()) - _SPREAD - _STEP
    if 0 < line < lowest and (soft == resource.RLIM_INFINITY or lowest - line + 2 * _STEP < soft):
        _take_above(line)
        _take_above(line - (line - _mapped_bytes(library)) % _HUGE)
        _Line.at = line - _STEP // 2


def _lowest() -> int:
    """Where the next mapping would end; 0 where nothing can be mapped."""
    got = _taken(mmap.PAGESIZE)
    if got is None:
        return 0
    _libc.munmap(got, mmap.PAGESIZE)
    return got + mmap.PAGESIZE


def _mapped_bytes(library: str) -> int:
    """How much address space a library takes: some file systems have a large one begin at a multiple of 2 MB."""
    with open(library, "rb") as file:
        mark, at, count = _ELF.unpack(file.read(_ELF.size).ljust(_ELF.size))
        if mark != b"\x7fELF":
            return 0
        file.seek(at)
        parts = [_PART.unpack(file.read(_PART.size)) for _ in range(count)]
    end = max((address + nbytes for kind, address, nbytes in parts if kind == 1), default=0)
    return -(-end // mmap.PAGESIZE) * mmap.PAGESIZE


def _take_above(line: int) -> None:
    """Take all that is free there: the kernel gives what lies highest."""
    size = 2 * _SPREAD
    while size >= mmap.PAGESIZE:
        got = _taken(size)
        if got is not None and got >= line:
            _Line.taken += size
            continue
        if got is not None:
            _libc.munmap(got, size)
        size >>= 1


def _taken(nbytes: int) -> int | None:
    """Address space that nobody can use; its address, or None where there is not so much."""
    got = _libc.mmap(None, nbytes, 0, _NORESERVE | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    return None if got == _FAILED else got


# ---------------------------------------------------------------- this process


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_bytes() -> int:
    """Most memory that this process had in use at any moment."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    with open("/proc/self/status", "rb") as file:  # ru_maxrss begins with what the process before exec had
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(b"VmHWM"))


def limit(
    *, cpu_s: int | None = None, cpu_grace_s: int = 0, file_bytes: int | None = None, memory_bytes: int | None = None
) -> None:  # fmt: skip
    """Limit this process and all that it starts; nothing writes a core file.

    Past `cpu_s` a signal that tells why ends it, `cpu_grace_s` later one that cannot be caught. A limit that the
    process has already is not raised, and what a system does not have, as macOS none of address space, is left out.
    """
    _lower(resource.RLIMIT_CORE, 0)
    if file_bytes is not None:
        _lower(resource.RLIMIT_FSIZE, file_bytes)
    if cpu_s is not None:
        _lower(resource.RLIMIT_CPU, cpu_s, grace=cpu_grace_s)
    if memory_bytes is not None:
        with suppress(*[ValueError, OSError] if sys.platform == "darwin" else []):
            _lower(resource.RLIMIT_AS, memory_bytes)


def _lower(which: int, value: int, *, grace: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(which, (min(value, ceiling), ceiling))


APART_STACK_BYTES = 512 << 20
"""Address space that the thread of `apart` takes for its stack: a compiler raises the limit of a main thread's, and
uses 3 KB for each parenthesis."""


def limit_next(cpu_s: float, memory_bytes: int = 0) -> None:
    """Limit what this process does from now on, until the next call: with 0 nothing.

    Address space that was taken to have things in order does not count. NVRTC lifts its own soft limit of processor
    time, so that one is a timer: its signal ends the process.
    """
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    if memory_bytes:
        memory_bytes += _Line.taken
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        with suppress(*[ValueError, OSError] if sys.platform == "darwin" else []):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def die_with_parent(parent: int, *, by_signal: bool = True, stdin: int | None = None) -> None:
    """End at once when process `parent` is gone, in the middle of whatever this one does.

    Linux's signal follows the thread that started this process: `by_signal` says that it lives as long as its process.
    `stdin`: a pipe whose other end the parent holds, which tells it too. Without either, and where macOS's poll tells
    nothing of a pipe from which nothing is asked, the process looks.
    """
    if by_signal and sys.platform == "linux":
        _libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent or parent == 1:
        os._exit(1)
    if stdin is not None and sys.platform == "linux":
        _thread.start_new_thread(_watch_pipe, (stdin,))
    elif not (by_signal and sys.platform == "linux"):
        _thread.start_new_thread(_watch_parent, (parent,))


def _watch_pipe(stdin: int) -> NoReturn:
    poll = select.poll()
    poll.register(stdin, 0)
    poll.poll()
    while True:
        os.kill(os.getpid(), signal.SIGKILL)


def _watch_parent(parent: int, *, every_s: float = 0.5) -> None:
    while os.getppid() == parent:
        time.sleep(every_s)
    os._exit(1)


def after_fork(work: Callable[[], object]) -> None:
    """Have work done in each process that is forked from this one, first of all."""
    os.register_at_fork(after_in_child=work)


def around_fork(take: Callable[[], object], give: Callable[[], object]) -> None:
    """Have locks taken before a fork and given back behind it, here and there: no other thread's stay locked there."""
    os.register_at_fork(before=take, after_in_parent=give, after_in_child=give)


def wait(ended: Callable[[float | None], bool]) -> None:
    """Wait by a method that waits some seconds at most, or forever; Ctrl-C ends the waiting."""
    ended(None)


# ---------------------------------------------------------------- files


def lock(file: int) -> bool:
    """Lock an open file, by number, while it is open or this process lives; False where another process has."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def open_plain(path: str | os.PathLike[str]) -> int:
    """Open a file for reading that may be anything: no link is followed, no pipe waited for. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def private_folder(base: str, name: str) -> str | None:
    """A folder in one that all may write to, made if need be, in which only this user can plant anything.

    None where it belongs to another, or is open to others.
    """
    user = os.getuid()
    folder = os.path.join(base, f"{name}-{user}")
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        state = os.lstat(folder)
    except OSError:
        return None
    private = state.st_uid == user and not state.st_mode & 0o022 and os.path.isdir(folder)
    return folder if private and not os.path.islink(folder) else None


# ---------------------------------------------------------------- child processes


_ADDR_NO_RANDOMIZE, _WHICH = 0x0040000, ctypes.c_ulong(0xFFFFFFFF)


def start(command: Sequence[str], *, fixed_addresses: bool = False, **options: Any) -> subprocess.Popen[bytes]:
    """A child that `end` ends with all that it has started; options as subprocess has them.

    With `fixed_addresses` it finds its libraries at the same addresses each time, where the kernel allows that.
    """
    import subprocess

    before = _libc.personality(_WHICH) if fixed_addresses and sys.platform == "linux" else -1
    if before >= 0:  # Linux asks each thread, and what it starts takes it over
        _libc.personality(ctypes.c_ulong(before | _ADDR_NO_RANDOMIZE))
    try:
        return subprocess.Popen(command, start_new_session=True, **options)
    finally:
        if before >= 0:
            _libc.personality(ctypes.c_ulong(before))


def apart(stdin: int, work: Callable[..., object], *arguments: object) -> None:
    """Do it in a thread of a fork, which leaves nothing behind here, with limits of its own. Where that one dies, this
    process dies as it did; so it does when nobody holds the other end of the pipe `stdin` any more.

    In a process without other threads the fork finds the same memory each time, and after `line_up` in every process.
    """
    me = os.getpid()
    child = os.fork()
    if child == 0:
        _do_and_leave(me, stdin, work, arguments)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(me, number)
    elif status:
        os._exit(os.waitstatus_to_exitcode(status))


def _do_and_leave(
    parent: int, stdin: int, work: Callable[..., object], arguments: tuple[object, ...]
) -> NoReturn:
    die_with_parent(parent)

    def run() -> None:
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)

    if _Line.at is not None:
        _take_above(_Line.at)
    _thread.stack_size(APART_STACK_BYTES - mmap.PAGESIZE)  # with its guard a round number, which no kernel moves
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # so much address space is not to be had
        run()
    _watch_pipe(stdin)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and what it started, none of which is asked. It is still to be waited for."""
    if process.returncode is None:  # one that has died by itself keeps its id until then, so the group is ours
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def become(command: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Turn this process into another program, with the limits that it has. Raises OSError."""
    for number in (signal.SIGXFSZ, signal.SIGPIPE):  # Python ignores them, and what it becomes would, too
        signal.signal(number, signal.SIG_DFL)
    os.execve(command[0], list(command), dict(os.environ if environment is None else environment))


def how_ended(code: int) -> str:
    """What an exit code of subprocess tells of an end that was no process's own; "" for one that was.

    "time" and "file" are limits of `limit` and `limit_next`, "killed" is somebody else; other signals have their name.
    """
    if code >= 0:
        return ""
    known = {signal.SIGXCPU: "time", signal.SIGPROF: "time", signal.SIGXFSZ: "file", signal.SIGKILL: "killed"}
    number = signal.Signals(-code)
    return known.get(number) or number.name


class Pipes:
    """A child's standard input and output, with deadlines of `time.monotonic`."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._in, self._out = stdin.fileno(), stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Raises EOFError where the child has gone, TimeoutError at the deadline."""
        view = memoryview(data)
        while view:
            self._wait(self._in, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise EOFError from None

    def receive(self, deadline: float) -> bytes:
        """What has come; waits for the first byte. Raises as `send` does."""
        while True:
            self._wait(self._out, select.POLLIN, deadline)
            with suppress(BlockingIOError):
                if piece := os.read(self._out, 1 << 20):
                    return piece
                raise EOFError

    def is_quiet(self) -> bool:
        """Whether the child's end is open and there is nothing to be read."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        return not poll.poll(0)

    @staticmethod
    def _wait(number: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(number, event)
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0 or not poll.poll(left_ms):
            raise TimeoutError
