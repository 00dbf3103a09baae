"""Which file a step or a path means."""

from __future__ import annotations

import json
import os
import time
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


# ---------------------------------------------------------------- the notebook and the terminal: one state


@pytest.fixture
def copy(nobody):
    """A personal copy of one step, with nothing done; no cell was run."""
    (nobody / sources.PERSONAL_COPY_MARKER).write_text("")
    own = nobody / "kernels" / f"{STEP}.cu"
    own.parent.mkdir(parents=True)
    own.write_bytes(STEP.starter.read_bytes())
    cells.forget_all()
    yield own
    cells.forget_all()


def run_cell(text, own):
    cells.remember(STEP.name, cells.normalised(text))
    return cells.keep(STEP, own)


def test_a_cell_that_is_run_becomes_the_file_and_a_file_saved_later_counts(copy):
    assert run_cell("// by cell", copy) and copy.read_text() == "// by cell\n"
    assert resolve(STEP.name).origin == "notebook cell"
    cells.forget_all()  # another process
    assert (resolve(STEP.name).text, resolve(STEP.name).origin) == ("// by cell\n", "personal copy")
    assert run_cell("// by cell again", copy)
    copy.write_text("// by editor\n")
    os.utime(copy, (time.time() + 2,) * 2)
    assert (resolve(STEP.name).text, resolve(STEP.name).origin) == ("// by editor\n", "personal copy")


def test_a_starter_that_is_run_leaves_work_alone(copy):
    copy.write_text("// solved\n")
    os.utime(copy, (1, 1))
    assert not run_cell(STEP.starter.read_text(), copy) and copy.read_text() == "// solved\n"
    assert resolve(STEP.name).text == "// solved\n"


def test_work_that_a_cell_replaces_stays_beside_it(copy):
    copy.write_text("// solved\n")
    for text in ("// another way", "// and another"):
        assert run_cell(text, copy)
    assert copy.with_name("01_saxpy.previous.cu").read_text() == "// solved\n"


@pytest.mark.parametrize("names", ["lab00_first_kernels/01_saxpy", "lab00/01 --check"])
def test_a_cell_that_was_edited_and_not_run_is_told(copy, monkeypatch, names):
    notebook = copy.parents[2] / "lab00.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))

    def save(text, seconds):
        cell = {"cell_type": "code", "source": [f"%%kernel {names}\n", text]}
        notebook.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "text"}, cell]}))
        os.utime(notebook, (time.time() + seconds,) * 2)

    run_cell("// run", copy)
    save("// run", +5)
    assert resolve(STEP.name).text == "// run\n"
    save("// edited", -5)  # saved before the cell was run
    assert resolve(STEP.name).text == "// run\n"
    save("// edited", +5)
    with pytest.raises(CourseError, match=r"%%kernel lab00_first_kernels/01_saxpy was edited, but not run since"):
        resolve(STEP.name)
    notebook.write_text("no notebook")
    assert resolve(STEP.name).text == "// run\n"


def test_outside_a_checkout_its_starters_are_nobodys_own(tmp_path, monkeypatch):
    assert resolve(STEP.name, "own").origin == "the checkout's kernels/"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match="no kernel of yours"):
        resolve(STEP.name, "own")
