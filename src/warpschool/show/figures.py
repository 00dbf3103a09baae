"""Figures of Matplotlib with a text that says what they show, for those who do not see them and for terminals.

A function that knows its finding writes it into the figure: `figure.set_label("...")`. Else the text is put together
from titles, axes, lines and bars.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter

from warpschool.show.page import details, escape, notebook_box
from warpschool.show.svg import image
from warpschool.show.table import Table
from warpschool.show.theme import root_variables, themed

_MOST_POINTS = 12
_MOST_ROWS = 400
_MOST_TEXT = 1500
_MOST_SVG = 1_500_000
"""characters; a PNG is smaller then"""
_FAMILY = re.compile(r"font-family: [^;\"]*;? ?")
"""Matplotlib names ten families for each text; the drawing names one for all."""


class Picture:
    """A figure and its alternative text; a notebook shows the one with the other, a terminal the text."""

    def __init__(self, figure: Figure, alt: str) -> None:
        import matplotlib.pyplot as plt

        self.figure = figure
        self.alt = alt
        plt.close(figure)  # or the notebook would show it a second time, without its text

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        return notebook_box(_drawn(self.figure, self.alt))


def figure_html(figure: Figure) -> str:
    """Any figure for a notebook: an image with its text, and its numbers to be opened."""
    sheet = figure_sheet(figure)
    table = details("The numbers in a table", sheet.html()) if sheet.rows else ""
    picture = _drawn(figure, figure_text(figure), bbox_inches="tight")
    return notebook_box(picture + table)


def figure_image(figure: Figure, *, alt: str, prefix: str = "fig") -> str:
    """A figure in the stand-ins of `theme` as an `<img>`: its text stays text, its colours follow light and dark.

    `alt` is its text. Equal figures give equal bytes.
    """
    return image(figure_svg(figure, prefix, transparent=True), alt)


def figure_svg(figure: Figure, prefix: str = "fig", **options: Any) -> str:
    """The figure with colours that follow light and dark: its own black, white and palette become the theme's."""
    FigureCanvasSVG(figure)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "warpschool", "svg.id": prefix}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, **options)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = themed(_FAMILY.sub("", re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1system-ui, sans-serif", svg)))
    style = f"<style>{root_variables()}svg{{fill:var(--ink);font-family:system-ui,sans-serif}}</style>"
    head = svg.index(">") + 1
    return f'{svg[:head]}{style}<rect width="100%" height="100%" style="fill:var(--panel)"/>{svg[head:]}'


def _drawn(figure: Figure, alt: str, **options: Any) -> str:
    """The figure as an `<img>`: an SVG that follows the theme, or, of very many points, a PNG on white."""
    svg = figure_svg(figure, **options)
    if len(svg) <= _MOST_SVG:
        return f'<figure class="frame plot">{image(svg, alt)}</figure>'
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=96, facecolor="white", **options)
    picture = base64.b64encode(data.getvalue()).decode()
    return f'<figure class="frame plot"><img alt="{escape(alt)}" src="data:image/png;base64,{picture}"></figure>'


def figure_text(figure: Figure) -> str:
    """What the figure shows, in words."""
    if own := str(figure.get_label()):
        return own
    parts = [figure.get_suptitle().replace("\n", " "), *(_panel(axes) for axes in figure.axes)]
    said = ". ".join(filter(None, parts)) or "A picture without words"
    return said if len(said) <= _MOST_TEXT else f"{said[:_MOST_TEXT]} …"


def figure_sheet(figure: Figure) -> Table:
    """Every labelled point and bar; no rows where the figure is made of boxes and words."""
    rows = [
        [_name(axes, number), series, x, y]
        for number, axes in enumerate(figure.axes, start=1)
        for series, x, y in _values(axes)
    ]
    return Table.of(
        "Numbers of this picture", ["panel", "series", "at", "value"], rows[:_MOST_ROWS], wide=["series", "at"]
    )


def _panel(axes: Axes) -> str:
    """One panel in words: its title, its axes, and each series with its values."""
    title, across, up = (text.replace("\n", " ") for text in (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()))
    series: dict[str, list[str]] = {}
    for name, x, y in _values(axes):
        series.setdefault(name, []).append(f"{y} at {x}" if x else y)
    told = [f"{name}: {_some(points)}" if name else _some(points) for name, points in series.items()]
    head = title or up
    if told:
        head = f"{head}, against {across}" if head and across else head or across
    words = [] if told or title else [text.get_text().replace("\n", " ") for text in axes.texts[:_MOST_POINTS]]
    return ": ".join(part for part in (head, "; ".join([*told, *filter(None, words)])) if part)


def _some(points: list[str]) -> str:
    if len(points) <= _MOST_POINTS:
        return ", ".join(points)
    half = _MOST_POINTS // 2
    return ", ".join([*points[:half], "…", *points[-half:]])


def _name(axes: Axes, number: int) -> str:
    return (axes.get_title() or axes.get_ylabel() or f"panel {number}").replace("\n", " ")


def _values(axes: Axes) -> Iterator[tuple[str, str, str]]:
    """(series, where, value) of each labelled line and of each bar."""
    for line in axes.get_lines():
        label = str(line.get_label())
        if not label.startswith("_"):
            names = _ticks(axes, lying=False) if isinstance(axes.xaxis.get_major_formatter(), FixedFormatter) else {}
            for x, y in zip(*map(np.asarray, line.get_data()), strict=True):
                yield label, names.get(_key(x), _text(x)), _text(y)
    for container in axes.containers:
        if isinstance(container, BarContainer):
            yield from _bars(axes, container)


def _bars(axes: Axes, bars: BarContainer) -> Iterator[tuple[str, str, str]]:
    label = str(bars.get_label())
    lying = getattr(bars, "orientation", "vertical") == "horizontal"
    names = _ticks(axes, lying=lying)
    for patch in bars.patches:
        middle = patch.get_y() + patch.get_height() / 2 if lying else patch.get_x() + patch.get_width() / 2
        value = patch.get_width() if lying else patch.get_height()
        yield "" if label.startswith("_") else label, names.get(_key(middle), _text(middle)), _text(value)


def _ticks(axes: Axes, *, lying: bool) -> dict[float, str]:
    """Place -> the name that stands there."""
    axis = axes.yaxis if lying else axes.xaxis
    labels = [label.get_text() for label in axis.get_ticklabels()]
    return {_key(p): text for p, text in zip(axis.get_ticklocs(), labels, strict=False) if text}


def _key(place: Any) -> float:
    try:
        return round(float(place), 3)
    except (TypeError, ValueError):
        return float("nan")


def _text(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return "not measured" if value is None else str(value)
    return f"{number:,.4g}" if np.isfinite(number) else "not measured"
