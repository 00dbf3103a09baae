"""Lab 10's experiments: a whole network of the student's own kernels, its layers one by one, and batches of all sizes.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in. The times of a report from
the course ECE 408 (10,000 images; it does not name its GPU) stand beside ours: its table 13 is redrawn here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpcourse.lab10_lenet import recorded_networks
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.device import Launch, get_device
from warpschool.device.protocol import Device
from warpschool.errors import WarpschoolError
from warpschool.grading.cell import secret_rng
from warpschool.inspect.timing import benchmark
from warpschool.nn.digits import load, weights
from warpschool.nn.layers import ConvolvePool, FullyConnected, Layer
from warpschool.nn.network import GPU_BATCH, Network, build, digits_layers, lenet5_layers
from warpschool.nn.session import Kernels, Session
from warpschool.nn.streams import ENGINES, Timeline, schedule
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

LAB = "lab10_lenet"
REPORT_MS: Mapping[str, tuple[float | None, float]] = {
    "conv1": (None, 34.8897), "relu1": (3013.6, 12.4404), "pool1": (10690, 14.5701), "conv2": (None, 188.695),
    "relu2": (665.50, 2.47833), "pool2": (2501, 10.0552), "labels": (3.15, 0.326171),
}  # fmt: skip
"""ECE 408 report, table 13: ms for 10,000 images, serial and parallel (convolutions took more than 10,000 serially)."""


def own_kernels(steps: Iterable[str] | None = None, *, device: str | Device = "auto") -> Kernels:
    """Return the student's own kernels for steps of this lab (None: all), and references for every other step.

    A cell that was run last counts, else the file that `check` would take.
    """
    names = [f"{LAB}/{name}" for name in steps] if steps is not None else _all_steps()
    return Kernels({name: own_contract(name) for name in names}, device=device)


def _all_steps() -> list[str]:
    return [step.name for step in Course.find().lab(LAB).steps]


def network(form: str = "fused", *, kernels: Kernels | None = None) -> Network:
    """Return the digits' network with its trained weights: "plain", "pooled", "fused", "winograd", or "lenet5"."""
    layers = lenet5_layers() if form == "lenet5" else digits_layers(form)
    return Network(layers, kernels or own_kernels(), parameters=weights("lenet5" if form == "lenet5" else "digits"))


def whose(net: Network) -> Table:
    """Return which kernel each layer runs, and whose it is."""
    return small_table(["layer", "kernel", "whose"], [[one.layer, one.step, one.whose] for one in net.table()])


def accuracy(found: np.ndarray) -> float:
    """Return the part of the 1,000 test digits that were found."""
    return float((found == load().test.labels).mean())


@dataclass(frozen=True, eq=False)
class Reading:
    """What a network took the 1,000 test digits for; an accuracy of 0, and the reason, where a kernel went wrong."""

    labels: np.ndarray
    accuracy: float
    said: str = ""

    def __repr__(self) -> str:
        return self.said or f"{self.accuracy:.1%} of {len(self.labels):,} digits"


def read_digits(form: str = "fused", *, device: str = "auto") -> Reading:
    """Let the student's own kernels classify the test digits, with a bar that shows how far they are.

    They come in an order that the secret seed draws: a kernel that has learned the labels by heart does not know it.
    """
    digits = load().test
    order = secret_rng("read_digits").permutation(len(digits))
    labels = np.full(len(digits), -1)
    try:
        found = network(form, kernels=own_kernels(device=device)).classify(digits.pixels()[order], progress=True)
    except WarpschoolError as error:
        return Reading(labels, 0.0, f"{type(error).__name__}: {error}")
    labels[order] = found
    return Reading(labels, accuracy(labels))


def total_of(order: Callable[[int, int], Any], parts: int, streams: int, *, ms: Sequence[float] = (1, 1, 1)) -> float:
    """Return what `order(parts, streams)` takes by the model of three engines; not a number for what cannot be done."""
    planned = plan_of(order, parts, streams, ms=ms)
    return math.nan if planned is None else planned.total_ms


