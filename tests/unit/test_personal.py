"""Personal copies: made once, brought up to date, and no work is ever lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from warpschool.cli.app import app
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.grading import PERSONAL_COPY_MARKER
from warpschool.personal import Fate, update_copy

KERNEL = "kernels/lab00_x/01_a.cu"
NOTEBOOK = "labs/lab00_x/lab00_x.ipynb"


def notebook(text: str) -> str:
    return nbformat.writes(new_notebook(cells=[new_markdown_cell(text), new_code_cell("1 + 1")]))


class Fake:
    """A course of one step that can be changed, and a copy of it."""

    def __init__(self, root):
        self.root, self.own = root / "course", root / "own"
        self.change(KERNEL, "// first\n")
        self.change(NOTEBOOK, notebook("first"))

    def change(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def edit(self, path, text):
        (self.own / path).write_text(text)

    def read(self, path):
        return (self.own / path).read_text()

    def update(self):
        return {file.path: file for file in update_copy(self.own, Course(self.root)).files}


@pytest.fixture
def fake(tmp_path):
    made = Fake(tmp_path)
    assert {file.fate for file in made.update().values()} == {Fate.added}
    return made


def test_untouched_files_are_updated(fake):
    fake.change(KERNEL, "// second\n")
    found = fake.update()
    assert (found[KERNEL].fate, found[NOTEBOOK].fate) == (Fate.updated, Fate.current)
    assert fake.read(KERNEL) == "// second\n"


def test_edited_files_are_kept(fake):
    fake.edit(KERNEL, "// mine\n")
    assert fake.update()[KERNEL].fate is Fate.kept
    assert fake.read(KERNEL) == "// mine\n"


def test_where_both_have_changed_the_new_version_stands_beside(fake):
    fake.edit(KERNEL, "// mine\n")
    fake.change(KERNEL, "// second\n")
    found = fake.update()[KERNEL]
    assert found.beside == "kernels/lab00_x/01_a.new.cu"
    assert (fake.read(KERNEL), fake.read(found.beside)) == ("// mine\n", "// second\n")
    assert fake.update()[KERNEL].fate is Fate.kept, "told once"


def test_work_in_the_new_version_is_kept_too(fake):
    fake.edit(KERNEL, "// mine\n")
    fake.change(KERNEL, "// second\n")
    beside = fake.update()[KERNEL].beside
    fake.edit(beside, "// I go on here\n")
    fake.change(KERNEL, "// third\n")
    found = fake.update()[KERNEL]
    assert found.beside == "kernels/lab00_x/01_a.new2.cu"
    assert [fake.read(path) for path in (KERNEL, beside, found.beside)] == [
        "// mine\n", "// I go on here\n", "// third\n",
    ]  # fmt: skip


def test_an_untouched_new_version_is_replaced(fake):
    fake.edit(KERNEL, "// mine\n")
    for text in ("// second\n", "// third\n"):
        fake.change(KERNEL, text)
        beside = fake.update()[KERNEL].beside
    assert beside == "kernels/lab00_x/01_a.new.cu"
    assert fake.read(beside) == "// third\n"


def test_running_a_notebook_is_no_edit_but_writing_in_it_is(fake):
    ran = nbformat.reads(fake.read(NOTEBOOK), as_version=4)
    ran.cells[1].execution_count = 3
    ran.cells[1].outputs = [nbformat.v4.new_output("stream", text="2")]
    fake.edit(NOTEBOOK, nbformat.writes(ran))
    fake.change(NOTEBOOK, notebook("second"))
    assert fake.update()[NOTEBOOK].fate is Fate.updated
    mine = nbformat.reads(fake.read(NOTEBOOK), as_version=4)
    mine.cells[1].source = "2 + 2"
    fake.edit(NOTEBOOK, nbformat.writes(mine))
    fake.change(NOTEBOOK, notebook("third"))
    assert fake.update()[NOTEBOOK].beside == "labs/lab00_x/lab00_x.new.ipynb"
    assert "2 + 2" in fake.read(NOTEBOOK)


def test_a_file_that_the_student_removed_comes_back(fake):
    (fake.own / KERNEL).unlink()
    assert fake.update()[KERNEL].fate is Fate.added


@pytest.mark.parametrize("marker", ['{"warpschool": "0.1.0"}', "damaged", "[]", '{"files": 3}'])
def test_without_a_record_what_differs_counts_as_edited(fake, marker):
    (fake.own / PERSONAL_COPY_MARKER).write_text(marker)
    fake.edit(KERNEL, "// perhaps mine\n")
    found = fake.update()
    assert (found[KERNEL].fate, found[NOTEBOOK].fate) == (Fate.beside, Fate.current)
    assert fake.read(KERNEL) == "// perhaps mine\n"


def test_a_damaged_notebook_is_kept(fake):
    fake.edit(NOTEBOOK, '{"cells": [3]}')
    fake.change(NOTEBOOK, notebook("second"))
    assert fake.update()[NOTEBOOK].fate is Fate.beside


def test_what_cannot_be_a_copy_says_so(fake, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="is a file"):
        update_copy(tmp_path / "file", Course(fake.root))
    with pytest.raises(CourseError, match="no starters"):
        update_copy(tmp_path / "new", Course(tmp_path / "nothing"))


def test_lab_makes_a_copy_and_says_what_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["lab", "--json", "--no-browser", "--port", "9999"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["copy"] == str(tmp_path / "my-warpschool")
    assert found["command"][1:6] == ["-m", "jupyterlab", found["copy"], "--no-browser", "--port=9999"]
    assert (tmp_path / "my-warpschool/kernels/lab00_first_kernels/01_saxpy.cu").is_file()
    monkeypatch.chdir(tmp_path / "my-warpschool" / "labs")
    again = json.loads(CliRunner().invoke(app, options).stdout)
    assert (again["copy"], again["update"]["added"]) == (found["copy"], [])
    assert json.loads(CliRunner().invoke(app, [*options, "--no-update"]).stdout)["update"] is None


def test_start_tells_in_a_table(fake, monkeypatch):
    monkeypatch.setattr(Course, "find", staticmethod(lambda: Course(fake.root)))
    fake.edit(KERNEL, "// mine\n")
    fake.change(KERNEL, "// 01_a.cu: second\n")
    result = CliRunner().invoke(app, ["start", str(fake.own)])
    assert result.exit_code == 0, result.output
    assert "yours, kept; new version beside it" in result.stdout
    assert "01_a.new.cu" in result.stdout


def test_jupyterlab_finds_the_extension_for_kernel_cells(monkeypatch):
    from warpschool.notebook.jupyter import jupyter_path

    monkeypatch.setenv("JUPYTER_PATH", "elsewhere")
    first, other = jupyter_path().split(os.pathsep)
    assert (Path(first) / "labextensions" / "warpschool" / "static" / "remoteEntry.js").is_file()
    assert other == "elsewhere"
