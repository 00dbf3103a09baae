"""The kernels of lab 07 on a GPU, against cuBLAS and PyTorch in the same run.

    python benchmarks/tensor_cores.py [--out FILE] [--tune] [--seconds 0.5] [--only STEP ...]

Half in, float32 accumulation; the reference is cuBLAS (PyTorch's `mm`, reduced-precision accumulation off) with the
same type of result: float for 01 to 05, half for 06_wgmma. 8-bit integers: `torch._int_mm`. Every kernel is first
checked against a float64 product of some rows, then timed in turns with the reference, the L2 cache flushed before
each sample; the ratio is the median of the rounds' ratios. Steps that this GPU cannot run are named and left out.

Tensor cores drive the chip into its power limit, which lowers its clock: a row's figures would depend on the rows
before it. So in the part "large" rounds come in bursts between rests (REST); "sustained" are the same products without
rests, after a long warm-up (SUSTAINED). The results are written after every part.

`--tune` searches the tiles of 03 and 05 for each of five sizes; without it those found on an H200 (TUNED) are used.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import CHECKED_ROWS, SOLUTIONS, Bench, Row, cupy, geometric_mean

try:
    import torch
except ImportError:
    raise SystemExit("the reference is PyTorch's: pip install 'warpschool[cuda13,torch]'") from None

import warpschool as ws
from warpschool.contract import Contract, parse_contract
from warpschool.device import Device
from warpschool.device.measurement import Rules
from warpschool.errors import DeviceUnavailable, NeedsError
from warpschool.harness.compare import compare, tolerance_for
from warpschool.harness.launcher import Program

LAB = "lab07_tensor_cores"
STEPS = ("01_wmma_naive", "02_wmma_shared", "03_wmma_pipelined", "04_wmma_int8", "05_mma_ptx", "06_wgmma")
QUICK = Rules(warmup_ms=2.0, min_samples=7, max_samples=15, max_seconds=0.2)
REST: dict[str, Any] = {"rest_seconds": 0.5, "batch": 5, "warmup_runs": 2, "warmup_ms": 4.0}
SUSTAINED: dict[str, Any] = {"warmup_ms": 400.0}
LARGE = ((4096, 4096, 4096), (8192, 8192, 8192))
SIZES = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (5000, 3000, 2008), (1111, 4097, 3001))
"""for the geometric mean: the fourth is ragged, and no side of the fifth is a multiple of 8"""


TILE_NAMES = ("TSM", "TSN", "TSK", "STAGES", "WSM", "WSN")
TILES: dict[str, tuple[tuple[int, ...], ...]] = {
    "03_wmma_pipelined": (
        (128, 256, 32, 4, 64, 64), (256, 128, 32, 4, 64, 64), (128, 128, 32, 4, 64, 64), (128, 128, 64, 3, 64, 32),
        (128, 128, 32, 3, 64, 32), (64, 128, 32, 4, 32, 64), (64, 128, 64, 3, 32, 32), (64, 64, 64, 4, 32, 32),
        (64, 64, 64, 4, 16, 64), (64, 64, 32, 4, 32, 32),
    ),
    "05_mma_ptx": (
        (128, 256, 64, 3, 64, 64), (256, 128, 64, 3, 64, 64), (128, 128, 32, 4, 64, 64), (128, 128, 64, 3, 64, 64),
        (128, 128, 64, 3, 64, 32), (64, 128, 64, 4, 32, 64), (64, 128, 64, 4, 32, 32), (128, 64, 64, 4, 32, 32),
        (64, 64, 64, 4, 32, 32), (64, 64, 64, 6, 32, 32), (64, 64, 32, 6, 32, 32),
    ),
}  # fmt: skip
"""Tile sets that `--tune` tries: those named in TILE_NAMES, in this order; the first is the file's own."""
TUNED: dict[tuple[str, int, int, int], tuple[int, ...]] = {
    ("03_wmma_pipelined", 1024, 1024, 1024): (64, 128, 64, 3, 32, 32),
    ("03_wmma_pipelined", 1111, 4097, 3001): (64, 128, 64, 3, 32, 32),
    ("05_mma_ptx", 1024, 1024, 1024): (128, 64, 64, 4, 32, 32),
    ("05_mma_ptx", 1111, 4097, 3001): (128, 64, 64, 4, 32, 32),
}
"""What `--tune` found best on an H200; steps and sizes that are not here use the file's own constants."""


