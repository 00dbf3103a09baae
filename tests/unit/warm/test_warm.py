"""The warm process: what runs in a fork of it is as if it ran by itself, and without it everything goes on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from warpschool.course import Course
from warpschool.grading import cell, runner
from warpschool.harness.source import find_source
from warpschool.warm import client, place, server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has a warm process")

_HANGS_S = 300.0
_STEP = "lab00_first_kernels/01_saxpy"


def _until(condition, what: str):
    """The first true value of a condition; a test that waits for too long fails."""
    end = time.monotonic() + _HANGS_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return value


@dataclass
class Warm:
    """A warm process of a test's own, which nobody else finds."""

    environment: dict[str, str]
    path: str = ""
    process: subprocess.Popen | None = None

    def begin(self, *times: float) -> Warm:
        self.path = self.python("from warpschool.warm import place; print(place.socket_path())").stdout.strip()
        command = [sys.executable, "-P", "-m", "warpschool.warm.server", self.path, *map(str, times)]
        self.process = subprocess.Popen(command, env=self.environment, cwd="/", start_new_session=True)
        _until(lambda: os.path.exists(self.path) or self.process.poll() is not None, "it does not listen")
        return self

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end_all(self) -> None:
        """End those that commands have started, too."""
        for one in json.loads(self.command("warm", "--json").stdout)["processes"]:
            os.kill(one["pid"], signal.SIGTERM)
            _until(lambda pid=one["pid"]: _state(pid) in ("", "Z"), "it stays")

    def python(self, code: str, **options) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-P", "-c", textwrap.dedent(code)], **options)

    def command(self, *words: str, **options) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-P", "-m", "warpschool", *words], **options)

    def run(self, command: list[str], *, warm: bool = True, **options) -> subprocess.CompletedProcess[str]:
        environment = self.environment if warm else {**self.environment, place.SWITCH: "0"}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_HANGS_S, check=False, **options
        )

    def popen(self, *words: str, **options) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", "warpschool", *words]
        return subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True, **options)

    @property
    def about(self) -> dict:
        (found,) = json.loads(self.command("warm", "--json").stdout)["processes"]
        return found


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Variables with which a test's processes find each other and nobody else; sockets want short paths."""
    left_out = ("CI", place.SWITCH, "GITHUB_ACTIONS")
    folder = tempfile.mkdtemp(prefix="ws-", dir="/tmp")
    try:
        yield {
            **{key: value for key, value in os.environ.items() if key not in left_out},
            "XDG_RUNTIME_DIR": folder, "WARPSCHOOL_CACHE": f"{folder}/cache", "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared(environment) -> Iterator[Warm]:
    warm = Warm(environment).begin()
    yield warm
    warm.end()


@pytest.fixture
def own(environment, tmp_path) -> Iterator[Warm]:
    """One that a test may end."""
    folder = tempfile.mkdtemp(prefix="ws-", dir="/tmp")
    warm = Warm({**environment, "XDG_RUNTIME_DIR": folder})
    yield warm
    warm.end()
    warm.end_all()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def solution() -> Path:
    return Course.find().step(_STEP).solution


def _watched(warm: Warm, solution: Path) -> subprocess.Popen[str]:
    """A `check --watch` that has shown its first result."""
    process = warm.popen("check", "lab00/01", "--kernel", str(solution), "--watch", start_new_session=True)
    for line in process.stdout:
        if "lab00" in line:
            return process
    raise AssertionError(process.stderr.read())


# ---------------------------------------------------------------- the same as without


@pytest.mark.parametrize(
    "words",
    [
        ["check", "lab00/01", "--kernel", "SOLUTION"],
        ["check", "lab00/01", "--kernel", "SOLUTION", "--json", "--seed", "3"],
        ["check", "lab00/01", "--kernel", "WRONG"],
        ["check", "lab00/01", "--kernel", "BROKEN"],
        ["check", "lab77/01"],
        ["check", "--nothing"],
        ["check", "--help"],
        ["hint", "lab00/01", "2", "--json"],
    ],
)
@pytest.mark.thinned(3)
def test_output_and_exit_code_are_the_same(shared, solution, tmp_path, words):
    text = solution.read_text()
    files = {"SOLUTION": text, "WRONG": text.replace("a * x[i] +", "a * x[i] -"), "BROKEN": text + "\n}"}
    for name, content in files.items():
        (tmp_path / name.lower()).mkdir()
        (tmp_path / name.lower() / "01_saxpy.cu").write_text(content)
    words = [f"{word.lower()}/01_saxpy.cu" if word in files else word for word in words]
    before = shared.about["served"]
    there, here = (shared.command(*words, cwd=tmp_path, warm=warm) for warm in (True, False))
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
    assert shared.about["served"] == before + 1 + ("--kernel" in words), "it did not run there"


def test_a_terminal_is_a_terminal(shared, solution, tmp_path):
    """Colours, and lines as long as the terminal is wide; what is typed arrives."""
    wrong = tmp_path / "01_saxpy.cu"
    wrong.write_text(solution.read_text().replace("a * x[i] +", "a * x[i] -"))
    seen = []
    for switch in ("1", "0"):
        main, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 50, 61, 0, 0))
        environment = {**shared.environment, "TERM": "xterm-256color", place.SWITCH: switch}
        environment = {key: value for key, value in environment.items() if key not in ("NO_COLOR", "COLUMNS")}
        command = [sys.executable, "-P", "-m", "warpschool", "check", "lab00/01", "--kernel", str(wrong)]
        with subprocess.Popen(command, env=environment, stdin=end, stdout=end, stderr=end):
            os.close(end)
            seen.append(_read_to_the_end(main))
        os.close(main)
    assert seen[0] == seen[1]
    assert b"\x1b[1;31mWA" in seen[0]
    plain = re.sub(rb"\x1b\[[\d;?]*\w", b"", seen[0]).decode().splitlines()
    assert 50 < max(map(len, plain)) <= 61


