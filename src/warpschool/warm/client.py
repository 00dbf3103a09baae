"""Asking a warm process: it runs an entry in a fork that takes over this process's open files, folder and environment.

The request is one JSON object behind its size, and four open files beside it: standard input, output, error, and the
folder to be in. Answers are JSON objects, a line each: `started` or `refused`, then `ended` with an exit code as
`subprocess` has it. Closing the connection kills the fork and what it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

from warpschool.warm import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, NoReturn

COMMAND, GRADER = "command", "grader"
"""What a warm process runs: the command line, and the child of a check."""
COMMANDS = (["check"], ["hint"], ["status"], ["profile"], ["diff"])
"""Commands that may be begun again from the start, should a warm process fail half-way."""
INTERRUPT, STOP, CONTINUE = b"I", b"Z", b"C"
IGNORABLE = [
    getattr(signal, name) for name in ("SIGINT", "SIGTSTP", "SIGHUP", "SIGTERM", "SIGQUIT") if hasattr(signal, name)
]
"""Signals that a process may have been started to ignore; `nohup` does so."""
SIZE_BYTES = 4
_REQUEST_S = 5.0  # for the first answer; a process that does not give it hangs
_address: list[str] = []
"""In a fork of a warm process: where that one listens."""


def run(
    entry: str, words: Sequence[str] = (), *, files: tuple[int, int, int] = (0, 1, 2),
    folder: str = ".", environment: Mapping[str, str] | None = None, timeout_s: float | None = None,
    takes_signals: bool = False,
) -> int | None:  # fmt: skip
    """Run an entry in a warm process; return its exit code, or None where none waits or it fails.

    `files` become its standard input, output and error. `takes_signals`: Ctrl-C and Ctrl-Z go to it, for as long as it
    runs. Raises TimeoutError after `timeout_s`, when it has been killed.
    """
    connection = _connected()
    if connection is None:
        return None
    with connection, _Signals(connection, takes_signals) as signals:
        try:
            _ask(connection, entry, words, files, folder, environment, signals.ignored)
            answers = _answers(connection)
            if "started" not in next(answers, {}):
                return None
        except (OSError, ValueError):  # a TimeoutError among them
            return None
        connection.settimeout(timeout_s)
        try:
            return int(next(answers, {})["ended"])
        except TimeoutError:
            raise
        except (OSError, ValueError, KeyError):  # it was killed
            if signals.interrupted:
                raise KeyboardInterrupt from None
            return None


def reports() -> list[dict[str, Any]]:
    """What this user's warm processes say about themselves; `fits` is said of the one that this process would ask."""
    return _told({"about": True})


def stop() -> list[dict[str, Any]]:
    """Let this user's warm processes end, when their last checks have; returns what they said about themselves."""
    return _told({"stop": True})


def start() -> None:
    """Start a warm process in the background, if one is wanted and none runs; whatever goes wrong is no matter."""
    if not place.is_wanted() or _address:
        return
    import subprocess

    path = place.socket_path()
    if path is None or _is_alive(path):
        return
    command = [sys.executable, "-P", "-m", "warpschool.warm.server", path]
    environment = {**os.environ, "PYTHONPATH": place.import_path()}
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", env=environment, start_new_session=True
        )
    except OSError:
        return


def leave(code: int) -> NoReturn:
    """End this process as the fork has ended, by a signal where that was one."""
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def serve_from(path: str) -> None:
    """In a fork: what it asks for in its turn is asked of the process that it was forked from."""
    _address[:] = [path]


# ---------------------------------------------------------------- the connection


def _connected() -> socket.socket | None:
    if not place.is_wanted():
        return None
    path = _address[0] if _address else place.socket_path()
    return _connection_to(path) if path is not None else None


def _connection_to(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_REQUEST_S)
    try:
        connection.connect(path)
        if peer(connection)[1] == os.getuid():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel knows them."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(told[:4], sys.byteorder), int.from_bytes(told[4:8], sys.byteorder)


def _is_alive(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(_REQUEST_S)
        try:
            trial.connect(path)
        except TimeoutError:  # busy
            return True
        except OSError:
            return False
    return True


def _ask(
    connection: socket.socket, entry: str, words: Sequence[str], files: tuple[int, int, int], folder: str,
    environment: Mapping[str, str] | None, ignored: list[int],
) -> None:  # fmt: skip
    there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        request = {
            "entry": entry, "words": list(words), "environment": dict(environment or os.environ), "ignored": ignored,
            **circumstances(),
        }  # fmt: skip
        send(connection, request, [*files, there])
    finally:
        os.close(there)


def circumstances() -> dict[str, Any]:
    """What else of a process a fork takes over: umask, limits, processors, niceness, the name it was called by."""
    import resource

    kinds = {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        umask = next((line.split()[1] for line in file if line.startswith("Umask:")), "22")
    return {
        "umask": int(umask, 8), "limits": [(kind, resource.getrlimit(kind)) for kind in sorted(kinds)],
        "processors": sorted(os.sched_getaffinity(0)),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "program": [sys.argv[0], getattr(sys.modules["__main__"], "__package__", None)],
    }  # fmt: skip


def send(connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Send a request; open files go with its size."""
    body = json.dumps(message, ensure_ascii=True).encode()
    head = len(body).to_bytes(SIZE_BYTES, "little")
    if files:
        socket.send_fds(connection, [head], list(files))
        connection.sendall(body)
    else:
        connection.sendall(head + body)


def _answers(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Answers as they come; ends where the process has gone."""
    data = b""
    while part := connection.recv(1 << 16):
        *lines, data = (data + part).split(b"\n")
        yield from map(json.loads, lines)


def _told(question: dict[str, Any]) -> list[dict[str, Any]]:
    """What each process in the folder answers."""
    folder, fitting, found = place.private_folder(), place.socket_path(), []
    for name in sorted(os.listdir(folder)) if folder else ():
        connection = _connection_to(f"{folder}/{name}") if not name.endswith(".lock") else None
        if connection is None:
            continue
        with connection, contextlib.suppress(OSError, ValueError):
            send(connection, question)
            about = next(_answers(connection), None)
            found += [about | {"fits": f"{folder}/{name}" == fitting}] if about else []
    return found


class _Signals:
    """Ctrl-C and Ctrl-Z go over the connection while this lasts; `ignored` lists what this process ignores."""

    def __init__(self, connection: socket.socket, wanted: bool) -> None:
        self.ignored = [int(number) for number in IGNORABLE if signal.getsignal(number) == signal.SIG_IGN]
        self.interrupted = False
        self._connection = connection
        self._handlers = {signal.SIGINT: self._interrupt, signal.SIGTSTP: self._stop} if wanted else {}
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        for number, handler in self._handlers.items():
            if number not in self.ignored:
                self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        self._send(INTERRUPT)

    def _stop(self, *_: object) -> None:
        self._send(STOP)
        os.kill(os.getpid(), signal.SIGSTOP)  # goes on here when the shell says so
        self._send(CONTINUE)

    def _send(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(what)
