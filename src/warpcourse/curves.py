"""Losses while a network learns, as a picture that grows in a notebook."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE

SMOOTH = 10
"""Steps of the running mean."""


def loss_left(losses: Sequence[float]) -> float:
    """The mean loss of the last ten steps, over that of the first ten; NaN before there are twenty."""
    return float(np.mean(losses[-SMOOTH:]) / np.mean(losses[:SMOOTH])) if len(losses) >= 2 * SMOOTH else math.nan


def draw_losses(losses: Sequence[float], levels: Mapping[str, float], *, steps: int = 0) -> Figure:
    """The loss of each step, its running mean, and levels by name; `steps`: how many there will be."""
    figure, axes = plt.subplots(figsize=(7, 3))
    numbers = np.arange(1, len(losses) + 1)
    axes.plot(numbers, losses, color=GREY, linewidth=1, label="each step")
    if len(losses) >= SMOOTH:
        means = np.convolve(losses, np.full(SMOOTH, 1 / SMOOTH), mode="valid")
        axes.plot(numbers[SMOOTH - 1 :], means, color=BLUE, linewidth=2, label=f"mean of {SMOOTH}")
    for (name, level), colour in zip(levels.items(), (ORANGE, GREEN), strict=False):
        axes.axhline(level, color=colour, linestyle=":", label=name)
    axes.set(xlabel="step", ylabel="loss", xlim=(0, max(steps, len(losses), 1)))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    return figure


class LiveCurve:
    """Losses so far and levels, drawn anew about once a second in one place; outside a notebook they are kept only."""

    def __init__(self, steps: int, *, levels: Mapping[str, float] | None = None, seconds: float = 1.0) -> None:
        self.losses: list[float] = []
        self._levels = levels or {}
        self._steps, self._seconds, self._next = steps, seconds, 0.0
        self._display: Any = None

    def __call__(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        if time.monotonic() >= self._next:
            self.draw()
            self._next = time.monotonic() + self._seconds

    def draw(self) -> None:
        """Show the curve as it is now."""
        if "IPython" not in sys.modules:
            return
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is None:
            return
        figure = draw_losses(self.losses, self._levels, steps=self._steps)
        if self._display is None:
            self._display = display(figure, display_id=True)
        else:
            self._display.update(figure)
        plt.close(figure)
