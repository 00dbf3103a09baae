"""Personal copies: made once, brought up to date, and no work is ever lost."""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from warpschool.cli.app import app
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.grading import PERSONAL_COPY_MARKER
from warpschool.notebook import personal
from warpschool.notebook.personal import Fate, course_files, update_copy

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


class Cells:
    """A notebook of named cells: one for each word, which is also its source unless `changed` says another."""

    def __init__(self, words, **changed):
        cells = []
        for word in words.split():
            cell = new_code_cell(changed.get(word, word))
            cell["id"] = word
            cell.outputs = [nbformat.v4.new_output("stream", text=f"said {word}")]
            cells.append(cell)
        self.text = nbformat.writes(new_notebook(cells=cells))


def sources(text):
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells]


@pytest.fixture
def work(fake):
    """A copy whose notebook of cells a, b, c, d was delivered; `meet(mine, theirs)` updates edits with changes."""
    fake.change(NOTEBOOK, Cells("a b c d").text)
    (fake.own / NOTEBOOK).unlink()
    assert fake.update()[NOTEBOOK].fate is Fate.added

    def meet(mine, theirs):
        fake.edit(NOTEBOOK, mine.text)
        fake.change(NOTEBOOK, theirs.text)
        found = fake.update()[NOTEBOOK]
        nbformat.validate(nbformat.reads(fake.read(NOTEBOOK), as_version=4))
        return found, sources(fake.read(NOTEBOOK))

    return meet


def test_an_edited_notebook_gets_the_courses_changes_in_other_cells(work):
    found, cells = work(Cells("a b c d", b="mine"), Cells("a b c d", d="theirs"))
    assert (found.fate, found.beside, cells) == (Fate.merged, "", ["a", "mine", "c", "theirs"])


def test_cells_of_ones_own_and_cells_that_the_course_adds_or_drops(work):
    found, cells = work(Cells("top a b note c d", b="mine"), Cells("a b new d"))
    assert (found.fate, cells) == (Fate.merged, ["top", "a", "mine", "note", "new", "d"])


def test_work_in_a_cell_that_the_course_drops_is_kept(work):
    found, cells = work(Cells("a b c d", c="mine"), Cells("a b d"))
    assert (found.fate, cells) == (Fate.merged, ["a", "b", "mine", "d"])


def test_cells_that_the_student_removed_stay_away(work):
    _, cells = work(Cells("a b d"), Cells("a b c d", d="theirs"))
    assert cells == ["a", "b", "theirs"]


def test_where_both_changed_a_cell_ones_own_stays_and_the_new_version_stands_beside(work, fake):
    found, cells = work(Cells("a b c d", b="mine"), Cells("a b c d", b="theirs", d="theirs too"))
    assert (found.fate, cells) == (Fate.beside, ["a", "mine", "c", "theirs too"])
    assert sources(fake.read(found.beside)) == ["a", "theirs", "c", "theirs too"]
    assert fake.update()[NOTEBOOK].fate is Fate.kept, "told once"
    fake.change(NOTEBOOK, Cells("a b c d", b="theirs", c="theirs as well", d="theirs too").text)
    assert fake.update()[NOTEBOOK].fate is Fate.merged
    assert sources(fake.read(NOTEBOOK)) == ["a", "mine", "theirs as well", "theirs too"]


def test_outputs_stay_with_cells_that_have_not_changed(work, fake):
    found, _ = work(Cells("a b c d"), Cells("a b c d", c="theirs"))
    outputs = [[o.text for o in cell.outputs] for cell in nbformat.reads(fake.read(NOTEBOOK), as_version=4).cells]
    assert (found.fate, outputs[0], outputs[1]) == (Fate.updated, ["said a"], ["said b"])


def test_a_copied_cell_with_the_same_grade_id_is_ones_own(work, fake):
    mine = nbformat.reads(Cells("a b c d").text, as_version=4)
    copied = new_code_cell("a second try")
    copied["metadata"] = {"nbgrader": {"grade_id": "b"}}
    mine.cells.insert(2, copied)
    fake.edit(NOTEBOOK, nbformat.writes(mine))
    fake.change(NOTEBOOK, Cells("a b c d", d="theirs").text)
    assert fake.update()[NOTEBOOK].fate is Fate.merged
    assert sources(fake.read(NOTEBOOK)) == ["a", "b", "a second try", "c", "theirs"]


