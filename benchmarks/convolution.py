"""The convolutions of lab 08 on a GPU, against cuDNN in the same run.

    python benchmarks/convolution.py [--out FILE] [--tune] [--seconds 0.5] [--only SECTION ...]

Every kernel is first checked against PyTorch's convolution in float64 of some images. Then it is timed in turns with
cuDNN as PyTorch calls it (benchmark mode on, TF32 off), and in turns with the fastest of cuDNN's algorithms, the L2
cache flushed before each sample. `ratio` is our time as a multiple of the first's, `best.ratio` of the second's, the
median of the rounds' ratios: below 1 is faster. `--tune` searches the constants of each kernel
for each layer; without it those found on an H200 (TUNED) are used. Sections:

    digits        the two layers of lab 10's network on 10,000 images
    vgg16_fp16    the 13 layers of VGG16, 32 images, half precision in NHWC (in float32: benchmarks/winograd.py)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ["CUPY_TF32"] = "0"

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None

from cudnn_algorithms import Best, Exact, Rival, against_best, fastest

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import Launch, repeated
from warpschool.device.measurement import Rules
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution

ROOT = Path(__file__).parent.parent
LAB08 = "lab08_convolution"
IMPLICIT, REGISTERS, HALF, HOPPER, SLIDING = (
    f"{LAB08}/{name}"
    for name in (
        "07_implicit_gemm", "12_register_tiles", "11_fp16_implicit_gemm", "13_wgmma_implicit_gemm",
        "14_sliding_windows",
    )
)  # fmt: skip
CHECKED_IMAGES = 8
QUICK = Rules(warmup_ms=5.0, min_samples=7, max_samples=15, max_seconds=0.3)
Constants = dict[str, int]


@dataclass(frozen=True)
class Layer:
    """A convolution with a name."""

    name: str
    problem: Convolution


def _layer(name: str, batch: int, channels: int, size: int, filters: int, window: int, stride: int, pad: int) -> Layer:
    return Layer(
        name,
        Convolution(
            batch=batch, channels=channels, height=size, width=size, filters=filters, rows=window, cols=window,
            stride=stride, pad=pad,
        ),
    )  # fmt: skip


DIGITS = (_layer("conv1", 10_000, 1, 28, 32, 5, 1, 0), _layer("conv2", 10_000, 32, 12, 64, 5, 1, 0))
VGG16 = tuple(
    _layer(f"conv{number}", 32, channels, size, filters, 3, 1, 1)
    for number, (channels, filters, size) in enumerate(
        (
            (3, 64, 224), (64, 64, 224), (64, 128, 112), (128, 128, 112), (128, 256, 56), (256, 256, 56),
            (256, 256, 56), (256, 512, 28), (512, 512, 28), (512, 512, 28), (512, 512, 14), (512, 512, 14),
            (512, 512, 14),
        ),
        start=1,
    )
)  # fmt: skip

IMPLICIT_NAMES = ("TSM", "TSN", "WSM", "WSN", "WPTM", "WPTN")
IMPLICIT_TILES = (
    (64, 128, 32, 64, 8, 8), (64, 256, 64, 64, 16, 8), (64, 256, 32, 64, 8, 8), (128, 256, 64, 64, 16, 8),
    (64, 128, 64, 64, 16, 8), (32, 256, 32, 64, 8, 8), (32, 128, 32, 32, 8, 4), (64, 64, 32, 64, 8, 8),
)  # fmt: skip
"""Tile sets of 07_implicit_gemm that `--tune` tries: those named in IMPLICIT_NAMES, in this order."""
HALF_NAMES = ("TSM", "TSN", "WSM", "WSN", "STAGES", "BLOCKS")
HALF_TILES = (
    (128, 128, 64, 64, 2, 2), (128, 64, 64, 32, 3, 2), (128, 128, 64, 64, 3, 1), (256, 128, 64, 64, 3, 1),
    (256, 64, 64, 32, 3, 1),
)  # fmt: skip
"""The same for 11_fp16_implicit_gemm."""
HOPPER_NAMES = ("TSF", "TSP", "TSK", "STAGES", "CLUSTER_F", "CLUSTER")
HOPPER_TILES = (
    (128, 256, 64, 3, 2, 2), (128, 256, 64, 3, 1, 2), (128, 128, 64, 5, 2, 2), (64, 256, 64, 4, 1, 2),
    (64, 512, 32, 4, 1, 2), (64, 256, 32, 8, 1, 2), (64, 512, 16, 6, 1, 2),
)  # fmt: skip
"""The same for 13_wgmma_implicit_gemm."""
SLIDING_NAMES = ("TSP", "TSK", "STAGES")
SLIDING_TILES = ((256, 64, 3), (512, 32, 3), (256, 32, 6), (512, 16, 4), (256, 16, 6))
"""The same for 14_sliding_windows."""


def _implicit(layer: Layer) -> list[Constants]:
    """Tile sets of 07_implicit_gemm, compiled for the layer's sizes."""
    p = layer.problem
    fixed = {"FIXED_R": p.rows, "FIXED_S": p.cols, "FIXED_STRIDE": p.stride, "FIXED_PAD": p.pad}
    return [fixed | dict(zip(IMPLICIT_NAMES, t, strict=True)) for t in IMPLICIT_TILES if t[0] <= max(32, p.filters)]


