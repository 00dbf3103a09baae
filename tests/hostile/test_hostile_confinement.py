"""What code can do that has escaped from the simulator: a grader of this test's, in its process, tries it all."""

from __future__ import annotations

import json
import os
import shutil
import socket
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest

from ptxsim import cache
from warpschool.course import Course
from warpschool.grading import check, nursery, python_cells
from warpschool.grading.confinement import confinement_problem, landlock_version
from warpschool.grading.jobs import BATCH_LIMITS
from warpschool.grading.runner import CHILD, check_source
from warpschool.grading.secret import secret_of
from warpschool.harness.source import Source

STEP = "lab00_first_kernels/01_saxpy"
SECRET = "5ec2e7" * 10
CANARY = "ca9a7y" * 6
needs_landlock = pytest.mark.skipif(not landlock_version(), reason=f"not confined here: {confinement_problem()}")

PREAMBLE = """
    import ctypes, json, os, signal, socket, subprocess, sys
    from pathlib import Path
    from warpschool.grading import criterion
    GIVEN = json.loads(GIVEN_TEXT)


    @criterion("it stays inside", weight=1)
    def test_inside(kernel):
        done = []

        def attempt(what, action):
            try:
                action()
            except OSError:
                return
            done.append(what)

        def memory():
            pieces = []
            with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as mem:
                for line in maps:
                    low, high = (int(part, 16) for part in line.split()[0].split("-"))
                    if "rw" in line.split()[1] and "vsyscall" not in line:
                        mem.seek(low)
                        try:
                            pieces.append(mem.read(high - low) if high - low < 1 << 26 else b"")
                        except (OSError, ValueError):
                            pass
            return b"".join(pieces)
"""
ATTEMPTS = """
        for name in ("secret", "gradebook", "other", "shadow"):
            attempt(f"read {name}", lambda: open(GIVEN[name]).read())
        for name in ("grader", "cache", "home", "package", "temporary"):
            attempt(f"write {name}", lambda: (Path(GIVEN[name]) / "poison.json").write_text("x"))
        attempt("change the grader", lambda: open(__file__, "a").write("#"))
        attempt("remove an entry", lambda: os.unlink(next(Path(GIVEN["cache"]).glob("*/*.json"))))
        attempt("link", lambda: os.link(__file__, Path(os.environ["TMPDIR"]) / "x"))
        attempt("its parent's environment", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
        attempt("its parent's memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1))
        attempt("signal", lambda: os.kill(os.getppid(), 0))
        attempt("tcp", lambda: socket.create_connection(("127.0.0.1", GIVEN["port"]), timeout=5))
        attempt("udp", lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", GIVEN["port"])))
        attempt("unix", lambda: socket.socket(socket.AF_UNIX))
        attempt("list", lambda: os.listdir("/"))
        attempt("list home", lambda: os.listdir(GIVEN["home"]))
        attempt("a process's way out", lambda: subprocess.run(["cat", GIVEN["secret"]], check=True, capture_output=True)
                if subprocess.run(["cat", GIVEN["secret"]], capture_output=True).returncode == 0 else open("/none"))
        libc = ctypes.CDLL(None, use_errno=True)
        done += [name for name, call in (("ptrace", lambda: libc.ptrace(0x4206, os.getppid(), 0, 0)),
                                         ("unshare", lambda: libc.unshare(0x10000000))) if call() == 0]
        done += [name for name in os.environ if name.startswith("WARPSCHOOL_TEST_CANARY")]
        assert not done, f"ESCAPED: {done}"
"""
MEMORY = """
        text = memory()
        assert GIVEN["own"].encode() in text, "BROKEN: nothing was searched"
        found = [name for name, value in GIVEN["hidden"].items() if value.encode() in text]
        assert not found, f"ESCAPED: {found}"
"""


@pytest.fixture
def course(tmp_path):
    """A course whose only grader does what the test says, in the process that runs the submission."""
    real = Course.find()
    for name in ("kernels", "solutions", "labs"):
        (tmp_path / "course" / name / "lab00_first_kernels").mkdir(parents=True)
        for path in (real.root / name / "lab00_first_kernels").glob("01_saxpy.cu"):
            shutil.copy(path, tmp_path / "course" / name / "lab00_first_kernels")
    (tmp_path / "course" / "grader" / "lab00_first_kernels").mkdir(parents=True)
    return Course(tmp_path / "course")


