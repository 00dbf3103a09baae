"""The roofline plot: what memory and arithmetic allow, and where kernels stand."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from warpschool.model import Roofline
from warpschool.show.page import style_sections
from warpschool.show.svg import image

_THEME = {"#010101": "var(--ink)", "#020202": "var(--soft)", "#030303": "var(--line)", "#040404": "var(--accent)",
          "#050505": "var(--warn)", "#060606": "var(--panel)", "#070707": "var(--paper)"}  # fmt: skip
"""Colours that stand for the page's: the SVG follows light and dark."""
INK, SOFT, LINE, ACCENT, WARN, PANEL, PAPER = _THEME
_SPACE = 0.045
"""least vertical distance between two labels, as a part of the axes"""
_FONT = 9
_ROOM = 8
"""more points than this are labelled in short"""


@dataclass(frozen=True)
class Point:
    """A kernel: FLOP per byte of the global memory sectors that it touches, and GFLOP/s, measured or a bound.

    A point without a label is the bound of the measured point at its intensity.
    """

    label: str
    intensity: float
    gflops: float
    measured: bool = False


def plottable(points: Sequence[Point]) -> list[Point]:
    """The points that a logarithmic plot can show: kernels that compute something."""
    return [p for p in points if all(math.isfinite(v) and v > 0 for v in (p.intensity, p.gflops))]


def is_crowded(points: Sequence[Point]) -> bool:
    """Whether so many points have labels that these are shortened."""
    return sum(bool(point.label) for point in points) > _ROOM


def roofline_figure(points: Sequence[Point], roofline: Roofline) -> Figure:
    """Draw roofs and points; hollow points are bounds from counters, filled ones were measured."""
    shown = plottable(points)
    figure = Figure(figsize=(8.6, 4.9))
    axes = figure.add_axes((0.08, 0.11, 0.91, 0.84))
    low = min([0.1, *(p.intensity / 1.6 for p in shown)])
    high = max([64.0, *(p.intensity * 3 for p in shown)])
    bottom = min([100.0, *(p.gflops / 2 for p in shown)])
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, roofline.peak_gflops * 2.2))
    _draw_roofs(axes, roofline, low, high, bottom)
    _draw_points(axes, shown, roofline.peak_gflops)
    axes.set_xlabel("FLOP per byte of global memory sectors (32 bytes each)", color=INK)
    axes.text(0, 1.02, "GFLOP/s", transform=axes.transAxes, color=INK, ha="right")
    axes.grid(True, which="major", color=LINE, linewidth=0.6)
    axes.tick_params(which="both", colors=SOFT)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    return figure


def figure_image(figure: Figure, *, alt: str, prefix: str = "fig") -> str:
    """Return a figure as an `<img>`: its text stays text, its colours follow light and dark, `alt` is its text.

    Equal figures give equal bytes.
    """
    FigureCanvasSVG(figure)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "warpschool", "svg.id": prefix}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1system-ui, sans-serif", svg)
    for stand_in, colour in _THEME.items():
        svg = svg.replace(stand_in, colour)
    style = f'<style>{_colours()}</style><rect width="100%" height="100%" style="fill:var(--panel)"/>'
    head = svg.index(">") + 1
    return image(svg[:head] + style + svg[head:], alt)


def _colours() -> str:
    """The page's colours, for a picture that does not see the page."""
    sections = style_sections()
    return f":root{{{sections['light']}}}@media (prefers-color-scheme:dark){{:root{{{sections['dark']}}}}}"


