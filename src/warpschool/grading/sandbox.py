"""Where students' Python runs: in bubblewrap, without network, without other files than Python and the course.

Nothing of the machine is visible inside but the interpreter, its packages, the library, and the course's public part,
all read-only; home is an empty folder in memory; the answer leaves through a pipe-sized file. What is left running
when the answer is there dies with the sandbox's process namespace.
"""

from __future__ import annotations

import compileall
import contextlib
import functools
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ptxsim import system
from warpschool.course import Course
from warpschool.grading import nursery

HOME = "/home/student"
MOST_ANSWER_BYTES = 8 << 20
_KILLED = -9
"""How a process ends that is not asked."""
_NAMESPACES = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_HIDDEN = ("solutions", "grader")
_PACKAGES = ("ptxsim", "warpschool", "warpcourse")
_ROOT = Path(__file__).resolve().parents[2]
_NO_MODULES = re.compile(r"[/\\]_content[/\\]")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts")
_TRIAL_S = 300.0
_MOST_LOG_BYTES = 16_000
_END_S = 60.0


@dataclass(frozen=True)
class Finished:
    """How a child ended: what it answered, how it ended, and the end of what it said on stderr."""

    answer: bytes
    code: int
    log: str
    timed_out: bool = False


@functools.cache
def bubblewrap_problem() -> str:
    """Why students' Python cannot be run in bubblewrap on this machine; "" where it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed (Debian: apt-get install bubblewrap)"
    try:
        trial = subprocess.run(
            [program, *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"],
            capture_output=True, text=True, timeout=_TRIAL_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if trial.returncode:
        return f"bubblewrap may not make namespaces here: {trial.stderr.strip()[-200:]}"
    return ""


def run_isolated(
    module: str, job: str, *, wall_s: float, in_bubblewrap: bool, pass_fds: tuple[int, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:  # fmt: skip
    """Run `python -m module` with a job on its standard input, and return what it wrote to standard output.

    Everything that it started is dead afterwards. `pass_fds`: open files that it gets under the same numbers.
    `environment`: another one than the few variables that students' Python gets.
    """
    if not in_bubblewrap and nursery.is_open(module):
        forked = _forked(module, job, environment or cell_environment(), pass_fds, wall_s)
        if forked is not None:
            return forked
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
        process = system.start(  # in /, so that no file of the caller's folder is taken for a module
            _command(module, in_bubblewrap=in_bubblewrap), stdin=subprocess.PIPE, stdout=answer, stderr=log, cwd="/",
            env=environment or cell_environment(), pass_fds=pass_fds,
        )  # fmt: skip
        timed_out = False
        _live.add(process)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(job.encode(), timeout=wall_s)
            timed_out = process.returncode is None
        finally:
            system.end(process)
            process.wait()
            _live.discard(process)
        answer.seek(0)
        return Finished(answer.read(MOST_ANSWER_BYTES), process.returncode, _end(log), timed_out)


def _forked(
    module: str, job: str, environment: Mapping[str, str], pass_fds: tuple[int, ...], wall_s: float
) -> Finished | None:
    """The same in a fork of a process that has loaded what the module needs; None where that one is gone."""
    with contextlib.ExitStack() as opened:
        question = opened.enter_context(open(os.memfd_create("job"), "w+b"))  # on no disk: a secret may be in it
        answer, log = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        question.write(job.encode())
        question.seek(0)
        files = question.fileno(), answer.fileno(), log.fileno()
        try:
            code = nursery.run(module, environment, files, pass_fds=pass_fds, wall_s=wall_s)
        except TimeoutError:
            return Finished(b"", _KILLED, _end(log), timed_out=True)
        answer.seek(0)
        return None if code is None else Finished(answer.read(MOST_ANSWER_BYTES), code, _end(log))


class Serving:
    """A child that has answered its job with one line, and now answers calls: `pipes` to read from and to write to."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes], wall_s: float) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pipes = process.stdout.fileno(), process.stdin.fileno()
        self.first = b""
        self._process, self._log = process, log
        self._timed_out = False
        self._timer = threading.Timer(wall_s, self._too_late)
        self._timer.start()

    def ask(self, job: str) -> None:
        """Send the job and wait for the first line; `first` stays empty where none comes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(job.encode() + b"\n")
            self._process.stdin.flush()
        line = b""
        while len(line) <= MOST_ANSWER_BYTES and not line.endswith(b"\n"):
            part = os.read(self.pipes[0], 1 << 16)
            if not part:
                return
            line += part
        self.first = line

    def finished(self) -> Finished | None:
        """How the child ended, where it did before it was asked to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return Finished(self.first, self._process.wait(_END_S), _end(self._log), self._timed_out)
        return None

    def end(self) -> None:
        """Kill the child and whatever it started."""
        self._timer.cancel()
        system.end(self._process)
        self._process.wait()

    def _too_late(self) -> None:
        self._timed_out = True
        system.end(self._process)


