"""Pictures of the Winograd lab: tiles that overlap, and tiles that begin outside the image."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED

_COLOURS = (BLUE, ORANGE, GREEN, RED)


def draw_overlap(size: int, *, tile: int = 4, r: int = 3, pad: int = 1) -> Figure:
    """An image of size x size with `pad` zeros around it, and the pixels that its first four tiles read."""
    side = tile + r - 1
    count = -(-(size + 2 * pad - r + 1) // tile)
    figure, axes = plt.subplots(figsize=(4, 4))
    extent = max(size + 2 * pad, (count - 1) * tile + side)
    _grid(axes, extent, inside=range(pad, pad + size))
    for number in range(4):
        corner = (number % 2 * tile + 0.1 * number, number // 2 * tile + 0.1 * number)
        axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=_COLOURS[number], linewidth=2.5))
    axes.set_title(
        f"{size} x {size} pixels, zeros in grey: {count} x {count} tiles,\n{side} x {side} pixels for {tile} x {tile} "
        "results", fontsize=9,
    )  # fmt: skip
    figure.tight_layout()
    return figure


def draw_shift(size: int, *, tile: int = 4, pool: int = 2, crops: Sequence[int] = (0, 1)) -> Figure:
    """The results of size x size, one panel for each crop: tiles in black, windows of the pooling in colours."""
    figure, panels = plt.subplots(1, len(crops), figsize=(4 * len(crops), 4.2), squeeze=False)
    for axes, crop in zip(panels[0], crops, strict=True):
        count = -(-(size + 2 * crop) // tile)
        _grid(axes, count * tile, inside=range(crop, crop + size))
        across = 0
        for row in range(size // pool):
            for col in range(size // pool):
                x, y = crop + col * pool, crop + row * pool
                split = any(first // tile != (first + pool - 1) // tile for first in (x, y))
                across += split
                axes.add_patch(Rectangle((x + 0.12, y + 0.12), pool - 0.24, pool - 0.24, fill=False,
                                         edgecolor=RED if split else BLUE, linewidth=1.5))  # fmt: skip
        for line in range(0, count * tile + 1, tile):
            axes.plot([line, line], [0, count * tile], color="black", linewidth=2)
            axes.plot([0, count * tile], [line, line], color="black", linewidth=2)
        axes.set_title(f"CROP = {crop}: {count} x {count} tiles, {across} windows across tiles (red)", fontsize=9)
    figure.tight_layout()
    return figure


def _grid(axes: Axes, extent: int, *, inside: range) -> None:
    """extent x extent cells, those outside `inside` grey."""
    for row in range(extent):
        for col in range(extent):
            colour = "white" if row in inside and col in inside else GREY
            axes.add_patch(Rectangle((col, row), 1, 1, facecolor=colour, edgecolor="#dddddd", linewidth=0.5))
    axes.set(xlim=(-0.2, extent + 0.5), ylim=(extent + 0.5, -0.2), xticks=[], yticks=[], aspect="equal")
