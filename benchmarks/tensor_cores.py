"""The kernels of lab 07 on a GPU, against cuBLAS and PyTorch in the same run.

    python benchmarks/tensor_cores.py [--out FILE] [--tune] [--seconds 0.5] [--only STEP ...] [--limit]

Half in, float32 accumulation; the reference is cuBLAS (PyTorch's `mm`, reduced-precision accumulation off) with the
same type of result: float for 01 to 05, half for 06_wgmma. 8-bit integers: `torch._int_mm`; 8-bit floats: cuBLASLt
with fast accumulation (`torch._scaled_mm`), which adds as 07_wgmma_fp8 does. Every kernel is first checked against a
float64 product of some rows, then timed in turns with the reference, the L2 cache flushed before each sample; the
ratio is the median of the rounds' ratios. Steps that this GPU cannot run are named and left out.

Tensor cores drive the chip into its power limit, which lowers its clock: a row's figures would depend on the rows
before it. So in the part "large" rounds come in bursts between rests (REST); "sustained" are the same products without
rests, after a long warm-up (SUSTAINED). In the part "zeros" both multiply matrices of zeros, which need less power:
what is faster there was held back by power, not by its instructions. The part "accurate" holds 07 against cuBLASLt
without fast accumulation, which takes sums out of the tensor cores every few products; how far each of the three is
off is written down in "accuracy", as ||C - AB|| / ||AB|| of some rows. The results are written after every part.

`--tune` searches the tiles of 03, 05 and 06 for each of five sizes; without it those found on an H200 (TUNED) are
used. The TMA takes no rows that begin between multiples of 16 bytes: at such a size 06's matrices are copied into
longer rows and its result back, and that time counts.

`--limit` times nothing else than what could be gained at best: 03 and 05 as they are, without their copies, and with
nothing but products and barriers (LESS), in bursts and sustained.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import CHECKED_ROWS, SOLUTIONS, Bench, Row, Step, cupy, geometric_mean

try:
    import torch
except ImportError:
    raise SystemExit("the reference is PyTorch's: pip install 'warpschool[cuda13,torch]'") from None

import warpschool as ws
from warpcourse import floats8
from warpschool.contract import Contract, parse_contract
from warpschool.device import Device
from warpschool.device.measurement import Rules
from warpschool.errors import DeviceUnavailable, NeedsError
from warpschool.harness.compare import Tolerance, compare, tolerance_for
from warpschool.harness.launcher import Program

LAB = "lab07_tensor_cores"
STEPS = (
    "01_wmma_naive", "02_wmma_shared", "03_wmma_pipelined", "04_wmma_int8", "05_mma_ptx", "06_wgmma", "07_wgmma_fp8",
)  # fmt: skip
QUICK = Rules(warmup_ms=2.0, min_samples=7, max_samples=15, max_seconds=0.2)
REST: dict[str, Any] = {"rest_seconds": 0.5, "batch": 5, "warmup_runs": 2, "warmup_ms": 4.0}
SUSTAINED: dict[str, Any] = {"warmup_ms": 400.0}
LARGE = ((4096, 4096, 4096), (8192, 8192, 8192))
_COPY03, _COPY05 = "copy(tile + STAGES - 1);", "if (late >= 0 && i < COPIES) copy(last, i, more);"
_FETCH05 = "if (product < FETCHES) fetch(step + 1 < STEPS ? stage : next, (step + 1) % STEPS, product);"
LESS: dict[str, dict[str, dict[str, str]]] = {
    "03_wmma_pipelined": {
        "nothing copied": {_COPY03: ";"},
        "products alone": {
            _COPY03: ";", "fetch(tile, step + 1);": ";", "if (tile + 1 < tiles) fetch(tile + 1, 0);": ";",
            "fetch(0, 0);": "fetch(0, 0); fetch(0, 1);",
        },
    },
    "05_mma_ptx": {
        "nothing copied": {_COPY05: ";"},
        "products alone": {
            _COPY05: ";", _FETCH05: ";", "fetch(base, 0, n);": "fetch(base, 0, n); fetch(base, 1, n);",
        },
    },
}  # fmt: skip
"""What to put in place of statements, to see what they cost: both sets of fragments are loaded once then."""
SIZES = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (5000, 3000, 2008), (1111, 4097, 3001))
"""for the geometric mean: the fourth is ragged, and no side of the fifth is a multiple of 8"""


TILE_NAMES = {
    "03_wmma_pipelined": ("TSM", "TSN", "TSK", "STAGES", "WSM", "WSN"),
    "05_mma_ptx": ("TSM", "TSN", "TSK", "STAGES", "WSM", "WSN"),
    "06_wgmma": ("TSN", "STAGES", "CLUSTER", "ROUND", "GROUP"),
}
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
    "06_wgmma": ((256, 4, 2, 2, 8), (64, 8, 1, 1, 4)),
}  # fmt: skip
"""Tile sets that `--tune` tries: those named in TILE_NAMES, in its order; the first is the file's own."""
TUNED: dict[tuple[str, int, int, int], tuple[int, ...]] = {
    ("03_wmma_pipelined", 1024, 1024, 1024): (64, 128, 64, 3, 32, 32),
    ("03_wmma_pipelined", 1111, 4097, 3001): (64, 128, 64, 3, 32, 32),
    ("05_mma_ptx", 1024, 1024, 1024): (128, 64, 64, 4, 32, 32),
    ("05_mma_ptx", 1111, 4097, 3001): (128, 64, 64, 4, 32, 32),
    ("06_wgmma", 1024, 1024, 1024): (64, 8, 1, 1, 4),
}
"""What `--tune` found best on an H200; steps and sizes that are not here use the file's own constants."""


