"""The parent's side of compilation: worker processes that can be killed, and the few that wait for work.

A process may lend a waiting worker to a fork of its own: `WorkerPool.lend`.
"""

from __future__ import annotations

import atexit
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from ptxsim import system
from warpschool.compile.result import CompileLimits
from warpschool.compile.toolchain import Toolchain
from warpschool.errors import CompileLimitError, CompilerMissing

_CHILD = Path(__file__).with_name("child.py")
_SIZES = struct.Struct("<5I")
"""What a frame begins with, as `child.py` says: the sizes of its five fields."""
_START_LIMIT_S = 300.0
_LAST_BREATH_S = 60.0
_MOST_COMPILATIONS = 500  # a worker is replaced after so many: NVRTC keeps some memory of each
_LENT_COMPILATIONS = 20  # what a loan counts for: most are fewer
_MOST_IDLE = 2
_SPENT_RESULTS = ("NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_INTERNAL_ERROR", "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE")


@dataclass(frozen=True)
class Answer:
    """What NVRTC said to one request: its result's name, the log, the PTX and the PTX's full size in bytes.

    `symbols` are the names in the PTX of the kernels that were asked for by expressions, in their order.
    """

    result: str
    log: str
    ptx: str
    ptx_bytes: int
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """One program for NVRTC. `headers` are further texts by the name under which they are included."""

    source: str
    name: str
    options: Sequence[str]
    headers: Mapping[str, str] = field(default_factory=dict)
    expressions: Sequence[str] = ()

    def fields(self) -> list[bytes]:
        """What `child.py` reads behind the limits."""
        parts = [text for pair in self.headers.items() for text in pair]
        more = "\0".join([str(len(self.headers)), *parts, *self.expressions]) if parts or self.expressions else ""
        return [self.source.encode(), self.name.encode(), "\n".join(self.options).encode(), more.encode()]


class CompilerProcess:
    """One child process with NVRTC loaded. Used by one thread at a time."""

    def __init__(self, toolchain: Toolchain) -> None:
        self.compilations = 0
        self.is_borrowed = False
        self._busy = mmap.mmap(-1, 1)  # memory that a fork shares, which may end in the middle of a request
        on_main = threading.current_thread() is threading.main_thread()
        command = [
            *(sys.executable, "-I", "-S", "-B", str(_CHILD)),
            *(str(os.getpid()), "1" if on_main else "0", str(toolchain.library.resolve())),
            os.pathsep.join(str(folder) for folder in toolchain.readable),
            *(entry for entry in sys.path if os.path.isabs(entry) and os.path.isdir(entry)),
        ]
        self._process = system.start(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=bare_environment(),
            bufsize=0,
        )
        self._pipes = system.Pipes(self._process)
        self._greet()

    @property
    def pid(self) -> int:
        """The child's process id, which is its process group too."""
        return self._process.pid

    def _greet(self) -> None:
        try:
            hello = self._receive(time.monotonic() + _START_LIMIT_S, most=1 << 16)
        except (EOFError, ValueError, TimeoutError):
            self.kill()
            raise CompilerMissing(
                f"the compiler process did not start (exit status {self._process.returncode})",
                next_step="Run `warpschool doctor`.",
            ) from None
        except BaseException:
            self.kill()
            raise
        if hello[0] != b"ready":
            self.kill()
            raise CompilerMissing(
                f"NVRTC cannot be loaded: {hello[1].decode(errors='replace')}", next_step="Run `warpschool doctor`."
            )
        self.version = hello[1].decode()
        self.archs = tuple(int(arch) for arch in hello[2].split())
        self.isolated = hello[3] == b"1"

    def compile(self, request: Request, limits: CompileLimits) -> Answer:
        """Run one compilation; whatever goes wrong with the process, it is dead afterwards.

        Raises CompileLimitError for processor time, memory, and a compiler that crashed; CompilerMissing for one that
        hangs or was killed from outside, which says nothing about the source.
        """
        self.compilations += 1
        settings = f"{limits.cpu_s} {limits.memory_bytes} {limits.log_bytes + 1} {limits.ptx_bytes}"
        fields, name = [settings.encode(), *request.fields()], request.name
        deadline = time.monotonic() + limits.wall_s
        self._busy[0] = 1
        try:
            self._send(_SIZES.pack(*map(len, fields)) + b"".join(fields), deadline)
            fields = self._receive(deadline, most=limits.log_bytes + limits.ptx_bytes + 4096)
            self._busy[0] = 0
        except TimeoutError:
            self.kill()
            raise CompilerMissing(
                f"{name}: the compiler took more than {limits.wall_s:g} s", next_step="Is this machine overloaded?"
            ) from None
        except (EOFError, ValueError) as end:
            was_killed = isinstance(end, EOFError) and self._ended_by() == "killed"  # no limit of ours does that
            self.kill()
            if was_killed:
                raise CompilerMissing(
                    f"{name}: the compiler process was killed from outside", next_step="Is this machine out of memory?"
                ) from None
            raise CompileLimitError(self._cause_of_death(name, limits), next_step=TOO_MUCH) from None
        except BaseException:
            self.kill()  # Ctrl-C, for one: the answer would be taken for that of the next request
            raise
        result, log, ptx, size, symbols = (one.decode("utf-8", "replace") for one in fields)
        if "catastrophic error: out of memory" in log:
            result = "NVRTC_ERROR_OUT_OF_MEMORY"
        return Answer(result, log, ptx, int(size), tuple(symbols.split("\n")) if symbols else ())

    def _ended_by(self) -> str:
        """What has ended a process that has closed its output; "" if it lives on, or came to its own end."""
        if self.is_borrowed:  # only its parent is told
            return ""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_BREATH_S)
        code = self._process.returncode
        return "" if code is None else system.how_ended(code)

    def _cause_of_death(self, name: str, limits: CompileLimits) -> str:
        code = self._process.returncode
        ended = system.how_ended(code)
        if ended == "time":
            return f"{name}: the compiler used more than {limits.cpu_s:g} s of processor time"
        how = ended or f"exit status {code}"
        memory = f"{limits.memory_bytes / (1 << 30):g} GiB"
        return f"{name}: the compiler ran out of its memory ({memory}) or crashed ({how})"

    @property
    def healthy(self) -> bool:
        """Whether this worker can take another request."""
        alive = self._pipes.is_quiet() if self.is_borrowed else self._process.poll() is None
        return alive and not self._busy[0] and self.compilations < _MOST_COMPILATIONS

    def kill(self) -> None:
        """End the process group at once and reap it."""
        if self._process.returncode is None:
            system.end(self._process)
            if self.is_borrowed:
                self._process.returncode = -1  # its parent is told
            else:
                self._process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close our ends of the pipes and leave the process alone: it may belong to one that we were forked from."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._process.returncode is None:
            self._process.returncode = 0  # not our child: keeps subprocess from waiting for it

    def _send(self, data: bytes, deadline: float) -> None:
        """Raises EOFError where the worker has gone, TimeoutError at the deadline."""
        self._pipes.send(data, deadline)

    def _receive(self, deadline: float, *, most: int) -> list[bytes]:
        """The next frame; raises as `_send` does, and ValueError for one of more than `most` bytes."""
        data = bytearray()
        while (fields := _fields(data, most)) is None:
            data += self._pipes.receive(deadline)
        return fields


