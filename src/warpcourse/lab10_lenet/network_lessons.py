"""Pictures of labs 10 and 11: digits with what a network took them for, and what ran when."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpcourse.lessons import BLUE, GREEN, ORANGE
from warpschool.nn.streams import ENGINES, Timeline

_COLOURS = dict(zip(ENGINES, (ORANGE, BLUE, GREEN), strict=True))


def draw_digits(images: npt.ArrayLike, labels: npt.ArrayLike, found: npt.ArrayLike | None = None) -> Figure:
    """Draw images [N,28,28] in a row, each under its label; what was taken for something else says for what."""
    pictures, right = np.asarray(images), np.asarray(labels)
    figure, panels = plt.subplots(1, max(1, len(pictures)), figsize=(max(2, len(pictures)), 1.4), squeeze=False)
    for place, axes in enumerate(panels[0]):
        axes.axis("off")
        if place < len(pictures):
            guess = right[place] if found is None else np.asarray(found)[place]
            taken = "" if guess == right[place] else f" ({guess})"
            axes.imshow(pictures[place], cmap="gray_r")
            axes.set_title(f"{right[place]}{taken}", fontsize=10, color="red" if taken else "black")
    figure.tight_layout()
    return figure


def draw_timeline(timelines: Mapping[str, Timeline | None]) -> Figure:
    """Draw what each stream did when; a timeline that does not exist is a sentence."""
    figure, panels = plt.subplots(len(timelines), 1, figsize=(9, 1.7 * len(timelines)), squeeze=False)
    for axes, (title, timeline) in zip(panels[:, 0], timelines.items(), strict=True):
        if timeline is None:
            axes.axis("off")
            why = "a model wants an order that can be carried out, a recording a GPU: the simulator has no clock"
            axes.text(0, 0.5, f"{title}: SKIP, {why}.", fontsize=8)
        else:
            _draw_streams(axes, title, timeline)
    figure.tight_layout()
    return figure


def _draw_streams(axes: Axes, title: str, timeline: Timeline) -> None:
    first = min(span.start_ms for span in timeline.spans)
    for span in timeline.spans:
        work = span.work
        lane = ENGINES.index(work.engine) / 4
        axes.broken_barh(
            [(span.start_ms - first, span.end_ms - span.start_ms)], (work.stream + lane - 0.37, 0.24),
            facecolor=_COLOURS[work.engine], edgecolor="white", linewidth=0.5,
        )  # fmt: skip
    streams = sorted({span.work.stream for span in timeline.spans})
    axes.set_yticks(streams, [f"stream {stream}" for stream in streams])
    axes.set_xlabel("ms" if timeline.recorded else "time (a model's)", fontsize=8)
    told = f"{title}: {timeline.total_ms:.3g} in all, {timeline.overlapped_ms:.3g} of it overlapped"
    axes.set_title(told, fontsize=9)
    axes.legend(
        handles=[plt.Rectangle((0, 0), 1, 1, color=colour) for colour in _COLOURS.values()], labels=list(_COLOURS),
        fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0),  # outside: it must not cover what ran last
    )  # fmt: skip