class Product:
    """A step's kernel on matrices of one size; `work` launches it once."""

    def __init__(self, program: Program, m: int, n: int, k: int) -> None:
        contract = program.contract
        device = program.module.device
        scalars = {p.name: 1.0 if p.name == "alpha" else 0.0 for p in contract.parameters() if not p.is_array}
        self.sizes = {"M": m, "N": n, "K": k}
        plan = contract.bind(scalars | self.sizes, constants=program.constants)
        self.arrays = {name: device.empty(array.shape or (), array.dtype) for name, array in plan.arrays.items()}
        for name, array in plan.arrays.items():
            if array.is_given:
                self.arrays[name].native[...] = _random(array.shape or (), array.dtype)
        launch = plan.launches[0]
        kernel = program.kernel(launch.entry)
        if launch.shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
        self.registers = int(kernel.attributes["num_regs"])
        arguments = tuple(program.argument(p, launch, plan, self.arrays) for p in launch.arguments)
        self.work = lambda: kernel(launch.grid, launch.block, arguments, shared_mem=launch.shared_bytes)
        self.a, self.result = (self.arrays[name].native for name in ("A", _result(contract)))
        self.b = self.arrays["Bt"].native.T if "Bt" in self.arrays else self.arrays["B"].native

    def error(self) -> float:
        """Largest error of some rows as a share of what is allowed; raises ArithmeticError if an element is wrong."""
        self.result.view(cupy.uint8).fill(0xFF)
        self.work()
        m, k = self.a.shape
        rows = np.sort(np.random.default_rng(1).permutation(m)[:CHECKED_ROWS])
        left, right = self.a[rows].astype(cupy.float64), self.b.astype(cupy.float64)
        expected, scale = cupy.asnumpy(left @ right), cupy.asnumpy(abs(left) @ abs(right))
        is_integer = self.result.dtype.kind == "i"
        tolerance = tolerance_for(self.result.dtype, k, scale=None if is_integer else scale)
        got = cupy.asnumpy(self.result[rows])
        report = compare(got, expected.astype(np.int64) if is_integer else expected, tolerance=tolerance)
        if not report.ok:
            raise ArithmeticError(str(report))
        bound = tolerance.bound(expected)
        return float((np.abs(got - expected) / np.where(bound > 0, bound, 1)).max())

    def reference(self) -> tuple[str, Callable[[], Any]]:
        """cuBLAS on the same matrices, with the same type of result."""
        a, b = (torch.as_tensor(matrix, device="cuda") for matrix in (self.a, self.b))
        if self.result.dtype == np.float32:
            return "cuBLAS, float out", lambda: torch.mm(a, b, out_dtype=torch.float32)
        if self.result.dtype == np.float16:
            out = torch.empty(self.result.shape, dtype=torch.float16, device="cuda")
            return "cuBLAS, half out", lambda: torch.mm(a, b, out=out)
        n, k = -b.shape[1] % 8, -b.shape[0] % 8  # _int_mm takes multiples of 8 only: the rest is filled with zeros
        a, turned = torch.nn.functional.pad(a, (0, k)), torch.nn.functional.pad(b.t(), (0, k, 0, n))
        return "torch._int_mm", lambda: torch._int_mm(a, turned.t())


def _result(contract: Contract) -> str:
    return next(p.name for p in contract.parameters() if p.direction == "out")


