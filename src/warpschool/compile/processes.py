"""The parent's side of compilation: processes with NVRTC that can be killed, and one that forks them."""

from __future__ import annotations

import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

from ptxsim import system
from warpschool.compile.result import CompileLimits
from warpschool.compile.toolchain import STANDARD, Toolchain
from warpschool.errors import CompileLimitError, CompilerMissing

_CHILD = Path(__file__).with_name("child.py")
_SIZES = struct.Struct("<5I")
"""What a frame begins with, as `child.py` says: the sizes of its five fields."""
_START_LIMIT_S = 300.0
_LAST_BREATH_S = 60.0
_END_S = 2.0
_MOST_COMPILATIONS = 500  # a worker is replaced after so many: NVRTC keeps some memory of each


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


class _Names:
    """What a compiler's process calls folders: the same everywhere, for what NVRTC writes depends on them."""

    def __init__(self, told: bytes) -> None:
        """`told`: each folder and its name, NUL between; nothing where it has no other names."""
        texts = [os.fsdecode(text) for text in told.split(b"\0")] if told else []
        self._names = sorted(zip(texts[::2], texts[1::2], strict=True), key=lambda pair: -len(pair[0]))

    def within(self, request: Request) -> Request:
        """The request as that process is to read it."""
        return replace(request, options=[self._renamed(option) for option in request.options])

    def _renamed(self, option: str) -> str:
        for folder, name in self._names:
            for what in ("-I", "--pre-include="):
                if f"{option}/".startswith(f"{what}{folder}/"):
                    return f"{what}{name}{option.removeprefix(what + folder)}"
        return option

    def undone(self, text: str) -> str:
        """A text of that process with the folders themselves; data of PTX, whose size stays, say `<header>`."""
        for folder, name in self._names:
            text = text.replace(f"{name}/", f"{folder}/")
            start = ", ".join(map(str, os.fsencode(f"{name}/")))
            text = re.sub(rf"{{{start}((?:, \d+)+)}}", r"{60\1, 62}", text) if start in text else text
        return text


class Compiler:
    """NVRTC in another process, spoken to through pipes. Used by one thread at a time.

    Raises CompilerMissing where nobody answers.
    """

    is_borrowed = False
    """whether this process sees nothing of the other but its pipes"""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.compilations = 0
        self._busy = mmap.mmap(-1, 1)  # memory that a fork shares, which may end in the middle of a request
        self._streams = stdin, stdout
        self._pipes = system.Pipes(stdin, stdout)
        self._greet()

    def _greet(self) -> None:
        try:
            hello = self._receive(time.monotonic() + _START_LIMIT_S, most=1 << 16)
        except (EOFError, ValueError, TimeoutError):
            self.kill()
            raise CompilerMissing(
                f"the compiler process did not start{self._last_words()}", next_step="Run `warpschool doctor`."
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
        self._names = _Names(hello[4])

    def compile(self, request: Request, limits: CompileLimits) -> Answer:
        """Run one compilation; whatever goes wrong with the process, it is dead afterwards.

        Raises CompileLimitError for processor time, memory, and a compiler that crashed; CompilerMissing for one that
        hangs or was killed from outside, which says nothing about the source.
        """
        self.compilations += 1
        settings = f"{limits.cpu_s} {limits.memory_bytes} {limits.log_bytes + 1} {limits.ptx_bytes}"
        fields, name = [settings.encode(), *self._names.within(request).fields()], request.name
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
        log, ptx = self._names.undone(log), self._names.undone(ptx)
        return Answer(result, log, ptx, int(size), tuple(symbols.split("\n")) if symbols else ())

    @property
    def healthy(self) -> bool:
        """Whether this worker can take another request."""
        return self._is_alive() and not self._busy[0] and self.compilations < _MOST_COMPILATIONS

    def kill(self) -> None:
        """Close the pipes, which ends it in the middle of whatever it does."""
        self.abandon()

    def abandon(self) -> None:
        """Close our ends of the pipes and leave the process alone: it may belong to one that we were forked from."""
        for stream in self._streams:
            with suppress(OSError):
                stream.close()

    def _is_alive(self) -> bool:
        return self._pipes.is_quiet()

    def _ended_by(self) -> str:
        """What has ended a process that has closed its output; "" if that is not known, or it came to its own end."""
        return ""

    def _last_words(self) -> str:
        return ""

    def _cause_of_death(self, name: str, limits: CompileLimits) -> str:
        ended = self._ended_by()
        if ended == "time":
            return f"{name}: the compiler used more than {limits.cpu_s:g} s of processor time"
        memory = f"{limits.memory_bytes / (1 << 30):g} GiB"
        return f"{name}: the compiler ran out of its memory ({memory}) or crashed{self._last_words()}"

    def _send(self, data: bytes, deadline: float) -> None:
        """Raises EOFError where the worker has gone, TimeoutError at the deadline."""
        self._pipes.send(data, deadline)

    def _receive(self, deadline: float, *, most: int) -> list[bytes]:
        """The next frame; raises as `_send` does, and ValueError for one of more than `most` bytes."""
        data = bytearray()
        while (fields := _fields(data, most)) is None:
            data += self._pipes.receive(deadline)
        return fields


class CompilerProcess(Compiler):
    """A compiler that this process has started, which a fork of it may borrow."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._process = _started("compile", toolchain, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None and self._process.stdout is not None
        super().__init__(self._process.stdin, self._process.stdout)

    @property
    def pid(self) -> int:
        """The child's process id, which is its process group too."""
        return self._process.pid

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
        super().abandon()
        if self._process.returncode is None:
            self._process.returncode = 0  # not our child: keeps subprocess from waiting for it

    def _is_alive(self) -> bool:
        return super()._is_alive() if self.is_borrowed else self._process.poll() is None

    def _ended_by(self) -> str:
        if self.is_borrowed:  # only its parent is told
            return ""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_BREATH_S)
        code = self._process.returncode
        return "" if code is None else system.how_ended(code)

    def _last_words(self) -> str:
        code = self._process.returncode
        return "" if code is None else f" ({system.how_ended(code) or f'exit status {code}'})"


