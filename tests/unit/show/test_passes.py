"""`show_passes`: a network's way there and back, drawn of a record and told in words."""

from __future__ import annotations

import pytest

from warpschool.errors import ArgumentError
from warpschool.recorded import recorded
from warpschool.show import passes
from warpschool.show.passes import Pass, passes_record, show_passes

PASSES = [
    Pass("first", "forward", (2.0, 300.0)), Pass("last", "forward", (1.0, 4.0)), Pass("last", "weights", (1.5, 5.0)),
    Pass("last", "inputs", (1.5, 6.0)), Pass("first", "backward", (3.0, 0.0)),
]  # fmt: skip


@pytest.fixture
def shown(monkeypatch):
    record = passes_record("There and back", ("ms", "MB"), PASSES)
    monkeypatch.setattr(passes, "recorded", lambda name, *, course: record)
    return show_passes("x.json")


def test_each_pass_is_a_picture_with_both_measures_in_words(shown):
    assert [frame.alt for frame in shown.frames][:2] == [
        "first forward (1 of 5): 2 ms; 300 MB.", "last forward (2 of 5): 1 ms; 4 MB.",
    ]  # fmt: skip
    assert shown.finding == "There 3, back 6 ms: 2 times as much."


def test_arrows_go_right_there_left_back_and_down_to_the_weights(shown):
    drawn = [str(frame.svg) for frame in shown.frames]
    assert [svg.count("l6 4l-6 4") for svg in drawn] == [1, 2, 2, 2, 2]
    assert [svg.count("v16m-4 -6") for svg in drawn] == [0, 0, 1, 1, 1]
    assert [svg.count("l-6 4l6 4") for svg in drawn] == [0, 0, 0, 1, 2]
    assert [svg.count("stroke-width:2.5") for svg in drawn] == [1] * 5, "one pass is now"


def test_what_is_no_record_of_passes_is_told(monkeypatch):
    for record in (
        {},
        {"title": "t", "measures": ["a"], "passes": []},
        passes_record("t", ("a", "b"), [Pass("x", "up", (1, 1))]),
    ):
        monkeypatch.setattr(passes, "recorded", lambda name, *, course, record=record: record)
        with pytest.raises(ArgumentError, match="is no record of passes"):
            show_passes("x.json")


def test_the_way_back_of_vgg16_is_that_of_its_layers_in_the_other_order():
    rows = recorded("passes_vgg16.json")["passes"]
    there = [row["layer"] for row in rows if row["kind"] == "forward"]
    assert [row["layer"] for row in rows if row["kind"] == "backward"] == there[::-1] and len(there) == 16