@contextlib.contextmanager
def serving(module: str, job: str, *, wall_s: float, in_bubblewrap: bool) -> Iterator[Serving]:
    """Run `python -m module` with a job as its first line of input, and keep it until its answers are not needed."""
    with tempfile.TemporaryFile() as log:
        process = system.start(
            _command(module, in_bubblewrap=in_bubblewrap), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            cwd="/", env=cell_environment(),
        )  # fmt: skip
        _live.add(process)
        with process:
            child = Serving(process, log, wall_s)
            try:
                child.ask(job)
                yield child
            finally:
                child.end()
                _live.discard(process)


def _command(module: str, *, in_bubblewrap: bool) -> list[str]:
    return [*(_bubblewrap() if in_bubblewrap else ()), sys.executable, "-P", "-m", module]


_live: set[subprocess.Popen[bytes]] = set()


def end_children() -> None:
    """Kill the children that run now, whoever waits for them."""
    for process in list(_live):
        system.end(process)


def _end(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_LOG_BYTES))
    return file.read().decode("utf-8", "replace")


def cell_environment() -> dict[str, str]:
    """Nothing of the grader's own environment but where Python finds its modules and the compiler its cache."""
    wanted = ("PATH", "VIRTUAL_ENV", "LANG", "WARPSCHOOL_CACHE", "XDG_CACHE_HOME", "CUDA_PATH")
    own = {name: os.environ[name] for name in (*wanted, *system.NEEDED_VARIABLES) if name in os.environ}
    return own | module_path() | {
        "HOME": os.environ.get("HOME", "/"), "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1",
        "WARPSCHOOL_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
    }  # fmt: skip


def module_path() -> dict[str, str]:
    """Return PYTHONPATH, where it is set, as a process in another folder has to see it."""
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}


def _bubblewrap() -> list[str]:
    """The command that closes everything off; see the module's text."""
    options = [shutil.which("bwrap") or "bwrap", *_NAMESPACES]
    options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", HOME]
    for path in dict.fromkeys([*_SYSTEM, *map(str, python_folders())]):
        if os.path.exists(path):
            options += ["--ro-bind", path, path]
    course = Course.find()
    for folder in (course.root / "kernels", course.root / "labs", course.modules):
        options += ["--ro-bind-try", str(folder), str(folder)]
    for name in _HIDDEN:  # an installed course lies inside the packages
        if (course.root / name).is_dir():
            options += ["--tmpfs", str(course.root / name)]
    options += ["--chdir", HOME]
    for name, value in {"HOME": HOME, "XDG_CACHE_HOME": f"{HOME}/.cache", "MPLCONFIGDIR": f"{HOME}/.mpl"}.items():
        options += ["--setenv", name, value]
    return [*options, "--unsetenv", "WARPSCHOOL_CACHE"]


@functools.cache
def compile_packages(root: Path = _ROOT) -> None:
    """Write the bytecode of the three packages beside their modules, as an installation does.

    Children may not write it, and would compile every module again: half of a check's processor time. What is up to
    date stays; a folder that cannot be written to is left alone.
    """
    for name in _PACKAGES:
        compileall.compile_dir(root / name, quiet=2, rx=_NO_MODULES)


def python_folders() -> list[Path]:
    """Return the folders of the interpreter, its packages, and where the library is imported from."""
    package = Path(__file__).resolve().parents[2]
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent, package]
    found += [Path(folder) for folder in site.getsitepackages()]
    return [folder for folder in found if folder != Path("/") and folder.is_dir()]