class CompilerForks:
    """A process with NVRTC loaded that forks compilers, for forks of this process. Linux only.

    To load NVRTC takes most of a small compilation's time, and a fork has it. The process ends with the one that
    started it, in whose forks `fork` may be called.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self.toolchain = toolchain
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _started("fork", toolchain, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)

    def fork(self) -> tuple[int, int]:
        """The pipes to and from a compiler of its own, for a `CompilerFork`. Raises OSError where there is none."""
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._socket, [b"1"], [theirs_in, theirs_out])
        except OSError:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return ours_in, ours_out

    def close(self) -> None:
        """End it, where this process has started it."""
        self._socket.close()
        await_end(self._process)

    def let_go(self) -> None:
        """In a fork that needs no more compilers."""
        self._socket.close()
        self._process.returncode = 0  # not our child


class CompilerFork(Compiler):
    """A compiler that `CompilerForks` has forked. It ends with its pipes."""

    is_borrowed = True

    def __init__(self, stdin: int, stdout: int) -> None:
        super().__init__(os.fdopen(stdin, "wb", buffering=0), os.fdopen(stdout, "rb", buffering=0))


def await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has been told to end, and kill it if it does not."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _started(what: str, toolchain: Toolchain, **streams: Any) -> subprocess.Popen[bytes]:
    """A process that runs `child.py`."""
    on_main = threading.current_thread() is threading.main_thread()
    command = [
        *(sys.executable, "-s", "-P", "-S", "-B", str(_CHILD), what),
        *(str(os.getpid()), "1" if on_main else "0", str(toolchain.library.resolve())),
        os.pathsep.join(str(folder) for folder in (STANDARD, *toolchain.includes)),
        *(entry for entry in sys.path if os.path.isabs(entry) and os.path.isdir(entry)),
    ]
    # not -I: the environment is our own, and where a process hashes by another seed, its memory lies elsewhere
    environment = bare_environment() | {"PYTHONHASHSEED": "0"}
    return system.start(
        command, fixed_addresses=True, stderr=subprocess.DEVNULL, cwd="/", env=environment, **streams
    )


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
