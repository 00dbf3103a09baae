"""A process with everything loaded that a class's checks need, which forks one for each check and does nothing else.

    with nursery.opened():
        nursery.run("warpschool.grading.child", job, wall_s=..., environment=...)

Loading takes most of a short check's processor time, and a fork inherits what is loaded. Nothing of a submission ever
reaches the process that is forked from: it reads requests (which module, environment, open files) and forks. A fork
reads its job, confines itself and runs, as a new interpreter would; it knows what its job says and no more. A keeper
between the two waits for it. No process outlives the one above it, so that a killed grader leaves nothing behind.

Linux only. Where there is none, and where anything about it fails, a check begins in a new interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from warpschool.compile.pool import pool
from warpschool.compile.processes import CompilerFork, CompilerForks, await_end
from warpschool.compile.toolchain import find_toolchain
from warpschool.errors import CompilerMissing

MODULES = ("warpschool.grading.child", "warpschool.grading.python_child")
"""Whose `main` a fork may be asked to run."""
_LOADED = (
    *MODULES, "warpschool.grading.runner", "warpschool.grading.plugin", "warpschool.grading.program",
    "warpschool.grading.cell", "warpschool.inspect.accesses",
    "warpschool.harness.launcher", "warpschool.notebook.cells", "numpy.random", "pytest", "email.parser", "pdb",
    "IPython.core.interactiveshell", "IPython.utils.capture",
)  # fmt: skip
_LOADED_FOR = {
    "warpschool.grading.python_child": (
        "matplotlib.pyplot", "matplotlib.backends.registry", "matplotlib_inline.backend_inline",
        "IPython.core.application", "IPython.core.completer", "IPython.core.completerlib", "IPython.core.crashhandler",
        "IPython.core.logger", "IPython.core.magics", "IPython.core.oinspect", "IPython.utils.contexts",
        "IPython.utils.module_paths", "IPython.utils.wildcard", "warpschool.clock.prediction",
        "warpschool.clock.shipped", "warpschool.device.gpu",
        "warpschool.inspect.difference", "warpschool.inspect.timing", "warpschool.nn.session",
        "warpschool.notebook.cases", "warpschool.notebook.extension", "warpschool.notebook.predictions",
        "warpschool.notebook.program_cases", "warpschool.notebook.runs", "warpschool.recorded",
        "warpschool.show.questions",
    )
}  # fmt: skip
"""What is imported when a module is asked for the first time: notebooks draw, checks of kernels do not."""
_PR_SET_PDEATHSIG = 1
_MOST_REQUEST, _MOST_FILES = 1 << 17, 32
_WORDS = 2
"""That a keeper tells: the number of its fork, and its exit code."""


class Nursery:
    """The process, seen by whoever asks it; requests may come from several threads."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, cwd="/",
                stderr=subprocess.DEVNULL, env={**environment, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        self._lock = threading.Lock()

    def fork(
        self, module: str, environment: Mapping[str, str], files: tuple[int, int, int], pass_fds: Sequence[int],
        wall_s: float,
    ) -> int | None:  # fmt: skip
        """Run a module in a fork with these open files; return its exit code, None where it could not be run.

        `pass_fds` keep their numbers. Raises TimeoutError when it has been killed for its time.
        """
        tells, told = os.pipe()
        request = {"module": module, "environment": dict(environment), "keep": list(pass_fds)}
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [told, *files, *pass_fds])
        except OSError:
            os.close(tells)
            return None
        finally:
            os.close(told)
        with open(tells, "rb", buffering=0) as said:
            return _awaited(said.fileno(), wall_s)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, and the forks that are at work."""
        self._socket.close()
        await_end(self._process)


def _awaited(said: int, wall_s: float) -> int | None:
    """The exit code that a keeper tells, behind the number of its fork."""
    end, text = time.monotonic() + wall_s, b""
    while True:
        ready, _, _ = select.select([said], [], [], max(0.0, end - time.monotonic()))
        part = os.read(said, 64) if ready else b""
        text += part
        words = text.split()
        if ready and not part:
            if len(words) < _WORDS:
                return None
            return int(words[1])
        if not ready:
            for number in words[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(number), signal.SIGKILL)
            raise TimeoutError


_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDA_PATH")


def _environment() -> dict[str, str]:
    """What loading needs of this process's own; forks could read all of it."""
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return {"MPLBACKEND": "Agg", **kept, **path}  # as cells have it: it is read when matplotlib is imported


