"""`check` from end to end, on a small course: the child process, its limits and deaths, where sources are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import warpschool as ws
from warpschool.course import Course
from warpschool.errors import CourseError, DeviceUnavailable, GradingError
from warpschool.grading import cell, criteria_of, find_source, personal_copy
from warpschool.grading.limits import Limits
from warpschool.grading.runner import check_source
from warpschool.grading.verdicts import Verdict
from warpschool.harness import source as sources

STEP = "lab00_x/01_scale"
KERNEL = """\
// 01_scale.cu: y = 2 * x.
// Entry:  scale(const float x[n] in, float y[n] out, int n)
// Launch: scale block=(64) grid=(cdiv(n, 64))
extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
GRADER = '''\
import os, signal, sys, time
import numpy as np
import pytest
from warpschool.grading import criterion, partial

def right(kernel, rng, n):
    arrays = kernel.inputs({"n": n}, rng)
    kernel.check_against(kernel.run({"n": n}, arrays), {"y": 2 * arrays["x"].astype(np.float64)})
    return arrays

@criterion("Right answers", weight=2, hint=["nudge", "where", "code"])
@pytest.mark.parametrize("n", [1, 64, 100])
def test_right(kernel, rng, n):
    right(kernel, rng, n)

@criterion("Few bytes", counts="requested bytes")
def test_bytes(kernel, rng):
    arrays = right(kernel, rng, 64)
    print("noise on stdout")
    kernel.within(kernel.counters({"n": 64}, arrays).global_load_bytes, 256, "requested bytes", unit="bytes")
'''


@pytest.fixture
def make(tmp_path):
    """Write the small course, with further tests in its grader file; returns a function that checks a source."""

    def build(extra: str = "", *, grader: str = GRADER, starter: str = KERNEL):
        for folder, name, text in (
            ("kernels", "01_scale.cu", starter),
            ("solutions", "01_scale.cu", KERNEL),
            ("grader", "test_01_scale.py", grader + extra),
        ):
            (tmp_path / folder / "lab00_x").mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / "lab00_x" / name).write_text(text, encoding="utf-8")
        course = Course(tmp_path)
        return lambda source=KERNEL, **options: ws.check(STEP, source, device="sim", course=course, **options)

    return build


def verdicts(result) -> list[str]:
    return [criterion.verdict.value for criterion in result.criteria]


def test_a_right_kernel_is_accepted_with_equal_bytes(make):
    check = make()
    result = check()
    assert (result.verdict, result.score, result.max_score, result.ok) == (Verdict.AC, 3, 3, True)
    assert [criterion.title for criterion in result.criteria] == ["Right answers", "Few bytes"]
    assert result.criteria[0].hint == ("nudge", "where", "code")
    assert result.source["origin"] == "given source"
    assert {"warpschool", "content", "nvrtc", "arch", "device", "isolation"} <= set(result.provenance)
    assert check().to_json() == result.to_json()
    assert json.loads(result.to_json())["verdict"] == "AC"


def test_a_check_that_looks_for_one_fault_stops_there(make, tmp_path):
    make()
    step = Course(tmp_path).step(STEP)
    for text, found in (
        (KERNEL, ["AC", "AC"]),
        (KERNEL.replace("2 * x", "3 * x"), ["WA"]),
        (KERNEL.replace("2 * x[i]", "x[i] + x[n - 1 - i]"), ["WA"]),
    ):
        source = sources.Source(text.encode(), step.file_name, "given source")
        result = check_source(step, source, device="sim", is_own=True, until_wrong=True)
        assert verdicts(result) == found
        assert (result.verdict is Verdict.AC) is (text == KERNEL)
    broken = sources.Source(KERNEL.replace(";", "", 1).encode(), step.file_name, "given source")
    assert check_source(step, broken, device="sim", is_own=True, until_wrong=True).verdict is Verdict.CE


