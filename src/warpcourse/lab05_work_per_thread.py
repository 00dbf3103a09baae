"""Lab 05: sparse products against dense ones, and Table 6 of the thesis on VGG16 that labs 05, 09 and 13 follow.

The thesis multiplies 36 x 32 pairs of 256 x 256 matrices (36 positions of a Winograd tile, 32 images) on a GTX 1080, in
four stages and with cuBLAS. Nsight Compute's part of our columns comes from benchmarks/results/table6_*.json
(benchmarks/table6_ncu.py); what it did not record stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpcourse.ladder import Measured, cost_of, measured
from warpschool import model
from warpschool.contract import parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.harness.launcher import Program, random_inputs
from warpschool.notebook.runs import own_contract
from warpschool.recorded import results
from warpschool.show.table import Table, small_table


@dataclass(frozen=True)
class Crossover:
    """Lower bounds of times on one GPU, from counters: of the sparse product at each density, and of the dense one."""

    gpu: str
    densities: tuple[float, ...]
    sparse_ms: tuple[float, ...]
    dense_ms: float

    @property
    def density(self) -> float | None:
        """Where the two cross, between two densities on a line; None where they do not."""
        above = [k for k, time in enumerate(self.sparse_ms) if time > self.dense_ms]
        if not above or not above[0]:
            return None
        last, first = above[0] - 1, above[0]
        return float(np.interp(self.dense_ms, self.sparse_ms[last : first + 1], self.densities[last : first + 1]))

    @property
    def told(self) -> str:
        """What the bound says, in a sentence; and where the two do not cross, that."""
        if self.density is not None:
            return f"Sparse and dense are equally fast at density {self.density:.2g}, by the bound from your counters."
        return "Sparse and dense do not cross here: one of the steps is not solved yet, or one is always faster."


def crossover(
    sparse_step: str, dense_step: str, densities: Sequence[float], *, n: int = 256, gpu: str = model.DEFAULT_GPU
) -> Crossover:
    """Run the student's own sparse product at several densities, and the own dense one, n x n x n, on the simulator."""
    dense = Program(own_contract(dense_step), device="sim")
    sizes = {"M": n, "N": n, "K": n}
    dense_ms = _bound(dense.run(sizes, random_inputs(dense.contract.bind(sizes))).counters, gpu)
    sparse = Program(own_contract(sparse_step), device="sim")
    b = np.ones((n, n), np.float32)
    times = []
    for density in densities:
        rng = np.random.default_rng(1)
        rows, cols = np.nonzero(rng.uniform(0, 1, (n, n)) < density)
        arrays = {
            "row_start": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int32),
            "column": cols.astype(np.int32), "value": np.ones(len(cols), np.float32), "B": b,
        }  # fmt: skip
        times.append(_bound(sparse.run({**sizes, "NNZ": len(cols)}, arrays).counters, gpu))
    return Crossover(model.find_gpu(gpu).name, tuple(densities), tuple(times), dense_ms)


def _bound(counters: Counters, gpu: str) -> float:
    """As if there were work for every SM: small cases would only show how small they are."""
    spec = model.find_gpu(gpu)
    return model.estimate(Counters({**counters.plain(), "blocks": spec.sms}), gpu=spec).time_ms


# ---------------------------------------------------------------- the thesis's table


BATCHED = "lab05_work_per_thread/08_batched"
COLUMNS = ("stage 1", "stage 2", "stage 3", "stage 4", "cuBLAS")
GTX1080: dict[str, tuple[float, ...]] = {
    "time in ms": (1218, 29.7, 7.52, 5.365, 5.755),
    "share of the peak": (0.0032, 0.1294, 0.5822, 0.8545, 0.7358),
    "occupancy": (0.6, 0.3736, 0.2476, 0.246, 0.249),
    "DRAM read in GB/s": (89, 88.635, 44.627, 67.582, 59.123),
    "DRAM written in GB/s": (3.36, 9.49, 41.28, 56.16, 52.9),
    "instructions per clock": (0.05, 0.76, 2.835, 3.957, 3.54),
    "L2 hits of reads": (0.7709, 0.4547, 0.8656, 0.8505, 0.7193),
    "L2 read in GB/s": (387, 163, 329, 449, 211),
    "shared memory read in GB/s": (0, 1824, 3304, 2696, 1772),
    "shared memory written in GB/s": (0, 341, 330, 449, 318),
    "global load efficiency": (0.125, 1, 1, 1, 1),
    "global store efficiency": (0.1235, 0.98, 1, 1, 1),
}
"""metric -> the thesis's value for each of `COLUMNS`"""
_PRODUCT = {"M": 256, "N": 256, "K": 256}


