"""The figures of docs/learn/lab10.md: layers for an image, forms of the network, batches, and streams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scripts import book_runs as runs
from scripts.book_pictures import BLUE, GREEN, GREY, ORANGE, PAPER, arrow, box, svg

from warpcourse.lab10_lenet.lab import fastest
from warpschool.nn.digits import load
from warpschool.nn.network import build, digits_layers
from warpschool.nn.session import Kernels, Session
from warpschool.recorded import recorded

LAB = "lab10_lenet"
IMAGES_COUNTED = 8
MISTAKES = tuple(
    f"{LAB}/{name}"
    for name in (
        "01_relu/bias_of_the_place",
        "02_average_pool/rows_of_windows",
        "03_average_pool_relu/relu_of_the_mean",
        "04_average_pool_tiled/barrier_in_a_branch",
        "05_max_pool/begins_with_zero",
        "06_fully_connected/without_registers",
        "07_softmax/not_shifted",
        "07_softmax/lanes_leave",
        "08_argmax/last_of_equals",
        "09_conv_relu_pool/sums_kept",
    )
)
PRODUCTS = {"conv1": 32 * 24 * 24 * 25, "conv2": 64 * 8 * 8 * 32 * 25, "fc1": 1024 * 128, "fc2": 128 * 10}
"""multiply-adds of an image, by definition"""
FORMS = ("plain", "pooled", "fused", "winograd")


def rows_of(precision: str) -> dict[str, dict[str, Any]]:
    """form -> its recorded row beside PyTorch."""
    return {row["form"]: row for row in recorded("networks_h200.json")["digits"]["rows"]
            if row["precision"] == precision and row["reference"] == "PyTorch eager"}  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """What a kernel of the plain network moves and multiplies for an image, and how long it took for 10,000."""

    name: str
    step: str
    kilobytes: float
    products: float
    time_us: float


@cache
def layers() -> tuple[Layer, ...]:
    """The plain network's kernels, by the simulator, with their recorded times."""
    graph = build(digits_layers("plain"), IMAGES_COUNTED)
    session = Session(graph, Kernels(device="sim"))
    for name, value in graph.values.items():
        if value.role == "parameter":
            session[name].set(runs.random_like(value.shape, value.dtype))
    session["x"].set(load().test.pixels()[:IMAGES_COUNTED])
    session.run()
    found = []
    times = rows_of("float32")["plain"]["layers_ms"]
    for call, launches in session.launches:
        moved = sum(launch.counters.global_load_bytes + launch.counters.global_store_bytes for launch in launches)
        fmas = sum(launch.counters.fma_instructions for launch in launches)
        found.append(
            Layer(
                call.layer, runs.short(call.step), moved / IMAGES_COUNTED / 1e3, fmas / IMAGES_COUNTED,
                times[call.layer] * 1e3,
            )
        )  # fmt: skip
    return tuple(found)


def layers_table() -> str:
    """What each layer of the plain network moves for an image, by the simulator, and its recorded time."""
    rows = [
        (one.name, one.step, f"{one.kilobytes:,.1f} kB", f"{one.products:,.0f}",
         f"{PRODUCTS.get(one.name, 0):,}", f"{one.time_us:,.0f} us")
        for one in layers()
    ]
    head = ("layer", "step", ">asked for and stored, an image", ">multiply-adds, an image", ">by definition",
            ">measured, 10,000 images")  # fmt: skip
    return runs.table(head, rows)


def forms_table() -> str:
    """The recorded forms of the network."""
    rows = []
    for precision in ("float32", "float16"):
        for form, row in sorted(rows_of(precision).items(), key=lambda item: FORMS.index(item[0])):
            rows.append(
                (
                    form,
                    precision,
                    f"{row['time_ms']:.2f} ms",
                    f"{row['arena_mb']:,.0f} MB",
                    f"{row['separate_mb']:,.0f} MB",
                    f"{row['ratio']:.2f}",
                    f"{row['accuracy']:.1%}",
                )
            )
    head = ("form", "numbers", ">measured", ">memory, one arena", ">all arrays apart", ">of PyTorch's time", ">right")
    return runs.table(head, rows)


