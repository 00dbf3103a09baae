"""Pictures of labs 03 to 05: what is drawn is what was recorded."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from warpcourse import lessons
from warpschool.inspect.accesses import WarpRequest


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def access(space: str, step_bytes: int, *, nbytes: int = 4, array: str = "x") -> WarpRequest:
    return WarpRequest("k", 7, space, "load", array, nbytes, 0, 0, np.arange(32, dtype=np.int64) * step_bytes)


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_touched_floats_and_the_rest_of_their_sectors():
    column, row = access("global", 64 * 4), access("global", 4)
    figure = lessons.draw_touched({"column": column, "row": row, "none": None}, cols={"x": 64})
    down, along, nothing = figure.axes
    picture = np.asarray(down.images[0].get_array())
    assert (np.sum(picture == 2), np.sum(picture == 1)) == (32, 32 * 7)
    assert down.get_title() == "column: 32 sectors,\n128 of 1024 bytes used"
    assert along.get_title() == "row: 4 sectors,\n128 of 128 bytes used"
    assert texts(down) == ["lane 0", "lane 31"]
    assert "no such request" in texts(nothing)[0]


def test_a_broadcast_is_one_float_of_all_lanes():
    (axes,) = lessons.draw_touched({"all": access("global", 0)}, cols={"x": 64}).axes
    assert axes.get_title().startswith("all: 1 sector,")
    assert texts(axes) == ["lanes 0 to 31"]


def test_banks_show_lanes_and_passes():
    figure = lessons.draw_banks(
        {"row": access("shared", 4), "column": access("shared", 128), "pairs": access("shared", 136, nbytes=8)}
    )
    row, column, pairs, empty = figure.axes
    assert [axes.get_title() for axes in (row, column, pairs)] == [
        "row: 1 pass", "column: 32 passes", "pairs: 2 passes, 8 bytes a lane"
    ]  # fmt: skip
    assert texts(row) == [str(lane) for lane in range(32)]
    assert len({tuple(colour) for colour in np.asarray(column.images[0].get_array())[:, 0]}) == 32
    assert len(texts(pairs)) == 64 and not empty.axison
    assert row.get_ylim() == column.get_ylim(), "boxes of one size"


def test_a_missing_request_is_said():
    (axes,) = lessons.draw_banks({"load": None}).axes
    assert "no such request" in texts(axes)[0]


def test_mixes_are_stacked_to_the_whole():
    mixes = {"a": {"FMA": 0.25, "integer": 0.75}, "b": {"FMA": 0.97, "integer": 0.03}}
    (axes,) = lessons.draw_mix(mixes).axes
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert max(ends) == pytest.approx(100) and len(axes.patches) == 4
    assert [text for text in texts(axes) if text] == ["25", "97", "75"], "a share too small to hold its number has none"


def test_shares_without_a_record_leave_a_gap_or_say_so():
    figure = lessons.draw_shares({"theirs": {"a": 0.5, "b": None}, "ours": {}}, xlabel="share")
    theirs, ours = figure.axes
    assert texts(theirs) == ["50.0%"]
    assert texts(ours) == ["nothing was recorded"]
