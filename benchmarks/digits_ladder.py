"""What the ECE 408 report measured of a digits' network, with our kernels: its convolutions, its other layers, its CPU.

    python benchmarks/digits_ladder.py [--out FILE] [--device gpu] [--batch 10000] [--seconds 0.3] [--no-serial]

Part "convolution": lab 08's steps 01 to 08 and 10 at the network's two layers, and the report's own variants of the
product with a matrix that is not stored (kernels/unrolled_convolution.cu), each checked against a float64 convolution
of some images. Part "layer": ReLU, pooling and argmax by lab 10's kernels, and pooling as the report begins.
Times are those of all launches of a way, arrays on the device, L2 flushed; 10_fft with its transforms by cuFFT. Part
"serial": the same layers and im2col as plain loops on one thread of this machine's CPU (kernels/serial.cpp, g++ -O2).
With `--device sim` everything is computed and checked, and nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import processor

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import DeviceArray, repeated
from warpschool.device.measurement import Rules
from warpschool.device.protocol import Device
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, pipelines
from warpschool.nn.references import convolve

HERE = Path(__file__).parent
KERNELS, SOLUTIONS = HERE / "kernels", HERE.parent / "solutions"
STEPS = (
    "01_direct", "02_direct_constant", "03_direct_shared", "04_direct_multi_image", "06_im2col_gemm",
    "07_implicit_gemm", "08_layout", "10_fft",
)  # fmt: skip
WAYS: Mapping[str, Callable[[Program], pipelines.Pipeline]] = {
    "02_direct_constant": pipelines.RollingConstant, "08_layout": pipelines.PoolingLayout, "10_fft": pipelines.Fft,
}  # fmt: skip
UNROLLED: Mapping[str, Mapping[str, int]] = {
    "unrolled, one thread a result": {"TILED": 0},
    "unrolled, tiles": {"TILED": 1},
    "unrolled, tiles, constant filters": {"TILED": 1, "CONSTANT": 1},
    "unrolled, tiles, layout": {"TILED": 1, "TURNED": 1},
    "unrolled, tiles, constant filters, layout": {"TILED": 1, "CONSTANT": 1, "TURNED": 1},
}
"""The report's section 2.2; it adds constant filters to the first layer alone, where they fit."""
CHECKED_IMAGES = 2
SERIAL_SHARE = 10
"""The CPU gets a tenth of the images: the second convolution takes it minutes."""
TOLERANCE = 1e-5


def layers(batch: int) -> dict[str, Convolution]:
    """The network's two convolutions."""
    return {
        "1": Convolution(batch=batch, channels=1, height=28, width=28, filters=32, rows=5, cols=5),
        "2": Convolution(batch=batch, channels=32, height=12, width=12, filters=64, rows=5, cols=5),
    }


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to compute one layer; times are None on the simulator."""

    part: str
    layer: str
    way: str
    time_ms: float | None
    error: float
    """largest error, of the largest result"""
    stable: bool = True


class Bench:
    """Checks, times and collects."""

    def __init__(self, device: Device, rules: Rules) -> None:
        self.device, self.rules, self.rows = device, rules, list[Row]()

    def add(self, part: str, layer: str, way: str, work: Callable[[], Any], error: float) -> None:
        """Time a checked way. Raises ArithmeticError where it is wrong."""
        if not error <= TOLERANCE:
            raise ArithmeticError(f"{way}, layer {layer}: an error of {error:.2g} of the largest result")
        found = ws.benchmark(work, device=self.device, rules=self.rules) if self.device.measures_time else None
        time, stable = (found.median_ms, found.stable) if found else (None, True)
        self.rows.append(Row(part=part, layer=layer, way=way, time_ms=time, error=error, stable=stable))
        told = "not timed" if time is None else f"{time:9.4f} ms"
        print(f"{part:12s} {layer:2s} {way:45s} {told}  error {error:.1e}", flush=True)


def solution(step: str, device: Device, constants: Mapping[str, int] | None = None) -> Program:
    path = SOLUTIONS / f"{step}.cu"
    return Program(parse_contract(path.read_text("utf-8"), name=path.name), device=device, constants=constants)


def largest_error(actual: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(actual - exact).max() / np.abs(exact).max())


def pooled_layout(y: np.ndarray) -> np.ndarray:
    """[N,F,OH,OW] with the four pixels of each 2 x 2 window one below the other: [N,F,2*OH,OW/2]."""
    n, f, rows, cols = y.shape
    windows = y.reshape(n, f, rows // 2, 2, cols // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return windows.reshape(n, f, rows // 2, cols // 2, 4).transpose(0, 1, 2, 4, 3).reshape(n, f, 2 * rows, cols // 2)


def run_steps(bench: Bench, layer: str, problem: Convolution) -> None:
    """Lab 08's steps."""
    x, w = problem.arrays(np.random.default_rng(1))
    some = np.asarray(convolve(x[:CHECKED_IMAGES], w), np.float64)
    images, filters = bench.device.asarray(x, name="x"), bench.device.asarray(w, name="w")
    for step in STEPS:
        way = WAYS.get(step, pipelines.OneFile)(solution(f"lab08_convolution/{step}", bench.device))
        done = way(problem, images, filters)
        exact = pooled_layout(some) if step == "08_layout" else some
        whole = partial(way, problem, images, filters)  # with the transforms, which are no launches of ours
        work = whole if step == "10_fft" else repeated(done.launches)
        bench.add("convolution", layer, step, work, largest_error(done.y.get()[:CHECKED_IMAGES], exact))
    _im2col(bench, layer, problem, solution("lab08_convolution/05_im2col", bench.device), x)


