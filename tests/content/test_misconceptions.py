"""There are enough misconceptions; each specimen fails the criterion whose hint is shown."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import warpschool as ws
from warpschool.authoring import specimens

pytestmark = pytest.mark.usefixtures("forked_checks")

ROOT = Path(__file__).parents[2]
ROWS = tomllib.loads((ROOT / "grader" / "misconceptions.toml").read_text("utf-8"))["misconception"]
LEAST = 30


def test_there_are_enough_each_once_and_every_lab_has_one():
    assert len(ROWS) >= LEAST
    assert len({row["id"] for row in ROWS}) == len({row["specimen"] for row in ROWS}) == len(ROWS)
    assert {row["specimen"][:5] for row in ROWS} == {f"lab{number:02}" for number in range(17)}


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if "lab14" not in row["specimen"]], ids=lambda row: row["id"])
def test_the_specimen_fails_the_criterion_whose_hint_is_shown(row):
    specimen = specimens.read(ROOT / "tests" / "specimens" / f"{row['specimen']}.toml")
    result = ws.check(specimen.step, specimen.source(ROOT / "solutions"), device="sim")
    assert result.verdict == specimen.verdict
    failed = {criterion.title for criterion in result.criteria if not criterion.ok}
    assert row["criterion"] in failed or not any(c.is_judged for c in result.criteria)
