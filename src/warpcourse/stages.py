"""Lab 05's tables: a student's own kernels side by side, changed in their text, and against recorded figures.

What a device cannot measure stays None and is shown as "not measured"; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warpcourse import thesis
from warpcourse.ladder import StepCost, code_size, cost_of
from warpschool import model
from warpschool.contract import Contract, parse_contract
from warpschool.counters import Counters
from warpschool.device import get_device
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.timing import benchmark
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

_HEAD = (
    "FMA share", "global bytes", "shared bytes", "passes", "barriers", "registers", "spilled bytes", "occupancy",
    "PTX instructions", "ms",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One kernel: its counts at a case, the PTX instructions of its code, and its time where one was measured."""

    name: str
    cost: StepCost
    instructions: int
    time_ms: float | None


@dataclass(frozen=True, repr=False)
class Stages(Table):
    """A table of kernels; `stages` holds the rows."""

    stages: tuple[Stage, ...] = ()

    @classmethod
    def on(cls, gpu: str, stages: Sequence[Stage]) -> Stages:
        """Registers and occupancy are those on this GPU."""
        name = model.find_gpu(gpu).name
        note = f"Bytes and passes for each product, barriers for each block; registers and occupancy on {name}."
        made = cls.of("", ["", *_HEAD], [_cells(stage, gpu) for stage in stages], note=note)
        return replace(made, stages=tuple(stages))

    @property
    def mixes(self) -> dict[str, Mapping[str, float]]:
        """Name -> the instruction mix of the main loop."""
        return {stage.name: stage.cost.mix for stage in self.stages}


def compare(
    steps: Sequence[str], sizes: Mapping[str, int] | None = None, *, timed_sizes: Mapping[str, int] | None = None,
    gpu: str = "rtx2080ti",
) -> Stages:  # fmt: skip
    """Put the student's own kernels of some steps side by side; times at `timed_sizes`, where there is a GPU."""
    return Stages.on(gpu, [_stage(step.split("/")[-1], own_contract(step), sizes, timed_sizes) for step in steps])


def variants(
    step: str, changes: Mapping[str, Mapping[str, str]], sizes: Mapping[str, int] | None = None, *,
    timed_sizes: Mapping[str, int] | None = None, gpu: str = "rtx2080ti",
) -> Stages:  # fmt: skip
    """Change the text of the student's own kernel: `changes` maps a label to what replaces what.

    A label whose text does not stand in the kernel says so.
    """
    original = own_contract(step)
    stages = []
    for label, replaced in changes.items():
        source = original.source
        for old, new in replaced.items():
            if old not in source:
                label = f"{label} (no '{old}' in your kernel)"
            source = source.replace(old, new)
        stages.append(_stage(label, parse_contract(source, name=original.name), sizes, timed_sizes))
    return Stages.on(gpu, stages)


def _stage(
    name: str, contract: Contract, sizes: Mapping[str, int] | None, timed_sizes: Mapping[str, int] | None
) -> Stage:
    return Stage(name, cost_of(contract, sizes), code_size(contract), _time_ms(contract, timed_sizes))


def _time_ms(contract: Contract, sizes: Mapping[str, int] | None) -> float | None:
    if sizes is None or not get_device("auto").measures_time:
        return None
    launches = Program(contract, device="gpu").run(sizes, random_inputs(contract.bind(sizes))).launches
    return benchmark(lambda: [launch.again() for launch in launches]).median_ms


def _cells(stage: Stage, gpu: str) -> list[str]:
    cost, counted, products = stage.cost, stage.cost.counters, stage.cost.products
    use = cost.use(gpu)
    registers = spilled = occupancy = use.note
    if use.resources is not None:
        registers = str(use.resources.registers)
        spilled = f"{use.resources.spill_load_bytes + use.resources.spill_store_bytes:,}"
        occupancy = f"{use.occupancy.fraction:.0%}" if use.occupancy else "does not fit"
    return [
        stage.name, f"{cost.mix['FMA']:.0%}", f"{counted.global_load_bytes / products:.3g}",
        f"{counted.shared_load_bytes / products:.3g}", f"{32 * counted.shared_load_wavefronts / products:.3g}",
        f"{cost.barriers_per_block:g}", registers, spilled, occupancy, f"{stage.instructions:,}",
        "not measured" if stage.time_ms is None else f"{stage.time_ms:.3g}",
    ]  # fmt: skip


# ---------------------------------------------------------------- sparse against dense


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


def table_six() -> Table:
    """Table 6 of the thesis, and beside it what was recorded of 08_batched; the latter only where results exist."""
    ours = thesis.our_columns()
    head = ["GTX 1080, 36 x 32 products", *thesis.COLUMNS, *(column.title for column in ours)]
    rows = [
        [metric, *(thesis.text_of(metric, v) for v in (*values, *(column.values[metric] for column in ours)))]
        for metric, values in thesis.GTX1080.items()
    ]
    note = "" if ours else "There are no recorded runs of our kernels in this course (benchmarks/results)."
    return small_table(head, rows, note)
