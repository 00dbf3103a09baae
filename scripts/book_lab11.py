"""The figures of docs/learn/lab11.md: a step of LeNet-5 forwards and backwards, learning curves, batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_lab10 import PRODUCTS
from scripts.book_pictures import BLUE, BROWN, GREY, ORANGE, PAPER, new_figure, svg

from warpcourse.lab11_training.lab import training_network
from warpschool.counters import Counters
from warpschool.nn.digits import load
from warpschool.nn.network import PIXELS, build_training
from warpschool.nn.session import Kernels
from warpschool.nn.training import InTraining, first_parameters
from warpschool.recorded import recorded

LAB = "lab11_training"
BATCH = 64
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_cross_entropy_backward/slope_of_the_sum",
        "01_cross_entropy_backward/largest_not_subtracted",
        "02_fc_backward/no_relu",
        "02_fc_backward/weights_not_transposed",
        "03_pool_relu_backward/to_everyone",
        "04_conv_backward_data/filters_not_flipped",
        "05_conv_backward_filter/atomic_sums",
        "05_conv_backward_filter/places_of_the_next",
        "06_sgd_momentum/old_speed",
        "07_adam/not_corrected",
        "08_bias_relu_pool/left_before_the_vote",
    )
)
BACKWARD = {"fc_backward_weights": "weights", "fc_backward_data": "inputs", "conv_backward_filter": "weights",
            "conv_backward_data": "inputs"}  # fmt: skip


@dataclass
class Part:
    """Multiply-adds of one layer for an image."""

    forward: float = 0.0
    weights: float = 0.0
    inputs: float = 0.0


def calls() -> list[tuple[str, str, Counters]]:
    """(layer, "forward", "inputs" or "weights", counters) of each launch of one step of training lab 10's network."""
    graph = build_training(training_network("digits", "sim"), BATCH, PIXELS)
    start = first_parameters({name: value.shape for name, value in graph.places.items()}, seed=1)
    step = InTraining(graph, Kernels(device="sim"), start, None)
    split = load().train
    step.session["x"].set(split.pixels()[:BATCH])
    step.session["label"].set(split.labels[:BATCH].astype(np.int32))
    step.session.run()
    assert not step.hazards
    found = []
    for call, launches in step.session.launches:
        for launch in launches:
            kind = BACKWARD.get(launch.kernel, "forward" if "backward" not in call.step else "")
            if kind and call.layer.startswith(("conv", "fc")):
                found.append((call.layer, kind, launch.counters))
    return found


@cache
def parts() -> dict[str, Part]:
    """layer -> multiply-adds for an image in that step, counted."""
    found: dict[str, Part] = {}
    for layer, kind, counters in calls():
        part = found.setdefault(layer, Part())
        setattr(part, kind, getattr(part, kind) + counters.fma_instructions / BATCH)
    return found


def step_table() -> str:
    """Each layer forwards and backwards."""
    rows = []
    for name, part in parts().items():
        rows.append(
            (
                name, f"{PRODUCTS[name]:,}", f"{part.forward:,.0f}", f"{part.weights:,.0f}",
                f"{part.inputs:,.0f}" if part.inputs else "none",
            )
        )  # fmt: skip
    head = ("layer", ">by definition", ">forward", ">slope of the weights", ">slope of the inputs")
    return runs.table(head, rows)