SHAPES = (
    (2, 8, 8, 4, 2), (2, 8, 4, 4, 4), (1, 8, 2, 1, 4), (1, 8, 2, 1, 3), (1, 8, 2, 2, 2), (2, 8, 2, 1, 4),
    (2, 8, 2, 1, 3), (2, 4, 2, 1, 5), (2, 4, 4, 1, 3), (1, 16, 2, 2, 1), (1, 12, 2, 1, 3),
)  # fmt: skip
"""QUADS, FPT, IMAGES, GROUPS and BLOCKS of 12_register_tiles that `--tune` tries."""


def _registers(layer: Layer) -> list[Constants]:
    """Shapes of 12_register_tiles: those whose block fits the layer, compiled for its sizes."""
    p = layer.problem
    fixed = {
        "FIXED_C": p.channels, "FIXED_H": p.height, "FIXED_W": p.width, "FIXED_F": p.filters, "FIXED_PAD": p.pad,
    }  # fmt: skip
    places = p.out_height * -(-p.out_width // 4)
    found = []
    for quads, filters, images, groups, blocks in SHAPES:
        lanes = -(-images * -(-places // quads) // 32) * 32
        threads, useful = lanes * groups, images * places / quads
        if threads > 576 or lanes > 1.12 * useful or filters * groups > p.filters or threads * blocks < 192:
            continue
        loads = -(-images * p.height * p.width // (4 if p.width % 4 == p.pad % 4 == 0 else 1) // threads)
        found += [
            fixed | {
                "FILTER_R": p.rows, "FILTER_S": p.cols, "LOADS": min(loads, 4), "SETS": sets, "QUADS": quads,
                "FPT": filters, "IMAGES": images, "GROUPS": groups, "BLOCKS": blocks, "MOST": threads,
            }
            for sets in _sets(-(-p.batch // images) * -(-p.filters // (filters * groups)), blocks, p.channels)
        ]  # fmt: skip
    return found


def _sets(blocks: int, resident: int, channels: int) -> list[int]:
    """How many sets of images a block takes: one, or where a set has one channel so many that blocks come in waves."""
    if channels > 1:
        return [1]
    at_once = ws.get_device("gpu").spec.sms * resident
    return sorted({-(-blocks // (at_once * waves)) for waves in (1, 2, 3)})


def _half(layer: Layer) -> list[Constants]:
    """Tile sets of 11_fp16_implicit_gemm that are no wider than the filters."""
    return [dict(zip(HALF_NAMES, t, strict=True)) for t in HALF_TILES if t[1] <= max(64, layer.problem.filters)]


def _hopper(layer: Layer) -> list[Constants]:
    """Tile sets of 13_wgmma_implicit_gemm whose clusters are no wider than the filters."""
    p = layer.problem
    found = [dict(zip(HOPPER_NAMES, t, strict=True)) for t in HOPPER_TILES]
    fitting = [t for t in found if t["TSF"] * t["CLUSTER_F"] <= max(64, p.filters)]
    return [t for t in fitting if t["TSF"] == min(128, max(64, p.filters))]


def _sliding(layer: Layer) -> list[Constants]:
    """Tile sets of 14_sliding_windows for windows of this width."""
    wide = {"MOST_S": layer.problem.cols}
    return [dict(zip(SLIDING_NAMES, t, strict=True)) | wide for t in SLIDING_TILES]


CANDIDATES: dict[str, Callable[[Layer], list[Constants]]] = {
    IMPLICIT: _implicit, REGISTERS: _registers, HALF: _half, HOPPER: _hopper, SLIDING: _sliding,
}  # fmt: skip
TUNED: dict[tuple[str, str], Constants] = {
    (IMPLICIT, "conv1"): {"TSM": 32, "TSN": 128},
    (REGISTERS, "conv1"): {"QUADS": 1, "FPT": 8, "BLOCKS": 3, "SETS": 17},
    (REGISTERS, "conv2"): {"QUADS": 2, "FPT": 8, "IMAGES": 4, "BLOCKS": 4},
    (HOPPER, "conv1"): {"TSP": 512, "TSK": 16},
    (SLIDING, "conv1"): {"TSP": 512, "TSK": 16},
}
"""What `--tune` found best on an H200: the first candidate with these constants, or simply the first one."""


@cache
def _program(step: str, constants: tuple[tuple[str, int], ...]) -> Program:
    path = ROOT / "solutions" / f"{step}.cu"
    contract = parse_contract(path.read_text("utf-8"), name=path.name)
    return Program(contract, device="gpu", constants=dict(constants))


class Case:
    """A layer's arrays for one step, in the layout and precision that the step takes."""

    def __init__(self, layer: Layer, step: str) -> None:
        self.layer, self.step, self.is_half = layer, step, step in (HALF, HOPPER, SLIDING)
        p = self.problem = layer.problem
        torch.manual_seed(1)
        self.x, self.w = (torch.rand(shape, device="cuda") * 2 - 1 for shape in (p.image_shape, p.filter_shape))
        given = [self.x, self.w]
        if self.is_half:
            self.x, self.w = (a.half().to(memory_format=torch.channels_last) for a in given)
            missing = -p.channels % 8  # channels come in groups of 16 bytes; zeros change nothing
            given = [
                torch.nn.functional.pad(a.permute(0, 2, 3, 1), (0, missing)).contiguous() for a in (self.x, self.w)
            ]
        self.sizes = p.sizes | ({"C": given[0].shape[3]} if self.is_half else {})
        device = ws.get_device("gpu")
        self.arrays = {name: device.asarray(cupy.asarray(a)) for name, a in zip("xw", given, strict=True)}
        n, f, h, v = p.output_shape
        self.y = device.empty((n, h, v, f) if self.is_half else p.output_shape, cupy.asarray(given[0]).dtype)

    def launches(self, constants: Mapping[str, int]) -> tuple[Launch, ...]:
        """Launch the step once with these constants."""
        return _program(self.step, tuple(sorted(constants.items()))).enqueue(self.sizes, self.arrays | {"y": self.y})

    def library(self) -> Any:
        """cuDNN's convolution of the same arrays."""
        return torch.nn.functional.conv2d(self.x, self.w, stride=self.problem.stride, padding=self.problem.pad)

    def part(self) -> float:
        """The largest error of some images and filters, of the largest result."""
        actual = torch.as_tensor(self.y.native, device="cuda")
        return Exact(self.problem, self.x, self.w).error(actual.permute(0, 3, 1, 2) if self.is_half else actual)

    def max_error(self, launches: tuple[Launch, ...]) -> float:
        """Largest error of some images, as a multiple of the expected one; ArithmeticError if it is too large."""
        p = self.problem
        self.y.native.fill(math.nan)
        repeated(launches)()
        actual = torch.as_tensor(self.y.native, device="cuda")
        if self.is_half:
            actual = actual.permute(0, 3, 1, 2)
        if bool(torch.isnan(actual).any()):
            raise ArithmeticError(f"{self.layer.name}: an element of y was not written, or is NaN")
        picked = torch.linspace(0, p.batch - 1, min(CHECKED_IMAGES, p.batch), device="cuda").long()
        exact = torch.nn.functional.conv2d(self.x[picked].double(), self.w.double(), stride=p.stride, padding=p.pad)
        # terms are at most 1: partial sums grow to sqrt(terms) / 3, and roundings add up like a random walk
        expected = 2.0**-24 * p.terms + (2.0**-11 * float(exact.abs().max()) if self.is_half else 0.0)
        error = float((actual[picked] - exact).abs().max()) / expected
        if not error <= 8.0:
            raise ArithmeticError(
                f"{self.layer.name}: the result is wrong: {error:.1f} times the expected rounding error"
            )
        return error


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement; `ratio` is our time as a multiple of cuDNN's."""

    section: str
    layer: str
    step: str
    sizes: dict[str, int]
    constants: Constants
    registers: int
    max_error: float
    """largest error of the checked images, as a multiple of the rounding that is expected"""
    time_ms: float
    reference_ms: float
    ratio: float
    ratio_error: float
    stable: bool
    tflop_per_s: float
    """of the direct method's operations"""
    best: Best
    """cuDNN's fastest algorithm"""
    exact_error: float
    """our largest error of some images and filters, of the largest result"""


@dataclass
class Bench:
    """Measures kernels and collects rows."""

    rules: Rules
    tuned: tuple[str, ...]
    """steps whose constants are searched"""
    rows: list[Row] = field(default_factory=list)
    found: tuple[tuple[str, bool], tuple[Rival, ...]] = (("", False), ())
    """cuDNN's ways for the layer and the precision of the last row"""

    def ways(self, case: Case) -> tuple[Rival, ...]:
        """cuDNN's ways to compute a case, found once for all steps of a layer that follow each other."""
        key = (case.layer.name, case.is_half)
        if self.found[0] != key:
            self.found = (key, fastest(case.problem, case.x, case.w))
        return self.found[1]

    def add(self, section: str, layer: Layer, step: str) -> None:
        """Check a step at a layer, time it in turns with cuDNN, and print the row."""
        case = Case(layer, step)
        constants = self.constants(case)
        launches = case.launches(constants)
        error = case.max_error(launches)
        found = ws.benchmark_ratio(repeated(launches), case.library, device="gpu", rules=self.rules)
        mine, other = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and other is not None and found.speed is not None and found.error is not None
        program = _program(step, tuple(sorted(constants.items())))
        registers = max(int(program.kernel(launch.kernel).attributes["num_regs"]) for launch in launches)
        row = Row(
            section=section, layer=layer.name, step=step, sizes=case.sizes, constants=constants, registers=registers,
            max_error=error, time_ms=mine, reference_ms=other, ratio=1 / found.speed, ratio_error=found.error,
            stable=found.stable, tflop_per_s=layer.problem.flop / mine * 1e-9,
            best=against_best(repeated(launches), self.ways(case), self.rules), exact_error=case.part(),
        )  # fmt: skip
        self.rows.append(row)
        print(_text(row), flush=True)

    def constants(self, case: Case) -> Constants:
        """The constants to use: the fastest candidate when tuning, else what is on record."""
        candidates = CANDIDATES[case.step](case.layer)
        key = f"{case.step.split('/')[1]} {case.layer.name}"
        if case.step.split("/")[1] not in self.tuned:
            wanted = TUNED.get((case.step, case.layer.name), {}).items()
            return next((found for found in candidates if wanted <= found.items()), candidates[0])
        times: list[tuple[float, Constants]] = []
        for constants in candidates:
            try:
                time = ws.benchmark(repeated(case.launches(constants)), device="gpu", rules=QUICK).median_ms
            except WarpschoolError as error:
                print(f"  {constants}: {str(error).splitlines()[0]}")
                continue
            times.append((time or math.inf, constants))
        times.sort(key=lambda item: item[0])
        for time, constants in times[:3]:
            print(f"  {key}: {time:.4f} ms {constants}")
        return times[0][1]


def _text(row: Row) -> str:
    doubt = "" if row.stable else ", not stable"
    constants = " ".join(f"{name}={value}" for name, value in row.constants.items())
    return (
        f"{row.section:10s} {row.layer:6s} {row.step.split('/')[1]:20s} {row.time_ms:9.4f} ms"
        f"  cuDNN {row.reference_ms:9.4f} ms"
        f"  ratio {row.ratio:6.3f} (error {row.ratio_error:.1%}{doubt})"
        f"  {row.best.name} {row.best.time_ms:9.4f} ms: {row.best.ratio:6.3f}"
        f"  {row.tflop_per_s:5.1f} TFLOP/s  {row.registers} regs  {constants}"
    )


def run_digits(bench: Bench) -> None:
    """The first layer is bound by memory, the second by multiplications."""
    for layer in DIGITS:
        for step in (IMPLICIT, REGISTERS):
            bench.add("digits", layer, step)


def run_half(bench: Bench) -> None:
    """Half precision on tensor cores; windows slide where there are few filters for what is loaded."""
    for layer in VGG16:
        for step in (HALF, HOPPER, SLIDING) if layer.problem.filters <= 64 else (HALF, HOPPER):
            bench.add("vgg16_fp16", layer, step)


SECTIONS: dict[str, Callable[[Bench], None]] = {"digits": run_digits, "vgg16_fp16": run_half}


def _summary(rows: Iterable[Row]) -> dict[str, float]:
    """The best ratio of each layer; for a section their geometric mean, and the ratio of all times together."""
    rows = list(rows)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        key = (row.section, row.layer)
        best[key] = min(row.ratio, best.get(key, math.inf))
    found = {f"{section} {layer}": ratio for (section, layer), ratio in best.items()}
    for section in {section for section, _ in best}:
        logs = [math.log(ratio) for (its, _), ratio in best.items() if its == section]
        found[f"{section}: geometric mean"] = math.exp(sum(logs) / len(logs))
        fastest: dict[str, tuple[float, float]] = {}
        for row in (row for row in rows if row.section == section):
            fastest[row.layer] = min(fastest.get(row.layer, (math.inf, 0.0)), (row.time_ms, row.reference_ms))
        mine, theirs = (sum(times[side] for times in fastest.values()) for side in (0, 1))
        found[f"{section}: all layers"] = mine / theirs
    return dict(sorted(found.items()))


def main() -> None:
    """Run the sections, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    steps = [step.split("/")[1] for step in CANDIDATES]
    parser.add_argument(
        "--tune", nargs="*", choices=steps, metavar="STEP", help="search the constants of these steps (none named: all)"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="longest time for one measurement")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    device = ws.get_device("gpu")
    versions = {
        "cudnn": torch.backends.cudnn.version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    print(f"{device.description}, driver for CUDA {device.driver}, cuDNN {versions['cudnn']}")
    bench = Bench(
        Rules(max_seconds=arguments.seconds), () if arguments.tune is None else tuple(arguments.tune or steps)
    )
    for section in arguments.only:
        SECTIONS[section](bench)
    summary = _summary(bench.rows)
    for name, value in summary.items():
        print(f"{name:28s} {value:6.3f}")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "what": "convolutions against cuDNN", "device": device.description, "driver": device.driver,
            "versions": versions, "summary": summary, "rows": [asdict(row) for row in bench.rows],
        }  # fmt: skip
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
