"""Notebooks: valid, stripped, graded by criteria that exist, with today's starters in their kernel cells."""

from __future__ import annotations

import ast

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from warpschool.authoring.lab_text import stale_notebooks
from warpschool.authoring.notebooks import (
    checks_in,
    grade_id,
    is_answer,
    is_autograded,
    kernel_step,
    notebook_text,
    problems,
    read_answers,
    read_notebook,
    refreshed,
    solved,
)
from warpschool.authoring.starters import make_starter
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading import criteria_of
from warpschool.grading.assignment import read_rubrics

COURSE = Course.find()
LABS = [lab for lab in COURSE.labs() if lab.notebook is not None]
each_lab = pytest.mark.parametrize("lab", LABS, ids=str)


def test_the_first_labs_have_notebooks():
    assert {lab.name for lab in LABS} >= {"lab00_first_kernels", "lab01_naive_gemm", "lab02_tiling"}


def test_notebooks_are_what_the_solutions_give():
    stale = stale_notebooks(COURSE.root / "labs", COURSE.root / "solutions")
    assert not stale, f"run: python -m warpschool.authoring; out of date: {sorted(map(str, stale))}"


@each_lab
def test_notebook_keeps_the_rules(lab):
    assert problems(read_notebook(lab.notebook)) == []


@each_lab
def test_notebook_has_a_kernel_cell_for_every_step_and_no_solution(lab):
    cells = {kernel_step(cell): cell for cell in read_notebook(lab.notebook).cells if kernel_step(cell)}
    assert list(cells) == [step.name for step in lab.steps]
    for step in lab.steps:
        starter = make_starter(step.solution.read_text("utf-8"))
        assert cells[step.name].source.split("\n", 1)[1] == starter.rstrip("\n")


def test_an_exported_notebook_shows_kernels_as_cuda():
    lab = COURSE.lab("lab02_tiling")
    page, _ = HTMLExporter().from_notebook_node(read_notebook(lab.notebook))
    assert '<span class="kt">__shared__</span>' in page


@each_lab
def test_check_cells_name_criteria_that_exist_and_cover_all(lab):
    asked = {step.name: [] for step in lab.steps}
    for cell in read_notebook(lab.notebook).cells:
        if not is_autograded(cell):
            continue
        for call in checks_in(cell.source):
            if call.func.attr == "check_cell":
                names = [ast.literal_eval(argument) for argument in call.args]  # literals: a grader reads them as text
                asked[names[0]] += names[1:] or ["*"]
    for step in lab.steps:
        titles = [criterion.title for criterion in criteria_of(step)]
        assert asked[step.name] in (["*"], titles)


@each_lab
def test_every_prediction_has_an_answer_and_starts_empty(lab):
    answers = read_answers(COURSE.root / "solutions" / lab.name)
    given = {grade_id(cell): cell.source for cell in read_notebook(lab.notebook).cells}
    predictions = {name for name in given if name.endswith("-predict")}
    functions = {name for name in given if name.endswith("-code")}  # exercises in Python
    assert predictions and predictions | functions == set(answers)
    for name in predictions:
        assert all(line.endswith(" = None") for line in given[name].splitlines())


@each_lab
def test_lab_asks_for_an_explanation_with_a_rubric(lab):
    cells = read_notebook(lab.notebook).cells
    tasks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("task")]
    assert tasks
    rubrics = read_rubrics(COURSE, lab.name)
    assert set(rubrics) == {grade_id(cell) for cell in tasks}
    for cell in tasks:
        assert cell.source.count("- One point:") == cell.metadata.nbgrader.points
        assert f"({cell.metadata.nbgrader.points} points)" in cell.source
        assert is_answer(cells[cells.index(cell) + 1])


def graded(source: str = "# what\nws.check_cell('a/b', points=2)", **change: object):
    cell = new_code_cell(source)
    data = {"grade": True, "grade_id": "lab00-01-x", "locked": True, "points": 2, "schema_version": 3}
    cell.metadata = nbformat.from_dict({"nbgrader": {**data, "solution": False, "task": False, **change}})
    return cell


