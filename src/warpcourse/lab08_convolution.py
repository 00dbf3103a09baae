"""Lab 08: the student's own kernels at a network's two layers, and what im2col, frequencies and batches cost.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in. The times of a report from
the course ECE 408 (10,000 images; it does not name its GPU) stand beside our counts: its tables are redrawn here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpcourse.experiments import gpu_ms, predicted_launches_ms, told
from warpschool import model
from warpschool.counters import Counters, ratio
from warpschool.device import Launch, get_device
from warpschool.harness.launcher import Program
from warpschool.model import GpuSpec
from warpschool.nn import Convolution, pipelines
from warpschool.nn.pipelines import Fft, product_flop, transform_flop
from warpschool.notebook.runs import is_accepted, own_contract, program
from warpschool.show.bar import watched
from warpschool.show.table import Table, small_table

LAB = "lab08_convolution/"
LAYERS = {
    "first": Convolution(batch=4, channels=1, height=28, width=28, filters=32, rows=5, cols=5),
    "second": Convolution(batch=4, channels=32, height=12, width=12, filters=64, rows=5, cols=5),
}
"""The two convolutions of the digits' network, with few images."""
REPORT_MS: Mapping[str, tuple[float | None, float | None]] = {
    "01_direct": (2000, 5400), "03_direct_shared": (450, 1700), "04_direct_multi_image": (150, 670),
}  # fmt: skip
"""ECE 408 report, tables 2 to 4: time in ms of the two layers for 10,000 images. Its tiled products (tables 5 to 7)
store no matrix, and are none of lab 08's steps: docs/reference/seeds.md has them beside kernels of their kind."""
WINDOWS = (1, 3, 5, 7, 9, 11)
PASS_BYTES = 128
"""What shared memory delivers in one pass: 32 banks of four bytes."""


def pipeline(step: str, problem: Convolution, *, device: str = "auto") -> pipelines.Pipeline:
    """Return the way to convolve with the student's own kernel of a step of lab 08."""
    name = step.removeprefix(LAB)
    fixed = {"FILTER_R": problem.rows, "FILTER_S": problem.cols} if name.startswith("12") else {}
    own = program(LAB + name, device=device, constants=fixed)
    special: dict[str, Callable[[Program], pipelines.Pipeline]] = {
        "02": pipelines.RollingConstant, "08": pipelines.PoolingLayout, "10": Fft,
    }  # fmt: skip
    return special.get(name[:2], pipelines.OneFile)(own)