def write_grader(course: Course, body: str, given: dict | None = None) -> None:
    text = textwrap.dedent(PREAMBLE + body).replace("GIVEN_TEXT", repr(json.dumps(given or {})))
    (course.root / "grader" / "lab00_first_kernels" / "test_01_saxpy.py").write_text(text)


def right() -> bytes:
    return Course.find().step(STEP).solution.read_bytes()


@pytest.fixture
def given(course, tmp_path, monkeypatch):
    """Paths that nobody may read or write, and a port that listens."""
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CANARY_TOKEN", CANARY)
    (tmp_path / "home").mkdir()
    given = {name: str(tmp_path / f"{name}.txt") for name in ("secret", "gradebook", "other")}
    for path in given.values():
        Path(path).write_text(SECRET)
    cache.store("compile", "0" * 40, {"ptx": "mine"})
    given |= {
        "shadow": "/etc/passwd", "grader": str(course.root / "grader"), "cache": str(tmp_path / "cache"),
        "home": str(tmp_path / "home"), "package": str(Path(cache.__file__).parent), "temporary": str(tmp_path),
    }  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield given | {"port": server.getsockname()[1]}
    assert cache.load("compile", "0" * 40) == {"ptx": "mine"}


@needs_landlock
@pytest.mark.parametrize("limits", [BATCH_LIMITS, None], ids=["class", "check"])
def test_an_escape_reaches_nothing(course, given, limits):
    write_grader(course, ATTEMPTS, given)
    more = {"limits": limits} if limits else {}
    result = check(STEP, right(), device="sim", course=course, **more)
    assert result.ok, " ".join(criterion.seen for criterion in result.criteria)


@needs_landlock
def test_an_escape_from_a_fork_of_the_nursery_reaches_nothing(course, given):
    """Nor is anything of the grader's environment, or of the job before, in its memory."""
    hidden = {"the environment": CANARY, "the job before": secret_of(SECRET, "lab00_first_kernels/02_matrix_add")}
    backwards = {name: value.encode()[::-1].hex() for name, value in hidden.items()}
    body = ATTEMPTS + MEMORY.replace("value.encode()", "bytes.fromhex(value)[::-1]")
    write_grader(course, body, given | {"own": "it stays inside", "hidden": backwards})
    with nursery.opened():
        check("lab00_first_kernels/02_matrix_add", b"__global__", device="sim", secret=SECRET)
        result = check(STEP, right(), device="sim", course=course, secret=SECRET)
        assert nursery.is_open(CHILD) and result.ok, " ".join(criterion.seen for criterion in result.criteria)


CELL = """
import ctypes, json, os, signal, socket, subprocess, sys
from pathlib import Path
GIVEN = json.loads(GIVEN_TEXT)
__file__ = GIVEN["secret"]

def inside():
        done = []

        def attempt(what, action):
            try:
                action()
            except OSError:
                return
            done.append(what)
"""


@needs_landlock
@pytest.mark.parametrize("forked", [False, True], ids=["new", "forked"])
def test_an_escape_from_a_check_cell_that_runs_the_students_kernel_reaches_nothing(course, given, forked):
    """Such a cell measures the kernel of whoever predicts something of it: in this process, not in another one."""
    source = CELL.replace("GIVEN_TEXT", repr(json.dumps(given))) + ATTEMPTS + "\ninside()\n2.0"
    marks = {"grade_id": "check", "locked": True, "grade": True, "solution": False}
    cells = [{"cell_type": "code", "source": source, "metadata": {"nbgrader": marks}}]
    with nursery.opened() if forked else nullcontext():
        found = python_cells.check({"cells": cells}, "check", points=2.0, policy="manual", secret=SECRET)
    assert (str(found.verdict), found.fraction) == ("AC", 1.0), found.text


