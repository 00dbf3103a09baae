"""Lab 05: sparse products against dense ones, and Table 6 of the thesis on VGG16 that labs 05, 09 and 13 follow.

The thesis multiplies 36 x 32 pairs of 256 x 256 matrices (36 positions of a Winograd tile, 32 images) on a GTX 1080, in
four stages and with cuBLAS. Nsight Compute's part of our columns comes from benchmarks/results/table6_*.json
(benchmarks/table6_ncu.py); what it did not record stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpschool import model
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.harness.launcher import Program, random_inputs
from warpschool.notebook.runs import is_accepted, own_contract
from warpschool.recorded import results
from warpschool.show.bar import watched
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
    inputs = random_inputs(dense.contract.bind(sizes))
    dense_ms = _bound(dense.run(sizes, inputs, check=not is_accepted(dense_step)).counters, gpu)
    sparse = Program(own_contract(sparse_step), device="sim")
    b, check = np.ones((n, n), np.float32), not is_accepted(sparse_step)
    times = []
    for density in watched(densities, "densities"):
        rng = np.random.default_rng(1)
        rows, cols = np.nonzero(rng.uniform(0, 1, (n, n)) < density)
        arrays = {
            "row_start": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int32),
            "column": cols.astype(np.int32), "value": np.ones(len(cols), np.float32), "B": b,
        }  # fmt: skip
        times.append(_bound(sparse.run({**sizes, "NNZ": len(cols)}, arrays, check=check).counters, gpu))
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


NOTES = ("U shared by 32 images", "U not shared")
"""The batches that are recorded: 32 images that meet the same filters, and products with nothing in common."""


def nsight(*, course: Course | None = None) -> dict[str, Any] | None:
    """What `benchmarks/table6_ncu.py` recorded; of several cards the one with the most kernels; None without one."""
    return max(results("table6_*.json", course=course), key=lambda one: len(one["rows"]), default=None)


def our_columns(*, course: Course | None = None) -> tuple[Column, ...]:
    """Return a column for each recorded kernel: stages 1 to 3, 08_batched, cuBLAS; none without a record.

    Every figure is Nsight Compute's, of one launch: times are longer than outside of it, where clocks rise higher.
    """
    found = nsight(course=course)
    if found is None:
        return ()
    flop = 2.0 * found["batch"] * found["size"] ** 3
    return tuple(
        Column(f"{row['who']}, {row['note']}", dict.fromkeys(GTX1080) | row["values"] | {
            "time in ms": row["time_ms"],
            "share of the peak": _share(found["device"], flop / row["time_ms"] * 1e-9),
        })
        for note in NOTES for row in found["rows"] if row["note"] == note
    )  # fmt: skip


def _share(device: str, tflops: float) -> float | None:
    """Of the single-precision peak of the GPU; None for one whose specification we do not have."""
    spec = next((spec for spec in model.GPUS.values() if _is_named(spec.name, device)), None)
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
    found = nsight()
    note = f"Ours and cuBLAS: {found['device']}, all by Nsight Compute." if found else "There are no recorded runs."
    return small_table(head, rows, note)
