"""Pictures of the training lab: the loss as it falls, and batch sizes against accuracy and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE

SMOOTH = 10
"""Steps of the running mean."""


def draw_losses(losses: Sequence[float], *, steps: int = 0) -> Figure:
    """The loss of each step, and its running mean; `steps`: how many there will be."""
    figure, axes = plt.subplots(figsize=(7, 3))
    numbers = np.arange(1, len(losses) + 1)
    axes.plot(numbers, losses, color=GREY, linewidth=1, label="each step")
    if len(losses) >= SMOOTH:
        means = np.convolve(losses, np.full(SMOOTH, 1 / SMOOTH), mode="valid")
        axes.plot(numbers[SMOOTH - 1 :], means, color=BLUE, linewidth=2, label=f"mean of {SMOOTH}")
    axes.axhline(np.log(10), color=ORANGE, linestyle=":", label="guessing among 10")
    axes.set(xlabel="step", ylabel="loss", xlim=(0, max(steps, len(losses), 1)))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    return figure


def draw_batches(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy, and images a second, against the batch size; one line for each network."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    names = sorted({row["network"] for row in rows})
    for name, colour in zip(names, (BLUE, GREEN, ORANGE), strict=False):
        own = sorted((row for row in rows if row["network"] == name), key=lambda row: row["batch"])
        batches = [row["batch"] for row in own]
        left.plot(batches, [100 * row["accuracy"] for row in own], "o-", color=colour, label=name)
        right.plot(batches, [row["images_per_second"] / 1e3 for row in own], "o-", color=colour, label=name)
    for axes, title in ((left, "accuracy in %"), (right, "thousand images a second")):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="images of a batch", title=title)
        axes.grid(alpha=0.3)
        if names:
            axes.legend(fontsize=8)
        else:
            axes.text(0.5, 0.5, "nothing recorded", ha="center", va="center", transform=axes.transAxes)
    figure.tight_layout()
    return figure
