"""A step on the GPU: its time at a case that fills the chip, and for matrix products its share of cuBLAS's speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpschool.contract import Contract, Plan
from warpschool.device.measurement import Rules
from warpschool.errors import NotMeasured
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.profile import array_bytes, case_text
from warpschool.inspect.timing import benchmark, benchmark_ratio
from warpschool.tour.report import GpuFigures

_TARGET_BYTES = 128 << 20
"""Arrays of this size together do not fit the L2 cache of any GPU in the table, and fill every SM."""
_MAX_FLOP = 6e11
_RULES = Rules(max_seconds=0.8, min_samples=5, warmup_ms=20.0)


def time_on_gpu(contract: Contract, small: Plan) -> GpuFigures:
    """Time a kernel file on the GPU at a larger case than `small`.

    Raises NotMeasured for a file whose inputs cannot be made up (indices, for example), and what a run raises.
    """
    if any(array.is_given and (array.dtype.kind != "f" or array.shape is None) for array in small.arrays.values()):
        raise NotMeasured("not timed: random numbers are no input for it")
    plan = _enlarged(contract, small)
    program = Program(contract, device="gpu", constants=plan.constants)
    run = program.run(plan.scalars, random_inputs(plan, np.random.default_rng(0)))

    def launch_all() -> None:
        for launch in run.launches:
            launch.again()

    flop = product_flop(plan)
    if not flop:
        return GpuFigures(case=case_text(plan), timing=benchmark(launch_all, device="gpu", rules=_RULES))
    ratio = benchmark_ratio(launch_all, _cublas(run), device="gpu", rules=_RULES)
    return GpuFigures(
        case=case_text(plan), timing=ratio.candidate, cublas=ratio.speed,
        gflops=ratio.candidate.per_second(flop) * 1e-9,
        note="" if ratio.stable else "the ratio did not settle",
    )  # fmt: skip


def product_flop(plan: Plan) -> float:
    """2 M N K (times BATCH) for a product of single-precision matrices C[M,N]; 0 for anything else."""
    sizes = plan.scalars
    floats = all(array.dtype == np.float32 for array in plan.arrays.values())
    if not floats or not {"M", "N", "K"} <= set(sizes):
        return 0.0
    return 2.0 * sizes["M"] * sizes["N"] * sizes["K"] * sizes.get("BATCH", 1)


def _enlarged(contract: Contract, small: Plan) -> Plan:
    """The same case with its sizes doubled until the arrays are large enough or the work is."""
    integers = {name for name, value in small.scalars.items() if isinstance(value, int)}
    plan = small
    while array_bytes(plan) < _TARGET_BYTES and product_flop(plan) * 8 <= _MAX_FLOP:
        doubled = {name: value * (2 if name in integers else 1) for name, value in plan.scalars.items()}
        plan = contract.bind(doubled, constants=small.constants)
    return plan


def _cublas(run: RunResult) -> Callable[[], Any]:
    """The same product by cuBLAS, on arrays of its own."""
    import cupy

    sizes = run.plan.scalars
    batch = [int(sizes["BATCH"])] if "BATCH" in sizes else []
    m, n, k = (int(sizes[name]) for name in "MNK")
    a = cupy.random.default_rng(0).random((*batch, m, k), dtype=np.float32)
    b = cupy.random.default_rng(1).random((*batch, k, n), dtype=np.float32)
    c = cupy.empty((*batch, m, n), dtype=np.float32)
    return lambda: cupy.matmul(a, b, out=c)