def _random(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    if dtype.kind == "f":
        return cupy.random.standard_normal(shape, dtype=cupy.float32).astype(dtype)
    return cupy.random.randint(-127, 128, shape).astype(dtype)


def measure(
    bench: Bench, part: str, steps: Iterable[str], sizes: Iterable[tuple[int, int, int]], *,
    tuned: Container[str] = (),
) -> None:  # fmt: skip
    """Check and time these steps at these sizes; the tiles of those in `tuned` are searched first."""
    for step in steps:
        for m, n, k in sizes:
            try:
                tiles = TUNED.get((step, m, n, k), ()) if step not in tuned else best_tiles(step, m, n, k)
                program = _program(step, tiles)
                product = Product(program, m, n, k)
            except (NeedsError, DeviceUnavailable) as reason:
                print(f"{part:10s} {step:20s} {m}x{n}x{k}: left out: {reason.message}")
                continue
            against, reference = product.reference()
            bench.add(
                part, f"{LAB}/{step}", product.sizes, product.work, reference, error=product.error(),
                amount=2.0 * m * n * k, against=against, unit="TFLOP/s", registers=product.registers,
                constants=program.constants,
            )  # fmt: skip


@cache
def _program(step: str, tiles: tuple[int, ...] = ()) -> Program:
    path = SOLUTIONS / LAB / f"{step}.cu"
    constants = dict(zip(TILE_NAMES, tiles, strict=True)) if tiles else {}
    return Program(parse_contract(path.read_text(encoding="utf-8"), name=path.name), device="gpu", constants=constants)


def best_tiles(step: str, m: int, n: int, k: int) -> tuple[int, ...]:
    """The fastest tile set of a step for these sizes; () where it is the file's own."""
    times: dict[tuple[int, ...], float] = {}
    for tiles in TILES[step]:
        product = Product(_program(step, tiles), m, n, k)
        product.error()
        times[tiles] = ws.benchmark(product.work, device="gpu", rules=QUICK).median_ms or math.inf
    best = sorted(times, key=lambda tiles: times[tiles])
    print(f"  {step} {m}x{n}x{k}: {'; '.join(f'{tiles} {times[tiles]:.4f} ms' for tiles in best[:3])}")
    return () if best[0] == TILES[step][0] else best[0]


def _summary(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Each step's ratios at the large sizes, rested and not, and its geometric mean over the others."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.part != "sizes":
            name = str(row.sizes["M"]) + (", sustained" if row.part == "sustained" else "")
            found.setdefault(row.step.split("/")[1], {})[name] = row.ratio
    for step, figures in found.items():
        ratios = [row.ratio for row in rows if row.part == "sizes" and row.step.endswith(step)]
        if ratios:
            figures |= {"geometric_mean": geometric_mean(ratios), "sizes": len(ratios)}
    return found


def main() -> None:
    """Run everything, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--tune", action="store_true", help="search the tiles of 03 and 05 for each size")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="these steps only")
    options = parser.parse_args()
    cupy.random.seed(1)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    device = ws.get_device("gpu")
    rules = Rules(max_seconds=options.seconds, target_error=0.003, min_samples=20)
    steps = [step for step in options.only if (SOLUTIONS / LAB / f"{step}.cu").exists()]
    others = [step for step in steps if not step.startswith("01")]
    rows: list[Row] = []
    measure(Bench(replace(rules, **REST), rows), "large", steps, LARGE)
    _write(options.out, device, rows)
    measure(Bench(replace(rules, **SUSTAINED), rows), "sustained", steps, LARGE)
    _write(options.out, device, rows)
    measure(Bench(rules, rows), "sizes", others, SIZES, tuned=TILES if options.tune else ())
    _write(options.out, device, rows)
    print(json.dumps(_summary(rows), indent=1))


def _write(path: Path | None, device: Device, rows: list[Row]) -> None:
    """Everything that is known so far, as JSON."""
    if path is None:
        return
    result = {
        "device": device.description, "cuda_driver": device.driver, "torch": torch.__version__,
        "cublas": cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "python": platform.python_version(),
        "flush": "L2 flushed before each sample", "rest": REST, "sustained": SUSTAINED,
        "summary": _summary(rows), "rows": [asdict(row) for row in rows],
    }  # fmt: skip
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