def plan_of(
    order: Callable[[int, int], Any], parts: int, streams: int, *, ms: Sequence[float] = (1, 1, 1)
) -> Timeline | None:
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
    times = layer_times(form, net.layers)
    gpu, known = recorded_networks.layer_times(form)
    head = ["layer", "bytes moved for an image", "multiply-adds", "ms for 10,000", *([f"ms, {gpu}"] if known else []),
            "the report's ms", "serial, its ms"]  # fmt: skip
    note = f"{gpu}: recorded with the references." if known else ""
    return small_table(head, [_row(name, one, images, times, known) for name, one in counted.items()], note)


def _row(
    name: str, one: Counters, images: int, times: Mapping[str, float] | None, known: Mapping[str, float]
) -> list[str]:
    serial, parallel = REPORT_MS.get(name, (None, None))
    moved = one.global_load_bytes + one.global_store_bytes
    return [
        name, f"{moved / images:,.0f}", f"{one.fma_instructions / images:,.0f}",
        "not measured" if times is None else f"{times[name]:.3g}", *([f"{known[name]:.3g}"] if known else []),
        "" if parallel is None else f"{parallel:g}",
        "" if serial is None else f"{serial:g}",
    ]  # fmt: skip


def layer_times(form: str, layers: Sequence[Layer]) -> dict[str, float] | None:
    """Return ms for 10,000 images, layer by layer, on the GPU; None without one."""
    if not get_device("auto").measures_time:
        return None
    net = network(form, kernels=own_kernels(device="gpu"))
    session = net.session(GPU_BATCH)
    session.run()
    found = {}
    for layer in layers:
        time = benchmark(session.again(layer.name), device="gpu").median_ms
        assert time is not None
        found[layer.name] = time
    return found


# ---------------------------------------------------------------- batches


def bytes_for_an_image(batches: Sequence[int]) -> dict[str, list[float | None]]:
    """What an image costs in bytes of global loads, layer by layer, as the batch grows: the simulator's counts."""
    return {name: [_loaded(layer, shape, batch) for batch in batches] for name, layer, shape in _measured()}


def time_for_an_image(batches: Sequence[int]) -> dict[str, list[float | None]]:
    """Microseconds for an image, layer by layer, as the batch grows; None without a GPU."""
    return {name: [_time_us(layer, shape, batch) for batch in batches] for name, layer, shape in _measured()}


def _measured() -> tuple[tuple[str, Layer, tuple[int, ...]], ...]:
    return (
        ("convolution 2", ConvolvePool(name="conv2", filters=64, size=5), (32, 12, 12)),
        ("fully connected 1", FullyConnected(name="fc1", outputs=128, relu=True), (1024,)),
    )


def _launches(layer: Layer, shape: tuple[int, ...], batch: int, device: str) -> list[Launch]:
    graph = build((layer,), batch, shape)
    session = Session(graph, own_kernels((layer.step.split("/")[1],), device=device))  # type: ignore[attr-defined]
    rng = np.random.default_rng(1)
    for name, value in graph.values.items():
        if value.role in ("input", "parameter"):
            session[name].set(rng.uniform(-1, 1, value.shape).astype(value.dtype))
    session.run()
    return [launch for _, launches in session.launches for launch in launches]


def _loaded(layer: Layer, shape: tuple[int, ...], batch: int) -> float:
    return sum(launch.counters.global_load_bytes for launch in _launches(layer, shape, batch, "sim")) / batch


def _time_us(layer: Layer, shape: tuple[int, ...], batch: int) -> float | None:
    if not get_device("auto").measures_time:
        return None
    launches = _launches(layer, shape, batch, "gpu")
    time = benchmark(lambda: [launch.again() for launch in launches], device="gpu").median_ms
    return None if time is None else 1e3 * time / batch
