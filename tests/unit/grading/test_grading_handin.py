"""Submitted notebooks, read as data: what is the student's, and what is not believed."""

from __future__ import annotations

import base64
import io
import json
import os

import pytest

pytest.importorskip("nbformat")

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from warpschool.errors import CourseError
from warpschool.grading.assignment import Assignment, CheckCall, GradedCell, read_assignment
from warpschool.grading.handin import MAX_NOTEBOOK_BYTES, answers, digest, read_handin, reassembled, safe_png

STEP = "lab02_tiling/01_tiled"


def marked(cell, name, **marks):
    cell["id"] = name
    kinds = {"grade": False, "solution": False, "task": False, "locked": False, "schema_version": 3}
    cell.metadata["nbgrader"] = {**kinds, "grade_id": name, **marks}
    return cell


def master():
    answer = new_markdown_cell("*Your answer:*")
    answer["id"] = "explain-answer"
    return Assignment("lab", new_notebook(cells=[
        marked(new_markdown_cell("# Lab"), "title", locked=True),
        marked(new_code_cell("x = None"), "predict", solution=True),
        marked(new_code_cell(f"%%kernel {STEP}\n// starter"), "kernel", solution=True),
        marked(new_code_cell(f'# Right.\nws.check_cell("{STEP}", "Right answers", points=3)'), "check", grade=True,
               locked=True, points=3),
        marked(new_code_cell("ws.check_prediction(x, 4)"), "predicted", grade=True, locked=True, points=1),
        marked(new_markdown_cell("Why?"), "explain", task=True, locked=True, points=2),
        answer,
        marked(new_markdown_cell("The end"), "end", locked=True),
    ]))  # fmt: skip


def written(tmp_path, change=lambda cells: None, **document):
    """The file of a student who changed some cells."""
    cells = json.loads(json.dumps(master().notebook))["cells"]
    change(cells)
    path = tmp_path / "lab.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **document}))
    return path


def read(tmp_path, change=lambda cells: None):
    return read_handin(written(tmp_path, change), master())


def by_id(cells, name):
    return next(cell for cell in cells if cell["id"] == name)


def test_the_assignment_as_data():
    found = {cell.grade_id: cell for cell in master().cells}
    assert [(cell.kind, cell.points) for cell in found.values()] == [("kernel", 3), ("python", 1), ("manual", 2)]
    assert found["check"].parts == (CheckCall(STEP, ("Right answers",), 3.0),)
    assert master().steps == (STEP,)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ('points = ws.check_cell("a", points=3)\npoints += ws.check_cell("b", "x", "y")\npoints', ["a", "b"]),
        ('ws.check_cell("a") + ws.check_cell("b", points=2)', ["a", "b"]),
        ('ws.check_cell("a") * 2', []),
        ("ws.check_cell(step)", []),
        ('ws.check_cell("a", device="gpu")', []),
        ('x = f()\nws.check_cell("a")', []),
    ],
)
def test_only_plain_sums_of_checks_are_kernels(source, parts):
    cell = marked(new_code_cell(source), "c", grade=True, points=1)
    (found,) = Assignment("lab", new_notebook(cells=[cell])).cells
    assert [part.step for part in found.parts] == parts
    assert found.kind == ("kernel" if parts else "python")


def test_every_lab_is_understood():
    from warpschool.course import Course

    for lab in Course.find().labs():
        if lab.notebook is None:
            continue
        assignment = read_assignment(lab.notebook)
        graded = {part.step for cell in assignment.cells for part in cell.parts}
        assert graded and graded <= set(assignment.kernel_cells.values()), "a bonus may be worth nothing"
        assert {cell.kind for cell in assignment.cells} <= {"kernel", "python", "manual"}


def test_an_untouched_hand_in(tmp_path):
    handin = read(tmp_path)
    assert (handin.problem, handin.notes) == ("", ())
    assert handin.kernels[STEP].data == b"// starter"
    assert answers(handin, master()) == {"explain": ()}
    assert [cell["id"] for cell in reassembled(handin, master()).cells] == [c["id"] for c in master().notebook.cells]