def test_only_this_steps_cases_are_in_its_memory(course):
    others = {step: secret_of(SECRET, step) for step in ("lab00_first_kernels/02_grid_stride", "lab02_tiling/01_tiled")}
    own = secret_of(SECRET, STEP)
    assert len({own, SECRET, *others.values()}) == 4
    hidden = {"the class's secret": SECRET[:40], **others}
    # written apart, so that the grader file itself does not hold them
    body = MEMORY.replace("value.encode()", "bytes.fromhex(value)[::-1]")
    backwards = {name: value.encode()[::-1].hex() for name, value in hidden.items()}
    write_grader(course, body, {"own": "it stays inside", "hidden": backwards})
    result = check(STEP, right(), device="sim", course=course, secret=SECRET)
    assert result.ok, [criterion.seen for criterion in result.criteria]


def test_what_one_source_leaves_no_other_one_reads(course, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))
    store = """
        from ptxsim import cache
        cache.store("object", "f" * 40, {"object": "poison"})
        assert cache.load("object", "f" * 40) == {"object": "poison"}, "its own"
    """
    load = """
        from ptxsim import cache
        assert cache.load("object", "f" * 40) is None, "ESCAPED"
    """
    write_grader(course, store)
    assert check(STEP, right(), device="sim", course=course).ok
    assert cache.load("object", "f" * 40) is None, "a launch in this process would have run it"
    write_grader(course, load)
    other = check(STEP, right() + b"\n// another\n", device="sim", course=course)
    assert other.ok, [criterion.seen for criterion in other.criteria]


CRASH = """
        import os, signal
        if b"CRASH" in kernel.source.encode():
            END
"""
ENDS = {
    "SIGSEGV": "__import__('ctypes').string_at(8)",
    "SIGABRT": "os.abort()",
    "SIGILL": "os.kill(os.getpid(), signal.SIGILL)",
    "exit code 3": "os._exit(3)",
    "an exception": "raise KeyError('inside the simulator')",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.thinned(3)
def test_a_crash_that_comes_back_is_the_submissions(course, end):
    write_grader(course, CRASH.replace("END", ENDS[end]))
    source = right() + b"\n// CRASH\n"
    result = check(STEP, source, device="sim", course=course)
    assert (str(result.verdict), result.crash, result.is_grade) == ("RTE", end, True), result.seen
    assert result.score == 0 and "twice" in result.seen
    assert check(STEP, right(), device="sim", course=course).ok


def test_a_crash_of_the_reference_too_is_the_graders(course):
    write_grader(course, CRASH.replace("CRASH", "saxpy").replace("END", ENDS["SIGABRT"]))
    assert str(check(STEP, right() + b"\n", device="sim", course=course).verdict) == "SE"


def test_a_crash_that_does_not_come_back_is_run_again(course, tmp_path, monkeypatch):
    from warpschool.grading import runner

    ran = []
    real = runner.run_isolated

    def once(*arguments, **options):
        ran.append(1)
        done = real(*arguments, **options)
        return done if len(ran) > 1 else type(done)(b"", -11, "", False)

    monkeypatch.setattr(runner, "run_isolated", once)
    step = Course.find().step(STEP)
    assert check_source(step, Source(right(), "x.cu", "test"), device="sim").ok
    assert len(ran) == 2


def test_a_crash_is_noted_for_the_instructor():
    from warpschool.grading.records import _crashes
    from warpschool.grading.runner import no_result
    from warpschool.grading.verdicts import Verdict

    step = Course.find().step(STEP)
    made = no_result(step, Source(b"", "x", ""), Verdict.RTE, "x", seed=0, provenance={"crash": "SIGSEGV"})
    (note,) = _crashes({STEP: made})
    assert STEP in note and "SIGSEGV" in note


def test_without_landlock_a_line_says_so(monkeypatch):
    from warpschool.grading import confinement

    assert confinement_problem() == "" or "\n" not in confinement_problem()
    monkeypatch.setattr(confinement, "landlock_version", lambda: 0)
    assert "no Landlock" in confinement.confinement_problem()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, str(confinement.confine(readable=[], writable=[])).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 9) == b"False"