def _read_to_the_end(main: int) -> bytes:
    data = b""
    with contextlib.suppress(OSError):  # nobody holds the other end any more
        while part := os.read(main, 1 << 16):
            data += part
    return data


def test_two_at_once(shared, solution):
    alone = shared.command("check", "lab00/01", "--kernel", str(solution), warm=False)
    both = [shared.popen("check", "lab00/01", "--kernel", str(solution)) for _ in range(2)]
    assert [process.communicate(timeout=_HANGS_S)[0] for process in both] == [alone.stdout] * 2
    assert [process.returncode for process in both] == [0, 0]
    _until(lambda: not shared.about["running"], "a fork is left")


def test_a_fork_is_as_a_new_process(environment, tmp_path):
    """`become`, in a process of its own, takes over files, folder, umask, limits, processors and variables."""
    code = """
        import json, os, resource, signal, sys
        from warpschool.warm import client, fork
        out = os.dup(1)
        request = client.circumstances()
        request |= {"umask": 0o27, "words": ["check", "x"], "ignored": [int(signal.SIGHUP)],
                    "environment": {"TZ": "Asia/Tokyo", "COLUMNS": "61"}, "niceness": request["niceness"] + 1}
        request["limits"] = [(resource.RLIMIT_NOFILE, (100, 101))]
        request["processors"] = request["processors"][:1]
        folder, log = FILES
        files = [os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)]
        files.append(os.dup(files[1]))
        fork.become(request, [*files, os.open(folder, os.O_RDONLY)], "/where")
        print("said")
        print("complained", file=sys.stderr)
        sys.stdout.flush()
        os.write(out, json.dumps({
            "cwd": os.getcwd(), "umask": os.umask(0), "environment": dict(os.environ), "argv": sys.argv[1:],
            "files": resource.getrlimit(resource.RLIMIT_NOFILE), "processors": len(os.sched_getaffinity(0)),
            "nicer": os.getpriority(os.PRIO_PROCESS, 0), "zone": __import__("time").tzname[0],
            "hangup": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, "own group": os.getpgid(0) == os.getpid(),
            "interrupt": signal.getsignal(signal.SIGINT) == signal.default_int_handler,
            "open": sorted(map(int, os.listdir("/proc/self/fd")))[:-1], "asks": client._address,
        }).encode())
    """
    log = tmp_path / "log"
    done = Warm(environment).python(code.replace("FILES", repr([str(tmp_path), str(log)])))
    found = json.loads(done.stdout)
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 1
    assert found["open"][:3] == [0, 1, 2] and len(found.pop("open")) == 4  # the fourth is `out`
    assert found == {
        "cwd": str(tmp_path), "umask": 0o27, "environment": {"TZ": "Asia/Tokyo", "COLUMNS": "61"},
        "argv": ["check", "x"], "files": [100, 101], "processors": 1, "nicer": nice, "zone": "JST",
        "hangup": True, "own group": True, "interrupt": True, "asks": ["/where"],
    }  # fmt: skip
    assert set(log.read_text().split()) == {"complained", "said"}


