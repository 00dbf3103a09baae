"""Solved notebooks: the reference in every kernel cell, executed on the simulator, full points in every graded cell."""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from warpschool.authoring.notebooks import grade_id, is_autograded, points_of, read_notebook, solved
from warpschool.course import Course
from warpschool.programs import tools_report

COURSE = Course.find()
ROOT = Path(__file__).parents[2]
LABS = [lab for lab in COURSE.labs() if lab.notebook is not None]
QUICK_FIRST = [pytest.param(lab, marks=pytest.mark.slow if str(lab) >= "lab01" else ()) for lab in LABS]
"""The first labs' notebooks run always, the others in full runs."""


def skip_without_tools(lab):
    report = tools_report()
    if not report["available"] and any(step.is_program for step in lab.steps):
        pytest.skip(f"whole programs cannot be built here: {report['problem']}")


MOST_LINES, MOST_STEPS = 120_000, 2_500_000
"""Lines of LLVM text and steps of the simulator that one cell of a solved notebook may ask for: together about ten
seconds of a quiet core. What a check's own process does is not among them."""


def executed(notebook, folder, first=""):
    notebook.cells.insert(0, new_code_cell(first))
    NotebookClient(
        notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    del notebook.cells[0]
    return notebook


def pictures_of(cell) -> Iterator[str]:
    """The SVG of a cell's figures."""
    for output in cell.outputs:
        for data in re.findall(r"base64,([A-Za-z0-9+/=]+)", str(output.get("data", {}).get("text/html", ""))):
            yield base64.b64decode(data).decode("utf-8", "replace")


def value_of(cell) -> object:
    values = [output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"]
    assert len(values) == 1, f"{grade_id(cell)} has {len(values)} values"
    return ast.literal_eval(values[0])


@pytest.mark.parametrize("lab", QUICK_FIRST, ids=str)
def test_solved_notebook_runs_and_earns_every_point(lab, tmp_path):
    skip_without_tools(lab)
    notebook = solved(read_notebook(lab.notebook), COURSE.root / "solutions", lab=lab.name)
    log = tmp_path / "cells.jsonl"
    place = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    counting = f"{place}; from tests.cell_work import record; record({str(log)!r})"
    for cell in executed(notebook, tmp_path, counting).cells:
        if cell.cell_type != "code":
            continue
        streams = [output for output in cell.outputs if output.output_type == "stream" and output.name == "stderr"]
        lonely = [picture for picture in pictures_of(cell) if "on this device" in picture]
        assert not lonely, f"{grade_id(cell)}: a panel without a time, which could show a recorded or predicted one"
        assert not streams, f"{grade_id(cell)} writes to stderr, which nbgrader takes for a failure: {streams}"
        if is_autograded(cell):
            assert value_of(cell) == points_of(cell) and isinstance(value_of(cell), float), grade_id(cell)
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert len(rows) >= len(lab.steps), "nothing was counted"
    assert not [row for row in rows if row["lines"] > MOST_LINES or row["steps"] > MOST_STEPS], "a cell takes too long"


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS, ids=str)
def test_untouched_notebook_earns_nothing_and_breaks_nothing(lab, tmp_path):
    skip_without_tools(lab)
    for cell in executed(read_notebook(lab.notebook), tmp_path).cells:
        if cell.cell_type == "code" and is_autograded(cell):
            assert value_of(cell) == 0.0, grade_id(cell)
