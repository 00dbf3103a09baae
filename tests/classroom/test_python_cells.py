"""Check cells in Python on their way through nbgrader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpschool.grading import sandbox
from warpschool.grading.handin import read_handin, reassembled

from .small import mini_notebook, prediction


@pytest.fixture
def with_prediction(small_class):
    small_class.write_source(prediction(mini_notebook()))
    small_class.app.convert("release", "mini")
    return small_class


def predict(small_class, student, source):
    def edit(notebook):
        next(cell for cell in notebook.cells if cell["id"] == "m-predict").source = source

    small_class.hand_in(student, edit=edit)


def test_predictions_are_read_as_data(with_prediction):
    predict(with_prediction, "ada", "said = 6 * 7")
    predict(with_prediction, "bob", "said = 41")
    with_prediction.grade()
    found = {student: with_prediction.grades(student)["m-predicted"] for student in ("ada", "bob")}
    assert [(grade.auto, grade.waits) for grade in found.values()] == [(2, False), (0, False)]
    record = with_prediction.app.folder.records.get("mini", "ada")
    assert "read as data" in record.outcomes["m-predicted"]["isolation"]
    with_prediction.app.convert("feedback", "mini")
    page = (with_prediction.root / "feedback" / "bob" / "mini" / "mini.html").read_text()
    assert "said: you said 41, counted 42." in page and "Out[" not in page


def test_python_that_would_have_to_run_waits_for_a_person_without_a_sandbox(with_prediction, monkeypatch):
    policy = with_prediction.root / "grading.toml"
    policy.write_text(policy.read_text().replace('python_cells = "sandbox"', 'python_cells = "manual"'))
    predict(with_prediction, "eve", "import os\nsaid = int(os.environ.get('HOME', '/')[0] == '/') * 42")
    with_prediction.grade()
    found = with_prediction.grades("eve")
    assert (found["m-predicted"].auto, found["m-predicted"].waits) == (None, True)
    assert (found["m-correct"].auto, found["m-correct"].waits) == (4, False), "kernels do not depend on it"


@pytest.mark.skipif(bool(sandbox.bubblewrap_problem()), reason=f"no sandbox: {sandbox.bubblewrap_problem()}")
def test_other_python_runs_in_the_sandbox(with_prediction):
    predict(with_prediction, "ada", "said = sum(range(10)) - 3")
    with_prediction.grade()
    assert with_prediction.grades("ada")["m-predicted"].auto == 2
    record = with_prediction.app.folder.records.get("mini", "ada")
    assert record.outcomes["m-predicted"]["isolation"].startswith("bubblewrap")


def test_the_schema_of_records_is_kept(with_prediction):
    jsonschema = pytest.importorskip("jsonschema")
    predict(with_prediction, "ada", "said = 42")
    done = with_prediction.grade()
    schema = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "record.schema.json").read_text())
    jsonschema.validate(json.loads(done.graded["ada"].to_json()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(done.graded["ada"].to_json()), "extra": 1}, schema)


def test_the_state_of_widgets_never_reaches_the_grader(with_prediction):
    def pretend(notebook):
        model = {"model_module": "@jupyter-widgets/controls", "model_name": "TextModel", "state": {"value": "42"}}
        state = {"m": model}
        notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": state}}

    path = with_prediction.hand_in("ada", edit=pretend)
    assignment = with_prediction.app.folder.assignment("mini")
    handin = read_handin(path, assignment)
    assert not handin.problem
    assert "widgets" not in reassembled(handin, assignment).metadata
    with_prediction.grade()
    assert with_prediction.grades("ada")["m-predicted"].auto == 0
