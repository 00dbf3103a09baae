"""The reader of recorded results."""

from __future__ import annotations

import json

import pytest

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.recorded import recorded, results


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    for name in ("gemm_b", "gemm_a", "other"):
        (folder / f"{name}.json").write_text(json.dumps({"device": name, "rows": []}))
    return Course(tmp_path)


def test_results_come_in_the_order_of_their_files(course):
    assert [result["device"] for result in results("gemm_*.json", course=course)] == ["gemm_a", "gemm_b"]
    assert results("none_*.json", course=course) == ()
    assert recorded("other.json", course=course) == {"device": "other", "rows": []}


def test_what_was_not_recorded_is_named_with_what_there_is(course, tmp_path):
    with pytest.raises(CourseError, match=r"benchmarks/results/none\.json was not recorded") as caught:
        recorded("none.json", course=course)
    assert caught.value.next_step == "There are gemm_a.json, gemm_b.json, other.json."
    with pytest.raises(CourseError) as caught:
        recorded("none.json", course=Course(tmp_path / "elsewhere"))
    assert "benchmarks/" in caught.value.next_step


@pytest.mark.parametrize("text", ["{", "[1, 2]"])
def test_a_damaged_file_is_named(course, text):
    (course.root / "benchmarks" / "results" / "gemm_a.json").write_text(text)
    with pytest.raises(CourseError, match=r"gemm_a\.json is no result"):
        results("gemm_*.json", course=course)


def test_the_courses_own_results_can_all_be_read():
    assert all("rows" in result or len(result) > 1 for result in results("*.json"))
