"""The convolutions of labs 08, 09 and 12 on a GPU, against cuDNN in the same run.

    python benchmarks/convolution.py [--out FILE] [--tune] [--seconds 0.5] [--only SECTION ...]

Every kernel is first checked against PyTorch's convolution in float64 of some images. Then it is timed in turns with
cuDNN (through PyTorch, benchmark mode on, TF32 off), the L2 cache flushed before each sample. `ratio` is our time as a
multiple of cuDNN's, the median of the rounds' ratios: below 1 is faster. `--tune` searches the constants of each kernel
for each layer; without it those found on an H200 (TUNED) are used. Sections:

    digits        the two layers of lab 10's network on 10,000 images
    network       the layers of Yolo and ResNet, one image
    vgg16_fp16    the 13 layers of VGG16, 32 images, half precision
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ["CUPY_TF32"] = "0"

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import Launch
from warpschool.errors import WarpschoolError
from warpschool.launcher import Program
from warpschool.measurement import Rules
from warpschool.nn import Convolution

ROOT = Path(__file__).parent.parent
LAB08 = "lab08_convolution"
IMPLICIT, REGISTERS, HALF = (
    f"{LAB08}/{name}" for name in ("07_implicit_gemm", "12_register_tiles", "11_fp16_implicit_gemm")
)
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
NETWORK = tuple(
    _layer(name, 1, channels, size, filters, window, stride, window // 2)
    for name, filters, channels, size, window, stride in (
        ("Y0", 32, 3, 544, 3, 1), ("Y2", 64, 32, 272, 3, 1), ("Y4", 128, 64, 136, 3, 1), ("Y5", 64, 128, 136, 1, 1),
        ("Y8", 256, 128, 68, 3, 1), ("Y9", 128, 256, 68, 1, 1), ("Y12", 512, 256, 34, 3, 1),
        ("Y13", 256, 512, 34, 1, 1), ("Y18", 1024, 512, 17, 3, 1), ("Y19", 512, 1024, 17, 1, 1),
        ("R1", 64, 3, 224, 7, 2), ("R2", 64, 64, 56, 3, 1), ("R3", 64, 64, 56, 1, 1), ("R4", 128, 64, 56, 3, 2),
        ("R5", 128, 64, 56, 1, 2), ("R6", 128, 128, 28, 3, 1), ("R7", 256, 128, 28, 3, 2), ("R8", 256, 128, 28, 1, 1),
        ("R9", 256, 256, 14, 3, 1), ("R10", 512, 512, 14, 3, 2), ("R11", 512, 256, 14, 1, 2),
        ("R12", 512, 512, 7, 3, 1),
    )
)  # fmt: skip
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

_TILES = ("TSM", "TSN", "WSM", "WSN", "WPTM", "WPTN")


def _implicit(layer: Layer) -> list[Constants]:
    """Tile sets of 07_implicit_gemm, compiled for the layer's sizes."""
    p = layer.problem
    fixed = {"FIXED_R": p.rows, "FIXED_S": p.cols, "FIXED_STRIDE": p.stride, "FIXED_PAD": p.pad}
    tiles = (
        (64, 128, 32, 64, 8, 8), (64, 256, 64, 64, 16, 8), (64, 256, 32, 64, 8, 8), (128, 256, 64, 64, 16, 8),
        (64, 128, 64, 64, 16, 8), (32, 256, 32, 64, 8, 8), (32, 128, 32, 32, 8, 4), (64, 64, 32, 64, 8, 8),
    )  # fmt: skip
    return [fixed | dict(zip(_TILES, t, strict=True)) for t in tiles if t[0] <= max(32, p.filters)]


