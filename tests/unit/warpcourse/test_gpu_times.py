"""Predicted times of one's own kernels beside recorded ones: what the table says, and what it says in words."""

from __future__ import annotations

import pytest

from warpcourse import experiments, gpu_times
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.notebook import cells
from warpschool.recorded import recorded

COURSE = Course.find()
STEP = COURSE.step("lab11/06")


@pytest.fixture
def own(monkeypatch):
    """The reference as the student's accepted kernel; called with another text, that text."""
    monkeypatch.setattr(gpu_times, "is_accepted", lambda _: True)

    def remember(text: str) -> None:
        cells.remember(STEP.name, text)

    remember(STEP.solution.read_text("utf-8"))
    yield remember
    cells.forget_all()


def test_a_prediction_stands_beside_what_was_recorded(own):
    if not experiments.has_disassembler():
        pytest.skip("there is no disassembler")
    table = gpu_times.beside([STEP.name], "small")
    kept = recorded("clock_times_h200.json")["cases"]["lab11/06_sgd_momentum@small"]
    row = table.times[0]
    assert row.reference.recorded_us == kept["times"]["flushed"]["whole"][0]
    assert row.own.us == pytest.approx(row.reference.predicted_us, rel=0.2)  # the record's compiler may be another
    assert row.own.low_us < row.own.us < row.own.high_us
    told = dict(zip(table.head, table.rows[0], strict=True))
    assert told["longest wait"] and told["range"].count(" to ") == 1
    assert "no measurement" in table.note and "N 1,000" in table.note


def test_a_kernel_that_is_not_accepted_has_no_time(own, monkeypatch):
    monkeypatch.setattr(gpu_times, "is_accepted", lambda _: False)
    table = gpu_times.beside([STEP.name], "small")
    assert table.times[0].own is None and gpu_times.NOT_YET in table.rows[0]
    assert table.times[0].reference.recorded_us is not None


def test_without_the_disassembler_words_stand_in_its_place(own, monkeypatch):
    monkeypatch.setattr(experiments, "has_disassembler", lambda: False)
    gpu_times._predicted.cache_clear()
    table = gpu_times.beside([STEP.name], "small")
    gpu_times._predicted.cache_clear()
    assert gpu_times.UNKNOWN in table.rows[0] and "disassembler" in table.note


def test_a_refusal_says_why_below_the_table(own):
    own(STEP.solution.read_text("utf-8").replace("// Launch:", "// Needs:   N % 999 == 0\n// Launch:", 1))
    table = gpu_times.beside([STEP.name], "small")
    assert gpu_times.REFUSED in table.rows[0]
    assert "06_sgd_momentum is not predicted: " in table.note and "N % 999" in table.note


@pytest.mark.parametrize(("step", "case"), [("lab11/06", "huge"), ("lab14/01", "small")])
def test_what_was_never_recorded_is_refused(own, step, case):
    with pytest.raises(ArgumentError):
        gpu_times.beside([step], case)
