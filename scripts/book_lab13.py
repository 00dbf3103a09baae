"""The figures of docs/learn/lab13.md: VGG16's layers with times and bytes, and what the way back counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scripts import book_flow, book_runs as runs
from scripts.book_pictures import BLUE, GREY, ORANGE, PAPER, SOFT, svg

from warpschool.recorded import recorded

LAB = "lab13_vgg16"
BATCH = 32
STAGES = ((64, 224, 2), (128, 112, 2), (256, 56, 3), (512, 28, 3), (512, 14, 3))
"""(channels of the results, edge of the image, convolutions)"""
DENSE = ((25_088, 4096), (4096, 4096), (4096, 1000))
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_winograd_backward_data/neighbours_forgotten",
        "01_winograd_backward_data/all_pass",
        "01_winograd_backward_data/same_buffer",
        "02_winograd_backward_filter/tiles_twice",
        "02_winograd_backward_filter/pieces_of_rows",
        "03_first_layer_backward/no_mask",
        "03_first_layer_backward/no_second_barrier",
        "04_fc_small_batch/bias_for_every_part",
        "04_fc_small_batch/past_the_last_input",
        "05_fc_small_batch_backward/mask_of_the_result",
        "05_fc_small_batch_backward/weights_not_turned",
        "06_saved_choices/before_the_bias",
        "06_saved_choices/last_of_equals",
    )
)
SMALL = {"BATCH": 2, "C": 64, "F": 64, "H": 28, "W": 28}


@dataclass(frozen=True)
class Shape:
    """A layer: products for an image by definition, numbers that go in and come out for an image, and weights."""

    name: str
    told: str
    products: int
    ins: int
    outs: int
    weights: int

    @property
    def numbers(self) -> int:
        return self.ins + self.outs


def shapes() -> tuple[Shape, ...]:
    """The network's 16 layers with weights, by its definition."""
    found, before, number = [], 3, 1
    for channels, edge, count in STAGES:
        for _ in range(count):
            told = f"{before} to {channels} of {edge} x {edge}"
            products = 9 * before * channels * edge * edge
            found.append(
                Shape(f"conv{number}", told, products, before * edge**2, channels * edge**2, 9 * before * channels)
            )
            before, number = channels, number + 1
    for number, (ins, outs) in enumerate(DENSE, start=1):
        found.append(Shape(f"fc{number}", f"{ins:,} to {outs:,}", ins * outs, ins, outs, ins * outs))
    return tuple(found)


def moved_mb(one: Shape) -> float:
    """Each input, result and weight once, for a batch."""
    return 4 * (BATCH * one.numbers + one.weights) / 1e6


def moved_back_mb(one: Shape) -> float:
    """Slopes of results, inputs and weights are read, those of inputs (not of the first) and of weights written."""
    if one.name == "conv1":
        return moved_mb(one)
    return 4 * (BATCH * (2 * one.ins + one.outs) + 2 * one.weights) / 1e6


def times(part: str) -> dict[str, dict[str, float]]:
    return {row["layer"]: row for row in recorded("networks_vgg_h200.json")["rows"] if row["part"] == part}


def layers_table() -> str:
    """Each layer: products, bytes, times."""
    rows = []
    there, back = times("forward"), times("backward")
    for one in shapes():
        f, b = there[one.name], back[one.name]
        rows.append(
            (
                one.name,
                one.told,
                f"{BATCH * one.products / 1e9:.1f}",
                f"{moved_mb(one):,.0f} MB",
                f"{f['time_ms']:.2f} ms",
                f"{f['ratio']:.2f}",
                f"{b['time_ms']:.2f} ms",
                f"{b['ratio']:.2f}",
            )
        )
    head = ("layer", "channels, or numbers", ">billion products, by definition", ">inputs, results, weights",
            ">forward", ">of PyTorch's", ">backward", ">of PyTorch's")  # fmt: skip
    return runs.table(head, rows)


def whole_table() -> str:
    """The whole network, inference and training."""
    rows = []
    names = (
        "inference", "training step", "training step, side by side", "inference from PyTorch",
        "training step from PyTorch",
    )  # fmt: skip
    for name in names:
        row = times(name)["all"]
        rows.append((name, f"{row['time_ms']:.1f} ms", f"{row['pytorch_ms']:.1f} ms", f"{row['ratio']:.2f}"))
    return runs.table(("what", ">ours", ">PyTorch", ">of PyTorch's time"), rows)


