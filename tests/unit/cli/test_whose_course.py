"""Which course judges is said, and a working directory of another course is refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from warpschool.cli import app
from warpschool.cli.output import BAD_INPUT, OK
from warpschool.course import Course, course_around
from warpschool.version import __version__

runner = CliRunner()
STEP = "lab00_first_kernels/01_saxpy"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Another course with the same step and other budgets, and the working directory somewhere in it."""
    grader = tmp_path / "clone" / "grader" / "lab00_first_kernels"
    grader.mkdir(parents=True)
    (grader / "test_01_saxpy.py").write_text("")
    (tmp_path / "clone" / "src" / "warpschool").mkdir(parents=True)
    inside = tmp_path / "clone" / "term"
    (inside / "in" / "ada" / "lab00_first_kernels").mkdir(parents=True)
    solution = Course.find().step(STEP).solution
    (inside / "in" / "ada" / "lab00_first_kernels" / "01_saxpy.cu").write_bytes(solution.read_bytes())
    monkeypatch.chdir(inside)
    return tmp_path / "clone"


COMMANDS = {
    "grade": ("grade", "in"),
    "grade of a lab": ("grade", "lab00"),
    "check": ("check", STEP, "--kernel", f"in/ada/{STEP}.cu"),
    "export": ("export",),
    "feedback": ("feedback", "lab00"),
    "release": ("release", "lab00"),
    "alike": ("alike", "in"),
    "rubric": ("rubric", "lab02"),
    "hint": ("hint", STEP),
    "solution": ("solution", STEP, "--yes"),
    "status": ("status",),
    "diff": ("diff", STEP),
    "quickstart": ("quickstart", "new"),
    "start": ("start", "mine"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_folder_of_another_course_is_refused(clone, words):
    (clone / "term" / "nbgrader_config.py").write_text("")
    refused = runner.invoke(app, list(words))
    said = " ".join(refused.output.split())
    assert refused.exit_code == BAD_INPUT, said
    assert "belongs to the course in" in said and "run this outside" in said
    assert not (clone / "term" / "mine").exists() and not (clone / "term" / "new").exists()


def test_a_class_inside_another_course_is_refused(clone, tmp_path, monkeypatch):
    (clone / "term" / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(tmp_path)
    refused = runner.invoke(app, ["grade", "lab00", "--class", str(clone / "term")])
    assert refused.exit_code == BAD_INPUT and "belongs to the course in" in " ".join(refused.output.split())


def test_who_judges_is_said(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["grade", str(clone / "term" / "in"), "--store", str(tmp_path / "store")]
    graded = runner.invoke(app, words)
    assert graded.exit_code == OK, graded.output
    said = "".join(graded.output.split())
    assert f"Course:{Course.find().root}(warpschool{__version__})" in said
    judge = json.loads(runner.invoke(app, [*words, "--json"]).stdout)["course"]
    assert judge == {"folder": str(Course.find().root), "version": __version__}


def test_the_own_course_and_a_personal_copy_are_no_other_ones(tmp_path):
    root = Course.find().root
    assert course_around(root / "labs") == root
    (tmp_path / "kernels" / "lab00_first_kernels").mkdir(parents=True)
    assert course_around(tmp_path) is None
