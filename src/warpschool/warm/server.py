"""The warm process: `python -P -m warpschool.warm.server SOCKET [IDLE_S [LOOK_S]]`.

It has one thread, and every request runs in a fork. It ends by itself: after a quarter of an hour without a request,
and when a file of its packages has changed or gone.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from ptxsim import system
from warpschool.compile import find_compiler
from warpschool.compile.pool import pool
from warpschool.compile.processes import Compiler
from warpschool.compile.toolchain import Toolchain
from warpschool.errors import WarpschoolError
from warpschool.warm import place
from warpschool.warm.client import COMMAND, COMMANDS, CONTINUE, GRADER, INTERRUPT, SIZE_BYTES, STOP, peer
from warpschool.warm.fork import become, finish

IDLE_S = 900.0
LOOK_S = 60.0  # how often it looks whether it is out of date
_ASKING_S = 5.0  # for a whole request, which is sent at once
_MOST_BYTES = 16 << 20
_FILES = 4
_MODULES = {COMMAND: "warpschool.cli", GRADER: "warpschool.grading.child"}
_LOADED = (
    *_MODULES.values(), "warpschool.grading.runner", "warpschool.grading.plugin", "warpschool.grading.program",
    "warpschool.harness.launcher", "warpschool.cli.draw", "warpschool.inspect.accesses",
    "warpschool.inspect.profile", "warpschool.notebook.personal", "numpy.random", "rich.progress", "pytest",
    "email.parser", "pdb",
)  # fmt: skip
"""Names and not imports: this room stands below those that it loads."""
_BLAS = "OPENBLAS_NUM_THREADS"
_SIGNALS = {INTERRUPT: signal.SIGINT, STOP: signal.SIGSTOP, CONTINUE: signal.SIGCONT}


@dataclass
class _Check:
    """A fork at work, and who waits for it."""

    pid: int
    connection: socket.socket
    loan: tuple[Toolchain, Compiler] | None
    is_watched: bool = True


class Server:
    """Listens, forks, tells how forks ended."""

    def __init__(self, path: str, listener: socket.socket, idle_s: float, look_s: float) -> None:
        self._path, self._listener, self._idle_s, self._look_s = path, listener, idle_s, look_s
        self._checks: dict[int, _Check] = {}
        self._selector = selectors.DefaultSelector()
        self._is_open = True
        self._served = 0
        self._last = time.monotonic()
        self._file = os.stat(path).st_ino
        wake, self._woken = socket.socketpair()
        for end in (wake, self._woken):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake = wake
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)

    def serve(self) -> None:
        """Answer until there is nothing left to wait for; in a fork this does not return."""
        looked = time.monotonic()
        while self._is_open or self._checks:
            for key, _ in self._selector.select(min(self._idle_s, self._look_s)):
                key.data(key.fileobj)
            now = time.monotonic()
            if self._checks:
                self._last = now
                continue
            _keep_compiler()
            if now - self._last >= self._idle_s:
                self._close()
            if now - looked >= self._look_s:
                looked = now
                if place.socket_path() != self._path or not self._is_reachable():
                    self._close()

    def _close(self) -> None:
        """Take no more requests."""
        if self._is_open:
            self._is_open = False
            self._selector.unregister(self._listener)
            if self._is_reachable():
                os.unlink(self._path)
            self._listener.close()

    def _is_reachable(self) -> bool:
        """Whether the path still leads here."""
        try:
            return os.stat(self._path).st_ino == self._file
        except OSError:
            return False

    # ------------------------------------------------------------ requests

    def _accept(self, _: object) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        files: list[int] = []
        try:
            connection.settimeout(_ASKING_S)
            if not _may_ask(connection):
                raise ValueError("another user, or one with fewer rights")
            request = _received(connection, files)
            if "entry" in request:
                self._start(connection, request, files)
                return
            connection.sendall(json.dumps(self._about()).encode() + b"\n")
            if "stop" in request:
                self._close()
        except (OSError, ValueError, KeyError, TypeError):
            pass
        finally:
            for file in files:
                os.close(file)
        connection.close()

    def _start(self, connection: socket.socket, request: dict[str, Any], files: list[int]) -> None:
        """Fork for a request. Raises ValueError for one that it does not take."""
        entry, words = request["entry"], request["words"]
        if len(files) != _FILES or entry not in _MODULES or (entry == COMMAND and words[:1] not in COMMANDS):
            raise ValueError(entry)
        loan = pool.lend() if entry == GRADER else None
        try:
            pid = os.fork()
        except OSError:
            if loan is not None:
                pool.take_back(*loan)
            raise
        if pid == 0:
            self._in_fork(connection, request, files, loan)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._served += 1
        self._checks[pid] = _Check(pid, connection, loan)
        self._selector.register(connection, selectors.EVENT_READ, self._heard)

    def _in_fork(
        self, connection: socket.socket, request: dict[str, Any], files: list[int],
        loan: tuple[Toolchain, Compiler] | None,
    ) -> None:  # fmt: skip
        try:
            signal.set_wakeup_fd(-1)
            for end in (self._listener, self._wake, self._woken):
                end.close()
            for check in self._checks.values():
                check.connection.close()
                if check.loan is not None:
                    check.loan[1].abandon()
            self._selector.close()
            if loan is not None:
                pool.borrow(*loan)
            become(request, files, self._path)
            connection.sendall(b'{"started": true}\n')
            connection.close()
        except BaseException:
            with contextlib.suppress(OSError):
                connection.sendall(b'{"refused": true}\n')
            os._exit(1)
        finish(_MODULES[request["entry"]])

    def _heard(self, connection: socket.socket) -> None:
        """A signal to be passed on; or the end of whoever asked, which is that of the fork too."""
        check = next((check for check in self._checks.values() if check.connection is connection), None)
        if check is None:  # reaped since the selector told
            return
        try:
            said = connection.recv(64)
        except OSError:
            said = b""
        for byte in said:
            number = _SIGNALS.get(bytes([byte]))
            if number is not None:
                _signal(check.pid, number)
        if not said:
            self._selector.unregister(connection)
            check.is_watched = False
            _signal(check.pid, signal.SIGKILL)

    def _reap(self, _: object) -> None:
        """Tell how forks ended, and end what they left behind."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for check in list(self._checks.values()):
            if os.waitid(os.P_PID, check.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(check.pid, signal.SIGKILL)  # its id is not given away before the next line
            code = os.waitstatus_to_exitcode(os.waitpid(check.pid, 0)[1])
            del self._checks[check.pid]
            if check.loan is not None:
                pool.take_back(*check.loan)
            if check.is_watched:
                self._selector.unregister(check.connection)
                with contextlib.suppress(OSError):
                    check.connection.sendall(json.dumps({"ended": code}).encode() + b"\n")
            check.connection.close()

    def _about(self) -> dict[str, Any]:
        with open("/proc/self/status", "rb") as file:
            memory = next((int(line.split()[1]) << 10 for line in file if line.startswith(b"VmRSS")), 0)
        spent_s = sum(os.times()[:4]) + sum(map(_spent_s, pool.idle_pids()))
        return {
            "pid": os.getpid(), "memory_bytes": memory, "served": self._served, "running": len(self._checks),
            "waits_s": self._idle_s,
            "cpu_s": round(spent_s, 3), "compilers": pool.idle_pids(),
        }  # fmt: skip


def _spent_s(pid: int) -> float:
    """Processor time that a compiler and its forks have used so far: each of those compiles one source."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _keep_compiler() -> None:
    """See to it that NVRTC waits, where there is one; clang is a process for each compilation."""
    with contextlib.suppress(WarpschoolError):
        chosen = find_compiler()
        if isinstance(chosen, Toolchain):
            pool.warm_up(chosen)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _received(connection: socket.socket, files: list[int]) -> dict[str, Any]:
    """The next request, its open files put into `files`. Raises ValueError for anything else."""
    data, ancillary, _, _ = connection.recvmsg(SIZE_BYTES, socket.CMSG_SPACE(_FILES * 4), socket.MSG_CMSG_CLOEXEC)
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(raw[: len(raw) - len(raw) % numbers.itemsize])
            files += numbers
    data += _exactly(connection, SIZE_BYTES - len(data))
    size = int.from_bytes(data, "little")
    if size > _MOST_BYTES:
        raise ValueError(size)
    request = json.loads(_exactly(connection, size))
    if not isinstance(request, dict):
        raise ValueError("no object")
    return request


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ValueError("cut off")
        data += part
    return data


def _may_ask(connection: socket.socket) -> bool:
    """Whether it is this user, in a process that has not given up rights which this one has: no sandbox's way out."""
    pid, user = peer(connection)
    return user == os.getuid() and _gave_up_rights(pid) == _gave_up_rights(os.getpid())


def _gave_up_rights(pid: int) -> tuple[bool, bool]:
    """(no new privileges, as Landlock and bubblewrap ask for; system calls are filtered)"""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            found[name] = value.strip()
    return found.get("NoNewPrivs") == "1", found.get("Seccomp", "0") != "0"


# ---------------------------------------------------------------- its beginning


def main() -> None:
    """Load, then listen, unless another one does already."""
    path, *given = sys.argv[1:]
    times = [*map(float, given), *(IDLE_S, LOOK_S)[len(given) :]]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a fork takes it, once it has its handler
    if place.socket_path() != path:
        return
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not system.lock(lock):
        return
    load()
    if place.socket_path() != path:  # edited meanwhile: what is loaded may be of both
        return
    _clean(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        listener.listen(16)
        Server(path, listener, *times).serve()
    os.unlink(f"{path}.lock")


def load() -> None:
    """Import what checks need, and compile the helpers that kernels share."""
    given = os.environ.get(_BLAS)
    os.environ[_BLAS] = "1"  # as in every check; read once, by NumPy
    plugins = (f"_pytest.{name}" for name in importlib.import_module("_pytest.config").default_plugins)
    for name in (*_LOADED, *plugins):
        with contextlib.suppress(ImportError):  # in another version of a library; a fork then loads what it needs
            importlib.import_module(name)
    os.environ.pop(_BLAS)
    os.environ.update({_BLAS: given} if given is not None else {})
    importlib.import_module("ptxsim").prepare()
    runner = importlib.import_module("warpschool.grading.runner")
    runner.code_hash()
    runner.keep_helpers()
    _keep_compiler()
    gc.collect()
    gc.freeze()  # a fork that collects garbage would touch, and so copy, every page


def _clean(path: str) -> None:
    """Take away what killed processes have left in the folder."""
    folder = os.path.dirname(path)
    for name in os.listdir(folder):
        if not name.endswith(".lock") or f"{folder}/{name}" == f"{path}.lock":
            continue
        with contextlib.suppress(OSError):
            lock = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
            try:
                for left in (name, name.removesuffix(".lock")) if system.lock(lock) else ():
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{folder}/{left}")
            finally:
                os.close(lock)


if __name__ == "__main__":
    main()
