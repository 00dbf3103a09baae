"""The commands of a class, as a teacher types them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from warpschool.cli import app
from warpschool.cli.output import BAD_INPUT, OK

from .small import PARTLY, WRONG

runner = CliRunner()


@pytest.fixture
def run(small_class, monkeypatch):
    monkeypatch.chdir(small_class.root)
    return lambda *words: runner.invoke(app, list(words))


def test_a_round_by_hand(small_class, run):
    small_class.hand_in("ada", answer="Because.")
    small_class.hand_in("bob", kernel=PARTLY)
    (small_class.root / "submitted" / "cyd" / "mini").mkdir(parents=True)
    first = run("grade", "mini")
    assert first.exit_code == OK, first.output
    assert "ada           4   7  AC        m-explain" in first.output
    assert "bob        2.67   7  OOB" in first.output
    assert "cyd: no notebook mini.ipynb" in first.output and "2 graded, 0 unchanged" in first.output
    small_class.hand_in("ada", answer="Because.", kernel=WRONG)
    second = run("grade", "mi")  # a lab's name may be cut short
    assert "Changed scores" in second.output
    assert "ada      m-correct       4      0   4" in second.output
    assert "1 graded, 1 unchanged" in second.output


def test_grade_as_json(small_class, run):
    small_class.hand_in("bob", kernel=WRONG)
    document = json.loads(run("grade", "mini", "--json").stdout)
    record = document["graded"]["bob"]
    assert [(cell["grade_id"], cell["score"], cell["verdict"]) for cell in record["cells"]] == [
        ("m-correct", 0.0, "CE"), ("m-explain", 0.0, "SKIP"),
    ]  # fmt: skip
    assert {"warpschool", "code", "counters", "nvrtc", "arch", "cases", "seed", "points"} <= set(record["versions"])
    assert document["changes"] == [] and document["failed"] == {}


def test_feedback_and_export(small_class, run):
    small_class.hand_in("ada")
    assert run("grade", "mini").exit_code == OK
    page = run("feedback", "mini", "--json")
    assert json.loads(page.stdout)["pages"] == [str(small_class.root / "feedback" / "ada" / "mini" / "mini.html")]
    assert run("export", "mini", "--to", "g.csv").exit_code == OK
    assert ",4,7," in (small_class.root / "g.csv").read_text()
    refused = run("export", "mini", "--format", "canvas")
    assert refused.exit_code == BAD_INPUT and "--template" in refused.output


def test_open_grades_are_not_exported(small_class, run):
    small_class.hand_in("ada", answer="Because.")
    run("grade", "mini")
    refused = run("export", "mini")
    assert refused.exit_code == BAD_INPUT and "ada: mini: m-explain" in refused.output
    assert not (small_class.root / "grades.csv").exists()
    assert run("export", "mini", "--incomplete").exit_code == OK


def test_names_that_mean_nothing(small_class, run, tmp_path, monkeypatch):
    assert "no assignment 'lab99'" in run("grade", "lab99").output
    assert "zoe handed in nothing" in run("grade", "mini", "--student", "zoe").output
    monkeypatch.chdir(tmp_path)
    assert "is in no class's folder" in run("release", "mini").output
    assert run("release", "mini", "--class", str(small_class.root)).exit_code == OK


def test_quickstart_overwrites_nothing(run, tmp_path):
    policy = tmp_path / "new" / "grading.toml"
    assert run("quickstart", str(tmp_path / "new")).exit_code == OK
    policy.write_text("seed = 3\n")
    secret = (tmp_path / "new" / "secret_seed.txt").read_text()
    again = json.loads(run("quickstart", str(tmp_path / "new"), "--json").stdout)
    assert again["added"] == [] and "grading.toml" in again["kept"]
    assert policy.read_text() == "seed = 3\n" and (tmp_path / "new" / "secret_seed.txt").read_text() == secret
    assert (tmp_path / "new" / "secret_seed.txt").stat().st_mode & 0o077 == 0


def test_rubrics_are_printed(run):
    found = json.loads(run("rubric", "lab02", "--json").stdout)
    assert set(found["rubrics"]) == {"lab02-03-explain"}
    assert "TILE = 64" in run("rubric", "lab02").output