@pytest.mark.parametrize(("mine", "theirs"), [("w x y mine", "a b c new"), ("a b c mine", "w x y z")])
def test_where_cells_were_renamed_nothing_is_merged(work, mine, theirs):
    found, cells = work(Cells(mine), Cells(theirs))
    assert (found.fate, cells) == (Fate.beside, mine.split())


def test_an_interrupted_update_is_remembered_and_finished_by_the_next(fake, monkeypatch):
    fake.change(KERNEL, "// second\n")
    fake.change(NOTEBOOK, notebook("second"))
    write = personal._write

    def interrupted(path, content):
        if path.name.endswith(".cu"):
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(personal, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fake.update()
    monkeypatch.undo()
    fake.change(NOTEBOOK, notebook("third"))
    found = fake.update()
    assert (found[KERNEL].fate, found[NOTEBOOK].fate) == (Fate.updated, Fate.updated)


def test_a_real_notebook_with_work_in_it_is_brought_up_to_date(tmp_path):
    course = Course.find()
    update_copy(tmp_path / "own", course)
    name = "labs/lab02_tiling/lab02_tiling.ipynb"
    mine = nbformat.read(tmp_path / "own" / name, as_version=4)
    (kernel,) = [cell for cell in mine.cells if cell.source.startswith("%%kernel")]
    kernel.source += "\n// my own line"
    nbformat.write(mine, tmp_path / "own" / name)
    theirs = nbformat.read(course.root / name, as_version=4)
    theirs.cells[0].source += "\n\nA sentence that the course has added."
    root = tmp_path / "course"
    (root / name).parent.mkdir(parents=True)
    nbformat.write(theirs, root / name)
    (root / "kernels").symlink_to(course.root / "kernels")
    found = {file.path: file for file in update_copy(tmp_path / "own", Course(root)).files}
    assert found[name].fate is Fate.merged
    merged = nbformat.read(tmp_path / "own" / name, as_version=4)
    kernel_now = [cell.source for cell in merged.cells if cell.source.startswith("%%kernel")]
    assert kernel_now == [kernel.source] and merged.cells[0].source == theirs.cells[0].source


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


def test_lab_without_jupyterlab_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["lab"])
    assert result.exit_code == 3 and "pip install 'warpschool[lab]'" in result.stderr
    assert not list(tmp_path.iterdir()), "no copy is made that cannot be opened"


def test_an_interrupted_start_says_how_it_is_finished(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(personal, "_write", interrupted)
    result = CliRunner().invoke(app, ["start", str(tmp_path / "own")])
    assert result.exit_code == 130 and f"warpschool start {tmp_path / 'own'}" in result.stderr.replace("\n", "")


def test_start_tells_in_a_table(fake, monkeypatch):
    monkeypatch.chdir(fake.own)
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


def test_a_copy_has_the_chapters_and_no_link_of_theirs_is_dead(tmp_path):
    files = course_files(Course.find())
    pages = {path: text.decode() for path, text in files.items() if path.startswith("docs/learn/")}
    assert {"docs/learn/gpu.md", "docs/learn/measuring.md"} <= set(pages)
    assert {f"docs/learn/{lab.name[:5]}.md" for lab in Course.find().labs()} <= set(pages)
    assert "docs/learn/ladder.md" not in pages, "it shows solutions"
    for path, text in pages.items():
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            assert posixpath.normpath(posixpath.join("docs/learn", link)) in files or "://" in link, f"{path}: {link}"
    notebooks = [text.decode() for path, text in files.items() if path.endswith(".ipynb")]
    linked = {found for text in notebooks for found in re.findall(r"\]\(\.\./\.\./(docs/[^)\s]+)\)", text)}
    assert linked and linked <= set(files)
