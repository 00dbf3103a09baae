"""What the book's pictures share: colours, which follow the theme around, a figure's frame, and SVG that depends on
nothing but what is drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from warpschool.show.figures import figure_svg
from warpschool.show.theme import BLUE, GREEN, GREY, ORANGE, RED, stand_ins

__all__ = [
    "BLUE", "BROWN", "EMPTY", "GREEN", "GREY", "ORANGE", "PAPER", "RED", "SOFT", "arrow", "blues", "box", "draw_map",
    "new_figure", "svg",
]  # fmt: skip

PAPER = "white"
EMPTY, SOFT, BROWN = (stand_ins()[name] for name in ("line", "soft", "warn"))
"""An area where nothing happens, what stays behind, and words beside orange."""


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of one panel, in inches; no window is ever opened."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def svg(figure: Figure, name: str) -> str:
    """The figure as SVG: text stays text, colours follow the theme, coordinates have two digits, nothing of time or
    machine is in it."""
    return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", figure_svg(figure, name))


def box(
    axes: Axes, place: tuple[float, float], size: tuple[float, float], told: object, *, colour: str = "", edge: str = ""
) -> None:
    """Words or a number in a box around `place`; `colour` fills it palely and draws its edge."""
    (x, y), (wide, high) = place, size
    for face in (PAPER, f"{colour}33") if colour else (PAPER,):  # the paper hides what passes below
        axes.add_patch(
            FancyBboxPatch((x - wide / 2, y - high / 2), wide, high, boxstyle="round,pad=0,rounding_size=0.12",
                           facecolor=face, edgecolor=edge or colour or GREY, linewidth=1.0, zorder=3)
        )  # fmt: skip
    axes.text(x, y, str(told), ha="center", va="center", fontsize=8, zorder=4)


def arrow(
    axes: Axes, at: tuple[float, float], to: tuple[float, float], colour: str, *, dashed: bool = False,
    thin: bool = False,
) -> None:  # fmt: skip
    """A straight arrow, below boxes."""
    look = {"arrowstyle": "-|>", "color": colour, "shrinkA": 1, "shrinkB": 1, "mutation_scale": 9,
            "linestyle": (0, (4, 2)) if dashed else "-", "linewidth": 0.8 if thin else 1.5}  # fmt: skip
    axes.annotate("", xy=to, xytext=at, arrowprops=look, zorder=2)


def draw_map(axes: Axes, values: np.ndarray, colours: Mapping[int, str]) -> None:
    """A matrix of whole numbers as areas of colour, one rectangle for as many equal cells as it can cover: rows first,
    then rows below that are the same. Numbers without a colour stay empty."""
    axes.set_facecolor(PAPER)
    runs: dict[tuple[int, int, int], list[int]] = {}
    for row, line in enumerate(values):
        ends = [*np.flatnonzero(np.diff(line)).tolist(), len(line) - 1]
        start = 0
        for end in ends:
            runs.setdefault((start, end + 1, int(line[start])), []).append(row)
            start = end + 1
    for (left, right, value), rows in runs.items():
        first = rows[0]
        for row, after in zip(rows, [*rows[1:], -1], strict=True):
            if after != row + 1:
                if value in colours:
                    corner, size = (left, first), (right - left, row + 1 - first)
                    axes.add_patch(Rectangle(corner, *size, facecolor=colours[value], linewidth=0))
                first = after
    axes.set(xlim=(0, values.shape[1]), ylim=(values.shape[0], 0), aspect="equal")


def blues(most: int) -> dict[int, str]:
    """Colours of the counts 0 to `most`: the more, the farther from the paper, which in the dark is dark."""
    return {count: f"{BLUE}{round(255 * max(0.04, count / most)):02x}" for count in range(most + 1)}