_open: list[Nursery] = []


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Let checks of this process begin in forks for a while; nothing changes where that cannot be."""
    if _open:
        yield
        return
    open_for_good()
    try:
        yield
    finally:
        close()


def open_for_good() -> None:
    """The same until `close`, or the end of this process."""
    if sys.platform == "linux" and not _open:
        with contextlib.suppress(OSError):
            _open.append(Nursery(_environment()))


def close() -> None:
    """End what was opened, and the forks that are at work."""
    while _open:
        _open.pop().close()


def set_aside() -> list[Nursery]:
    """What is open, which goes on waiting: checks of this process begin in new interpreters until it is taken up."""
    kept, _open[:] = _open[:], []
    return kept


def take_up(kept: list[Nursery]) -> None:
    """Let checks of this process begin in forks of what was set aside; where that is nothing, of a new one."""
    _open.extend(kept)
    open_for_good()


def is_open(module: str) -> bool:
    """Whether this process has one that would fork for the module."""
    return bool(_open) and module in MODULES


def run(
    module: str, environment: Mapping[str, str], files: tuple[int, int, int], *, pass_fds: Sequence[int], wall_s: float
) -> int | None:
    """As `Nursery.fork`; None where none is open."""
    if not is_open(module):
        return None
    asked = _open[0]
    code = asked.fork(module, environment, files, pass_fds, wall_s)
    if code is None and asked.has_ended and asked in _open:  # for the next ones
        close()
        open_for_good()
    return code


# ---------------------------------------------------------------- the process


def main() -> None:
    """Load, then fork for each request, until whoever asks is gone, with whom the socket closes."""
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    with socket.socket(fileno=os.dup(0)) as requests:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        while True:
            data, files, _, _ = socket.recv_fds(requests, _MOST_REQUEST, _MOST_FILES)
            _reap()
            if not data:
                break
            request, me = json.loads(data), os.getpid()
            _load_for(request["module"])
            if os.fork() == 0:
                requests.close()
                _keep(request, files, me)
            for file in files:
                os.close(file)
    for compilers in _compilers:
        compilers.close()


def _reap() -> None:
    """Take away keepers that have ended; what they and their forks have used then counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def load() -> None:
    """Import what checks need, and load NVRTC; nothing that depends on a course or a submission."""
    plugins = (f"_pytest.{name}" for name in importlib.import_module("_pytest.config").default_plugins)
    importlib.import_module("ptxsim").prepare()  # the helpers that kernels share, in machine code
    _import((*_LOADED, *plugins))
    runner = importlib.import_module("warpschool.grading.runner")
    runner.code_hash()
    runner.keep_helpers()
    with contextlib.suppress(CompilerMissing, OSError):  # a check then starts its own
        _compilers.append(CompilerForks(find_toolchain()))


def _load_for(module: str) -> None:
    """Import what a module needs that is asked for the first time."""
    names = _LOADED_FOR.pop(module, ())
    _import(names)
    if "matplotlib.backends.registry" in names:  # it looks for backends in every package that is installed
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module("matplotlib.backends.registry").backend_registry.list_all()


_compilers: list[CompilerForks] = []


def _import(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # in another version of a library; a fork then loads what it needs
            importlib.import_module(name)
    if names:
        gc.collect()
        gc.freeze()  # a fork that collects garbage would touch, and so copy, every page


def _keep(request: dict[str, Any], files: list[int], above: int) -> NoReturn:
    """In the keeper, whose first open file is where it tells: fork, tell the number, wait, tell how it ended."""
    try:
        _die_with(above)
        me, told, pipes = os.getpid(), files[0], _compiler()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            _become(request, files, pipes, me)
        for file in (*files[1:], *pipes):
            os.close(file)
        os.write(told, f"{pid} ".encode())
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it started; its number is not given away before the next line
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(told, str(code).encode())
    finally:
        os._exit(0)


def _compiler() -> tuple[int, ...]:
    """Pipes to and from a compiler for one fork, whose own it is: that process has read no other source."""
    for compilers in _compilers:
        with contextlib.suppress(OSError):
            return compilers.fork()
    return ()


def _become(request: dict[str, Any], files: list[int], pipes: tuple[int, ...], above: int) -> NoReturn:
    """In the fork: take over files and environment, run the module's `main`, and end without anything else."""
    status = 1
    try:
        os.setsid()
        _die_with(above)
        least = max([2, *files, *pipes, *request["keep"]]) + 1
        pipes = tuple(_moved(pipe, least) for pipe in pipes)
        _take_files(files, request["keep"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        time.tzset()
        tempfile.tempdir = None  # was chosen by another environment
        importlib.import_module("numpy").random.seed()
        _borrow(pipes)
        status = int(importlib.import_module(request["module"]).main() or 0)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        importlib.import_module("traceback").print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status & 0xFF)


def _borrow(pipes: tuple[int, ...]) -> None:
    """Let the check compile with the compiler behind these pipes."""
    for compilers in _compilers:
        compilers.let_go()
        if pipes:
            with contextlib.suppress(CompilerMissing):
                pool.borrow(compilers.toolchain, CompilerFork(*pipes))


def _take_files(files: list[int], kept: list[int]) -> None:
    """Standard streams, and the others under the numbers that they had where they came from."""
    least = max([2, *files, *kept]) + 1
    aside = [_moved(file, least) for file in files[1:]]
    for number, file in zip([0, 1, 2, *kept], aside, strict=True):
        os.dup2(file, number)
    for file in aside:
        os.close(file)
    for number, stream in enumerate(("stdin", "stdout", "stderr")):
        opened = open(number, "r" if number == 0 else "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        setattr(sys, stream, opened)
        setattr(sys, f"__{stream}__", opened)


def _moved(file: int, least: int) -> int:
    """The open file under a number from `least`; the old one is free."""
    fcntl = importlib.import_module("fcntl")
    number = int(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, least))
    os.close(file)
    return number


def _die_with(above: int) -> None:
    """End when the process above ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != above:
        os._exit(1)


if __name__ == "__main__":
    limits = importlib.import_module("resource")
    limits.setrlimit(limits.RLIMIT_CORE, (0, 0))
    main()