def test_what_is_the_students(tmp_path):
    def change(cells):
        by_id(cells, "kernel")["source"] = f"%%kernel {STEP}\r\nmine\r\n"
        by_id(cells, "predict")["source"] = ["x = ", "4"]
        by_id(cells, "explain-answer")["source"] = "Because."
        cells.insert(-1, {"cell_type": "markdown", "source": "And more.", "metadata": {}})

    handin = read(tmp_path, change)
    assert handin.kernels[STEP].data == b"mine\n"
    notebook = reassembled(handin, master())
    assert [cell.source for cell in notebook.cells if cell.source in ("x = 4", "Because.", "And more.")] == [
        "x = 4", "Because.", "And more.",
    ]  # fmt: skip
    assert [own.source for own in answers(handin, master())["explain"]] == ["Because.", "And more."]


def test_what_is_not(tmp_path):
    def change(cells):
        by_id(cells, "check")["source"] = "1e9"
        by_id(cells, "check")["metadata"]["nbgrader"]["points"] = 99
        by_id(cells, "predicted")["metadata"]["tags"] = ["skip-execution"]
        by_id(cells, "title")["cell_type"] = "code"
        forged = {"tags": ["x"], "nbgrader": {"grade_id": "z"}}
        cells.append({"cell_type": "code", "source": "evil()", "metadata": forged})

    notebook = reassembled(read(tmp_path, change), master())
    for mine, found in zip(master().notebook.cells, notebook.cells, strict=False):
        assert (mine.source, mine.metadata, mine.cell_type) == (found.source, found.metadata, found.cell_type)
    assert notebook.cells[-1].source == "evil()" and notebook.cells[-1].metadata == {}