def test_a_limit_that_cannot_be_taken_over_is_refused(shared):
    code = """
        from warpschool.warm import client
        honest = client.circumstances
        def dishonest():
            return honest() | {"processors": []}
        client.circumstances = dishonest
        print(client.run(client.COMMAND, ["status"]))
    """
    assert shared.python(code).stdout == "None\n"


# ---------------------------------------------------------------- ends


LONG = ("check", "lab08/14", "--kernel", str(Course.find().step("lab08_convolution/14_sliding_windows").solution))
"""A command that takes many seconds on any machine."""


def test_ctrl_c(shared):
    process = shared.popen(*LONG, start_new_session=True)
    _until(lambda: shared.about["running"] == 2, "it does not check")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=_HANGS_S) == ("", "interrupted\n")
    assert process.returncode == 130
    _until(lambda: not shared.about["running"], "a fork is left")


def test_ctrl_c_ends_watching(shared, solution):
    ends = []
    for environment in (shared.environment, {**shared.environment, place.SWITCH: "0"}):
        process = _watched(Warm(environment), solution)
        process.send_signal(signal.SIGINT)
        ends.append((process.communicate(timeout=_HANGS_S)[1], process.returncode))
    assert ends[0] == ends[1]
    _until(lambda: not shared.about["running"], "a fork is left")


def test_ctrl_z_stops_both(shared, solution):
    process = _watched(shared, solution)
    forks = [pid for pid in _children(shared.process.pid) if _state(pid) != "Z"]
    process.send_signal(signal.SIGTSTP)
    _until(lambda: _state(process.pid) == "T", "it goes on")
    stopped = _until(lambda: [pid for pid in forks if _state(pid) == "T"], "the fork goes on")
    process.send_signal(signal.SIGCONT)
    _until(lambda: all(_state(pid) != "T" for pid in stopped), "the fork stays stopped")
    process.kill()
    process.communicate()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_killed_client_takes_its_forks_with_it(shared, solution):
    process = _watched(shared, solution)
    assert shared.about["running"] >= 1
    process.kill()
    process.communicate()
    _until(lambda: not shared.about["running"], "a fork is left")


def test_a_fork_that_dies_by_a_signal(shared, solution):
    process = _watched(shared, solution)
    (fork,) = [pid for pid in _children(shared.process.pid) if os.getpgid(pid) == pid and _is_fork(pid)]
    os.kill(fork, signal.SIGTERM)
    process.communicate(timeout=_HANGS_S)
    assert process.returncode == -signal.SIGTERM


def _is_fork(pid: int) -> bool:
    return "warpschool.warm.server" in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.slow
def test_the_server_killed_in_the_middle(own):
    """The command begins again by itself, and says what it would have said."""
    own.begin()
    process = own.popen(*LONG)
    _until(lambda: own.about["running"] >= 2, "it does not check")
    own.process.kill()
    own.process.wait()
    said, _ = process.communicate(timeout=_HANGS_S)
    alone = own.command(*LONG, warm=False)
    assert ": AC" in alone.stdout
    assert (process.returncode, said) == (alone.returncode, alone.stdout)


def test_it_ends_when_nobody_asks(own):
    own.begin(0.2)
    assert own.process.wait(_HANGS_S) == 0
    assert os.listdir(os.path.dirname(own.path)) == []


def test_it_ends_when_told(own):
    own.begin()
    assert own.command("warm", "--stop", "--json").returncode == 0
    assert own.process.wait(_HANGS_S) == 0
    assert json.loads(own.command("warm", "--json").stdout) == {"stopped": False, "processes": []}


def test_a_second_one_leaves(own):
    own.begin()
    second = subprocess.run([*own.process.args], env=own.environment, cwd="/", timeout=_HANGS_S, check=False)
    assert second.returncode == 0
    assert own.process.poll() is None


# ---------------------------------------------------------------- for whom, and for whom not


@pytest.fixture
def copied(own, tmp_path) -> Path:
    """The packages in another folder, where a test may edit them."""
    for name in ("ptxsim", "warpschool", "warpcourse"):
        shutil.copytree(Path(place._SOURCES) / name, tmp_path / name, ignore=shutil.ignore_patterns("_content"))
    own.environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    return tmp_path