class Product:
    """A step's kernel on matrices of one size; `work` launches it once."""

    def __init__(self, program: Program, m: int, n: int, k: int, *, zeros: bool = False) -> None:
        contract = program.contract
        device = program.module.device
        scalars = {p.name: 1.0 if p.name == "alpha" else 0.0 for p in contract.parameters() if not p.is_array}
        self.sizes = {"M": m, "N": n, "K": k}
        plan = contract.bind(scalars | self.sizes, constants=program.constants)
        self.arrays = {name: device.empty(array.shape or (), array.dtype) for name, array in plan.arrays.items()}
        for name, array in plan.arrays.items():
            if array.is_given:
                self.arrays[name].native[...] = 0 if zeros else _random(array.shape or (), array.dtype)
        launch = plan.launches[0]
        kernel = program.kernel(launch.entry)
        if launch.shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
        self.registers = int(kernel.attributes["num_regs"])
        arguments = tuple(program.argument(p, launch, plan, self.arrays) for p in launch.arguments)
        shared = launch.shared_bytes
        self.work: Callable[[], Any] = lambda: kernel(launch.grid, launch.block, arguments, shared_mem=shared)
        self.a, self.result = (self.arrays[name].native for name in ("A", _result(contract)))
        self.b = self.arrays["Bt"].native.T if "Bt" in self.arrays else self.arrays["B"].native
        self.note = ""

    def error(self) -> float:
        """Largest error of some rows as a share of what is allowed; raises ArithmeticError if an element is wrong."""
        self.result.view(cupy.uint8).fill(0xFF)
        self.work()
        rows = self.checked_rows()
        left, right = _numbers(self.a[rows]), _numbers(self.b)
        expected = cupy.asnumpy(left @ right)
        tolerance = self._tolerance(left, right)
        got = cupy.asnumpy(self.result[rows])
        is_integer = self.result.dtype.kind == "i"
        report = compare(got, expected.astype(np.int64) if is_integer else expected, tolerance=tolerance)
        if not report.ok:
            raise ArithmeticError(str(report))
        bound = tolerance.bound(expected)
        return float((np.abs(got - expected) / np.where(bound > 0, bound, 1)).max())

    def checked_rows(self) -> np.ndarray:
        m = self.a.shape[0]
        return np.sort(np.random.default_rng(1).permutation(m)[:CHECKED_ROWS])

    def _tolerance(self, left: Any, right: Any) -> Tolerance:
        k = left.shape[1]
        if self.a.dtype == np.uint8:
            return _narrow_tolerance(left, right)
        scale = None if self.result.dtype.kind == "i" else cupy.asnumpy(abs(left) @ abs(right))
        return tolerance_for(self.result.dtype, k, scale=scale)

    def relative_error(self, result: Any) -> float:
        """||C - AB|| / ||AB|| of some rows of a result."""
        rows = self.checked_rows()
        expected = _numbers(self.a[rows]) @ _numbers(self.b)
        got = cupy.asarray(result)[rows].astype(cupy.float64)
        return float(cupy.linalg.norm(got - expected) / cupy.linalg.norm(expected))

    def reference(self, *, fast: bool = True) -> tuple[str, Callable[[], Any]]:
        """cuBLAS on the same matrices, with the same type of result; of 8-bit floats with or without `fast` sums."""
        a, b = (torch.as_tensor(matrix, device="cuda") for matrix in (self.a, self.b))
        if self.a.dtype == np.uint8:
            left, right = a.view(torch.float8_e4m3fn), b.t().view(torch.float8_e4m3fn).t()
            one = torch.ones((), device="cuda")
            name = "cuBLASLt, fast accumulation" if fast else "cuBLASLt, promoted sums"
            return name, lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.float16, use_fast_accum=fast)
        if self.result.dtype == np.float32:
            return "cuBLAS, float out", lambda: torch.mm(a, b, out_dtype=torch.float32)
        if self.result.dtype == np.float16:
            out = torch.empty(self.result.shape, dtype=torch.float16, device="cuda")
            return "cuBLAS, half out", lambda: torch.mm(a, b, out=out)
        n, k = -b.shape[1] % 8, -b.shape[0] % 8  # _int_mm takes multiples of 8 only: the rest is filled with zeros
        a, turned = torch.nn.functional.pad(a, (0, k)), torch.nn.functional.pad(b.t(), (0, k, 0, n))
        return "torch._int_mm", lambda: torch._int_mm(a, turned.t())


