"""Pictures of lab 06: what a precision costs, and what calibration does to real activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED
from warpcourse.numerics import Errors
from warpschool.show.figures import Picture

_COLOURS = (BLUE, "#56B4E9", GREEN, "#CC79A7", ORANGE, RED, "black", GREY)
_MARKS = "os^vD*PX"


def draw_errors(panels: Mapping[str, Sequence[Errors]]) -> Picture:
    """Mean squared error above, worst error below, over K: a column for each kind of input, title -> precisions.

    Dotted lines are what the tolerance allows of the worst error.
    """
    figure, axes = plt.subplots(
        2, len(panels), figsize=(4.6 * len(panels) + 1, 7), sharex=True, squeeze=False, layout="constrained"
    )
    for column, (title, series) in enumerate(panels.items()):
        above, below = axes[:, column]
        above.set_title(title, fontsize=10)
        for errors, colour, mark in zip(series, _COLOURS, _MARKS, strict=False):
            style = {"color": colour, "marker": mark, "markersize": 5, "linewidth": 1.2}
            above.plot(errors.ks, errors.mse, label=errors.name, **style)
            below.plot(errors.ks, errors.worst, **style)
            if errors.allowed is not None:
                below.plot(errors.ks, errors.allowed, ":", color=colour, linewidth=1)
        for panel in (above, below):
            _log_log(panel, series)
        below.set_xlabel("K, products in a sum")
    axes[0, 0].set_ylabel("mean squared error / mean square")
    axes[1, 0].set_ylabel("worst error / root mean square\n(dotted: what is allowed)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return Picture(figure, _said(panels))


def _log_log(axes: Axes, series: Sequence[Errors]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ks = series[0].ks
    axes.set_xticks(ks, [f"{k:,}" for k in ks])
    axes.minorticks_off()
    axes.grid(True, linewidth=0.3)


def _said(panels: Mapping[str, Sequence[Errors]]) -> str:
    parts = []
    for title, series in panels.items():
        ks = series[0].ks
        told = "; ".join(f"{e.name} from {e.worst[0]:.1g} to {e.worst[-1]:.1g}" for e in series)
        parts.append(f"{title}, K from {ks[0]} to {ks[-1]}, worst error relative to the root mean square: {told}.")
    return "Errors of precisions against float64, over the number of products in a sum. " + " ".join(parts)


def draw_calibration(values: npt.ArrayLike, clips: Mapping[str, float], errors: Mapping[str, float]) -> Picture:
    """How often which magnitude occurs, and the limits that calibration would choose; `errors`: rule -> MSE."""
    magnitude = np.abs(np.asarray(values, np.float64)).ravel()
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.hist(magnitude, bins=100, color=GREY, log=True)
    looks = ((BLUE, "-"), (ORANGE, "--"), (RED, "-."), (GREEN, ":"))
    for (rule, clip), (colour, style) in zip(clips.items(), looks, strict=False):
        axes.axvline(clip, color=colour, linestyle=style, label=f"{rule}: {clip:.3g}, MSE {errors[rule]:.2g}")
    axes.set(xlabel="magnitude", ylabel="elements")
    axes.legend(fontsize=8, title="limit: what becomes 127", title_fontsize=8)
    told = "; ".join(f"{rule} {clip:.3g} with an MSE of {errors[rule]:.2g}" for rule, clip in clips.items())
    alt = (
        f"Histogram of {magnitude.size:,} magnitudes: half of them are below {np.median(magnitude):.2g}, "
        f"the largest is {magnitude.max():.3g}. Limits: {told}."
    )
    return Picture(figure, alt)
