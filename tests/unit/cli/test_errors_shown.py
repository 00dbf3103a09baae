"""What a user is told: in a notebook the own line and a sentence, and advice that works for what was called."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError, WarpschoolError
from warpschool.harness.launcher import run_kernel

CELL = 'x = 1\ndef look():\n    ws.show_fragments("mma", "m1n1k1", "f16")\nlook()\n'


def shown_by(cell: str) -> list[str]:
    """What IPython would show for the error of a cell."""
    name = "<a cell>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    with pytest.raises(WarpschoolError) as caught:
        exec(compile(cell, name, "exec"), {"ws": ws})
    return caught.value._render_traceback_()


def test_a_notebook_shows_the_callers_line_and_the_sentence(monkeypatch):
    monkeypatch.delenv("WARPSCHOOL_TRACEBACK", raising=False)
    first, said = shown_by(CELL)
    assert first == 'line 3: ws.show_fragments("mma", "m1n1k1", "f16")'
    assert said.startswith("ArgumentError: ") and "There is mma:" in said


def test_all_frames_can_be_had(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_TRACEBACK", "1")
    said = "".join(shown_by(CELL))
    assert said.startswith("Traceback") and "show/fragments.py" in said


def test_an_error_that_was_never_raised_is_shown_too():
    assert ArgumentError("no", next_step="yes")._render_traceback_() == ["ArgumentError: no\nyes"]


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A folder without a copy of the course."""
    monkeypatch.setattr("warpschool.harness.source.checkout_root", lambda: None)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)  # another test may have brought it: this is no notebook
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["check", "lab02/01"], "Name a file: --kernel FILE.cu; or get your own copy of the course: warpschool start"),
        (["debug", "lab02/01"], "Name a file: warpschool debug FILE.cu; or get your own copy"),
    ],
)
def test_commands_advise_what_they_take(nowhere, command, advice):
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and f"next: {advice}" in result.stderr


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: ws.trace("lab02/01"), 'Name a file: ws.trace("FILE.cu"); or '),
        (lambda: ws.check("lab02/01"), 'Name a file: ws.check("lab02_tiling/01_tiled", "FILE.cu"); or '),
        (lambda: ws.run("lab02/01", {"M": 32, "N": 32, "K": 32}), "et your own copy of the course: warpschool start"),
    ],
)
def test_calls_advise_what_they_take(nowhere, call, advice):
    with pytest.raises(CourseError, match="no kernel of yours was found for lab02_tiling/01_tiled") as caught:
        call()
    assert advice in caught.value.next_step


