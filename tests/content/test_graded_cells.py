"""Check cells in Python as a class's are graded, confined: a solved notebook gets all points."""

from __future__ import annotations

import nbformat
import pytest

from warpschool.authoring.notebooks import read_notebook, solved
from warpschool.course import Course
from warpschool.grading.assignment import read_assignment
from warpschool.grading.handin import read_handin
from warpschool.grading.jobs import Policy
from warpschool.grading.python_cells import AS_DATA
from warpschool.grading.records import python_job
from warpschool.grading.verdicts import Verdict

COURSE = Course.find()
QUICK = {"lab01_naive_gemm"}


@pytest.mark.parametrize(
    "lab",
    [pytest.param(lab, marks=() if lab.name in QUICK else pytest.mark.slow, id=lab.name) for lab in COURSE.labs()],
)
def test_a_solved_notebook_gets_all_points(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))  # nothing that others have built
    notebook = solved(read_notebook(lab.notebook), COURSE.root / "solutions", lab=lab.name)
    nbformat.write(notebook, tmp_path / f"{lab.name}.ipynb")
    assignment = read_assignment(lab.notebook)
    job = python_job(read_handin(tmp_path / f"{lab.name}.ipynb", assignment), assignment, Policy())
    if job is None:
        pytest.skip("no cell is graded by Python")
    outcome = job.run()
    missed = {name: (cell.verdict, cell.text) for name, cell in outcome.cells.items() if cell.verdict != Verdict.AC}
    assert not missed
    assert outcome.cells and all(cell.fraction == 1 for cell in outcome.cells.values())
    assert AS_DATA in {cell.isolation for cell in outcome.cells.values()}
