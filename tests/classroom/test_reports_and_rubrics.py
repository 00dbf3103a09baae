"""What people grade: questions with their rubrics, answers with their images, reports as PDF."""

from __future__ import annotations

import base64
import io
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output
from PIL import Image
from pypdf import PdfWriter

from warpschool.authoring.starters import find_holes
from warpschool.classroom.reports import look_at_report
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading.assignment import read_rubrics
from warpschool.grading.python_cells import bubblewrap_problem

from .small import RIGHT, STEP, mini_notebook


def pdf(pages):
    writer = PdfWriter()
    for _ in range(pages):
        writer.add_blank_page(width=595, height=842)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, ""),
        ({"report.pdf": pdf(1)}, "report.pdf: 1 page"),
        ({"my.pdf": pdf(3)}, "my.pdf: 3 pages"),
        ({"my.pdf": pdf(4)}, "my.pdf: 4 pages; at most 3 are read"),
        ({"a.pdf": pdf(1), "report.pdf": pdf(2)}, "report.pdf: 2 pages"),
        ({"a.pdf": pdf(1), "b.pdf": pdf(1)}, "2 PDFs, and none is called report.pdf: none is read"),
        ({"a.pdf": b"%PDF-1.7 nonsense"}, "a.pdf: it cannot be read as a PDF"),
    ],
)
def test_reports(tmp_path, files, said):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert look_at_report(tmp_path, most_pages=3) == said


def test_a_report_is_named_to_graders_and_in_feedback(small_class):
    path = small_class.hand_in("ada")
    (path.parent / "report.pdf").write_bytes(pdf(5))
    assert small_class.grade().graded["ada"].report == "report.pdf: 5 pages; at most 3 are read"
    assert (small_class.root / "autograded" / "ada" / "mini" / "report.pdf").is_file()
    small_class.app.convert("feedback", "mini")
    page = (small_class.root / "feedback" / "ada" / "mini" / "mini.html").read_text()
    assert "5 pages; at most 3 are read" in page


def test_graders_see_image_and_rubric_students_do_not(small_class):
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "green").save(out, format="PNG")
    plot = new_output("display_data", {"image/png": base64.b64encode(out.getvalue()).decode(), "text/html": "<b>x</b>"})

    def edit(notebook):
        cell = new_code_cell("plot()", outputs=[plot])
        notebook.cells.append(cell)

    small_class.hand_in("ada", answer="See my plot.", edit=edit)
    released = (small_class.root / "release" / "mini" / "mini.ipynb").read_text()
    assert "SECRETMARK" not in released
    small_class.grade()
    graded = nbformat.read(small_class.root / "autograded" / "ada" / "mini" / "mini.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in graded.cells)
    assert "because SECRETMARK" in text, "formgrader shows the mark scheme"
    (own,) = (cell for cell in graded.cells if cell.source == "plot()")
    assert "gave no image" in own.outputs[0].text, "there is no plot()"
    assert "the student's own" in own.outputs[1].text and list(own.outputs[2].data) == ["image/png"]
    small_class.app.convert("feedback", "mini")
    page = (small_class.root / "feedback" / "ada" / "mini" / "mini.html").read_text()
    assert "See my plot." in page and "data:image/png;base64," in page and "SECRETMARK" not in page


@pytest.mark.skipif(bool(bubblewrap_problem()), reason=bubblewrap_problem() or "bubblewrap is here")
def test_a_plot_is_drawn_again_when_it_is_graded(small_class):
    """The image that graders see is not the one in the file, which may show anything."""
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "green").save(out, format="PNG")
    forged = new_output("display_data", {"image/png": base64.b64encode(out.getvalue()).decode()})
    source = "import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1));"

    def edit(notebook):
        notebook.cells.append(new_code_cell(source, outputs=[forged]))

    small_class.hand_in("ada", answer="See my plot.", edit=edit)
    done = small_class.grade()
    ((name, drawing),) = done.graded["ada"].drawings.items()
    assert drawing["isolation"].startswith("bubblewrap")
    graded = nbformat.read(small_class.root / "autograded" / "ada" / "mini" / "mini.ipynb", as_version=4)
    (own,) = (cell for cell in graded.cells if cell["id"] == name)
    assert own.source == source and "drawn when this cell was graded" in own.outputs[0].text
    assert Image.open(io.BytesIO(base64.b64decode(own.outputs[1].data["image/png"]))).size == (200, 100)
    assert small_class.grades("ada")["m-explain"].waits, "a person looks at it"
    small_class.app.convert("feedback", "mini")
    page = (small_class.root / "feedback" / "ada" / "mini" / "mini.html").read_text()
    assert "<figcaption>drawn again when your work was graded" in page