def test_every_criterion_has_its_own_verdict(make):
    check = make('''
@criterion("Half")
def test_half(kernel):
    partial(0.5, "one of two")

@criterion("GPU only", weight=7)
def test_gpu(kernel):
    pytest.skip("no GPU here")

@criterion("As fast as the reference")
def test_reference(kernel, reference, seed):
    assert reference.source == kernel.source and seed == 4
''')
    result = check(seed=4)
    assert verdicts(result) == ["AC", "AC", "PC", "SKIP", "AC"]
    assert (result.verdict, result.score, result.max_score) == (Verdict.PC, 4.5, 5)
    assert result.criterion("Half").seen == "one of two"
    changed = check(KERNEL.replace("2 * x[i]", "2 * x[i] + (n == 100)"), seed=4)
    assert changed.verdict is Verdict.WA
    assert verdicts(changed) == ["WA", "AC", "PC", "SKIP", "WA"]
    assert "at n = 100" in changed.criterion("Right answers").seen
    assert check(seed=5).criterion("As fast as the reference").verdict is Verdict.WA


def test_a_hazard_shows_the_students_line(make):
    result = make()(KERNEL.replace("if (i < n) ", ""))
    failed = result.criterion("Right answers")
    assert (result.verdict, failed.verdict, failed.line) == (Verdict.OOB, Verdict.OOB, 6)
    assert failed.code == "    y[i] = 2 * x[i];"


def test_a_file_that_does_not_compile_keeps_the_list_of_criteria(make):
    result = make()(KERNEL.replace("x[i]", "z[i]"))
    assert (result.verdict, result.score, result.max_score, result.line) == (Verdict.CE, 0, 3, 6)
    assert "identifier \"z\" is undefined" in result.seen
    assert verdicts(result) == ["CE", "CE"]


def test_a_faulty_grader_is_never_a_students_zero(make):
    result = make('''
@criterion("Broken")
def test_broken(kernel):
    return 1 / 0
''')()
    assert result.verdict is Verdict.SE
    assert verdicts(result) == ["AC", "AC", "SE"]
    assert "test_01_scale.py:" in result.criterion("Broken").seen
    assert "ZeroDivisionError" in result.criterion("Broken").seen


def test_a_test_without_criterion_is_a_fault_of_the_grader(make):
    result = make("\ndef test_forgotten(kernel):\n    pass\n")()
    assert result.verdict is Verdict.SE
    assert "has no @criterion" in result.seen


@pytest.mark.parametrize(
    ("action", "verdict", "words"),
    [
        ("time.sleep(9999)", Verdict.SE, "ran out of time"),
        ("while True: time.sleep(0)", Verdict.SE, "ran out of time"),
        ("while True: pass", Verdict.TLE, "processor time"),
        ("os.kill(os.getpid(), signal.SIGKILL)", Verdict.SE, "killed from outside"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Verdict.SE, "SIGSEGV"),
        ("os._exit(3)", Verdict.SE, "exit code 3"),
        ("os._exit(0)", Verdict.SE, "exit code 0"),
        ("os.write(1, b'{}'); os._exit(0)", Verdict.SE, "exit code 0"),
    ],
)
@pytest.mark.thinned(3)
def test_a_child_that_dies_is_a_verdict(make, action, verdict, words):
    check = make(f'\n@criterion("Deadly")\ndef test_deadly(kernel):\n    {action}\n')
    result = check(limits=Limits(wall_s=6.0) if "time." in action else Limits(cpu_s=3))
    assert (result.verdict, result.score, result.max_score) == (verdict, 0, 4)
    assert words in result.seen
    assert [criterion.title for criterion in result.criteria] == ["Right answers", "Few bytes", "Deadly"]
    assert result.provenance["nvrtc"] != ""


def test_memory_is_told_by_its_peak_even_if_nobody_looks_in_time(make, monkeypatch):
    """Whether the look that happens every few milliseconds comes in time depends on how busy the machine is."""
    spike = "import warpschool.grading.limits as limits\n"
    spike += "limits.sleep = lambda _: __import__('threading').Event().wait()\n"  # the watcher's last look is over
    spike += "time.sleep(0.1)\nbytearray(b'x') * (600 << 20)"
    lines = "".join(f"    {line}\n" for line in spike.splitlines())
    result = make(f'\n@criterion("Spike")\ndef test_spike(kernel):\n{lines}')(limits=Limits(resident_bytes=500 << 20))
    assert result.verdict is Verdict.MLE


