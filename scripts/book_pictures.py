"""What the book's pictures share: colours, a figure's frame, and SVG that depends on nothing but what is drawn."""

from __future__ import annotations

import io
import re

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

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