@pytest.mark.parametrize(
    ("change", "source", "note"),
    [
        (lambda cells: cells.remove(by_id(cells, "kernel")), b"", "the cell kernel is missing; there is nothing"),
        (lambda cells: cells.append({"cell_type": "code", "source": f"%%kernel {STEP}\nlater", "metadata":
         {"nbgrader": {"grade_id": "kernel"}}}), b"later", "the cell kernel is there 2 times; the last one counts"),
        (lambda cells: by_id(cells, "kernel")["metadata"].clear(), b"// starter", "another cell that names the step"),
        (lambda cells: by_id(cells, "kernel").update(cell_type="markdown"), b"// starter", "of another type now"),
        (lambda cells: by_id(cells, "kernel").update(source="%%kernel lab00/01\nx"), b"x", "it is graded as lab02_ti"),
        (lambda cells: by_id(cells, "kernel").update(source="// no magic"), b"// no magic", ""),
        (lambda cells: by_id(cells, "kernel").update(source=7), b"", ""),
        (lambda cells: by_id(cells, "kernel").update(source="%%kernel x\n\ud800"), b"\xef\xbf\xbd", ""),
        (lambda cells: cells.reverse(), b"// starter", ""),
        (lambda cells: cells.append("no cell"), b"// starter", ""),
    ],
)  # fmt: skip
def test_cells_that_were_lost_doubled_or_turned(tmp_path, change, source, note):
    handin = read(tmp_path, change)
    assert not handin.problem
    assert handin.kernels[STEP].data == source
    assert note in "; ".join(handin.notes)
    assert bool(note) == bool(handin.notes) or "graded as" in "; ".join(handin.notes)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"), (b"{", "no JSON"), (b"[]", "no list of cells"), (b"\xff" * 10, "no UTF-8"),
        (b'{"cells": 3}', "no list of cells"), (b'{"worksheets": []}', "no notebook of format 4"),
        (b"[" * 100_000, "no JSON"), (b'{"a": ' + b"9" * 10_000 + b"}", "no JSON"),
        (json.dumps({"cells": [{}] * 3000}).encode(), "3,000 cells"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(tmp_path, data, problem):
    path = tmp_path / "lab.ipynb"
    path.write_bytes(data)
    handin = read_handin(path, master())
    assert problem in handin.problem
    assert [cell.source for cell in reassembled(handin, master()).cells] == [c.source for c in master().notebook.cells]


def test_links_pipes_and_giants(tmp_path):
    real = written(tmp_path)
    link = tmp_path / "link.ipynb"
    link.symlink_to(real)
    assert "it is a link" in read_handin(link, master()).problem
    os.mkfifo(tmp_path / "pipe.ipynb")
    assert "no regular file" in read_handin(tmp_path / "pipe.ipynb", master()).problem
    with (tmp_path / "giant.ipynb").open("wb") as file:
        file.truncate(MAX_NOTEBOOK_BYTES + 1)
    assert "too large" in read_handin(tmp_path / "giant.ipynb", master()).problem
    assert "cannot be read" in read_handin(tmp_path / "nothing.ipynb", master()).problem


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_other_encodings_are_read(tmp_path, encoding):
    path = written(tmp_path)
    path.write_bytes(path.read_text().encode(encoding))
    assert read_handin(path, master()).kernels[STEP].data == b"// starter"


def test_equal_files_give_equal_notebooks(tmp_path):
    def change(cells):
        cells.append({"cell_type": "code", "source": "mine", "metadata": {}})

    assert reassembled(read(tmp_path, change), master()) == reassembled(read(tmp_path, change), master())


# ---------------------------------------------------------------- images


def png(size=(4, 3), **save):
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, format="PNG", **save)
    return base64.b64encode(out.getvalue()).decode()


def test_images_of_answers_are_kept_and_labelled(tmp_path):
    plot = {"output_type": "display_data", "data": {"image/png": png(), "text/html": "<script>"}, "metadata": {}}

    def change(cells):
        by_id(cells, "kernel")["outputs"] = [plot]
        cells.insert(-1, {"cell_type": "code", "source": "plot()", "metadata": {}, "outputs": [plot, "nonsense"]})

    handin = read(tmp_path, change)
    (own,) = answers(handin, master())["explain"]
    assert len(own.images) == 1
    cells = {cell.source: cell for cell in reassembled(handin, master()).cells}
    label, image = cells["plot()"].outputs
    assert "the student's own" in label.text
    assert set(image.data) == {"image/png"}
    assert not cells[f"%%kernel {STEP}\n// starter"].outputs
    assert digest((own,)) != digest(())


def test_images_are_drawn_anew():
    text = PngInfo()
    text.add_text("secret", "hidden words")
    again = base64.b64decode(safe_png(png(pnginfo=text)))
    assert b"hidden words" not in again
    assert Image.open(io.BytesIO(again)).size == (4, 3)
    assert Image.open(io.BytesIO(base64.b64decode(safe_png(png((4000, 100)))))).size == (1600, 40)


@pytest.mark.parametrize("data", ["", "!!", base64.b64encode(b"GIF89a").decode(), png()[:40]])
def test_what_is_no_image(data):
    assert safe_png(data) == ""


def test_an_image_of_too_many_pixels_is_none():
    assert safe_png(png((6000, 6000))) == ""


def test_an_instructors_notebook_that_is_none(tmp_path):
    (tmp_path / "lab.ipynb").write_text("{}")
    with pytest.raises(CourseError, match="no valid notebook"):
        read_assignment(tmp_path / "lab.ipynb")
    with pytest.raises(CourseError, match="cannot read"):
        read_assignment(tmp_path / "other.ipynb")


def test_a_cell_of_other_code_names_the_kernels_that_it_checks():
    source = f"points = 0\nfor _ in (1, 2):\n    points += ws.check_cell('{STEP}')\npoints"
    graded = GradedCell("mixed", 2.0, "python", source)
    assert graded.checked == (STEP,)
    assert GradedCell("kernel", 2.0, "kernel", source).checked == ()