def batches_table() -> str:
    """Bytes of the first fully connected layer for each image, as the batch grows."""
    kernel, rows = runs.contract(f"{LAB}/06_fully_connected"), []
    for batch in (1, 4, 16, 64, 256):
        size = {"BATCH": batch, "IN": 1024, "OUT": 128, "RELU": 1}
        c = runs.run(kernel, size).counters
        rows.append(
            (
                batch,
                f"{c.global_load_bytes / batch / 1e3:,.1f} kB",
                f"{2 * 1024 * 128 * batch / c.global_load_bytes:.1f}",
                runs.us(runs.time_us(runs.predicted(kernel, size)) / batch),
            )
        )
    return runs.table((">images", ">loaded, for each", ">operations a byte", ">predicted, for each"), rows)


def streams_picture() -> str:
    """The recorded run in one part, and the fastest ones in several."""
    found = fastest(2, course=runs.COURSE)
    colours = {"copy in": ORANGE, "kernels": BLUE, "copy out": GREEN}
    figure = Figure(figsize=(8.4, 1.3 * len(found)), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(len(found), 1, sharex=True)
    for axes, (title, line) in zip(panels, found.items(), strict=True):
        axes.set_facecolor(PAPER)
        for span in line.spans:
            y = list(colours).index(span.work.engine)
            width = span.end_ms - span.start_ms
            axes.broken_barh(
                [(span.start_ms, width)], (y - 0.35, 0.7), facecolor=colours[span.work.engine], edgecolor=PAPER
            )
            if width > 0.06:
                axes.text(
                    span.start_ms + width / 2, y, span.work.part, ha="center", va="center", color="white", fontsize=7
                )
        axes.set_yticks(range(3), list(colours), fontsize=8)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"{title}: {line.total_ms:.2f} ms", fontsize=8)
    panels[-1].set_xlabel("ms")
    return svg(figure, "lab10-streams")


WINDOW = (-1, 3, 2, -4)


def fusion_picture() -> str:
    """A window's way through three kernels, and through one."""
    rectified = [max(0, result) for result in WINDOW]
    mean = sum(rectified) / len(rectified)
    assert mean == 1.25, "the chapter's example"
    figure = Figure(figsize=(8.0, 3.4), layout="constrained", facecolor=PAPER)
    upper, lower = figure.subplots(2, 1, sharex=True)
    between = [", ".join(map(str, numbers)) for numbers in (WINDOW, rectified)]
    _draw_chain(upper, ("convolution", "ReLU", "mean"), (*between, f"{mean:g}"), (4, 4, 1))
    _draw_chain(lower, ("convolution, ReLU, mean", "", ""), (f"{mean:g}",), (1,))
    return svg(figure, "lab10-fusion")


def _draw_chain(axes: Axes, kernels: tuple[str, ...], stored: tuple[str, ...], counts: tuple[int, ...]) -> None:
    """Kernels above, what they leave in memory below: down an arrow for a store, up one for a load."""
    moved = sum(counts) + sum(counts[:-1])
    for number, kernel in enumerate(kernels):
        if kernel:
            box(axes, (3 * number, 1.4), (2.2, 0.7), kernel, colour=BLUE)
    for number, (numbers, count) in enumerate(zip(stored, counts, strict=True)):
        x = 3 * number + 0.8
        box(axes, (x + 0.7, 0), (1.9, 0.55), numbers, edge=GREY)
        arrow(axes, (x, 1.05), (x, 0.28), ORANGE)
        axes.text(x - 0.1, 0.65, f"store {count}", ha="right", va="center", fontsize=8)
        if number + 1 < len(counts):
            arrow(axes, (x + 1.4, 0.28), (x + 1.4, 1.05), GREEN)
            axes.text(x + 1.3, 0.65, f"load {count}", ha="right", va="center", fontsize=8)
    axes.set_title(f"{moved} numbers moved" if moved > 1 else "1 number moved", fontsize=9, loc="left")
    axes.set(xlim=(-1.3, 8.7), ylim=(-0.4, 1.9))
    axes.axis("off")


TABLES = {"layers": layers_table, "forms": forms_table, "batches": batches_table}
IMAGES = {"lab10-streams.svg": streams_picture, "lab10-fusion.svg": fusion_picture}
