"""Pictures of lab 07: how fast every mapping of a product is."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt

from warpcourse.lab07_tensor_cores.mappings import Speed
from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpschool.show.figures import Picture

_KINDS = {
    "CPU, float": GREY, "float": BLUE, "half": GREEN, "8 bits": "#56B4E9", "half, tensor cores": ORANGE,
    "8 bits, tensor cores": RED,
}  # fmt: skip


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
