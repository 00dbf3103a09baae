"""Lab 10: a whole network of the student's own kernels, its layers one by one, batches of all sizes, what
benchmarks/networks.py recorded on a GPU, and pictures of digits and of what ran when.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in: where nothing was
recorded, tables are empty and say so. The times of a report from the course ECE 408 (10,000 images; it does not name
its GPU) stand beside ours: its table 13 is redrawn here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpcourse import experiments
from warpcourse.experiments import gpu_ms, told
from warpcourse.lessons import BLUE, GREEN, ORANGE
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.device import Launch, get_device
from warpschool.device.protocol import Device
from warpschool.errors import WarpschoolError
from warpschool.grading.cell import secret_rng
from warpschool.inspect.timing import benchmark
from warpschool.nn.digits import load, weights
from warpschool.nn.layers import ConvolvePool, FullyConnected
from warpschool.nn.network import FORMS, GPU_BATCH, Network, build, digits_layers, lenet5_layers
from warpschool.nn.session import Kernels, Session
from warpschool.nn.streams import ENGINES, StreamTimeline, TimedWork, Work, classify_in_parts, schedule
from warpschool.notebook.runs import is_accepted
from warpschool.recorded import results
from warpschool.show.bar import watched
from warpschool.show.table import Table, small_table

LAB = "lab10_lenet"
REPORT_MS: Mapping[str, tuple[float | None, float]] = {
    "conv1": (None, 34.8897), "relu1": (3013.6, 12.4404), "pool1": (10690, 14.5701), "conv2": (None, 188.695),
    "relu2": (665.50, 2.47833), "pool2": (2501, 10.0552), "labels": (3.15, 0.326171),
}  # fmt: skip
"""ECE 408 report, table 13: ms for 10,000 images, serial and parallel (convolutions took more than 10,000 serially)."""


def own_kernels(steps: Iterable[str] | None = None, *, device: str | Device = "auto") -> Kernels:
    """Return the student's own kernels for steps of this lab (None: all), and references for every other step."""
    return experiments.own_kernels(LAB, steps, device=device)


def network(form: str = "fused", *, kernels: Kernels | None = None) -> Network:
    """Return the digits' network with its trained weights: "plain", "pooled", "fused", "winograd", or "lenet5"."""
    layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
    return Network(layers, kernels or own_kernels(), parameters=weights("lenet5" if form == "lenet5" else "digits"))


SIMULATED_DIGITS = 400
"""So many of the 1,000 are read where there is no GPU."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What a network took digits for (-1: not read); an accuracy of 0, and the reason, where a kernel went wrong."""

    labels: np.ndarray
    accuracy: float
    read: np.ndarray
    """the indices of those that it read"""
    said: str = ""

    def __repr__(self) -> str:
        return self.said or f"{self.accuracy:.1%} of {len(self.read):,} digits"

    @property
    def wrong(self) -> np.ndarray:
        """The indices of those that it took for others."""
        return self.read[self.labels[self.read] != load().test.labels[self.read]]


def read_digits(form: str = "fused", *, device: str = "auto") -> Reading:
    """Let the student's own kernels classify the test digits, 400 of them without a GPU, with a bar.

    Which ones, and in which order, the secret seed draws: a kernel that has learned the labels by heart does not know.
    """
    digits = load().test
    order = secret_rng("read_digits").permutation(len(digits))
    if not get_device(device).measures_time:
        order = order[:SIMULATED_DIGITS]
    labels = np.full(len(digits), -1)
    try:
        found = network(form, kernels=own_kernels(device=device)).classify(digits.pixels()[order], progress=True)
    except WarpschoolError as error:
        return Reading(labels, 0.0, order, f"{type(error).__name__}: {error}")
    labels[order] = found
    return Reading(labels, float((labels[order] == digits.labels[order]).mean()), order)


def total_of(order: Callable[[int, int], Any], parts: int, streams: int, *, ms: Sequence[float] = (1, 1, 1)) -> float:
    """Return what `order(parts, streams)` takes by the model of three engines; not a number for what cannot be done."""
    planned = plan_of(order, parts, streams, ms=ms)
    return math.nan if planned is None else planned.total_ms


def plan_of(
    order: Callable[[int, int], Any], parts: int, streams: int, *, ms: Sequence[float] = (1, 1, 1)
) -> StreamTimeline | None:
    """Return the timeline of `order(parts, streams)` by the model; None for what cannot be done."""
    try:
        planned = schedule(order(parts, streams), dict(zip(ENGINES, ms, strict=True)))
    except (WarpschoolError, TypeError, ValueError):
        return None
    works = {span.work.part for span in planned.spans}
    used = {span.work.stream for span in planned.spans}
    return planned if works == set(range(parts)) and used <= set(range(streams)) else None


# ---------------------------------------------------------------- layer by layer