@dataclass(frozen=True)
class Road:
    """One kernel at one layer: what it launched, counted and took."""

    step: str
    problem: Convolution
    launches: tuple[Launch, ...]
    counters: Counters
    time_ms: float | None

    @property
    def reuse(self) -> float:
        """Products of the direct method for each float loaded from global memory."""
        return ratio(self.problem.products, self.counters.global_load_bytes / 4)

    @property
    def idle(self) -> float:
        """The part of the last launch's threads, whole warps counted, beyond one for each result."""
        last = self.launches[-1]
        threads = last.blocks * (-(-last.threads_per_block // 32) * 32)
        return max(0.0, 1 - self.problem.products / self.problem.terms / threads)

    @property
    def shared_efficiency(self) -> float:
        """Bytes that lanes get from shared memory, for each byte that its passes could bring; may exceed 1."""
        return ratio(self.counters.shared_load_bytes, PASS_BYTES * self.counters.shared_load_wavefronts)


def road(step: str, layer: str) -> Road:
    """Run the student's own kernel of a step at one of `LAYERS`: on the simulator, and timed where there is a GPU."""
    return _road(step, layer, own_contract(LAB + step.removeprefix(LAB)).source)


@functools.lru_cache(maxsize=32)
def _road(step: str, layer: str, source: str) -> Road:
    """What the same `source` counts every time: a picture and a table of one cell ask for it."""
    problem = LAYERS[layer]
    x, w = problem.arrays(np.random.default_rng(1))
    seen = pipelines.run(pipeline(step, problem, device="sim"), x, w)
    return Road(step, problem, seen.launches, seen.counters, _time_ms(step, problem))


def _time_ms(step: str, problem: Convolution) -> float | None:
    """Time for 10,000 images; None without a GPU."""
    if not get_device("auto").measures_time:
        return None
    many = Convolution(**{**vars(problem), "batch": 10_000})
    x, w = many.arrays(np.random.default_rng(1))
    launches = pipelines.run(pipeline(step, many, device="gpu"), x, w).launches
    return gpu_ms(launches)


def compare(steps: Sequence[str], layer: str) -> Table:
    """Tables 1 to 8 of the report for one layer: reuse, idle threads, parted lanes, waste, shape, time."""
    head = [
        f"{layer} layer", "products per float loaded", "idle threads", "lanes at work", "load sectors used",
        "store sectors used", "block", "us of this run, predicted for an H200", "ms for 10,000", "the report's ms",
    ]  # fmt: skip
    roads = [road(step, layer) for step in watched(steps, f"kernels at the {layer} layer")]
    return small_table(head, [_row(one, layer) for one in roads])


def _row(one: Road, layer: str) -> list[str]:
    counted = one.counters
    lanes = ratio(counted.thread_instructions, counted.warp_instructions)
    then = REPORT_MS.get(one.step, (None, None))[layer == "second"]
    foretold = predicted_launches_ms(one.launches)
    return [
        one.step, f"{one.reuse:.3g}", f"{one.idle:.0%}", f"{lanes:.3g}", f"{counted.global_load_efficiency:.0%}",
        f"{counted.global_store_efficiency:.0%}", "x".join(str(n) for n in one.launches[-1].block if n > 1),
        "-" if foretold is None else f"{1000 * foretold:.3g}", told(one.time_ms), "" if then is None else f"{then:g}",
    ]  # fmt: skip


def efficiencies(steps: Sequence[str], layer: str = "second") -> dict[str, dict[str, float | None]]:
    """Figures 4 to 6 of the report: how much of what the memories move is used, kernel by kernel."""
    roads = [road(step, layer) for step in watched(steps, f"kernels at the {layer} layer")]
    return {
        "global loads": {one.step: one.counters.global_load_efficiency for one in roads},
        "global stores": {one.step: one.counters.global_store_efficiency for one in roads},
        "shared loads": {
            one.step: one.shared_efficiency if one.counters.shared_load_requests else None for one in roads
        },
    }


# ---------------------------------------------------------------- what im2col and frequencies cost


@dataclass(frozen=True)
class Overhead:
    """The unrolled matrix of one image, for each size of window."""

    windows: tuple[int, ...]
    extra_kb: tuple[float, ...]
    """memory beyond the image's own"""
    time_ms: tuple[float | None, ...]
    bound_ms: tuple[float, ...]
    """lower bound for `gpu`, from counters"""
    gpu: str


def overhead(
    step: str = LAB + "05_im2col", *, windows: Sequence[int] = WINDOWS, channels: int = 64, size: int = 32,
    gpu: str = model.DEFAULT_GPU,
) -> Overhead:  # fmt: skip
    """Measure the student's own im2col for windows of R = S, padded so that results are as large as the image."""
    own = Program(own_contract(step), device="sim")
    fast = Program(own_contract(step), device="gpu") if get_device("auto").measures_time else None
    extra, times, bounds = [], [], []
    for window in watched(windows, "sizes of a window"):
        x = np.random.default_rng(1).uniform(-1, 1, (1, channels, size, size)).astype(np.float32)
        sizes = {"R": window, "S": window, "STRIDE": 1, "PAD": window // 2}
        run = own.run(sizes, {"x": x}, check=not is_accepted(step))
        matrix = run.outputs["cols"]
        extra.append((matrix.nbytes - x.nbytes) / 1000)
        bounds.append(model.estimate(run.counters, gpu=gpu, array_bytes=matrix.nbytes + x.nbytes).time_ms)
        times.append(None if fast is None else gpu_ms(fast.run(sizes, {"x": x}).launches))
    return Overhead(tuple(windows), tuple(extra), tuple(times), tuple(bounds), model.find_gpu(gpu).name)


def operations(*, windows: Sequence[int] = WINDOWS, channels: int = 64, size: int = 32) -> dict[str, list[float]]:
    """Millions of operations for one image and as many filters as channels: direct, and through frequencies."""
    problems = [
        Convolution(
            batch=1, channels=channels, height=size, width=size, filters=channels, rows=window, cols=window,
            pad=window // 2,
        )
        for window in windows
    ]  # fmt: skip
    return {
        "direct": [p.flop / 1e6 for p in problems],
        "frequencies": [(transform_flop(p) + product_flop(p)) / 1e6 for p in problems],
        "of them products": [product_flop(p) / 1e6 for p in problems],
    }


# ---------------------------------------------------------------- AlexNet


@dataclass(frozen=True)
class LayerCost:
    """What one layer computes and moves for a batch; amounts of float32 numbers."""

    name: str
    products: int
    """multiply-adds for one image"""
    activations: int
    """inputs and results of one image"""
    weights: int
    """read once for the whole batch"""

    def time_ms(self, batch: int, gpu: GpuSpec) -> float:
        """Lower bound: arithmetic at the peak rate, or memory at full bandwidth, whichever takes longer."""
        arithmetic = 2 * self.products * batch / (gpu.fp32_tflops * 1e9)
        memory = 4 * (self.activations * batch + self.weights) / (gpu.dram_gb_per_s * 1e6)
        return max(arithmetic, memory)


def _convolution(name: str, channels: int, size: int, filters: int, window: int, stride: int, pad: int) -> LayerCost:
    problem = Convolution(
        batch=1, channels=channels, height=size, width=size, filters=filters, rows=window, cols=window,
        stride=stride, pad=pad,
    )  # fmt: skip
    places = problem.out_height * problem.out_width
    return LayerCost(name, problem.products, channels * size * size + filters * places, filters * problem.terms)


def _dense(name: str, inputs: int, outputs: int) -> LayerCost:
    return LayerCost(name, inputs * outputs, inputs + outputs, inputs * outputs)


ALEXNET: tuple[LayerCost, ...] = (
    _convolution("conv1", 3, 227, 96, 11, 4, 0),
    _convolution("conv2", 96, 27, 256, 5, 1, 2),
    _convolution("conv3", 256, 13, 384, 3, 1, 1),
    _convolution("conv4", 384, 13, 384, 3, 1, 1),
    _convolution("conv5", 384, 13, 256, 3, 1, 1),
    _dense("fc6", 9216, 4096),
    _dense("fc7", 4096, 4096),
    _dense("fc8", 4096, 1000),
)
"""AlexNet (Krizhevsky, Sutskever, Hinton 2012) without its two groups; pooling and activations are left out."""


def layer_shares(batches: Sequence[int] = (1, 16, 256), *, gpu: str = "h200") -> dict[str, Mapping[str, float]]:
    """AlexNet's layers: each one's part of the time, by lower bounds, for several batches."""
    spec = model.find_gpu(gpu)
    found: dict[str, Mapping[str, float]] = {}
    for batch in batches:
        times = {layer.name: layer.time_ms(batch, spec) for layer in ALEXNET}
        found[f"batch {batch}, {spec.name}"] = {name: time / sum(times.values()) for name, time in times.items()}
    return found


def time_per_image(batches: Sequence[int], *, gpu: str = "h200") -> dict[str, list[float]]:
    """Microseconds for an image, by lower bounds: one convolution and one fully connected layer of AlexNet."""
    spec = model.find_gpu(gpu)
    layers = {layer.name: layer for layer in ALEXNET}
    return {name: [1e3 * layers[name].time_ms(b, spec) / b for b in batches] for name in ("conv2", "fc6")}