def _im2col(bench: Bench, layer: str, problem: Convolution, program: Program, x: np.ndarray) -> None:
    sizes = {name: value for name, value in problem.sizes.items() if name != "F"}
    device, height, width = bench.device, problem.out_height, problem.out_width
    cols = device.empty((problem.batch, problem.terms, height * width), np.float32, name="cols")
    launches = program.enqueue(sizes, {"x": device.asarray(x, name="x"), "cols": cols})
    windows = np.lib.stride_tricks.sliding_window_view(x[:CHECKED_IMAGES], (height, width), axis=(2, 3))
    exact = windows.reshape(CHECKED_IMAGES, problem.terms, -1)
    bench.add("convolution", layer, "05_im2col", repeated(launches), largest_error(cols.get()[:CHECKED_IMAGES], exact))


def run_variants(bench: Bench, layer: str, problem: Convolution) -> None:
    """The report's own kernels: blocks of 32 x 32 threads, and products whose matrix is not stored."""
    x, w = problem.arrays(np.random.default_rng(1))
    exact = np.asarray(convolve(x[:CHECKED_IMAGES], w), np.float64)
    n, f = problem.output_shape[:2]
    sizes = [np.int32(problem.sizes[name]) for name in ("C", "H", "W", "F", "R", "S")]
    device = bench.device

    def add(way: str, name: str, grid: int, x: np.ndarray, w: np.ndarray, exact: np.ndarray, **constants: int) -> None:
        module = ws.RawModule(code=(KERNELS / name).read_text("utf-8"), name=name, constants=constants, device=device)
        if constants.get("CONSTANT"):
            module.get_global("filters", np.float32)[: w.size].set(w.ravel())
        y = device.empty((n, *exact.shape[1:]), np.float32, name="y")
        arrays = (device.asarray(x, name="x"), device.asarray(w, name="w"), y)
        launch = module.get_function("conv")((grid,), (32, 32), (*arrays, *sizes))
        bench.add("convolution", layer, way, repeated((launch,)), largest_error(y.get()[:CHECKED_IMAGES], exact))

    add("plain, blocks of 32 x 32", "plain_convolution.cu", n * f, x, w, exact)
    channels_last, turned = (np.ascontiguousarray(a) for a in (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)))
    for way, constants in UNROLLED.items():
        if constants.get("CONSTANT") and w.size > pipelines.CONSTANT_FLOATS:
            continue  # the filters do not fit: the report leaves them in global memory, too
        is_turned = constants.get("TURNED", 0)
        wanted = pooled_layout(exact) if is_turned else exact.transpose(0, 2, 3, 1)
        given = x if is_turned else channels_last
        add(way, "unrolled_convolution.cu", n, given, turned, wanted, **constants)