def layers_table(form: str = "plain", *, kernels: Kernels | None = None, images: int = 32) -> Table:
    """Redraw the report's table 13: what each layer moves for an image, and its time for 10,000 on a GPU: on this
    machine's, and as it was recorded."""
    net = network(form, kernels=kernels or own_kernels(device="sim"))
    session = net.session(images)
    session["x"].set(load().test.pixels()[:images])
    session.run()
    counted: dict[str, Counters] = {}
    for call, launches in session.launches:
        counted[call.layer] = sum((launch.counters for launch in launches), counted.get(call.layer, Counters()))
    times = layer_times(form)
    gpu, known = recorded_layer_times(form)
    head = ["layer", "bytes moved for an image", "multiply-adds", "ms for 10,000", *([f"ms, {gpu}"] if known else []),
            "the report's ms", "serial, its ms"]  # fmt: skip
    note = f"{gpu}: recorded with the references." if known else ""
    return small_table(head, [_row(name, one, images, times, known) for name, one in counted.items()], note)


def _row(
    name: str, one: Counters, images: int, times: Mapping[str, float | None], known: Mapping[str, float]
) -> list[str]:
    serial, parallel = REPORT_MS.get(name, (None, None))
    moved = one.global_load_bytes + one.global_store_bytes
    return [
        name, f"{moved / images:,.0f}", f"{one.fma_instructions / images:,.0f}",
        told(times.get(name)), *([f"{known[name]:.3g}"] if known else []),
        "" if parallel is None else f"{parallel:g}",
        "" if serial is None else f"{serial:g}",
    ]  # fmt: skip


def layer_times(form: str) -> dict[str, float | None]:
    """Return ms for 10,000 images, layer by layer, on the GPU; empty without one."""
    if not get_device("auto").measures_time:
        return {}
    net = network(form, kernels=own_kernels(device="gpu"))
    session = net.session(GPU_BATCH)
    session.run()
    return {layer.name: benchmark(session.again(layer.name), device="gpu").median_ms for layer in net.layers}


# ---------------------------------------------------------------- batches


def bytes_for_an_image(batches: Sequence[int]) -> dict[str, list[float | None]]:
    """What an image costs in bytes of global loads, layer by layer, as the batch grows: the simulator's counts."""
    asked = [(name, layer, shape, batch) for name, layer, shape in _MEASURED for batch in batches]
    found: dict[str, list[float | None]] = {name: [] for name, _, _ in _MEASURED}
    for name, layer, shape, batch in watched(asked, "batches counted"):
        found[name].append(_loaded(layer, shape, batch))
    return found


def time_for_an_image(batches: Sequence[int]) -> dict[str, list[float | None]]:
    """Microseconds for an image, layer by layer, as the batch grows: measured here, or else predicted for an H200."""
    here = get_device("auto").measures_time
    how, what = (_time_us, "measured") if here else (_predicted_us, f"predicted, {experiments.PREDICTED.upper()}")
    asked = [(name, layer, shape, batch) for name, layer, shape in _MEASURED for batch in batches]
    found: dict[str, list[float | None]] = {f"{name}, {what}": [] for name, _, _ in _MEASURED}
    for name, layer, shape, batch in watched(asked, f"batches {what}"):
        found[f"{name}, {what}"].append(how(layer, shape, batch))
    return found


_Weighted = ConvolvePool | FullyConnected


_MEASURED: tuple[tuple[str, _Weighted, tuple[int, ...]], ...] = (
    ("convolution 2", ConvolvePool(name="conv2", filters=64, size=5), (32, 12, 12)),
    ("fully connected 1", FullyConnected(name="fc1", outputs=128, relu=True), (1024,)),
)


def _own_steps(layer: _Weighted) -> tuple[str, ...]:
    return (layer.step.split("/")[1],) if isinstance(layer, FullyConnected) else ()  # the other is written further down


def _launches(layer: _Weighted, shape: tuple[int, ...], batch: int, device: str) -> list[Launch]:
    own = _own_steps(layer)
    graph = build((layer,), batch, shape)
    check = not all(is_accepted(f"{LAB}/{step}") for step in own)
    session = Session(graph, own_kernels(own, device=device), check=check)
    rng = np.random.default_rng(1)
    for name, value in graph.values.items():
        if value.role in ("input", "parameter"):
            session[name].set(rng.uniform(-1, 1, value.shape).astype(value.dtype))
    session.run()
    return [launch for _, launches in session.launches for launch in launches]


def _loaded(layer: _Weighted, shape: tuple[int, ...], batch: int) -> float:
    return sum(launch.counters.global_load_bytes for launch in _launches(layer, shape, batch, "sim")) / batch


def _time_us(layer: _Weighted, shape: tuple[int, ...], batch: int) -> float | None:
    time_ms = gpu_ms(_launches(layer, shape, batch, "gpu"))
    return None if time_ms is None else 1e3 * time_ms / batch


def _predicted_us(layer: _Weighted, shape: tuple[int, ...], batch: int) -> float | None:
    kernels = own_kernels(_own_steps(layer), device="sim")
    times = [
        experiments.predicted_ms(kernels.contract(call.kernel), call.sizes, constants=dict(call.constants))
        for call in build((layer,), batch, shape).calls
    ]
    return None if None in times else 1e3 * sum(filter(None, times)) / batch


