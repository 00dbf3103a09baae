"""`show_walk`: pictures of what a block touches come from the interpreter's record, and say so in words."""

from __future__ import annotations

import re

import pytest

import warpschool as ws
from warpschool.errors import ArgumentError

SIZES = {"M": 32, "N": 32, "K": 40}


def walk(**options):
    return ws.show_walk("lab02/01", SIZES, source="reference", **options)


def test_a_block_walks_its_tiles_round_by_round():
    shown = walk(arrays=("A", "B", "C"))
    rounds = [frame.label for frame in shown.frames]
    assert len(rounds) == 4, "three rounds of loads, and the store"
    assert "A: 256 elements loaded; B: 256 elements loaded" in rounds[0]
    assert "A: 128 elements loaded" in rounds[2], "K = 40 leaves half a tile"
    assert "C: 256 elements stored" in rounds[3]
    assert shown.finding == "It loads 1,280 elements from global memory."


def test_what_is_reused_is_told():
    assert "reads 24,576 from shared memory, 19.2 for each" in walk().finding
    one = walk(lane=3, warp=2)
    assert "each" not in one.frames[0].label and one.title.startswith("How block 0, warp 2, lane 3")


def test_windows_move_over_the_image_turn_by_turn():
    sizes = {"BATCH": 1, "C": 1, "H": 5, "W": 5, "R": 3, "S": 3, "STRIDE": 1, "PAD": 1}
    shown = ws.show_walk("lab08/05", sizes, by="turn", source="reference")
    assert len(shown.frames) == 9, "one for each place of the window"
    assert "x: 16 elements loaded; cols: 25 elements stored" in shown.frames[0].label, "padding is stored, not loaded"
    assert "x: 25 elements loaded" in shown.frames[4].label


def test_tiles_of_lanes_overlap():
    sizes = {"BATCH": 1, "C": 1, "H": 10, "W": 10, "PAD": 0}
    shown = ws.show_walk("lab09/02", sizes, by="lane", arrays=("x",), source="reference")
    assert len(shown.frames) == 4 and all("36 elements loaded" in frame.label for frame in shown.frames)
    assert "It loads 144 elements" in shown.finding, "100 pixels, those of the overlap more than once"


def test_copies_in_flight_are_loads():
    sizes = {"BATCH": 1, "C": 16, "H": 8, "W": 8, "F": 128, "R": 3, "S": 3, "STRIDE": 1, "PAD": 1}
    shown = ws.show_walk("lab12/04", sizes, by="warp", arrays=("x",), source="reference")
    assert [frame.label.partition(" (")[0] for frame in shown.frames] == [f"warp {n}" for n in range(4)]


def test_every_picture_has_its_text_and_the_table_the_numbers():
    shown = walk(arrays=("A",))
    assert all(frame.alt.startswith(frame.label) and "Blue" in frame.alt for frame in shown.frames)
    markup = shown.html()
    assert len(re.findall("<img ", markup)) == len(shown.frames) == markup.count("<figcaption>")
    assert "What each picture touches" in shown.text()


def test_what_cannot_be_shown_is_told():
    with pytest.raises(ArgumentError, match="by='tile' is no way to cut"):
        walk(by="tile")
    assert "none of these arrays" in walk(arrays=("D",)).finding
    assert walk(most=2).note == "The first 2 of 7 pictures."


def test_figures_of_matplotlib_follow_the_theme():
    import base64

    from matplotlib.figure import Figure

    from warpschool.show.figures import figure_html

    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2], color="#0072B2", label="line")
    (data,) = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", figure_html(figure))
    svg = base64.b64decode(data).decode()
    assert "var(--s0)" in svg and "prefers-color-scheme: dark" in svg
    drawn = svg.split("</style>", 2)[-1]
    assert not re.findall(r"#(?:ffffff|000000|0072b2)", drawn), "black, white and the palette are the theme's"


def test_several_blocks_walk_one_after_the_other_kernel_by_kernel():
    shown = walk(blocks=(0, 1, 3), by="block", arrays=("A", "B", "C"))
    assert [frame.label.split(" (")[0] for frame in shown.frames] == [f"matmul, block {n}" for n in (0, 1, 3)]
    assert all("C: 256 elements stored" in frame.label for frame in shown.frames)
    sizes = {"BATCH": 1, "C": 32, "H": 4, "W": 4, "F": 32, "R": 3, "S": 3, "STRIDE": 1, "PAD": 1}
    split = ws.show_walk("lab12/06", sizes, blocks=(0, 3), by="block", source="reference", constants={"TK": 1})
    names = [frame.label.split(" (")[0] for frame in split.frames]
    assert names == ["conv, block 0", "conv, block 3", "add, block 0"], "the second kernel has two blocks only"
    with pytest.raises(ArgumentError, match="several blocks"):
        walk(blocks=(0, 1))
    with pytest.raises(ArgumentError, match="several blocks"):
        walk(by="block")
