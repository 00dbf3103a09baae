"""A fork of the warm process becomes what was asked for: its files, folder, environment, limits; then runs, and ends.

What a fork cannot take over is an exception, and the request is refused.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import io
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from types import ModuleType
from typing import Any, NoReturn, TextIO

from warpschool.warm import client

_PR_SET_PDEATHSIG = 1
_UNFLUSHED = 120  # what Python ends with whose output nobody takes


def become(request: dict[str, Any], files: list[int], server: str) -> None:
    """Take over everything that a new process would have of whoever asks."""
    os.setpgid(0, 0)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.fchdir(files[3])
    for file in files:
        os.close(file)
    _take_limits(request)
    _take_environment(request["environment"])
    path, package = request["program"]
    _take_name(path, package, request["words"])
    client.serve_from(server)
    for number in (signal.SIGCHLD, *client.IGNORABLE):
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else signal.SIG_DFL)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _take_limits(request: dict[str, Any]) -> None:
    import resource

    os.umask(request["umask"])
    os.sched_setaffinity(0, request["processors"])
    os.setpriority(os.PRIO_PROCESS, 0, request["niceness"])
    for kind, limits in request["limits"]:
        if resource.getrlimit(kind) != tuple(limits):
            resource.setrlimit(kind, tuple(limits))


def _take_name(path: str, package: str | None, words: list[str]) -> None:
    """Usage messages say how the program was called."""
    sys.argv = [path, *words]
    main = ModuleType("__main__")
    main.__package__ = package
    sys.modules["__main__"] = main


def _take_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    at_once = bool(environment.get("PYTHONUNBUFFERED"))
    streams = {
        "stdin": _stream(0, sys.stdin, "r"), "stdout": _stream(1, sys.stdout, "w", at_once=at_once),
        "stderr": _stream(2, sys.stderr, "w", at_once=at_once, by_lines=True),
    }  # fmt: skip
    for name, stream in streams.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    tempfile.tempdir = None
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # forks must not draw the same; `random` sees to that itself


def _stream(number: int, like: TextIO, mode: str, *, at_once: bool = False, by_lines: bool = False) -> TextIO:
    """A standard stream as Python opens it at its start."""
    raw = io.open(number, f"{mode}b", 0 if at_once and mode == "w" else -1, closefd=False)  # noqa: UP020, SIM115
    by_lines = by_lines or os.isatty(number)
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=by_lines, write_through=at_once)


def finish(module: str) -> NoReturn:
    """Run the module's `main`, and end as an interpreter does that ran nothing else."""
    code = _outcome(module)
    threading._shutdown()  # type: ignore[attr-defined] # joins threads as the interpreter does before it ends
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = code or _UNFLUSHED
    os._exit(code)


def _outcome(module: str) -> int:
    try:
        code = importlib.import_module(module).main()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    return int(code or 0) & 0xFF