# ---------------------------------------------------------------- what was recorded


NOTHING = "Nothing recorded."


def _recorded(course: Course | None) -> tuple[str, dict[str, Any]]:
    """The GPU's name and what was measured on it; "" and no rows where nothing was recorded."""
    for found in results("networks_*.json", course=course):
        if "digits" in found:
            return found["device"], found["digits"]
    return "", {"rows": [], "layout_ms": {}, "streams": []}


def recorded_layer_times(form: str, *, course: Course | None = None) -> tuple[str, dict[str, float]]:
    """Return the GPU's name and what each layer of a float32 form took there, in ms for 10,000 images; "" and nothing
    where that was not recorded."""
    device, found = _recorded(course)
    for row in found["rows"]:
        if (row["form"], row["precision"]) == (form, "float32"):
            return device, row["layers_ms"]
    return "", {}


def forms(*, course: Course | None = None) -> Table:
    """What fusing layers, another method and half precision bring: the whole network, form by form."""
    device, found = _recorded(course)
    told: dict[tuple[str, str], dict[str, Any]] = {}
    for row in found["rows"]:
        told.setdefault((row["precision"], row["form"]), row)[row["reference"]] = row["ratio"]
    order = sorted(told, key=lambda key: (key[0] != "float32", FORMS.index(key[1])))
    rows = [
        [form, precision, f"{row['time_ms']:.2f}", f"{row['arena_mb']:,.0f}", f"{row['separate_mb']:,.0f}",
         *(f"{row[name]:.2f}" if name in row else "" for name in ("PyTorch eager", "torch.compile")),
         f"{row['accuracy']:.1%}"]
        for (precision, form), row in ((key, told[key]) for key in order)
    ]  # fmt: skip
    head = ["form", "numbers", "ms for 10,000", "MB, one arena", "MB, all apart", "of PyTorch eager",
            "of torch.compile", "right"]  # fmt: skip
    return small_table(head, rows, f"Fusion, recorded on {device}." if device else NOTHING)


def layouts(*, course: Course | None = None) -> Table:
    """The first stage's pooling with windows of 2 x 2, through shared memory, and of 4 x 1."""
    device, found = _recorded(course)
    rows = [[name, f"{ms:.3f}"] for name, ms in found["layout_ms"].items()]
    note = f"Layout: the first pooling of 10,000 images, recorded on {device}." if device else NOTHING
    return small_table(["windows lie as", "ms"], rows, note)


def streams(*, course: Course | None = None) -> Table:
    """Copies in, kernels and copies out of 10,000 images: from which memory, in how many parts and streams."""
    device, found = _recorded(course)
    rows = [
        ["pinned" if one["pinned"] else "pageable", one["parts"], one["streams"], f"{one['total_ms']:.2f}",
         f"{one['overlapped_ms']:.2f}"]
        for one in found["streams"]
    ]  # fmt: skip
    note = f"Streams: copies and kernels by events, recorded on {device}." if device else NOTHING
    return small_table(["host memory", "parts", "streams", "ms", "ms of it overlapped"], rows, note)


def tables(*, course: Course | None = None) -> list[Table]:
    """The three optimisations, each measured by itself."""
    return [forms(course=course), layouts(course=course), streams(course=course)]


def timelines(*, course: Course | None = None) -> dict[str, StreamTimeline]:
    """What ran when, by the events of each recorded run from pinned memory: by title."""
    device, found = _recorded(course)
    return {
        f"{device}: {_counted(one['parts'], 'part')}, {_counted(one['streams'], 'stream')}": StreamTimeline(
            tuple(TimedWork(Work(*work), start, end) for *work, start, end in one["spans"]), recorded=True
        )
        for one in found["streams"]
        if one["pinned"]
    }


def fastest(count: int = 2, *, course: Course | None = None) -> dict[str, StreamTimeline]:
    """The run in one part, and the `count` fastest of those in several parts."""
    found = timelines(course=course)
    parts = {title: len(line.spans) // 3 for title, line in found.items()}
    several = sorted((title for title in found if parts[title] > 1), key=lambda title: found[title].total_ms)
    return {title: found[title] for title in found if parts[title] == 1 or title in several[:count]}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")


# ---------------------------------------------------------------- pictures


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


def timeline_here(*, images: int = 2000, parts: int = 10, streams: int = 2) -> StreamTimeline | None:
    """Record the references' network on images in parts, where there is a GPU; None, and no work, without a clock."""
    if not get_device("auto").measures_time:
        return None
    x = np.resize(load().test.pixels(), (images, 1, 28, 28))
    return classify_in_parts(network("winograd", kernels=own_kernels([])), x, parts=parts, streams=streams).timeline


def draw_timeline(timelines: Mapping[str, StreamTimeline | None]) -> Figure:
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


def _draw_streams(axes: Axes, title: str, timeline: StreamTimeline) -> None:
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
