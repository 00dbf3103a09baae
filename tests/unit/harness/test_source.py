"""Which file a step or a path means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.harness import source as sources
from warpschool.harness.source import of_course, resolve
from warpschool.notebook import cells

STEP = Course.find().step("lab00/01")


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    """A folder without a personal copy, outside a checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "checkout_root", lambda: None)
    return tmp_path


def test_a_file_wins_over_the_step_of_its_name(nobody):
    path = Path(f"{STEP}.cu")
    with pytest.raises(CourseError, match="no kernel of yours"):  # no such file: the step is meant
        resolve(str(path))
    path.parent.mkdir()
    path.write_text("// own\n")
    found = resolve(str(path))
    assert (found.text, found.name, found.origin, found.label) == ("// own\n", path.name, "given file", str(path))
    assert resolve(path) == found


def test_a_missing_file_that_names_no_step_is_a_missing_file(nobody):
    with pytest.raises(ArgumentError, match=r"there is no file kernels/gone\.cu") as caught:
        resolve("kernels/gone.cu")
    assert "Name an existing .cu file." in caught.value.next_step
    with pytest.raises(CourseError, match="there is no step 'lab99/01'"):
        resolve("lab99/01")


def test_whose_file_of_a_step(nobody):
    reference, starter = resolve(STEP.name, "reference"), resolve("lab00/01", "starter")
    assert reference.data == STEP.solution.read_bytes() and reference.label == f"solutions/{STEP}.cu"
    assert starter.data == STEP.starter.read_bytes() and starter.label == f"{STEP}.cu (starter)"
    assert resolve(STEP.name, "begun") == starter  # nobody has begun
    cells.remember(STEP.name, "// mine\n")
    try:
        for kind in ("own", "begun"):
            mine = resolve(STEP.name, kind)
            assert (mine.text, mine.name) == ("// mine\n", STEP.file_name)
            assert mine.label == f"{STEP}.cu (notebook cell)"
    finally:
        cells.forget_all()


def test_advice_where_there_is_none(nobody):
    with pytest.raises(CourseError) as caught:
        resolve(STEP.name, otherwise="Name a file: ws.here(FILE)")
    assert caught.value.next_step.startswith("Name a file: ws.here(FILE); or ")
    with pytest.raises(CourseError, match="has no reference in this course") as caught:
        of_course(replace(STEP, solution=None), "reference", otherwise="Leave it out.")
    assert caught.value.next_step == "Leave it out."
