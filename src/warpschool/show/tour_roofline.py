"""The tour's roofline: a plot, a sentence with its finding, and a text for those who do not see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpschool.counters import Counters, ratio
from warpschool.inspect.profile import full_gpu_estimate
from warpschool.model import GpuSpec, Roofline
from warpschool.show.columns import NO_ARITHMETIC, percent
from warpschool.show.page import escape
from warpschool.tour.report import Tour, TourStep

if TYPE_CHECKING:
    from warpschool.show.roofline_plot import Point


def roofline_section(tour: Tour) -> str:
    """The section of the page; "" where no step computes anything."""
    # Here and not above: matplotlib takes a while to load.
    from warpschool.show.roofline_plot import figure_image, plottable, roofline_figure

    roofline = Roofline.of(tour.roofline_gpu)
    shown = plottable(_points(tour))
    if not shown:
        return ""
    products = {step.short_name for step in tour.steps if step.report and step.report.counters.fma_instructions}
    finding = _finding([point for point in shown if point.label in products] or shown)
    figure = figure_image(roofline_figure(shown, roofline), alt=_alt(roofline, shown, finding), prefix="roofline-plot")
    caption = escape(_caption(tour, roofline, shown))
    return (
        '<h2 id="roofline">What limits them</h2>\n'
        f"<p>{escape(finding)}</p>\n<figure>{figure}<figcaption>{caption}</figcaption></figure>"
    )


def bound_of(step: TourStep, gpu: GpuSpec) -> tuple[float, float] | None:
    """(FLOP per byte of sectors, most GFLOP/s on `gpu`) by the estimate; None without arithmetic."""
    if step.report is None or not step.report.counters.flops:
        return None
    counters = step.report.counters
    return _intensity(counters), counters.flops / full_gpu_estimate(counters, gpu).time_ms * 1e-6


def _points(tour: Tour) -> list[Point]:
    """A bound for each step, and where it was measured the measurement, which then bears the label."""
    from warpschool.show.roofline_plot import Point

    points = []
    for step in tour.steps:
        bound, measured = bound_of(step, tour.roofline_gpu), _measured(step, tour)
        if bound:
            points.append(Point("" if measured else step.short_name, *bound))
        if measured:
            points.append(Point(step.short_name, *measured, measured=True))
    return points


def _measured(step: TourStep, tour: Tour) -> tuple[float, float] | None:
    """The speed that was measured; None unless it was measured on the GPU whose roofs are drawn."""
    if not (step.gpu and step.gpu.gflops and step.report and tour.roofline_gpu.name == tour.device):
        return None
    return _intensity(step.report.counters), step.gpu.gflops


def _intensity(counters: Counters) -> float:
    """FLOP per byte of the sectors that global loads and stores touch."""
    return ratio(counters.flops, counters.global_sector_bytes)


def _finding(points: Sequence[Point]) -> str:
    """The plot's message in a sentence."""
    first, last = min(points, key=lambda p: p.intensity), max(points, key=lambda p: p.intensity)
    said = f"{first.label} computes {first.intensity:.2g} FLOP for each byte that it moves"
    if first.intensity == last.intensity:
        return f"{said}."
    growth = last.intensity / first.intensity
    return f"{said}, {last.label} {last.intensity:.3g}: the same memory feeds {growth:.3g} times the arithmetic."


def _alt(roofline: Roofline, points: Sequence[Point], finding: str) -> str:
    said = [
        f"{p.label} {'reached' if p.measured else 'is bounded at'} {p.gflops:,.0f} GFLOP/s, "
        f"{percent(p.gflops / roofline.peak_gflops)} of the peak, at {p.intensity:.3g} FLOP per byte"
        for p in points
        if p.label
    ]
    return f"Roofline plot of {roofline.gpu}. {finding} {'; '.join(said)}."


def _caption(tour: Tour, roofline: Roofline, points: Sequence[Point]) -> str:
    """How to read the plot, and what is not in it."""
    from warpschool.show.roofline_plot import is_crowded

    sentences = [
        f"Circles are bounds: the most that {roofline.gpu} could reach, given the memory, shared-memory and arithmetic "
        "work that was counted, with work for every multiprocessor. They are estimates, not measurements."
    ]
    if is_crowded(points):
        sentences.append("Labels name lab and step: 05/07 is step 07 of lab05.")
    if any(point.measured for point in points):
        sentences.append(
            f"Filled diamonds were measured on {tour.device}, at sizes that fill it; a line leads to the bound. A "
            "kernel can beat its bound a little where the GPU's compiler merges loads that are counted one by one here."
        )
    hidden = [step.short_name for step in tour.steps if step.short_name not in {point.label for point in points}]
    if hidden:
        sentences.append(f"Not shown, for {NO_ARITHMETIC}: {', '.join(hidden)}.")
    return " ".join(sentences)