def test_a_real_labs_rubric_reaches_formgrader_only(small_class):
    course = Course.find()
    lab = course.lab("lab00")
    rubric = read_rubrics(course, lab.name)
    ((task, text),) = rubric.items()
    target = small_class.root / "source" / lab.name
    target.mkdir()
    shutil.copy(lab.notebook, target)
    small_class.app.convert("release", lab.name)
    released = (small_class.root / "release" / lab.name / lab.notebook.name).read_text()
    line = text.splitlines()[0]
    assert line[:40] not in released and "MARK SCHEME" not in released
    with small_class.app.gradebook() as gradebook:
        assert line in gradebook.find_source_cell(task, lab.name, lab.name).source


def test_two_sections_for_one_task_are_an_error(tmp_path):
    folder = tmp_path / "grader" / "lab00_x"
    folder.mkdir(parents=True)
    (folder / "rubric.md").write_text("# Lab\n\n## a-b\n\none\n\n## c\ntwo\n")
    assert read_rubrics(Course(tmp_path), "lab00_x") == {"a-b": "one", "c": "two"}
    (folder / "rubric.md").write_text("## a\n## a\n")
    with pytest.raises(CourseError, match="two sections"):
        read_rubrics(Course(tmp_path), "lab00_x")
    assert read_rubrics(Course(tmp_path), "lab01_y") == {}


# ---------------------------------------------------------------- releases


def test_release_writes_the_bytes_of_formgraders_button(small_class):
    from nbgrader.apps.api import NbGraderAPI

    path = small_class.root / "release" / "mini" / "mini.ipynb"
    ours = path.read_bytes()
    path.unlink()
    app = small_class.app
    assert NbGraderAPI(app.coursedir, parent=app.app).generate_assignment("mini", force=True)["success"]
    assert path.read_bytes() == ours
    kernel = next(cell for cell in small_class.released().cells if cell["id"] == "m-kernel")
    assert kernel.source.startswith(f"%%kernel {STEP}\n") and "// BEGIN SOLUTION" in kernel.source


def test_the_text_of_which_a_notebook_is_built_is_not_released(small_class):
    """What else lies beside a notebook is, as nbgrader does it."""
    for name in ("mini.md", "notes.md", "data.csv"):
        (small_class.root / "source" / "mini" / name).write_text("x")
    small_class.app.convert("release", "mini")
    files = {path.name for path in (small_class.root / "release" / "mini").iterdir()}
    assert files == {"mini.ipynb", "notes.md", "data.csv"}


def test_a_solution_is_never_released(small_class):
    notebook = mini_notebook()
    notebook.cells[1].source = f"%%kernel {STEP}\n{RIGHT}"
    small_class.write_source(notebook)
    with pytest.raises(CourseError, match=f"m-kernel holds the solution of {STEP}"):
        small_class.app.convert("release", "mini")
    assert find_holes(RIGHT)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f'# x\nws.check_cell("{STEP}", points=3)', "worth 4 points by its metadata, 3 by its calls"),
        (f'# x\nws.check_cell("{STEP}", "Fast", points=4)', f"{STEP} has no criterion 'Fast'"),
        ('# x\nws.check_cell("lab00/99", points=4)', "m-correct: there is no step"),
    ],
)
def test_points_and_criteria_must_be_right(small_class, source, said):
    notebook = mini_notebook()
    notebook.cells[2].source = source
    small_class.write_source(notebook)
    with pytest.raises(CourseError, match=said):
        small_class.app.convert("release", "mini")


def test_a_class_whose_configuration_is_nbgraders_own_is_refused(small_class):
    (small_class.root / "nbgrader_config.py").write_text("c = get_config()\n")
    with pytest.raises(CourseError, match="does not set up warpschool"):
        _ = small_class.app