@dataclass(frozen=True)
class Column:
    """Our figures for one kernel: metric -> value, None where nothing was recorded."""

    title: str
    values: Mapping[str, float | None]


def our_columns(*, course: Course | None = None) -> tuple[Column, ...]:
    """Return a column for each recorded run of 08_batched, and for the cuBLAS beside it; none without recorded runs."""
    course = course or Course.find()
    step = course.step(BATCHED)
    runs = [row for row in measured(course=course) if row.step == step.name]
    if not runs or step.solution is None:
        return ()
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    cost = cost_of(contract, {**_PRODUCT, "BATCH": 2, "SHARE": 2})
    columns = []
    for run in runs:
        use = next((use for use in cost.uses if _is_named(use.gpu, run.device)), None)
        held = use.occupancy.fraction if use and use.occupancy else None
        for who, values in (("08_batched", _ours(run, cost.counters, held)), (run.reference, _theirs(run))):
            counted = counted_by_nsight(course, run.device, who, run.note)
            known = {name: value for name, value in values.items() if value is not None}
            columns.append(Column(f"{who}, {run.note}", values | counted | known))
    return tuple(columns)


def counted_by_nsight(course: Course, device: str, who: str, note: str) -> dict[str, float | None]:
    """Return what Nsight Compute recorded of one kernel on one device: metric -> value; empty without a record."""
    for result in results("table6_*.json", course=course):
        for row in result["rows"]:
            if (result["device"], row["who"], row["note"]) == (device, who, note):
                return dict(row["values"])
    return {}


def _ours(run: Measured, two_products: Counters, occupancy: float | None) -> dict[str, float | None]:
    """Times are recorded; bytes are those of two products on the simulator, times half the batch."""
    per_second = run.sizes["BATCH"] / 2 / run.time_ms * 1e-6
    return dict.fromkeys(GTX1080) | {
        "time in ms": run.time_ms,
        "share of the peak": _share(run, run.rate),
        "occupancy": occupancy,
        "shared memory read in GB/s": two_products.shared_load_bytes * per_second,
        "shared memory written in GB/s": two_products.shared_store_bytes * per_second,
        "global load efficiency": two_products.global_load_efficiency,
        "global store efficiency": two_products.global_store_efficiency,
    }


def _theirs(run: Measured) -> dict[str, float | None]:
    """The reference was only timed."""
    time_ms = run.time_ms * run.ratio
    return dict.fromkeys(GTX1080) | {"time in ms": time_ms, "share of the peak": _share(run, run.reference_rate)}


def _share(run: Measured, tflops: float) -> float | None:
    """Of the single-precision peak of the GPU; None for one whose specification we do not have."""
    spec = next((spec for spec in model.GPUS.values() if _is_named(spec.name, run.device)), None)
    return tflops / spec.fp32_tflops if spec else None


def _is_named(gpu: str, device: str) -> bool:
    """Whether a driver's name of a device means this GPU."""
    return f" {gpu.removesuffix(' SXM')} " in f" {device} "


FORMATS: dict[str, Callable[[float], str]] = {
    name: (lambda value: f"{value:.1%}") for name in ("share of the peak", "occupancy", "L2 hits of reads")
} | {name: (lambda value: f"{value:.0%}") for name in ("global load efficiency", "global store efficiency")}
"""How a metric is written; the others as plain numbers."""


def text_of(metric: str, value: float | None) -> str:
    """A value as a cell of the table."""
    if value is None:
        return "not recorded"
    if metric in FORMATS:
        return FORMATS[metric](value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def table_six() -> Table:
    """Table 6 of the thesis, and beside it what was recorded of 08_batched; the latter only where results exist."""
    ours = our_columns()
    head = ["GTX 1080, 36 x 32 products", *COLUMNS, *(column.title for column in ours)]
    rows = [
        [metric, *(text_of(metric, v) for v in (*values, *(column.values[metric] for column in ours)))]
        for metric, values in GTX1080.items()
    ]
    note = "" if ours else "There are no recorded runs of our kernels in this course (benchmarks/results)."
    return small_table(head, rows, note)