def _draw_roofs(axes: Axes, roofline: Roofline, low: float, high: float, bottom: float) -> None:
    """Slanted memory roofs, each labelled along its line, and the flat arithmetic roof."""
    peak = roofline.peak_gflops
    scale = axes.transScale + axes.transLimits + axes.transAxes
    for roof in roofline.roofs:
        ridge = peak / roof.gb_per_s
        axes.plot([low, ridge], [low * roof.gb_per_s, peak], color=SOFT, linewidth=1.2, zorder=1)
        place = max(low * 1.1, bottom * 1.25 / roof.gb_per_s)
        (x0, y0), (x1, y1) = (scale.transform((x, x * roof.gb_per_s)) for x in (place, 2 * place))
        axes.annotate(
            f"{roof.level}, {roof.gb_per_s:,.0f} GB/s", (place, place * roof.gb_per_s), color=SOFT, fontsize=8.5,
            rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)), rotation_mode="anchor", xytext=(-2, 5),
            textcoords="offset points",
        )  # fmt: skip
    first = min(peak / roof.gb_per_s for roof in roofline.roofs)
    axes.plot([first, high], [peak, peak], color=SOFT, linewidth=1.2, zorder=1)
    axes.text(
        high / 1.05, peak * 1.12, f"{roofline.gpu}: {peak / 1e3:.1f} TFLOP/s single precision",
        color=SOFT, fontsize=8.5, ha="right",
    )  # fmt: skip


def _draw_points(axes: Axes, points: Sequence[Point], peak: float) -> None:
    for point in points:
        colour = WARN if point.measured else ACCENT
        axes.plot(
            point.intensity, point.gflops, "D" if point.measured else "o", markersize=8, markeredgewidth=2, zorder=3,
            markerfacecolor=colour if point.measured else PANEL, markeredgecolor=colour, clip_on=False,
        )  # fmt: skip
    for point in points:
        other = next((p for p in points if p.measured and not point.label and p.intensity == point.intensity), None)
        if other is not None:
            axes.plot([point.intensity] * 2, [point.gflops, other.gflops], color=SOFT, linewidth=0.8, zorder=2)
    points = [point for point in points if point.label]
    names = [compact(point.label) if is_crowded(points) else point.label for point in points]
    places = _label_places(axes, points, names, peak)
    for point, name, (left, height) in zip(points, names, places, strict=True):
        moved = abs(height) > _FONT
        axes.annotate(
            name + (", measured" if point.measured and not is_crowded(points) else ""), (point.intensity, point.gflops),
            color=INK, fontsize=_FONT, xytext=(-11 if left else 11, height), ha="right" if left else "left",
            textcoords="offset points", va="center", zorder=4,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
            arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkA": 0} if moved else None,
        )  # fmt: skip


def compact(label: str) -> str:
    """A step's name in five characters, for crowded plots: "lab05/07_warp_tiled" is "05/07"."""
    match = re.fullmatch(r"lab(\d\d)/(\d\d)_\w+", label)
    return f"{match[1]}/{match[2]}" if match else label


def _label_places(axes: Axes, points: Sequence[Point], names: Sequence[str], peak: float) -> list[tuple[bool, float]]:
    """Where labels stand: whether to the left of their point, and how many points (1/72 inch) above its middle.

    Labels keep clear of each other and of the roof's own label, which stands above the roof.
    """
    scale = axes.transScale + axes.transLimits
    roof = scale.transform((1.0, peak))[1]
    width, height = (size / axes.figure.dpi * 72 for size in (axes.bbox.width, axes.bbox.height))
    reach = max(map(len, names), default=0) * 0.6 * _FONT / width + 0.02
    places = [scale.transform((p.intensity, p.gflops)) for p in points]
    found: dict[int, tuple[bool, float]] = {}
    taken: list[tuple[float, float]] = []
    for index in sorted(range(len(points)), key=lambda i: -places[i][1]):
        x, y = places[index]
        left = bool(x > 0.65)
        y = min(y, roof - _SPACE)
        while any(abs(x - other_x) < reach and abs(y - other_y) < _SPACE for other_x, other_y in taken):
            y -= _SPACE / 4
        taken.append((x, y))
        found[index] = (left, (y - places[index][1]) * height)
    return [found[index] for index in range(len(points))]