def test_an_edited_package_is_another_process(own, copied):
    own.begin(1e6, 0.1)
    with (copied / "warpschool" / "version.py").open("a") as file:
        file.write("# edited\n")
    assert own.process.wait(_HANGS_S) == 0  # no request ends it, nor time
    after = own.python("from warpschool.warm import place; print(place.socket_path())").stdout.strip()
    assert os.path.dirname(after) == os.path.dirname(own.path) and after != own.path


def test_variables_that_are_read_once_are_another_process(environment):
    ask = "from warpschool.warm import place; print(place.socket_path())"
    names = {
        Warm({**environment, **more}).python(ask).stdout
        for more in ({}, {"LC_ALL": "C"}, {"OPENBLAS_NUM_THREADS": "1"}, {"WARPSCHOOL_CUDA": "/x"}, {"HOME": "/"})
    }
    assert len(names) == 5
    same = {Warm({**environment, **more}).python(ask).stdout for more in ({}, {"TERM": "x"}, {"COLUMNS": "5"})}
    assert len(same) == 1


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
@pytest.mark.thinned(3)
def test_a_folder_that_others_may_enter_is_not_used(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    os.chmod(tmp_path, 0o700)
    folder = place.private_folder()
    assert folder is not None and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    os.chmod(folder, mode)
    assert place.private_folder() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_users_folder_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    os.chmod(tmp_path, 0o700)
    os.chown(place.private_folder(), 65534, 65534)
    assert place.private_folder() is None
    assert client.start() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_not_served(own):
    own.begin()
    os.chmod(os.path.dirname(own.path), 0o777)  # past the first door
    os.chmod(own.environment["XDG_RUNTIME_DIR"], 0o777)
    os.chmod(own.path, 0o777)
    code = f"""
        import os, socket
        from warpschool.warm import client
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asks:
            asks.connect({own.path!r})
            try:  # it may have closed the connection before it is asked
                client.send(asks, {{"stop": True}})
                print(asks.recv(99))
            except ConnectionError:
                print(b"")
        """
    assert own.python(code).stdout == "b''\n"
    assert own.process.poll() is None


def test_a_process_that_gave_up_rights_is_not_served(shared):
    code = """
        import ctypes
        from warpschool.warm import client
        print(bool(client.reports()))
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # as before Landlock
        print(bool(client.reports()), client.run(client.COMMAND, ["status"]))
    """
    assert shared.python(code).stdout == "True\nFalse None\n"


def test_only_harmless_commands_are_taken(shared):
    code = """
        from warpschool.warm import client
        print(client.run(client.COMMAND, ["grade", "."]), client.run("os", []), client.run(client.COMMAND, []))
    """
    assert shared.python(code).stdout == "None None None\n"


def test_hand_ins_are_never_graded_there(shared, solution, tmp_path):
    (tmp_path / "ada").mkdir()
    shutil.copy(solution, tmp_path / "ada" / "01_saxpy.cu")
    before = shared.about["served"]
    assert shared.command("grade", str(tmp_path), "--step", "lab00/01").returncode == 0
    assert shared.about["served"] == before


def test_only_checks_of_ones_own_ask_for_it(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(client, "run", refuse)
    monkeypatch.setattr(client, "start", refuse)
    step = Course.find().step(_STEP)
    source = find_source(step, step.solution)
    assert runner.check_source(step, source).ok
    assert runner.check(_STEP, step.solution, secret="s" * 32).ok
    monkeypatch.setattr(cell, "_grading", cell._Grading(is_on=True))
    monkeypatch.setattr(cell, "_results", {})
    monkeypatch.setattr(cell, "find_source", lambda _: source)
    assert cell.check_cell(_STEP) == 1.0
    monkeypatch.setattr(cell, "_grading", cell._Grading())
    for own in (
        lambda: runner.check(_STEP, step.solution),
        lambda: runner.check_and_remember(step, source),
        lambda: cell.check_cell(_STEP, seed=1),
    ):
        with pytest.raises(AssertionError, match="asked"):
            own()


@pytest.mark.parametrize("more", [{"CI": "true"}, {place.SWITCH: "0"}])
def test_it_can_be_switched_off(monkeypatch, more):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv(place.SWITCH, raising=False)
    assert place.is_wanted()
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing is started
    assert not place.is_wanted()
    assert client.start() is None
    assert client.run(client.COMMAND, ["status"]) is None


def test_the_first_check_starts_it(own, solution):
    done = own.command("check", "lab00/01", "--kernel", str(solution))
    assert done.returncode == 0, done.stderr
    _until(lambda: json.loads(own.command("warm", "--json").stdout)["processes"], "none began")
    assert own.command("check", "lab00/01", "--kernel", str(solution)).stdout == done.stdout
    assert own.about["served"] == 2


def test_it_has_one_thread(own):
    """BLAS has one, too: forks would begin others, which spin beside products that are small."""
    own.begin()
    assert os.listdir(f"/proc/{own.process.pid}/task") == [str(own.process.pid)]


# ---------------------------------------------------------------- the compiler that it lends


def test_the_processor_time_of_its_forks_counts():
    """A compilation is a fork of the compiler's."""
    code = """
        import os, time
        if not (fork := os.fork()):
            while time.process_time() < 0.4: pass
            os._exit(0)
        os.waitpid(fork, 0)
        print("done", flush=True)
        input()
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as compiler:
        assert compiler.stdout.readline() == "done\n"
        assert server._spent_s(compiler.pid) >= 0.3  # of 0.4, told in hundredths
        compiler.communicate("\n")


def test_one_compiler_serves_check_after_check(shared, solution, tmp_path):
    found = set()
    for number in range(3):
        kernel = tmp_path / "01_saxpy.cu"
        kernel.write_text(solution.read_text() + f"// {number}\n__device__ int unused{os.getpid()}_{number};\n")
        assert shared.command("check", "lab00/01", "--kernel", str(kernel)).returncode == 0
        found.add(tuple(shared.about["compilers"]))
    assert len(found) == 1 and len(found.pop()) == 1


def test_a_borrowed_compiler_that_dies_is_replaced(environment):
    """Only the lender is told how it died: a compiler of the fork's own says what is to be said."""
    code = """
        import os, signal
        from warpschool.compile import CompileLimits
        from warpschool.compile.pool import pool
        from warpschool.compile.processes import Request
        from warpschool.compile.toolchain import find_toolchain
        from warpschool.errors import CompileLimitError
        toolchain = find_toolchain()
        def compile(limits):
            return pool.compile(
                toolchain, Request("__global__ void k() {}", "k.cu", ["-arch=compute_80"]), limits
            )[0]
        pool.warm_up(toolchain)
        for kill in (False, True):
            loan = pool.lend()
            fork = os.fork()
            if not fork:
                pool.borrow(*loan)
                if kill:
                    os.kill(loan[1].pid, signal.SIGKILL)
                print(compile(CompileLimits()).result, flush=True)
                try:
                    print(compile(CompileLimits(cpu_s=1e-6)))
                except CompileLimitError as error:
                    print(error.message, flush=True)
                os._exit(0)
            os.waitpid(fork, 0)
            pool.take_back(*loan)
            print(len(pool.idle_pids()), flush=True)
            pool.warm_up(toolchain)
    """
    done = Warm(environment).python(code)
    told = ["NVRTC_SUCCESS", "k.cu: the compiler used more than 1e-06 s of processor time", "0"]
    assert done.stdout.splitlines() == told * 2, done.stderr


def test_a_compiler_that_was_left_in_the_middle_is_not_lent_again(environment):
    """Its answer would be taken for that of the next request."""
    code = """
        import os, signal, time
        from warpschool.compile import CompileLimits
        from warpschool.compile.pool import pool
        from warpschool.compile.processes import Request
        from warpschool.compile.toolchain import find_toolchain
        toolchain = find_toolchain()
        for stopped in (False, True):
            pool.warm_up(toolchain)
            loan = pool.lend()
            fork = os.fork()
            if not fork:
                pool.borrow(*loan)
                if stopped:
                    os.kill(loan[1].pid, signal.SIGSTOP)
                    signal.alarm(1)
                loan[1].compile(Request("__global__ void k() {}", "k.cu", ["-arch=compute_80"]), CompileLimits())
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
            pool.take_back(*loan)
            print(code, pool.idle_pids() == [loan[1].pid], flush=True)
    """
    done = Warm(environment).python(code)
    assert done.stdout.splitlines() == ["0 True", f"{-signal.SIGALRM} False"], done.stderr
