"""Pictures of labs 03 to 05: which lane touches which sector and bank, and what an inner loop is made of.

They draw what `warpschool.inspect.accesses` recorded; None, where a kernel made no such request, becomes a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpschool.counters import SECTOR_BYTES
from warpschool.inspect.accesses import Access

_FLOAT_BYTES = 4
_SECTOR_FLOATS = SECTOR_BYTES // _FLOAT_BYTES
_BANKS = 32
_MOST_ROWS = 32
_CLASS_COLOURS = (GREEN, BLUE, ORANGE, RED, "#CC79A7", GREY)
_THIN_LINE = {"arrowstyle": "-", "lw": 0.5}


def draw_touched(accesses: Mapping[str, Access | None], cols: Mapping[str, int]) -> Figure:
    """What one request of a warp moves: touched floats blue, the unused rest of their sectors orange.

    `accesses`: title -> a request to global memory; `cols`: array -> floats in a row of it. Thin lines part sectors.
    """
    figure, panels = plt.subplots(1, len(accesses), figsize=(3.6 * len(accesses), 3.9), squeeze=False)
    for axes, (title, access) in zip(panels[0], accesses.items(), strict=True):
        if access is None:
            _say_nothing(axes, title)
        else:
            _draw_matrix(axes, title, access, cols[access.array])
    figure.tight_layout()
    return figure


def _draw_matrix(axes: Axes, title: str, access: Access, cols: int) -> None:
    touched = np.concatenate([access.elements() + k for k in range(access.nbytes // _FLOAT_BYTES)])
    moved = np.concatenate([np.arange(_SECTOR_FLOATS) + _SECTOR_FLOATS * sector for sector in access.sectors])
    first, last = moved.min() // cols, min(moved.max() // cols, moved.min() // cols + _MOST_ROWS - 1)
    picture = np.zeros((last - first + 1, cols))
    for places, value in ((moved, 1), (touched, 2)):
        rows = places // cols - first
        inside = rows < len(picture)
        picture[rows[inside], places[inside] % cols] = value
    axes.imshow(
        picture, cmap=ListedColormap(["white", ORANGE, BLUE]), vmin=0, vmax=2, aspect="auto",
        extent=(0, cols, last + 1, first), interpolation="nearest",
    )  # fmt: skip
    for edge in range(_SECTOR_FLOATS, cols, _SECTOR_FLOATS):
        axes.axvline(edge, color="black", linewidth=0.2)
    _name_lanes(axes, access, cols, first)
    used, count = len(np.unique(touched)) * _FLOAT_BYTES, len(access.sectors)
    axes.set_title(
        f"{title}: {count} sector{'s' * (count != 1)},\n{used} of {SECTOR_BYTES * count} bytes used", fontsize=10
    )
    axes.set(xlabel=f"column of {access.array}", ylabel="row")
    axes.set_ylim(max(last + 1, first + 8), first)


def _name_lanes(axes: Axes, access: Access, cols: int, first_row: int) -> None:
    """Write the first and the last lane beside the float that it touches."""
    elements, lanes = access.elements(), access.lanes
    ends = {int(elements[0]): lanes[elements == elements[0]], int(elements[-1]): lanes[elements == elements[-1]]}
    for element, here in ends.items():
        row, col = element // cols, element % cols
        if row - first_row < _MOST_ROWS:
            name = f"lane {here[0]}" if len(here) == 1 else f"lanes {here[0]} to {here[-1]}"
            side, right = ("left", 1) if col < cols / 2 else ("right", -1)
            place = (col + 0.14 * cols * right, row + (2.0 if len(access.sectors) < 8 else 0.5))
            axes.annotate(name, (col + 0.5, row + 0.5), place, fontsize=7, va="center", ha=side, arrowprops=_THIN_LINE)


def draw_banks(accesses: Mapping[str, Access | None]) -> Figure:
    """Which lane meets which bank of shared memory, one panel a request.

    A row is 32 words, one for each bank. A box is a word, its number the lane that wants it (of several the first), its
    colour the pass that serves it.
    """
    columns = min(len(accesses), 2)
    count = -(-len(accesses) // columns)
    figure, panels = plt.subplots(count, columns, figsize=(5.5 * columns, 1), squeeze=False, layout="constrained")
    heights = np.zeros(panels.size)
    for place, (title, access) in enumerate(accesses.items()):
        axes = panels.flat[place]
        heights[place] = _say_nothing(axes, title) if access is None else _draw_request(axes, title, access)
    for axes in panels.flat[len(accesses) :]:
        axes.axis("off")
    of_rows = heights.reshape(panels.shape).max(axis=1)
    for axes in panels.flat:  # boxes of one size in all panels
        if axes.images:
            axes.set_ylim(max(np.ptp(other.get_ylim()) for other in panels.flat if other.images) - 0.5, -0.5)
    panels[0, 0].get_gridspec().set_height_ratios(of_rows)
    figure.set_size_inches(5.5 * columns, of_rows.sum())
    return figure


def _draw_request(axes: Axes, title: str, access: Access) -> float:
    """Draw one request; return the height in inches that it wants."""
    words = access.words()
    rows = {row: place for place, row in enumerate(sorted({word.number // _BANKS for word in words}))}
    colours = plt.get_cmap("viridis")(np.linspace(0.15, 0.95, access.wavefronts))
    picture = np.ones((len(rows), _BANKS, 4))
    first_lane: dict[int, int] = {}
    for word in words:
        first_lane.setdefault(word.number, word.lane)
        picture[rows[word.number // _BANKS], word.bank] = colours[word.turn]
    axes.imshow(picture, aspect="auto", interpolation="nearest")
    for number, lane in first_lane.items():
        light = picture[rows[number // _BANKS], number % _BANKS, :3].mean() > 0.5
        place = (number % _BANKS, rows[number // _BANKS])
        axes.text(*place, str(lane), ha="center", va="center", fontsize=5, color="black" if light else "white")
    axes.set_xticks(range(0, _BANKS, 4))
    axes.set_yticks([])
    axes.set(xlabel="bank", ylabel="rows of 32 words")
    width = f", {access.nbytes} bytes a lane" if access.nbytes != _FLOAT_BYTES else ""
    axes.set_title(f"{title}: {access.wavefronts} pass{'es' * (access.wavefronts != 1)}{width}", fontsize=10)
    return 0.9 + 0.11 * len(rows)


def _say_nothing(axes: Axes, title: str, said: str | None = None) -> float:
    text = said or "your kernel makes no such request yet"
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    axes.set_title(title, fontsize=10)
    axes.axis("off")
    return 1.0


# ---------------------------------------------------------------- lab 05


def draw_mix(mixes: Mapping[str, Mapping[str, float]]) -> Figure:
    """What the main loops of kernels are made of: a bar for each kernel, a colour for each class of instructions."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(mixes)), layout="constrained")
    left = np.zeros(len(mixes))
    classes = list(next(iter(mixes.values()), {}))
    for kind, colour in zip(classes, _CLASS_COLOURS, strict=False):
        shares = np.array([100 * mix[kind] for mix in mixes.values()])
        bars = axes.barh(list(mixes), shares, left=left, color=colour, label=kind, edgecolor="white", linewidth=0.5)
        axes.bar_label(
            bars, [f"{share:.0f}" if share >= 4 else "" for share in shares], label_type="center", fontsize=8
        )
        left += shares
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="% of the main loop's PTX instructions, counted once per warp")
    axes.legend(ncols=len(classes), fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    return figure


def draw_shares(series: Mapping[str, Mapping[str, float | None]], *, xlabel: str) -> Figure:
    """Bars of shares between 0 and 1, a panel for each series: title -> (label -> share, None where not recorded)."""
    rows = max(map(len, series.values()), default=1)
    figure, panels = plt.subplots(
        1, len(series), figsize=(9, 0.9 + 0.3 * rows), sharex=True, squeeze=False, layout="constrained"
    )
    for axes, (title, values) in zip(panels[0], series.items(), strict=True):
        known = {label: value for label, value in values.items() if value is not None}
        if known:
            bars = axes.barh(list(known), list(known.values()), color=BLUE)
            axes.bar_label(bars, [f"{value:.1%}" for value in known.values()], fontsize=8, padding=2)
            axes.tick_params(axis="y", labelsize=8)
            axes.invert_yaxis()
            axes.set(xlim=(0, 1.15), xlabel=xlabel)
        else:
            _say_nothing(axes, title, "nothing was recorded")
        axes.set_title(title, fontsize=10)
    return figure