def arrows_picture() -> str:
    """The layers as boxes; forward arrows above, with multiply-adds, and the way back below, reversed."""
    figure, axes = new_figure(8.4, 2.9)
    axes.axis("off")
    names = [*parts(), "loss"]
    for x, name in enumerate(names):
        axes.text(x, 0, name, ha="center", va="center", fontsize=10,
                  bbox={"boxstyle": "round,pad=0.5", "facecolor": PAPER, "edgecolor": GREY})  # fmt: skip
    for x, name in enumerate(names[:-1]):
        part = parts()[name]
        axes.annotate("", (x + 0.72, 0.25), (x + 0.28, 0.25), arrowprops={"arrowstyle": "-|>", "color": BLUE})
        axes.annotate("", (x + 0.28, -0.25), (x + 0.72, -0.25), arrowprops={"arrowstyle": "-|>", "color": ORANGE})
        axes.text(x, 0.52, f"y = w x\n{part.forward:,.0f}", ha="center", va="bottom", fontsize=8, color=BLUE)
        axes.annotate("", (x, -1.0), (x, -0.35), arrowprops={"arrowstyle": "-|>", "color": ORANGE})
        axes.text(x, -1.05, f"dw: {part.weights:,.0f}", ha="center", va="top", fontsize=8, color=BROWN)
        if part.inputs:  # below the arrow to the layer before
            axes.text(x - 0.5, -0.35, f"dx: {part.inputs:,.0f}", ha="center", va="top", fontsize=8, color=BROWN)
    axes.set(xlim=(-0.6, len(names) - 0.5), ylim=(-1.4, 1.1))
    return svg(figure, "lab11-arrows")


def curves_picture() -> str:
    """Loss and share of right answers, epoch by epoch, as recorded."""
    figure = Figure(figsize=(8.4, 2.8), layout="constrained", facecolor=PAPER)
    left, right = figure.subplots(1, 2)
    for row, colour, marker in zip(recorded("training_h200.json")["weights"], (BLUE, ORANGE), "os", strict=True):
        epochs = [seen["epoch"] for seen in row["history"]]
        left.semilogy(epochs, [seen["loss"] for seen in row["history"]], color=colour, label=row["network"])
        known = [(seen["epoch"], seen["accuracy"]) for seen in row["history"] if seen["accuracy"] is not None]
        right.plot(*zip(*known, strict=True), color=colour, marker=marker, markersize=3, label=row["network"])
    left.set(xlabel="epoch", title="loss, mean over an epoch")
    left.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["0.01", "0.03", "0.1", "0.3", "1"])
    left.minorticks_off()
    right.set(xlabel="epoch", title="right, of 1,000 other images")
    for axes in (left, right):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    return svg(figure, "lab11-curves")


def batches_table() -> str:
    """Eight epochs with batches of several sizes, as recorded."""
    rows = []
    for row in recorded("training_h200.json")["batches"]:
        if row["network"] == "lenet5":
            rows.append(
                (
                    row["batch"],
                    f"{row['rate']:g}",
                    f"{row['epoch_ms']:.1f} ms",
                    f"{row['images_per_second'] / 1e3:,.0f}",
                    f"{row['loss']:.3f}",
                    f"{row['accuracy']:.1%}",
                )
            )
    head = (">batch", ">rate", ">an epoch of 4,000 images", ">thousand images a second", ">loss", ">right")
    return runs.table(head, rows)


def against_table() -> str:
    """Epochs of both networks, in order and side by side, beside PyTorch's, as recorded."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in recorded("training_h200.json")["against"]:
        found.setdefault((row["network"], row["batch"]), {})[row["pytorch"]] = row
    rows = []
    for (network, batch), ways in found.items():
        graph = ways["CUDA graph"]
        rows.append(
            (network, batch, f"{graph['in_order_ms']:.1f} ms", f"{graph['epoch_ms']:.1f} ms",
             f"{ways['eager']['pytorch_epoch_ms']:.1f} ms", f"{graph['pytorch_epoch_ms']:.1f} ms",
             f"{graph['ratio']:.2f}")
        )  # fmt: skip
    head = ("network", ">batch", ">in order", ">side by side", ">PyTorch", ">its CUDA graph", ">ours, of its time")
    return runs.table(head, rows)


TABLES = {"step": step_table, "batches": batches_table, "against": against_table}
IMAGES = {"lab11-arrows.svg": arrows_picture, "lab11-curves.svg": curves_picture}