class PaddedProduct(Product):
    """A product whose rows are copied into longer ones first, and its result's back."""

    def __init__(self, program: Program, m: int, n: int, k: int) -> None:
        wide_n, wide_k = -(-n // 8) * 8, -(-k // 8) * 8
        super().__init__(program, m, wide_n, wide_k)
        multiply, pad = self.work, Step("pad_rows")
        wide = {"A": self.a, "B": self.b, "C": self.result}
        self.sizes = {"M": m, "N": n, "K": k}
        self.a, self.b = _random((m, k), self.a.dtype), _random((k, n), self.b.dtype)
        self.result = cupy.empty((m, n), self.result.dtype)
        before = [
            pad.work({"rows": m, "cols": k, "width": wide_k}, {"from": self.a, "to": wide["A"]}),
            pad.work({"rows": k, "cols": n, "width": wide_n}, {"from": self.b, "to": wide["B"]}),
        ]
        after = pad.work({"rows": m, "cols": wide_n, "width": n}, {"from": wide["C"], "to": self.result})

        def work() -> None:
            for copy in before:
                copy()
            multiply()
            after()

        self.work, self.note = work, "rows copied into longer ones and back"


def _numbers(matrix: Any) -> Any:
    """A matrix in float64; bytes without a sign are 8-bit floats."""
    return cupy.asarray(floats8.VALUES)[matrix] if matrix.dtype == np.uint8 else matrix.astype(cupy.float64)


def _narrow_tolerance(left: Any, right: Any) -> Tolerance:
    """What Hopper's tensor cores may be off where they add products of 8-bit floats.

    They add 32 products to a sum at a time, and cut all 33 and the result at 2^-13 of the largest. The cuts of a sum
    and a result may all go the same way; those of products are as often up as down: 6 times the root of their number.
    """
    total = cupy.zeros((left.shape[0], right.shape[1]))
    one_way, either_way = cupy.zeros_like(total), cupy.zeros_like(total)
    for k in range(0, left.shape[1], 32):
        a, b = left[:, k : k + 32], right[k : k + 32]
        largest = cupy.maximum(abs(total), abs(a).max(1, keepdims=True) * abs(b).max(0, keepdims=True))
        total += a @ b
        unit = 2.0**-13 * cupy.maximum(largest, abs(total))
        one_way += 2 * unit
        either_way += 32 * unit**2
    bound = cupy.asnumpy(one_way + 6 * cupy.sqrt(either_way))
    return Tolerance(1.0, 2.0**-11, 2.0**-24, "sums of tensor cores with 13 bits behind the point", bound)


def _result(contract: Contract) -> str:
    return next(p.name for p in contract.parameters() if p.direction == "out")


def _random(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    if dtype == np.uint8:
        numbers = torch.as_tensor(cupy.random.standard_normal(shape, dtype=cupy.float32), device="cuda")
        return cupy.asarray(numbers.to(torch.float8_e4m3fn).view(torch.uint8))
    if dtype.kind == "f":
        return cupy.random.standard_normal(shape, dtype=cupy.float32).astype(dtype)
    return cupy.random.randint(-127, 128, shape).astype(dtype)


def measure(
    bench: Bench, part: str, steps: Iterable[str], sizes: Iterable[tuple[int, int, int]], *,
    tuned: Container[str] = (), zeros: bool = False, fast: bool = True,
) -> None:  # fmt: skip
    """Check and time these steps at these sizes; the tiles of those in `tuned` are searched first."""
    for step in steps:
        for m, n, k in sizes:
            try:
                tiles = TUNED.get((step, m, n, k), ()) if step not in tuned else best_tiles(step, m, n, k)
                program = _program(step, tiles)
                product = _product(program, m, n, k, zeros=zeros)
            except (NeedsError, DeviceUnavailable) as reason:
                print(f"{part:10s} {step:20s} {m}x{n}x{k}: left out: {reason.message}")
                continue
            against, reference = product.reference(fast=fast)
            bench.add(
                part, f"{LAB}/{step}", product.sizes, product.work, reference, error=product.error(),
                amount=2.0 * m * n * k, against=against, unit="TFLOP/s", registers=product.registers,
                constants=program.constants, note=product.note,
            )  # fmt: skip


def _product(program: Program, m: int, n: int, k: int, *, zeros: bool = False) -> Product:
    if program.contract.name.startswith("06") and (n % 8 or k % 8):
        return PaddedProduct(program, m, n, k)
    return Product(program, m, n, k, zeros=zeros)


def accuracy(step: str) -> list[dict[str, Any]]:
    """How far sums of 8-bit floats are off: the step's, and the library's with and without fast accumulation."""
    found = []
    for m, n, k in LARGE:
        product = Product(_program(step), m, n, k)
        product.work()
        results = {f"{LAB}/{step}": product.result}
        results |= {name: work() for name, work in (product.reference(fast=fast) for fast in (True, False))}
        errors = {name: product.relative_error(result) for name, result in results.items()}
        found += [{"K": k, "of": name, "relative_error": error} for name, error in errors.items()]
    return found


def measure_limit(rested: Bench, driven: Bench) -> None:
    """The steps in LESS as they are, and with less to do: no product then, so nothing is checked."""
    for step, ways in LESS.items():
        contract = _program(step).contract
        for note, changes in {"as it is": {}, **ways}.items():
            program = Program(replace(contract, source=_changed(contract.source, changes)), device="gpu")
            for m, n, k in LARGE:
                product = Product(program, m, n, k)
                against, reference = product.reference()
                error = 0.0 if changes else product.error()
                for part, bench in (("limit", rested), ("limit, sustained", driven)):
                    bench.add(
                        part, f"{LAB}/{step}", product.sizes, product.work, reference, error=error,
                        amount=2.0 * m * n * k, against=against, unit="TFLOP/s", registers=product.registers, note=note,
                    )  # fmt: skip


def _changed(source: str, changes: Mapping[str, str]) -> str:
    """A text with other statements; raises ValueError where one is not in it, or more than once."""
    for statement, other in changes.items():
        if source.count(statement) != 1:
            raise ValueError(f"there is no single {statement!r}")
        source = source.replace(statement, other)
    return source


@cache
def _program(step: str, tiles: tuple[int, ...] = ()) -> Program:
    path = SOLUTIONS / LAB / f"{step}.cu"
    constants = dict(zip(TILE_NAMES[step], tiles, strict=True)) if tiles else {}
    return Program(parse_contract(path.read_text(encoding="utf-8"), name=path.name), device="gpu", constants=constants)


def best_tiles(step: str, m: int, n: int, k: int) -> tuple[int, ...]:
    """The fastest tile set of a step for these sizes; () where it is the file's own."""
    times: dict[tuple[int, ...], float] = {}
    for tiles in TILES[step]:
        product = _product(_program(step, tiles), m, n, k)
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
            name = str(row.sizes["M"]) + (f", {row.part}" if row.part != "large" else "")
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
    parser.add_argument("--tune", action="store_true", help="search the tiles of 03, 05 and 06 for each size")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--limit", action="store_true", help="only 03 and 05 without some of what they do")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="these steps only")
    options = parser.parse_args()
    cupy.random.seed(1)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    device = ws.get_device("gpu")
    rules = Rules(max_seconds=options.seconds, target_error=0.003, min_samples=20)
    steps = [step for step in options.only if (SOLUTIONS / LAB / f"{step}.cu").exists()]
    others = [step for step in steps if not step.startswith("01")]
    rows: list[Row] = []
    rested, narrow = replace(rules, **REST), [step for step in steps if step.endswith("fp8")]
    if options.limit:
        measure_limit(Bench(rested, rows), Bench(replace(rules, **SUSTAINED), rows))
        _write(options.out, device, rows)
        return
    measure(Bench(rested, rows), "large", steps, LARGE)
    _write(options.out, device, rows)
    measure(Bench(rested, rows), "accurate", narrow, LARGE, fast=False)
    measure(Bench(rested, rows), "zeros", [step for step in steps if "wgmma" in step], LARGE, zeros=True)
    _write(options.out, device, rows)
    measure(Bench(replace(rules, **SUSTAINED), rows), "sustained", steps, LARGE)
    _write(options.out, device, rows)
    measure(Bench(rules, rows), "sizes", others, SIZES, tuned=TILES if options.tune else ())
    _write(options.out, device, rows, [row for step in narrow for row in accuracy(step)])
    print(json.dumps(_summary(rows), indent=1))


def _write(path: Path | None, device: Device, rows: list[Row], errors: list[dict[str, Any]] | None = None) -> None:
    """Everything that is known so far, as JSON."""
    if path is None:
        return
    result = {
        "device": device.description, "cuda_driver": device.driver, "torch": torch.__version__,
        "cublas": cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "python": platform.python_version(),
        "flush": "L2 flushed before each sample", "rest": REST, "sustained": SUSTAINED,
        "summary": _summary(rows), "rows": [asdict(row) for row in rows], "accuracy": errors or [],
    }  # fmt: skip
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