def test_rules_accept_a_good_cell():
    counted = "# what\nx = ws.run('a/b', {}, device='sim')\ny = x.counters\nws.check_cell('a/b', points=2)"
    fast = graded("# what\nx = ws.run('a/b', {})\nx.outputs\nws.check_cell('a/b', points=2)", grade_id="lab00-02-x")
    assert problems(new_notebook(cells=[graded(counted), fast])) == []


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (new_markdown_cell("x"), "no nbgrader metadata"),
        (graded(schema_version=2), "schema is 2"),
        (graded(grade_id="x"), "not like lab02-01-correct"),
        (graded(points=0), "no points"),
        (graded(points=3), "worth 2 points, its metadata say 3"),
        (graded(locked=False), "either locked or for the student"),
        (graded(task=True), "a task is a markdown cell"),
        (graded(extra=1), "has the keys"),
        (graded("ws.check_cell('a/b', points=2)"), "begins with a comment"),
        (graded("# what\nx = ws.check_cell('a/b', points=2)"), "ends in an expression"),
        (graded("# what\nws.run('a/b', {}).counters\nws.check_cell('a/b', points=2)"), 'needs device="sim"'),
        (graded("# what\nx = ws.run('a/b', {})\nx.lines\nws.check_cell('a/b', points=2)"), "x reads lines"),
        (graded("# what\n" + "y = 1\n" * 15 + "ws.check_cell('a/b', points=2)"), "lines of code"),
    ],
)
def test_rules_name_what_is_wrong(cell, said):
    assert any(said in problem for problem in problems(new_notebook(cells=[cell])))


def test_rules_see_outputs_twins_and_length():
    cell = graded()
    cell.execution_count = 1
    notebook = new_notebook()
    notebook.cells = [cell] * 27
    found = "\n".join(problems(notebook))
    assert "carries outputs" in found and "stands in several cells" in found and "27 cells" in found


def test_refreshing_and_solving(tmp_path):
    (tmp_path / "lab00_x").mkdir()
    (tmp_path / "lab00_x" / "01_a.cu").write_text("// BEGIN SOLUTION: x (about 1 line)\na;\n// END SOLUTION\n")
    notebook = new_notebook(cells=[new_code_cell("%%kernel lab00_x/01_a\nold"), graded()])
    notebook.cells[0].execution_count = 7
    fresh = refreshed(notebook, tmp_path)
    assert fresh.cells[0].source == "%%kernel lab00_x/01_a\n// BEGIN SOLUTION: x (about 1 line)\n// END SOLUTION"
    assert fresh.cells[0].execution_count is None
    assert notebook.cells[0].source.endswith("old"), "the given notebook was changed"
    assert "\na;\n" in solved(notebook, tmp_path, lab="lab00_x").cells[0].source
    assert notebook_text(refreshed(fresh, tmp_path)) == notebook_text(fresh)


def test_solving_refuses_what_does_not_fit(tmp_path):
    (tmp_path / "lab00_x").mkdir()
    with pytest.raises(CourseError, match=r"no .*01_a\.cu"):
        refreshed(new_notebook(cells=[new_code_cell("%%kernel lab00_x/01_a\n")]), tmp_path)
    (tmp_path / "lab00_x" / "answers.toml").write_text('lab00-09-predict = "x = 1"\n')
    with pytest.raises(CourseError, match="no cell of the notebook has that grade id"):
        solved(new_notebook(), tmp_path, lab="lab00_x")
    (tmp_path / "lab00_x" / "answers.toml").write_text("lab00-09-predict = 1\n")
    with pytest.raises(CourseError, match="no string"):
        read_answers(tmp_path / "lab00_x")
    (tmp_path / "x.ipynb").write_text("{}")
    with pytest.raises(CourseError, match="not a valid notebook"):
        read_notebook(tmp_path / "x.ipynb")