def run_layers(bench: Bench, layer: str, problem: Convolution) -> None:
    """ReLU and pooling behind a convolution, by lab 10's kernels and as the report begins."""
    n, f, height, width = problem.output_shape
    rng = np.random.default_rng(2)
    x, bias = rng.uniform(-1, 1, (n, f, height, width)).astype(np.float32), np.zeros(f, np.float32)
    device = bench.device
    given = {"x": device.asarray(x, name="x"), "bias": device.asarray(bias, name="bias")}
    positive = np.maximum(x[:CHECKED_IMAGES].astype(np.float64), 0)
    pools = {"02_average_pool": x[:CHECKED_IMAGES].astype(np.float64), "03_average_pool_relu": positive,
             "04_average_pool_tiled": positive}  # fmt: skip

    def add(step: str, sizes: dict[str, int], shape: tuple[int, ...], exact: np.ndarray) -> None:
        program = solution(f"lab10_lenet/{step}", device)
        named = {p.name for entry in program.contract.entries for p in entry.parameters}
        y = device.empty(shape, np.float32, name="y")
        launches = program.enqueue(sizes, {k: v for k, v in given.items() if k in named} | {"y": y})
        bench.add("layer", layer, step, repeated(launches), largest_error(y.get()[:CHECKED_IMAGES], exact))

    add("01_relu", {"BATCH": n, "C": f, "P": height * width}, x.shape, positive)
    for step, values in pools.items():
        windows = values.reshape(CHECKED_IMAGES, f, height // 2, 2, width // 2, 2).mean(axis=(3, 5))
        add(step, {"BATCH": n, "C": f, "H": height, "W": width}, (n, f, height // 2, width // 2), windows)
    name = "window_per_thread_pool.cu"
    module = ws.RawModule(code=(KERNELS / name).read_text("utf-8"), name=name, device=device)
    turned = device.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), name="x")
    y = device.empty((n, height // 2, width // 2, f), np.float32, name="y")
    arguments = (turned, y, np.int32(f), np.int32(height), np.int32(width))
    launch = module.get_function("average_pool")((n,), (width // 2, height // 2), arguments)
    exact = pools["02_average_pool"].reshape(CHECKED_IMAGES, f, height // 2, 2, width // 2, 2).mean(axis=(3, 5))
    error = largest_error(y.get()[:CHECKED_IMAGES].transpose(0, 3, 1, 2), exact)
    bench.add("layer", layer, "a thread for each window, channels last", repeated((launch,)), error)


def run_argmax(bench: Bench, batch: int) -> None:
    """The class with the highest score of ten."""
    x = np.random.default_rng(3).uniform(-1, 1, (batch, 10)).astype(np.float32)
    label: DeviceArray = bench.device.empty((batch,), np.int32, name="label")
    launches = solution("lab10_lenet/08_argmax", bench.device).enqueue(
        {"BATCH": batch, "CLASSES": 10}, {"x": bench.device.asarray(x, name="x"), "label": label}
    )
    bench.add("layer", "", "08_argmax", repeated(launches), float(np.any(label.get() != x.argmax(1))))


def serial(batch: int) -> dict[str, Any] | None:
    """Milliseconds on one thread of the CPU; None without a compiler."""
    compiler = shutil.which("g++")
    if compiler is None:
        print("no g++: what the CPU takes is left out")
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "serial"
        subprocess.run([compiler, "-O2", "-o", program, KERNELS / "serial.cpp"], check=True)
        text = subprocess.run([program, str(batch)], check=True, capture_output=True, text=True).stdout
    return {"cpu": processor.name(), "batch": batch, "times_ms": json.loads(text)}


def main() -> None:
    """Run the parts, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--device", default="gpu", help="gpu, or sim: check only")
    parser.add_argument("--batch", type=int, default=10_000, help="images")
    parser.add_argument("--seconds", type=float, default=0.3, help="at most this long for one measurement")
    parser.add_argument("--no-serial", action="store_true", help="leave out what the CPU takes")
    options = parser.parse_args()
    device = ws.get_device(options.device)
    bench = Bench(device, Rules(max_seconds=options.seconds, target_error=0.01, min_samples=7))
    for layer, problem in layers(options.batch).items():
        run_steps(bench, layer, problem)
        run_variants(bench, layer, problem)
        run_layers(bench, layer, problem)
    run_argmax(bench, options.batch)
    on_cpu = None if options.no_serial else serial(max(1, options.batch // SERIAL_SHARE))
    if on_cpu:
        print(json.dumps(on_cpu), flush=True)
    if options.out:
        result = {
            "what": "the digits' ladder", "device": device.description, "driver": getattr(device, "driver", ""),
            "batch": options.batch, "flush": "L2 flushed before each sample",
            "rows": [asdict(row) for row in bench.rows], "serial": on_cpu,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
