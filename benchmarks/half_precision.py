"""The kernels of lab 06 on a GPU: half and 8-bit products against cuBLAS and PyTorch, quantising against a copy.

    python benchmarks/half_precision.py [--out FILE] [--seconds 0.5] [--unroll N ...]

The references use tensor cores, which these kernels do not: the ratios say what lab 07 is for. Every kernel is first
checked on some rows. `--unroll` tries other factors than the files' own. NumPy's product on the host is timed, too.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch
from gemm import LADDER_SIZE
from harness import CHECKED_ROWS, SOLUTIONS, Bench, Step

import warpschool as ws
from warpschool.device.measurement import Rules
from warpschool.harness.compare import Tolerance, compare, tolerance_for
from warpschool.inspect.timing import benchmark_host

LAB06 = "lab06_half_precision"
PRODUCTS = (f"{LAB06}/01_half_storage", f"{LAB06}/02_half2")
INT8 = f"{LAB06}/04_gemm_int8"
QUANTIZE = f"{LAB06}/03_quantize_int8"
_UNROLL = re.compile(r"#pragma unroll *\d*$", re.MULTILINE)


class Unrolled(Step):
    """A step whose loops over k are unrolled by another factor; 0 stands for all of it."""

    def __init__(self, name: str, factor: int) -> None:
        super().__init__(name)
        source = (SOLUTIONS / f"{name}.cu").read_text("utf-8")
        changed = _UNROLL.sub(f"#pragma unroll {factor or ''}".rstrip(), source)
        self.constants = {"unroll": factor}
        module = ws.RawModule(code=changed, name=name, device="gpu")
        self.kernel = module.get_function(self.contract.launches[0].entry)

    def work(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Callable[[], Any]:
        launch = self.contract.bind(sizes).launches[0]
        arguments = tuple(arrays[p.name] if p.is_array else np.int32(sizes[p.name]) for p in launch.arguments)
        return lambda: self.kernel(launch.grid, launch.block, arguments)


def _error(result: Any, expected: np.ndarray, tolerance: Tolerance) -> float:
    """Largest error as a share of what is allowed; raises ArithmeticError if an element is wrong."""
    got = cupy.asnumpy(result)
    report = compare(got, expected, tolerance=tolerance)
    if not report.ok:
        raise ArithmeticError(str(report))
    bound = tolerance.bound(expected)
    return float((np.abs(got - expected) / np.where(bound > 0, bound, 1)).max())


def run_half(bench: Bench, unrolls: list[int]) -> None:
    """Half in, float out, at the ladder's size."""
    m, n, k = LADDER_SIZE
    sizes = {"M": m, "N": n, "K": k}
    a, b = (cupy.random.standard_normal(s, dtype=cupy.float32).astype(cupy.float16) for s in ((m, k), (k, n)))
    c = cupy.empty((m, n), cupy.float32)
    rows = np.sort(np.random.default_rng(1).permutation(m)[:CHECKED_ROWS])
    left, right = a[rows].astype(cupy.float64), b.astype(cupy.float64)
    expected, scale = cupy.asnumpy(left @ right), cupy.asnumpy(abs(left) @ abs(right))
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    ta, tb = torch.as_tensor(a, device="cuda"), torch.as_tensor(b, device="cuda")
    out = torch.empty((m, n), dtype=torch.float16, device="cuda")
    for name in PRODUCTS:
        chunk = 16 if name.endswith("half2") else 0
        tolerance = tolerance_for(np.float32, k, "float16" if chunk else "float32", scale=scale, promoted_every=chunk)
        for step in [Step(name), *(Unrolled(name, factor) for factor in unrolls)]:
            work = step.work(sizes, {"A": a, "B": b, "C": c})
            c.fill(np.nan)
            work()
            error = _error(c[rows], expected, tolerance)
            bench.add(
                "half", step.name, sizes, work, lambda: torch.matmul(ta, tb, out=out), error=error,
                registers=step.registers, constants=step.constants, amount=2.0 * m * n * k,
                against="cuBLAS, tensor cores", unit="TFLOP/s",
            )  # fmt: skip


