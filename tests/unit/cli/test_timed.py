"""A kernel beside its reference: what is timed, where it is said, and that no points depend on it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading.result import Timed
from warpschool.harness.launcher import Program
from warpschool.tour import timed as timing

SAXPY = Course.find().step("lab00_first_kernels/01_saxpy")


def told(**more) -> Timed:
    return Timed(step="lab00/01", how="predicted", on="H200 SXM", **more)


def test_a_time_is_a_sentence_and_plain_data():
    found = told(case={"n": 4096}, own_ms=2.0, reference_ms=1.0, ratio=2.0)
    assert str(found).startswith("predicted for H200 SXM: 2 ms, 2.00 times the reference's 1 ms, at n = 4096")
    assert "no points" in str(found) and Timed(**json.loads(json.dumps(found.to_dict()))) == found
    assert str(told(reason="no reference")).startswith("no time: no reference")


@pytest.fixture
def lab_with_sizes(tmp_path):
    def write(text: str):
        (tmp_path / "timed.toml").write_text(text)
        return replace(SAXPY, grader=tmp_path / "test_01_saxpy.py")

    return write


def test_a_grader_may_declare_what_is_timed(lab_with_sizes):
    assert timing.declared(lab_with_sizes("[02_other]\nn = 3\n")) is None
    assert timing.declared(lab_with_sizes("[01_saxpy]\nn = 2048\na = 2.5\n")) == {"n": 2048, "a": 2.5}
    for wrong in ('[01_saxpy]\nn = "many"\n', "[01_saxpy\n"):
        with pytest.raises(CourseError, match=r"timed\.toml"):
            timing.declared(lab_with_sizes(wrong))


def test_both_are_predicted_at_one_case(monkeypatch):
    seen = []

    def predicted(contract, plan, machine, inputs):
        seen.append(plan.scalars)
        us = 30.0 if "volatile" in contract.source else 20.0
        return type("Prediction", (), {"us": us, "launches": ()})

    monkeypatch.setattr(timing, "predict_plan", predicted)
    text = SAXPY.solution.read_text("utf-8")
    found = timing.timed(SAXPY, text + "// volatile\n", device="sim")
    assert (found.how, found.ratio, found.own_ms) == ("predicted", 1.5, 0.03)
    assert seen[0] == seen[1] == found.case and found.case["n"] >= 1 << 20


def test_what_cannot_be_followed_is_a_reason(monkeypatch):
    launch = type("Launch", (), {"reason": "a loop of unknown length"})
    prediction = type("Prediction", (), {"us": None, "launches": (launch,)})
    monkeypatch.setattr(timing, "predict_plan", lambda *_, **__: prediction)
    found = timing.timed(SAXPY, SAXPY.solution.read_text("utf-8"), device="sim")
    assert found.ratio is None and "unknown length" in str(found)


def test_a_kernel_that_never_ends_is_a_reason(monkeypatch):
    def endless(*_, timeout, **__):
        raise subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(timing.subprocess, "run", endless)
    with pytest.raises(CourseError, match="within 5 s"):
        timing._in_child(SAXPY, "", 5.0)


def test_every_declared_size_binds():
    for lab in Course.find().labs():
        for step in lab.steps:
            sizes = timing.declared(step)
            if sizes is not None and step.solution is not None:
                contract = Program(timing._both(step, step.solution.read_text("utf-8"))[1], device="sim").contract
                contract.bind(sizes)