TOO_MUCH = "Does a macro or template expand without end, or is a loop unrolled too far?"


def bare_environment() -> dict[str, str]:
    """What a compiler's process sees of the environment: what any process needs on this system."""
    needed = {name: os.environ[name] for name in system.NEEDED_VARIABLES if name in os.environ}
    return {"LC_ALL": "C.UTF-8", "TZ": "UTC", **needed}


def _fields(data: bytearray, most: int) -> list[bytes] | None:
    """The fields of a whole frame, None while some of it is missing."""
    if len(data) < _SIZES.size:
        return None
    ends = list(accumulate(_SIZES.unpack_from(data), initial=_SIZES.size))
    if ends[-1] > most:
        raise ValueError
    return [bytes(data[start:end]) for start, end in pairwise(ends)] if len(data) >= ends[-1] else None


class WorkerPool:
    """Workers for all threads of this process: as many at once as there are processors, a few kept waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(system.processors())
        self._idle: list[tuple[Toolchain, CompilerProcess]] = []

    def compile(
        self, toolchain: Toolchain, request: Request, limits: CompileLimits
    ) -> tuple[Answer, CompilerProcess]:
        """Compile on some worker; gives the worker too, for its version and architectures."""
        with self._slots:
            worker = self._take(toolchain)
            try:
                try:
                    answer = worker.compile(request, limits)
                except (CompileLimitError, CompilerMissing):
                    if not worker.is_borrowed:
                        raise
                    worker = CompilerProcess(toolchain)  # of our own, whose end tells the reason
                    answer = worker.compile(request, limits)
                if answer.result in _SPENT_RESULTS:
                    worker.kill()
            finally:
                self._give(toolchain, worker)
            return answer, worker

    def _take(self, toolchain: Toolchain) -> CompilerProcess:
        while True:
            with self._lock:
                entry = next((e for e in reversed(self._idle) if e[0] == toolchain), None)
                if entry is not None:
                    self._idle.remove(entry)
            if entry is None:
                return CompilerProcess(toolchain)
            if entry[1].healthy:
                return entry[1]
            entry[1].kill()

    def _give(self, toolchain: Toolchain, worker: CompilerProcess) -> None:
        with self._lock:
            keep = worker.healthy and len(self._idle) < _MOST_IDLE
            if keep:
                self._idle.append((toolchain, worker))
        if not keep:
            worker.kill()

    def warm_up(self, toolchain: Toolchain) -> CompilerProcess:
        """Make sure that one worker waits, and give it for a look at its version."""
        with self._slots:
            worker = self._take(toolchain)
            self._give(toolchain, worker)
            return worker

    def lend(self) -> tuple[Toolchain, CompilerProcess] | None:
        """A waiting worker, for one fork of this process, which is to `borrow` it; nobody else takes it meanwhile."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def borrow(self, toolchain: Toolchain, worker: CompilerProcess) -> None:
        """In the fork: use a worker that the process before the fork has lent."""
        worker.is_borrowed = True
        self._idle.append((toolchain, worker))

    def take_back(self, toolchain: Toolchain, worker: CompilerProcess) -> None:
        """Let a worker wait again whose borrower has ended; one that still has something to answer is killed."""
        worker.compilations += _LENT_COMPILATIONS
        self._give(toolchain, worker)

    def idle_pids(self) -> list[int]:
        """The waiting workers' process ids."""
        with self._lock:
            return [worker.pid for _, worker in self._idle]

    def close(self) -> None:
        """Kill the waiting workers, and let go of one that is borrowed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, worker in idle:
            if worker.is_borrowed:
                worker.abandon()
            else:
                worker.kill()

    def after_fork(self) -> None:
        """In a forked child: the workers are the parent's; let go of them, without a lock that nobody will open."""
        idle = list(self._idle)
        WorkerPool.__init__(self)
        for _, worker in idle:
            worker.abandon()


pool = WorkerPool()
atexit.register(pool.close)
system.after_fork(lambda: pool.after_fork())
