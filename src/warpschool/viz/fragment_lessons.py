"""Pictures of lab 07: which lane owns which element of a fragment, and how fast every mapping of a product is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from warpschool.mappings import Speed
from warpschool.ptx.fragments import Fragment
from warpschool.viz.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpschool.viz.picture import Picture

_WARP = 32
_CELL_INCHES = 0.23
_KINDS = {
    "CPU, float": GREY, "float": BLUE, "half": GREEN, "8 bits": "#56B4E9", "half, tensor cores": ORANGE,
    "8 bits, tensor cores": RED,
}  # fmt: skip


def draw_fragments(fragments: Mapping[str, Fragment]) -> Picture:
    """Each fragment as a matrix: in a box stands the lane that holds the element; registers after the first in colour.

    Of an element that several registers hold, the first is shown.
    """
    widths = [fragment.columns for fragment in fragments.values()]
    height = max(fragment.rows for fragment in fragments.values())
    size = (_CELL_INCHES * (sum(widths) + 2 * len(widths)), _CELL_INCHES * (height + 5))
    figure, panels = plt.subplots(
        1, len(widths), figsize=size, squeeze=False, width_ratios=widths, layout="constrained"
    )
    for axes, (title, fragment) in zip(panels[0], fragments.items(), strict=True):
        _draw_owners(axes, title, fragment)
    return Picture(figure, " ".join(_said(title, fragment) for title, fragment in fragments.items()))


def _draw_owners(axes: Axes, title: str, fragment: Fragment) -> None:
    lanes, registers = fragment.owners[..., 0], fragment.owners[..., 1]
    colours = plt.get_cmap("Pastel1")(registers % 9)
    axes.imshow(colours, aspect="equal", interpolation="nearest")
    for (row, column), lane in np.ndenumerate(lanes):
        weight = "bold" if lane == 0 else "normal"
        axes.text(column, row, str(lane), ha="center", va="center", fontsize=6, weight=weight)
    axes.set_xticks(np.arange(-0.5, fragment.columns), minor=True)
    axes.set_yticks(np.arange(-0.5, fragment.rows), minor=True)
    axes.grid(True, which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    axes.set_xticks(range(0, fragment.columns, 4))
    axes.set_yticks(range(0, fragment.rows, 4))
    axes.tick_params(labelsize=7)
    axes.set_title(f"{title}\n{fragment.rows} x {fragment.columns}, {_holds(fragment)}", fontsize=8)


def _holds(fragment: Fragment) -> str:
    each = f" of {fragment.elements}" if fragment.elements > 1 else ""
    copies = f", all {fragment.copies} times" if fragment.copies > 1 else ""
    return f"{fragment.registers} registers{each}{copies}"


def _said(title: str, fragment: Fragment) -> str:
    held = [(row, column) for row, column in np.ndindex(fragment.rows, fragment.columns)
            if fragment.owners[row, column, 0] == 0]  # fmt: skip
    places = ", ".join(f"({row}, {column})" for row, column in held[:8])
    return (
        f"{title}, {fragment.rows} x {fragment.columns}: each of {_WARP} lanes has {_holds(fragment)}; "
        f"lane 0 owns (row, column) {places}{' and more' if len(held) > 8 else ''}."
    )


def draw_mappings(speeds: Sequence[Speed]) -> Picture:
    """Every mapping of one product, slowest first, as a bar of its speed on a logarithmic axis."""
    if not speeds:
        figure, axes = plt.subplots(figsize=(8, 1.2))
        text = "no recorded times in benchmarks/results"
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
        axes.axis("off")
        return Picture(figure, f"All mappings of one product: {text}.")
    ordered = sorted(speeds, key=lambda speed: speed.rate)
    figure, axes = plt.subplots(figsize=(9, 1 + 0.26 * len(ordered)), layout="constrained")
    places = range(len(ordered))
    colours = [_KINDS[speed.kind] for speed in ordered]
    bars = axes.barh(places, [speed.rate for speed in ordered], color=colours, log=True)
    for bar, speed in zip(bars, ordered, strict=True):
        if speed.is_library:
            bar.set_hatch("///")
            bar.set_edgecolor("white")
    axes.bar_label(bars, [f"{speed.rate:,.3g}" for speed in ordered], fontsize=8, padding=2)
    axes.set_yticks(places, [speed.label for speed in ordered], fontsize=8)
    axes.set_xlim(right=max(speed.rate for speed in ordered) * 3)
    axes.set_xlabel("10¹² operations per second (logarithmic; hatched: a library)")
    kinds = {kind: colour for kind, colour in _KINDS.items() if any(speed.kind == kind for speed in ordered)}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in kinds.values()]
    axes.legend(handles, list(kinds), fontsize=8, loc="lower right")
    devices = ", ".join(sorted({speed.device for speed in ordered}))
    axes.set_title(f"A product of {ordered[0].size}³ in every mapping ({devices})", fontsize=10)
    told = "; ".join(f"{speed.label} ({speed.kind}) {speed.rate:,.3g}" for speed in ordered)
    return Picture(figure, f"Recorded speeds of a product of {ordered[0].size} cubed on {devices}, in TFLOP/s: {told}.")
