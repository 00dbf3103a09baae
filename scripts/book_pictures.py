"""What the book's pictures share: colours, a figure's frame, and SVG that depends on nothing but what is drawn."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#B8B8B8"
"""Okabe and Ito's palette: it stays distinct with every common form of colour blindness."""
PAPER = "#fcfcfa"


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of one panel, in inches; no window is ever opened."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def svg(figure: Figure, name: str) -> str:
    """The figure as SVG: text stays text, coordinates have two digits, nothing of time or machine is in it."""
    FigureCanvasSVG(figure)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "svg.id": name}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1sans-serif", text)
    return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", text)


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
    """Colours of the counts 0 to `most`: the more, the darker."""
    shades = mpl.colormaps["Blues"]
    return {count: mpl.colors.to_hex(shades(count / most)) for count in range(most + 1)}
