"""The shortest schedule that a pipeline's handoffs allow, and its picture."""

from __future__ import annotations

import numpy as np

from ptxsim.record import Handoff
from warpcourse.pipelines import Bar, draw_pipeline, schedule

PRODUCER = 4


def pipeline(stages: int, tiles: int, *, releases: bool = True) -> list[Handoff]:
    """What one warp that copies and one warpgroup that multiplies hand to each other."""
    found = []
    full, empty = ([(0, 64 * side + 8 * k) for k in range(stages)] for side in (0, 1))
    for tile in range(tiles):
        stage, phase = tile % stages, tile // stages + 1
        if releases or tile < stages:
            found.append(Handoff("wait", 0, PRODUCER, 1, empty[stage], phase - 1))
        found.append(Handoff("arrive", 0, PRODUCER, 2, full[stage], phase))
        found += [Handoff("copy", 0, PRODUCER, 3, full[stage], phase)] * 2
        found.append(Handoff("wait", 0, 0, 4, full[stage], phase))
        found += [Handoff("multiply", 0, 0, 5)] * 4
        if releases:
            found.append(Handoff("arrive", 0, 0, 6, empty[stage], phase))
    return found


def bars_of(row: str, bars) -> list[tuple[float, float, int, int]]:
    return [(bar.start, bar.end, bar.stage, bar.tile) for bar in bars if bar.row == row]


def test_one_stage_does_one_thing_at_a_time():
    bars = schedule(pipeline(1, 3))
    assert bars_of("copies", bars) == [(0, 2, 0, 0), (3, 5, 0, 1), (6, 8, 0, 2)]
    assert bars_of("warpgroup 0", bars) == [(2, 3, 0, 0), (5, 6, 0, 1), (8, 9, 0, 2)]
    assert [bar.end - bar.start for bar in bars if bar.row == "waits 0"] == [2, 2, 2]


def test_two_stages_overlap():
    bars = schedule(pipeline(2, 4))
    assert bars_of("copies", bars) == [(0, 2, 0, 0), (0, 2, 1, 1), (3, 5, 0, 2), (4, 6, 1, 3)]
    assert bars_of("warpgroup 0", bars) == [(2, 3, 0, 0), (3, 4, 1, 1), (5, 6, 0, 2), (6, 7, 1, 3)]


def test_other_blocks_are_waited_for_and_not_shown():
    own = pipeline(1, 1)
    far = [Handoff("copy", 1, PRODUCER, 3, (0, 0), 1), Handoff("copy", 1, PRODUCER, 3, (1, 0), 1)]
    bars = schedule([*own[:4], *far, *own[4:]])
    assert bars_of("copies", bars) == [(0, 2, 0, 0)]


def test_the_picture_says_what_it_shows():
    picture = draw_pipeline(schedule(pipeline(2, 4)))
    assert picture.alt == (
        "A pipeline of 2 stages: copies of tiles 0 to 1 begin at once; that of tile 2 waits until step 3, when its "
        "stage is empty. warpgroup 0 multiplies tile 0 from step 2 on, when it is full."
    )
    labels = [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]
    assert labels == ["stage 0", "stage 1", "warpgroup 0"]


def test_a_kernel_without_a_pipeline():
    assert schedule([]) == ()
    assert "no tiles" in draw_pipeline(()).alt
    assert "no tiles" in draw_pipeline((Bar("copies", 0, 2, 0, 0),)).alt


def test_times_are_plain_numbers():
    assert all(np.isfinite([bar.start, bar.end]).all() and bar.end > bar.start for bar in schedule(pipeline(3, 9)))