def test_a_file_that_cannot_be_traced_is_named(tmp_path):
    with pytest.raises(ArgumentError, match=r"there is no file .*gone\.cu"):
        ws.trace(tmp_path / "gone.cu")
    (tmp_path / "binary.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match=r"binary\.cu:1: byte 0xff is not UTF-8"):
        ws.trace(str(tmp_path / "binary.cu"))


@pytest.mark.parametrize("target", ["/proc/page.html", "/dev/null"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(target, monkeypatch):
    monkeypatch.setattr("warpschool.tour.plan_tour", lambda **_: pytest.fail("the tour has begun"))
    result = CliRunner().invoke(app, ["tour", "--html", target])
    assert result.exit_code in (2, 3) and target in result.stderr and "next: " in result.stderr


def test_a_file_where_a_step_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "kernels" / "lab00_first_kernels" / "01_saxpy.cu"
    own.parent.mkdir(parents=True)
    own.write_text("// mine")
    (tmp_path / "mine.cu").write_text("// mine")
    said = CliRunner().invoke(app, ["check", "kernels/lab00_first_kernels/01_saxpy.cu"]).stderr
    assert "is a file, not a step" in said
    assert "warpschool check lab00_first_kernels/01_saxpy --kernel kernels/lab00_first_kernels/01_saxpy.cu" in said
    assert "warpschool check lab02/01 --kernel mine.cu" in CliRunner().invoke(app, ["check", "mine.cu"]).stderr


SIZES = {"M": 32, "N": 32, "K": 32}


@pytest.fixture(scope="module")
def run():
    source = Course.find().step("lab02/01").solution.read_text("utf-8")
    arrays = {name: np.ones((32, 32), np.float32) for name in "AB"}
    return run_kernel(source, SIZES, arrays, device="sim", name="01_tiled.cu")


WRONG = {
    "a line without a request": (lambda run: ws.show_access(run, line=1), "The requests are: line 25: load of A"),
    "no such space": (lambda run: ws.show_access(run, space="shard"), "Did you mean shared?"),
    "no such kind": (lambda run: ws.show_access(run, kind="write"), "There is: load, store."),
    "no such block": (lambda run: ws.show_access(run, block=99), "The grid has blocks 0 to 3."),
    "nothing was run": (lambda run: ws.show_access(None), 'Show the result of ws.run(step, sizes, device="sim").'),
    "no such sums": (lambda run: ws.show_fragments("mma", "m16n8k16", "f16", sums="f3"), "Did you mean f32?"),
    "no such operand": (lambda run: ws.show_fragments("mma", "m16n8k16", "f16", operands="x"), 'There are "a"'),
    "no such lane": (lambda run: ws.show_fragments("mma", "m16n8k16", "f16", lane=32), "lanes 0 to 31"),
    "no tensor cores": (lambda run: ws.show_fragments(run), 'ws.show_fragments("mma", "m16n8k16", "f16")'),
    "no fragments of this": (lambda run: ws.show_fragments(None), 'ws.show_fragments("mma", "m16n8k16", "f16")'),
    "no such timeline": (lambda run: ws.show_timeline("gone.json"), "Timeline.to_json()"),
    "no timeline": (lambda run: ws.show_timeline(run), "warpschool.inspect.timeline.Recorder"),
    "nothing to draw": (lambda run: ws.roofline(), "Give it the result of ws.run("),
    "a step has no roof": (lambda run: ws.roofline("lab02/01"), "Give it the result of ws.run("),
    "no time": (lambda run: ws.roofline(run, measured_ms={"01_tiled": 0}), "in milliseconds is above 0"),
    "no such size": (lambda run: ws.diff("lab01/01", "lab02/01", {"X": 3}, references=True), "There is: K, M, N."),
    "no sizes": (lambda run: ws.diff("lab01/01", "lab02/01", 32, references=True), 'For example: {"M": 64'),
    "no such step": (lambda run: ws.diff("lab01/01", "lab02/99"), "lab02_tiling has: 01_tiled."),
    "no step at all": (lambda run: ws.run(32, SIZES), "warpschool status lists every step"),
    "sizes of a run": (lambda run: ws.run("lab02/01", 32), 'For example: {"M": 64'),
    "no such block to trace": (lambda run: ws.trace(run.plan.contract, SIZES, block=99), "blocks 0 to 3."),
    "no block to trace": (lambda run: ws.trace(run.plan.contract, SIZES, block="x"), "For example: block=0"),
    "no such warp to trace": (lambda run: ws.trace(run.plan.contract, SIZES, warp=99), "warps 0 to 7."),
    "no such launch to trace": (lambda run: ws.trace(run.plan.contract, SIZES, launch=3), "launches 0 to 0."),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_a_sentence_with_the_next_step(run, what):
    call, advice = WRONG[what]
    with pytest.raises(WarpschoolError) as caught:
        call(run)
    assert advice in caught.value.next_step and "\n" not in caught.value.message


def test_files_are_compared_as_steps_are(tmp_path):
    paths = []
    for name in ("lab01/01", "lab02/01"):
        step = Course.find().step(name)
        paths.append(str(tmp_path / step.file_name))
        (tmp_path / step.file_name).write_text(step.solution.read_text("utf-8"))
    assert "14 lines added, 3 removed" in str(ws.diff(*paths, SIZES))