def run_int8(bench: Bench, unrolls: list[int]) -> None:
    """8-bit integers, exact, at the ladder's size."""
    m, n, k = LADDER_SIZE
    sizes = {"M": m, "N": n, "K": k}
    a, b = (cupy.random.randint(-127, 128, s).astype(cupy.int8) for s in ((m, k), (n, k)))
    c = cupy.empty((m, n), cupy.int32)
    rows = np.arange(0, m, m // CHECKED_ROWS)
    expected = cupy.asnumpy(a[rows].astype(cupy.float64) @ b.astype(cupy.float64).T).astype(np.int64)
    ta, tb = torch.as_tensor(a, device="cuda"), torch.as_tensor(b, device="cuda").t()
    for step in [Step(INT8), *(Unrolled(INT8, factor) for factor in unrolls)]:
        work = step.work(sizes, {"A": a, "Bt": b, "C": c})
        work()
        error = _error(c[rows], expected, tolerance_for(np.int32))
        bench.add(
            "int8", step.name, sizes, work, lambda: torch._int_mm(ta, tb), error=error, amount=2.0 * m * n * k,
            against="torch._int_mm, tensor cores", unit="TOP/s", registers=step.registers, constants=step.constants,
        )  # fmt: skip


def run_quantize(bench: Bench) -> None:
    """Both kernels of the quantisation against a copy of as many bytes."""
    m, k = 16384, 4096
    x = cupy.random.standard_normal((m, k), dtype=cupy.float32)
    q, scale, largest = cupy.empty((m, k), cupy.int8), cupy.empty(m, cupy.float32), cupy.zeros(m, cupy.uint32)
    sizes = {"M": m, "K": k}
    half, copy = x[: m // 2], cupy.empty((m // 2, k), cupy.float32)
    for per_row in (1, 0):
        step = Step(QUANTIZE, {"PER_ROW": per_row})
        module = ws.RawModule(code=step.contract.source, name="k.cu", constants=step.constants, device="gpu")
        launches = step.contract.bind({**sizes, "clip": 1e30}, constants=step.constants).launches
        kernels = [module.get_function(launch.entry) for launch in launches]
        values = {
            "X": x, "Q": q, "scale": scale, "largest": largest,
            "clip": np.float32(1e30), "M": np.int32(m), "K": np.int32(k),
        }  # fmt: skip
        arguments = [tuple(values[p.name] for p in launch.arguments) for launch in launches]
        grids = [(launch.grid, launch.block) for launch in launches]

        def work() -> None:
            for kernel, place, given in zip(kernels, grids, arguments, strict=True):  # noqa: B023  (used at once)
                kernel(*place, given)

        work()
        limits = abs(x).max(axis=1) if per_row else cupy.full(m, abs(x).max())
        worst = float((abs(q * scale[:, None] - x) / scale[:, None]).max())
        if not (worst <= 0.5001 and bool((abs(scale * 127 - limits) <= 1e-6 * limits).all())):
            raise ArithmeticError(f"an element is {worst} steps from its integer")
        bench.add(
            "quantize", step.name, sizes, work, lambda: cupy.copyto(copy, half), error=worst,
            registers=step.registers, constants=step.constants, amount=float(2 * x.nbytes + q.nbytes),
            against="a copy of half of X", unit="TB/s",
            note="a scale for each row" if per_row else "one scale",
        )  # fmt: skip


def host_ms(size: int) -> float:
    """Milliseconds of NumPy's float32 product on the host."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    return benchmark_host(lambda: a @ b).median_ms


def main() -> None:
    """Run everything, print a line for each measurement, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--unroll", type=int, nargs="*", default=[], help="other unroll factors to try; 0: all")
    options = parser.parse_args()
    cupy.random.seed(1)
    device = ws.get_device("gpu")
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.003, min_samples=20))
    run_half(bench, options.unroll)
    run_int8(bench, options.unroll)
    run_quantize(bench)
    cpu_ms = host_ms(LADDER_SIZE[0])
    print(f"NumPy on the host: {cpu_ms:.0f} ms")
    if options.out:
        result = {
            "device": device.description, "cuda_driver": device.driver, "torch": torch.__version__,
            "python": platform.python_version(), "host": platform.processor() or platform.machine(),
            "host_matmul_ms": cpu_ms, "host_matmul_size": LADDER_SIZE[0],
            "rows": [asdict(row) for row in bench.rows],
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