def mixed_table() -> str:
    """A training step in mixed precision beside PyTorch's autocast."""
    rows = []
    for row in recorded("mixed_precision_h200.json")["rows"]:
        when = "between rests" if row["bursts"] else "without rests"
        ours, theirs = f"{row['time_ms']:.2f} ms", f"{row['pytorch_ms']:.2f} ms"
        rows.append((row["pytorch"], when, ours, theirs, f"{row['ratio']:.2f}"))
    return runs.table(("PyTorch's autocast", "timed", ">ours", ">PyTorch", ">of PyTorch's time"), rows)


PARTS = (
    ("windows of the first layer, written out", ("windows",), "conv"), ("convolutions forward", ("forward",), "conv"),
    ("convolutions back to their inputs", ("back",), "conv"), ("gradients of filters", ("filters",), "conv"),
    ("pooling, there and back", ("pool", "back through pooling"), "conv"),
    ("dense layers and loss, there and back", ("forward", "back", "loss"), "fc"),
    ("dense weights: gradient, momentum, update", ("update",), "fc"),
    ("all else: finite or not, update", ("finite", "update"), "all"),
)  # fmt: skip


def mixed_parts_table() -> str:
    """What a step in mixed precision consists of, each launch timed alone."""
    rows = []
    found = recorded("mixed_precision_h200.json")["parts"]
    convolutions = sum(2 * BATCH * one.products for one in shapes() if one.name.startswith("conv"))
    first = 2 * BATCH * shapes()[0].products
    operations = {"forward": convolutions, "back": convolutions - first, "filters": convolutions}
    for told, parts, layers in PARTS:
        chosen = [row for row in found if row["part"] in parts and row["layer"].startswith(layers)]
        ms = sum(row["ms"] for row in chosen)
        done = operations.get(parts[0]) if layers == "conv" and len(parts) == 1 else None
        rows.append((told, str(len(chosen)), f"{ms:.2f} ms", f"{done / ms * 1e-9:.0f} TFLOP/s" if done else ""))
    total = sum(row["ms"] for row in found)
    rows.append(("together", str(len(found)), f"{total:.2f} ms", ""))
    return runs.table(("part", ">calls", ">time", ">rate"), rows)


def layers_picture() -> str:
    """Times there and back, and below them the bytes that each layer must move at least."""
    figure = Figure(figsize=(8.4, 4.0), layout="constrained", facecolor=PAPER)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    found = shapes()
    x = np.arange(len(found))
    upper.bar(x - 0.2, [times("forward")[one.name]["time_ms"] for one in found], 0.4, color=BLUE, label="forward")
    upper.bar(x + 0.2, [times("backward")[one.name]["time_ms"] for one in found], 0.4, color=ORANGE, hatch="//",
              edgecolor=PAPER, label="backward")  # fmt: skip
    upper.set_ylabel("ms")
    upper.legend(frameon=False)
    numbers = [4 * BATCH * one.numbers / 1e6 for one in found]
    lower.bar(x, numbers, 0.6, color=GREY, label="inputs and results")
    lower.bar(x, [4 * one.weights / 1e6 for one in found], 0.6, bottom=numbers, color=SOFT, label="weights")
    lower.set_ylabel("MB")
    lower.legend(frameon=False)
    lower.set_xticks(x, [one.name for one in found], rotation=45, ha="right", fontsize=8)
    for axes in (upper, lower):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, "lab13-layers")


def back_table() -> str:
    """The kernels of the way back at one layer, by the simulator."""
    rng = np.random.default_rng(1)
    choice = rng.integers(0, 2, (2, 64, 28, 28)).astype(np.uint8)
    data = runs.run(runs.contract(f"{LAB}/01_winograd_backward_data"), SMALL, {"choice": choice}, constants={"POOL": 1})
    filters = runs.run(runs.contract(f"{LAB}/02_winograd_backward_filter"), {"C": 64, "F": 64, "P": 2 * 7 * 7})
    rows = []
    for step, found in (("01", data), ("02", filters)):
        for launch in found.launches:
            c = launch.counters
            rows.append(
                (
                    step,
                    launch.kernel,
                    f"{c.fma_instructions:,}",
                    f"{c.fadd_instructions + c.fmul_instructions:,}",
                    f"{c.global_load_bytes / 1e6:.2f} MB",
                    f"{c.global_store_bytes / 1e6:.2f} MB",
                )
            )
    return runs.table(("step", "kernel", ">multiply-adds", ">other operations", ">loaded", ">stored"), rows)


TABLES = {
    "layers": layers_table, "whole": whole_table, "back": back_table, "mixed": mixed_table,
    "parts": mixed_parts_table,
}  # fmt: skip
IMAGES = {"lab13-layers.svg": layers_picture, "lab13-back.svg": book_flow.back_picture,
          "lab13-collect.svg": book_flow.collect_picture}  # fmt: skip
