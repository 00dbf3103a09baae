"""The lessons' pictures: what is drawn follows from the numbers."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from warpcourse import lessons
from warpschool.counters import Counters


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def texts(figure) -> str:
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    return "\n".join([*found, *(axes.get_title() for axes in figure.axes)])


def boxes(axes, colour: str) -> list[Rectangle]:
    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [patch for patch in patches if to_hex(patch.get_facecolor()).upper() == colour.upper()]


@pytest.mark.parametrize(("n", "block", "blocks", "idle"), [(1000, 256, 4, 24), (512, 256, 2, 0), (1, 32, 1, 31)])
def test_blocks(n, block, blocks, idle):
    figure = lessons.draw_blocks(n, block)
    assert f"{blocks} blocks of {block} threads" in texts(figure)
    grey = boxes(figure.axes[0], lessons.GREY)
    assert sum(patch.get_width() for patch in grey) == idle


def test_sectors_are_counted_from_the_elements():
    lane = np.arange(32)
    figure = lessons.draw_sectors({"row": lane, "column": 64 * lane, "same": 0 * lane, "shifted": lane + 1})
    assert [axes.get_title() for axes in figure.axes] == [
        "row: 4 sectors", "column: 32 sectors", "same: 1 sectors", "shifted: 5 sectors"
    ]  # fmt: skip
    assert [len(boxes(axes, lessons.ORANGE)) for axes in figure.axes] == [4, 32, 1, 5]


def test_tiles_are_cut_at_the_edges():
    figure = lessons.draw_tiles(20, 24, 18, tile=16, block=(1, 1), step=1)
    (c,) = boxes(figure.axes[0], lessons.ORANGE)
    assert (c.get_width(), c.get_height()) == (8, 4)
    sizes = sorted((patch.get_width(), patch.get_height()) for patch in boxes(figure.axes[0], lessons.BLUE))
    assert sizes == [(2, 4), (8, 2)]
    assert "round 2 of 2" in texts(figure)
    assert not boxes(lessons.draw_tiles(20, 24, 18, tile=16).axes[0], lessons.BLUE)


def test_lines_show_the_counter_of_each_line():
    source = "zero\none\ntwo\nthree\nfour\n"
    lines = {
        2: Counters(global_load_sectors=8, global_load_requests=2),
        4: Counters(global_load_sectors=32, global_load_requests=1),
    }
    figure = lessons.draw_lines(source, lines, "global_load_sectors", per="global_load_requests")
    assert [bar.get_width() for bar in figure.axes[1].patches] == [4, 0, 32]
    assert "  2  one" in texts(figure) and "zero" not in texts(figure) and "four" not in texts(figure)
    assert "4,096" in texts(lessons.draw_lines(source, {1: Counters(barriers=4096)}, "barriers"))


def test_lines_without_any_count_draw_nothing():
    figure = lessons.draw_lines("a\nb\n", {}, "barriers")
    assert [bar.get_width() for bar in figure.axes[1].patches] == [0, 0]


def test_roofline_bound_is_the_lower_of_l1_and_dram():
    figure = lessons.draw_roofline("a100", {"L1": 0.25, "L2": 0.01, "DRAM": 100.0}, label="naive")
    assert "(L1)" in texts(figure)
    assert "measured" not in [text.get_text() for text in figure.axes[0].get_legend().get_texts()][-1]
    figure = lessons.draw_roofline("a100", {"L1": 100.0, "DRAM": 0.25}, gflops=123.0, label="naive")
    assert "(DRAM)" in texts(figure)
    assert figure.axes[0].get_legend().get_texts()[-1].get_text() == "naive: 123 GFLOP/s measured"


def test_sweep_says_what_is_not_measured():
    figure = lessons.draw_sweep(
        [2, 4], {"bytes": {"a": [1.0, 2.0], "b": [3.0, None]}, "time": {"t": [None, None]}}, xlabel="T"
    )
    assert "not measured" in texts(figure)
    first = figure.axes[0]
    assert [line.get_ydata().tolist()[0] for line in first.lines] == [1.0, 3.0]
    assert np.isnan(first.lines[1].get_ydata()[1])