SHAPES = (
    (2, 8, 4, 8, 2), (2, 8, 4, 4, 3), (2, 8, 8, 4, 2), (2, 16, 4, 4, 2), (2, 16, 8, 4, 1), (1, 16, 4, 4, 2),
    (4, 8, 8, 8, 1), (4, 8, 8, 4, 2), (1, 8, 4, 8, 1), (3, 8, 4, 1, 2), (3, 8, 4, 2, 1), (3, 8, 2, 2, 2),
    (3, 8, 2, 1, 3), (2, 8, 2, 1, 3), (2, 8, 4, 1, 2), (1, 16, 2, 1, 2), (2, 16, 2, 1, 2), (1, 8, 2, 1, 2),
    (4, 8, 4, 1, 2),
)  # fmt: skip
"""QUADS, FPT, IMAGES, GROUPS and BLOCKS of 12_register_tiles that `--tune` tries."""


def _registers(layer: Layer) -> list[Constants]:
    """Shapes of 12_register_tiles: those whose block fits the layer."""
    p = layer.problem
    places = p.out_height * -(-p.out_width // 4)
    found = []
    for quads, filters, images, groups, blocks in SHAPES:
        lanes = -(-images * -(-places // quads) // 32) * 32
        threads, useful = lanes * groups, images * places / quads
        if threads > 512 or lanes > 1.12 * useful or filters * groups > p.filters or threads * blocks < 192:
            continue
        found += [
            {
                "FILTER_R": p.rows, "FILTER_S": p.cols, "LOADS": 2, "SETS": sets, "QUADS": quads, "FPT": filters,
                "IMAGES": images, "GROUPS": groups, "BLOCKS": blocks, "MOST": threads,
            }
            for sets in ((2, 8) if p.channels == 1 else (1,))
        ]  # fmt: skip
    return found


CANDIDATES: dict[str, Callable[[Layer], list[Constants]]] = {IMPLICIT: _implicit, REGISTERS: _registers}
TUNED: dict[str, Constants] = {}
"""What `--tune` found best on an H200: "step layer" -> constants; what is not here uses the first candidate."""


class Kernel:
    """A kernel file compiled for the GPU with some constants, and its launches for one layer."""

    def __init__(self, step: str, constants: Mapping[str, int], layer: Layer, x: Any, w: Any) -> None:
        path = ROOT / "solutions" / f"{step}.cu"
        contract = parse_contract(path.read_text("utf-8"), name=path.name)
        self.program = Program(contract, device="gpu", constants=constants)
        device = self.program.module.device
        self.y = device.empty(layer.problem.output_shape, x.dtype)
        arrays = {"x": device.asarray(x), "w": device.asarray(w), "y": self.y}
        self.launches: tuple[Launch, ...] = self.program.enqueue(layer.problem.sizes, arrays)

    def work(self) -> None:
        for launch in self.launches:
            launch.again()

    @property
    def registers(self) -> int:
        return max(self.program.kernel(launch.kernel).attributes["num_regs"] for launch in self.launches)


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


@dataclass
class Bench:
    """Measures kernels and collects rows."""

    rules: Rules
    tune: bool
    rows: list[Row] = field(default_factory=list)

    def add(self, section: str, layer: Layer, step: str) -> None:
        """Check a step at a layer, time it in turns with cuDNN, and print the row."""
        p = layer.problem
        torch.manual_seed(1)
        x = torch.rand(p.image_shape, device="cuda") * 2 - 1
        w = torch.rand(p.filter_shape, device="cuda") * 2 - 1
        constants = self.constants(step, layer, cupy.asarray(x), cupy.asarray(w))
        kernel = Kernel(step, constants, layer, cupy.asarray(x), cupy.asarray(w))
        error = _max_error(kernel, layer, x, w)

        def reference() -> Any:
            return torch.nn.functional.conv2d(x, w, stride=p.stride, padding=p.pad)

        found = ws.benchmark_ratio(kernel.work, reference, device="gpu", rules=self.rules)
        mine, other = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and other is not None and found.speed is not None and found.error is not None
        row = Row(
            section=section, layer=layer.name, step=step, sizes=p.sizes, constants=constants,
            registers=kernel.registers, max_error=error, time_ms=mine, reference_ms=other, ratio=1 / found.speed,
            ratio_error=found.error, stable=found.stable, tflop_per_s=p.flop / mine * 1e-9,
        )  # fmt: skip
        self.rows.append(row)
        print(_text(row), flush=True)

    def constants(self, step: str, layer: Layer, x: Any, w: Any) -> Constants:
        """The constants to use: the fastest candidate when tuning, else what is on record."""
        candidates = CANDIDATES[step](layer)
        key = f"{step} {layer.name}"
        if not self.tune:
            return TUNED.get(key, candidates[0])
        times: list[tuple[float, Constants]] = []
        for constants in candidates:
            try:
                kernel = Kernel(step, constants, layer, x, w)
                time = ws.benchmark(kernel.work, device="gpu", rules=QUICK).median_ms
            except WarpschoolError as error:
                print(f"  {constants}: {str(error).splitlines()[0]}")
                continue
            times.append((time or math.inf, constants))
        times.sort(key=lambda item: item[0])
        for time, constants in times[:3]:
            print(f"  {key}: {time:.4f} ms {constants}")
        return times[0][1]


def _max_error(kernel: Kernel, layer: Layer, x: Any, w: Any) -> float:
    """Largest error of some images; raises ArithmeticError if it is too large."""
    p = layer.problem
    kernel.y.native.fill(math.nan)
    kernel.work()
    actual = torch.as_tensor(kernel.y.native, device="cuda")
    if bool(torch.isnan(actual).any()):
        raise ArithmeticError(f"{layer.name}: an element of y was not written, or is NaN")
    picked = torch.linspace(0, p.batch - 1, min(CHECKED_IMAGES, p.batch), device="cuda").long()
    exact = torch.nn.functional.conv2d(x[picked].double(), w.double(), stride=p.stride, padding=p.pad)
    # terms are at most 1: partial sums grow to sqrt(terms) / 3, and roundings add up like a random walk
    error = float((actual[picked] - exact).abs().max()) / (2.0**-24 * p.terms)
    if not error <= 8.0:
        raise ArithmeticError(f"{layer.name}: the result is wrong: {error:.1f} times the expected rounding error")
    return error


def _text(row: Row) -> str:
    doubt = "" if row.stable else ", not stable"
    constants = " ".join(f"{name}={value}" for name, value in row.constants.items())
    return (
        f"{row.section:10s} {row.layer:6s} {row.step.split('/')[1]:20s} {row.time_ms:9.4f} ms"
        f"  cuDNN {row.reference_ms:9.4f} ms"
        f"  ratio {row.ratio:6.3f} (error {row.ratio_error:.1%}{doubt})"
        f"  {row.tflop_per_s:5.1f} TFLOP/s  {row.registers} regs  {constants}"
    )


def run_digits(bench: Bench) -> None:
    """The first layer is bound by memory, the second by multiplications."""
    for layer in DIGITS:
        for step in (IMPLICIT, REGISTERS):
            bench.add("digits", layer, step)


def run_network(bench: Bench) -> None:
    """Small batches: few blocks, and cuDNN is weak."""
    for layer in NETWORK:
        bench.add("network", layer, IMPLICIT)


SECTIONS: dict[str, Callable[[Bench], None]] = {"digits": run_digits, "network": run_network}


def _summary(rows: Iterable[Row]) -> dict[str, float]:
    """The best ratio of each layer, and the geometric mean over a section's layers."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        key = (row.section, row.layer)
        best[key] = min(row.ratio, best.get(key, math.inf))
    found = {f"{section} {layer}": ratio for (section, layer), ratio in best.items()}
    for section in {section for section, _ in best}:
        logs = [math.log(ratio) for (its, _), ratio in best.items() if its == section]
        found[f"{section}: geometric mean"] = math.exp(sum(logs) / len(logs))
    return dict(sorted(found.items()))


def main() -> None:
    """Run the sections, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--tune", action="store_true", help="search the constants of each kernel for each layer")
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
    bench = Bench(Rules(max_seconds=arguments.seconds), arguments.tune)
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