def test_memory_beyond_the_limit_is_a_verdict(make):
    result = make('\n@criterion("Big")\ndef test_big(kernel):\n    bytearray(64 << 30)\n')(limits=Limits())
    assert result.criterion("Big").verdict is Verdict.MLE


def test_the_child_is_not_misled_by_its_surroundings(make, tmp_path, monkeypatch):
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("conftest.py", "numpy.py", "pytest.py", "warpschool.py"):
        (hostile / name).write_text("raise SystemExit('hijacked')")
    (hostile / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    (tmp_path / "grader" / "lab00_x").mkdir(parents=True)
    (tmp_path / "grader" / "conftest.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    assert make()().verdict is Verdict.AC


def test_no_such_step_file_or_device(make):
    check = make()
    with pytest.raises(CourseError, match="Did you mean lab00_x/01_scale"):
        ws.check("lab00_x/01_scala", KERNEL, course=Course(find_root(check)))
    with pytest.raises(CourseError, match=r"cannot read nowhere\.cu: No such file"):
        check("nowhere.cu")
    (find_root(check) / "grader" / "lab00_x" / "test_01_scale.py").unlink()
    with pytest.raises(CourseError, match="has no grader"):
        check()


def find_root(check):
    return check.__closure__[0].cell_contents.root


def test_gpu_without_a_gpu(make, monkeypatch):
    from warpschool.device import module as find

    problem = DeviceUnavailable("no GPU", next_step="use sim")
    monkeypatch.setattr(find, "gpu_problem", lambda: problem)
    course = Course(find_root(make()))
    with pytest.raises(DeviceUnavailable, match="no GPU"):
        ws.check(STEP, KERNEL, device="gpu", course=course)
    assert ws.check(STEP, KERNEL, device="auto", course=course).provenance["device"] == "the simulator"


def test_criteria_can_be_listed_without_running(make):
    step = Course(find_root(make())).step(STEP)
    found = criteria_of(step)
    assert [(info.id, info.weight, info.hint) for info in found] == [
        ("test_right", 2, ("nudge", "where", "code")), ("test_bytes", 1, ()),
    ]  # fmt: skip


@pytest.mark.slow
def test_pytest_runs_grader_files_directly(make, tmp_path):
    make()
    bad = tmp_path / "mine.cu"
    bad.write_text(KERNEL.replace("2 *", "3 *"))
    for options, code, words in (
        ([], 0, "4 passed"), ([f"--submission={bad}"], 1, "off by a factor of 1.5"),
        (["--submission=kernels"], 0, "4 passed"),
    ):  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", "warpschool.grading.plugin", "grader", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout
        assert words in done.stdout


# ---------------------------------------------------------------------------------------------- where sources are found


@pytest.fixture
def step(make, monkeypatch):
    course = Course(find_root(make()))
    monkeypatch.setattr(Course, "find", staticmethod(lambda: course))
    monkeypatch.setattr(sources, "checkout_root", lambda: None)
    return course.step(STEP)


def test_given_sources(step, tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text("// mine\n")
    for given, data, name, origin in (
        ("// a\n", b"// a\n", "01_scale.cu", "given source"), (b"\xff", b"\xff", "01_scale.cu", "given source"),
        ("", b"", "01_scale.cu", "given source"), (str(path), b"// mine\n", "mine.cu", "given file"),
        (path, b"// mine\n", "mine.cu", "given file"),
    ):  # fmt: skip
        found = find_source(step, given)
        assert (found.data, found.name, found.origin) == (data, name, origin)


def test_cell_then_personal_copy_then_checkout(step, tmp_path, monkeypatch):
    from warpschool.notebook import cells

    folder = tmp_path / "mine" / "deep"
    folder.mkdir(parents=True)
    with pytest.raises(CourseError, match="warpschool start"):  # a packaged starter is never checked
        find_source(step, folder=folder)

    monkeypatch.setattr(sources, "checkout_root", lambda: Course.find().root)
    assert find_source(step, folder=folder).origin == "the checkout's kernels/"

    assert personal_copy(folder) is None
    (tmp_path / "mine" / sources.PERSONAL_COPY_MARKER).write_text("{}")
    assert personal_copy(folder) == tmp_path / "mine"
    assert find_source(step, folder=folder).origin == "the checkout's kernels/"
    own = tmp_path / "mine" / "kernels" / "lab00_x" / "01_scale.cu"
    own.parent.mkdir(parents=True)
    own.write_text("// own")
    found = find_source(step, folder=folder)
    assert (found.data, found.origin) == (b"// own", "personal copy")

    cells.forget_all()
    cells.remember(STEP, "// cell")
    try:
        found = find_source(step, folder=folder)
        assert (found.data, found.origin) == (b"// cell", "notebook cell")
    finally:
        cells.forget_all()


# ---------------------------------------------------------------------------------------------- notebook cells


def test_check_cell(step, monkeypatch, capsys):
    from warpschool.notebook import cells

    runs = []
    real = cell.check_and_remember
    monkeypatch.setattr(cell, "check_and_remember", lambda *a, **k: runs.append(1) or real(*a, **k))
    monkeypatch.setattr(cell, "_results", {})
    cells.remember(STEP, KERNEL.replace("if (i < n) y[i] = 2 * x[i]", "if (i < n) y[i] = 2 * x[i] + 0 * x[0]"))
    try:
        values = [ws.check_cell(STEP, *names, device="sim") for names in (["Right answers"], ["Few bytes"], [])]
        assert values == [1.0, 0.0, 2 / 3]
        assert [type(value) for value in values] == [float] * 3
        assert ws.check_cell(STEP, "right", points=4, device="sim") == 4.0
        assert ws.check_cell(STEP, "right", "bytes", points=3, device="sim") == 2.0
        assert len(runs) == 1
        output = capsys.readouterr()
        assert output.err == ""
        assert "requested bytes: 512 bytes; at most 256 bytes" in output.out
        assert "4 of 4" in output.out and "2 of 3" in output.out, "what is shown adds up to what the cell is worth"
        with pytest.raises(GradingError, match="no criterion 'Fast'"):
            ws.check_cell(STEP, "Fast", device="sim")
    finally:
        cells.forget_all()


def test_check_cell_gives_no_number_when_the_grader_failed(step, monkeypatch):
    monkeypatch.setattr(cell, "_results", {})
    step.grader.write_text(GRADER + '\n@criterion("Broken")\ndef test_broken(kernel):\n    return 1 / 0\n')
    monkeypatch.setattr(sources, "checkout_root", lambda: Course.find().root)
    monkeypatch.chdir(Course.find().root)
    with pytest.raises(GradingError, match="ZeroDivisionError"):
        ws.check_cell(STEP, "Right answers", device="sim")


def test_what_kernels_share_is_compiled_once_without_a_warm_process(tmp_path):
    """Elsewhere than on Linux there is none, and a check's own folder serves its source alone."""
    environment = os.environ | {"WARPSCHOOL_CACHE": str(tmp_path / "cache"), "WARPSCHOOL_WARM": "0"}
    source = Course.find().step("lab00_first_kernels/01_saxpy").solution.read_text()
    for n in range(2):
        kernel = tmp_path / f"saxpy_{n}.cu"
        kernel.write_text(f"{source}// {n}\n")
        command = [sys.executable, "-P", "-m", "warpschool", "check", "lab00/01", "--kernel", str(kernel)]
        assert ": AC" in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    shared, own = (
        {path.name: path.stat().st_size for path in (tmp_path / "cache").glob(where)}
        for where in ("object/*.json", "checks/*/object/*.json")
    )
    assert len(shared) > 5 and own and not shared.keys() & own.keys()
    assert max(own.values()) < max(shared.values())  # the kernel's own code, and nothing that it shares
