"""Labels in rooflines: measured as they are drawn, none lies on another, on a point or on what the roofs are called."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from warpcourse.ladder import cost_of
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.model import Roofline
from warpschool.show.labels import boxes_of
from warpschool.show.roofline import Standing, roofline_figure, standing

COURSE = Course.find()
SQUARE = {"M": 256, "N": 256, "K": 256}
LADDER = (
    "01_coarsened", "02_wide_loads", "04_register_blocked", "05_vectorized", "06_double_buffered", "07_warp_tiled",
)  # fmt: skip


def overlapping(standings, gpu="rtx2080ti"):
    """Words of a roofline that cover each other, that cover a point, and that stand beyond the plot's edge."""
    figure = roofline_figure(standings, Roofline.of(gpu))
    axes = figure.axes[0]
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    labels = [text for text in axes.texts if text.get_zorder() == 4]
    assert len(labels) == len(standings)
    extents = {id(text): Text.get_window_extent(text, renderer) for text in axes.texts}
    upright = [text for text in axes.texts if not text.get_rotation()]
    found = [
        (a.get_text(), b.get_text()) for a, b in combinations(upright, 2) if extents[id(a)].overlaps(extents[id(b)])
    ]
    scale = 72 / figure.dpi
    for label in labels:
        box = extents[id(label)]
        left, bottom, right, top = (value * scale for value in box.extents)
        for turned in (text for text in axes.texts if text.get_rotation()):
            hit = any(
                part.left < right and left < part.right and part.bottom < top and bottom < part.top
                for part in boxes_of(turned)
            )
            found += [(label.get_text(), turned.get_text())] * hit
        for one in standings:
            for speed in {one.bound_gflops, one.reached_gflops}:
                x, y = axes.transData.transform((one.intensity, speed))
                found += [(label.get_text(), f"the point of {one.label}")] * bool(box.contains(x, y))
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 and axes.bbox.y0 <= box.y0
        found += [] if inside else [(label.get_text(), "the edge")]
    return found


def test_labels_of_points_in_one_place_stand_apart():
    assert not overlapping([Standing(f"TILE = {2**i}", 1, 1.0, 1000.0, "DRAM") for i in range(5)])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("seed", range(12))
def test_labels_of_points_that_crowd_stand_apart(seed):
    rng = np.random.default_rng(seed)
    count, spread = int(rng.integers(2, 9)), rng.choice([0.05, 0.5, 2.0])
    middle = rng.uniform(np.log(0.2), np.log(60))
    found = []
    for k in range(count):
        intensity = float(np.exp(middle + spread * rng.uniform(-1, 1)))
        bound = min(13_000.0, 600 * intensity) * float(rng.uniform(0.7, 1))
        measured = bound * float(rng.uniform(0.3, 1)) if rng.uniform() < 0.4 else None
        found.append(Standing(f"0{k}_a_kernel_called_{k}", 1, intensity, bound, "DRAM", measured))
    assert not overlapping(found, str(rng.choice(["rtx2080ti", "a100", "h200"])))


def test_a_line_leads_to_a_label_that_had_to_go_far():
    figure = roofline_figure([Standing(f"p{i}", 1, 1.0, 1000.0, "DRAM") for i in range(8)], Roofline.of("a100"))
    labels = [text for text in figure.axes[0].texts if text.get_zorder() == 4]
    assert any(text.arrow_patch is not None for text in labels) and any(text.arrow_patch is None for text in labels)


def rooflines_of_labs():
    """The labs whose notebooks draw one by `ws.roofline`."""
    texts = {lab.name: (COURSE.root / "labs" / lab.name / f"{lab.name}.md").read_text("utf-8") for lab in COURSE.labs()}
    return {name[:5] for name, text in texts.items() if re.search(r"ws\.roofline\(", text)}


def counted(step, **more):
    found = COURSE.step(step)
    return cost_of(parse_contract(found.solution.read_text("utf-8"), name=found.file_name), **more).counters


@pytest.mark.slow
def test_no_label_hides_another_in_the_rooflines_of_the_labs():
    small = {"M": 128, "N": 128, "K": 128}
    drawn = {
        "lab02": {f"TILE = {n}": counted("lab02/01", sizes=small, constants={"TILE": n}) for n in (2, 4, 8, 16, 32)},
        "lab05": {name: counted(f"lab05_work_per_thread/{name}", sizes=SQUARE) for name in LADDER},
    }
    assert drawn.keys() == rooflines_of_labs()
    for lab, kernels in drawn.items():
        assert not overlapping([standing(name, one, "rtx2080ti") for name, one in kernels.items()]), lab
