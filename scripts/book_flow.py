"""Numbers on their way through F(2,3), there and back: chapters 09 and 13 draw the example that both compute."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scripts.book_pictures import BLUE, GREEN, ORANGE, PAPER, arrow, box, svg

B_T = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], float)
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
A_T = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], float)
"""F(2,3) as it was published and as the kernels have it"""
PIXELS, FILTER, SLOPES = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3]), np.array([1.0, -1])
_HIGH, _WIDE = 0.62, 1.05
_COLUMNS = (0.0, 3.0, 6.0, 9.0)
"""where pixels and filter, their transforms, the products, and the results stand"""

Numbers = npt.NDArray[np.float64]
Rows = Mapping[str, tuple[float, tuple[float, ...]]]
"""a group of numbers -> its column, and the heights of its boxes"""

PLACES: Rows = {
    "d": (_COLUMNS[0], (8.0, 7.0, 6.0, 5.0)), "g": (_COLUMNS[0], (2.6, 1.6, 0.6)),
    "v": (_COLUMNS[1], (8.0, 7.0, 6.0, 5.0)), "u": (_COLUMNS[1], (3.1, 2.1, 1.1, 0.1)),
    "m": (_COLUMNS[2], (6.3, 5.0, 3.7, 2.4)), "y": (_COLUMNS[3], (5.0, 3.7)),
}  # fmt: skip
_NAMES = {"d": "pixels", "g": "filter", "v": "pixels,\ntransformed", "u": "filter,\ntransformed", "m": "products",
          "y": "results"}  # fmt: skip


def there() -> dict[str, Numbers]:
    """Each group's numbers on the way there."""
    v, u = B_T @ PIXELS, G @ FILTER
    y = A_T @ (u * v)
    assert np.allclose(y, [PIXELS[i : i + 3] @ FILTER for i in range(2)]), "not the filter"
    return {"d": PIXELS, "g": FILTER, "v": v, "u": u, "m": u * v, "y": y}


def back() -> dict[str, Numbers]:
    """Each group's slopes, for the slopes of the results."""
    saved = there()
    m = A_T.T @ SLOPES
    v, u = m * saved["u"], m * saved["v"]
    found = {"y": SLOPES, "m": m, "v": v, "u": u, "d": B_T.T @ v, "g": G.T @ u}
    direct = [sum(SLOPES[i] * PIXELS[i + j] for i in range(2)) for j in range(3)]
    assert np.allclose(found["g"], direct), "not the slopes of the filter"
    return found


def there_picture() -> str:
    """Pixels and filter to results, by four products."""
    return _picture(there(), reverse=False, name="lab09-flow")


def back_picture() -> str:
    """The same arrows the other way around, with slopes."""
    return _picture(back(), reverse=True, name="lab13-back")


def _picture(values: Mapping[str, Numbers], *, reverse: bool, name: str) -> str:
    figure = Figure(figsize=(8.4, 4.9), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    for matrix, start, end in ((B_T, "d", "v"), (G, "g", "u"), (A_T, "m", "y")):
        for (row, col), factor in np.ndenumerate(matrix):
            if factor:
                _arrow(axes, (start, col), (end, row), factor, reverse=reverse)
    for start in ("v", "u"):
        for number in range(4):
            _arrow(axes, (start, number), ("m", number), 1.0, reverse=reverse, colour=GREEN)
    for group, numbers in values.items():
        _boxes(axes, group, numbers, slopes=reverse)
    axes.set(xlim=(-1.3, 10.3), ylim=(-0.7, 9.4))
    axes.axis("off")
    told = "full: times 1, or times the saved factor (green); dashed: times -1; thin: times a half"
    axes.text(4.5, -0.62, told, ha="center", fontsize=8)
    return svg(figure, name)


def _boxes(axes: Axes, group: str, numbers: Numbers, *, slopes: bool) -> None:
    x, heights = PLACES[group]
    first = 1 if group in "uvm" else 0
    for number, (y, value) in enumerate(zip(heights, numbers, strict=True), start=first):
        called = f"{'d' if slopes else ''}{group}{number}"
        box(axes, (x, y), (_WIDE, _HIGH), f"{called} = {value:g}")
    told = _NAMES[group] if not slopes else f"slopes of\n{_NAMES[group].replace(chr(10), ' ')}"
    axes.text(x, heights[0] + 0.5, told, ha="center", va="bottom", fontsize=8, fontweight="bold")


def _arrow(
    axes: Axes, start: tuple[str, int], end: tuple[str, int], factor: float, *, reverse: bool, colour: str = ""
) -> None:
    (x0, heights0), (x1, heights1) = PLACES[start[0]], PLACES[end[0]]
    left, right = (x0 + _WIDE / 2, heights0[start[1]]), (x1 - _WIDE / 2, heights1[end[1]])
    at, to = (right, left) if reverse else (left, right)
    sign = BLUE if factor > 0 else ORANGE
    arrow(axes, at, to, colour or sign, dashed=factor < 0, thin=abs(factor) != 1)


GIVEN = ((1, 1, 1, -3), (2, 0, 1, 5))
"""Slopes of the pixels of two tiles, which begin two pixels apart."""


def collect_picture() -> str:
    """Two tiles that overlap, and who takes what of them."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    count, size = len(GIVEN), (0.8, 0.62)
    pixels = 2 * count + 2
    sums = [0] * pixels
    for tile, slopes in enumerate(GIVEN):
        y = 3.6 - 1.1 * tile
        axes.text(-0.8, y, f"tile {tile} gives", ha="right", va="center", fontsize=8)
        for place, slope in enumerate(slopes):
            pixel = 2 * tile + place
            sums[pixel] += slope
            box(axes, (pixel, y), size, slope, colour=(BLUE, ORANGE)[tile])
            beside = pixel + 0.4 * tile - 0.2
            arrow(axes, (beside, y - size[1] / 2), (beside, 0.95), (BLUE, ORANGE)[tile], thin=True)
    axes.text(-0.8, 0.6, "pixel gets", ha="right", va="center", fontsize=8)
    for pixel, total in enumerate(sums):
        box(axes, (pixel, 0.6), size, total)
        axes.text(pixel, -0.05, f"d{pixel}", ha="center", va="center", fontsize=8)
    for owner in range(pixels // 2):
        axes.plot([2 * owner - 0.4, 2 * owner + 1.4], [-0.35, -0.35], color=GREEN, linewidth=2)
        axes.text(2 * owner + 0.5, -0.7, f"thread {owner}'s", ha="center", va="center", fontsize=8)
    axes.set(xlim=(-2.6, pixels - 0.3), ylim=(-1, 4.1))
    axes.axis("off")
    return svg(figure, "lab13-collect")
