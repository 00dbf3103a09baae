"""What the grader files of the split channels' lab share: a convolution with filters [C,R,S,F], and what tiles promise.

Budgets follow the file's own tiles: a kernel may choose others, as long as its threads keep enough in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from warpschool.counters import Counters
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult
from warpschool.nn import Convolution, convolve
from warpschool.nn.split_channels import Tiles, block_loads, is_flat, thread_intensity

SLACK = 1.1
"""PTX loads are within a tenth of the formula's."""


@dataclass(frozen=True, eq=False)
class Case:
    """One judged run: what it was given, and what came of it."""

    problem: Convolution
    arrays: Mapping[str, np.ndarray]
    run: RunResult

    @property
    def sizes(self) -> dict[str, int]:
        return self.problem.sizes

    @property
    def counters(self) -> Counters:
        return self.run.counters


def check_split(
    kernel: Submission, rng: np.random.Generator, problem: Convolution, *, constants: Mapping[str, int] | None = None
) -> Case:
    """y = x convolved with w, the filters stored as [C,R,S,F]. Raises Judgement."""
    arrays = kernel.inputs(problem.sizes, rng, constants=constants)
    filters = arrays["w"].transpose(3, 0, 1, 2)
    expected = convolve(arrays["x"], filters, stride=problem.stride, pad=problem.pad)
    run = kernel.run(problem.sizes, arrays, constants=constants)
    kernel.check_against(run, {"y": expected}, k=problem.terms)
    return Case(problem, arrays, run)


def tiles_of(kernel: Submission, problem: Convolution) -> Tiles:
    """The tiles that the file's constants describe; those that it does not name count as 1."""
    values = kernel.contract.declarations.constexpr_values({})

    def named(*names: str) -> int:
        return next((values[name] for name in names if name in values), 1)

    flat = is_flat(problem)
    return Tiles(
        filters=named("TK"), rows=1 if flat else named("TH"), cols=named("TP") if flat else named("TW"),
        warp_rows=1 if flat else named("BH"), warp_cols=named("BP") if flat else named("BW"), groups=named("BC"),
        splits=named("SPLITS"), step=named("STEP"), stages=named("STAGES"),
    )  # fmt: skip


def require_thread_loads(kernel: Submission, case: Case, least: float) -> None:
    """A thread's loads are those of figure 4.6 at its own tiles, which must reach `least` multiply-adds for a load."""
    promised = thread_intensity(tiles_of(kernel, case.problem), case.problem)
    kernel.at_least(promised, least, "multiply-adds for each load, by the formula at the file's tiles")
    counters = case.counters
    kernel.at_least(counters.fma_instructions, case.problem.products, "multiply-adds")
    loads = counters.shared_load_bytes or counters.global_load_bytes
    where = "shared" if counters.shared_load_bytes else "global"
    limit = SLACK * 4 * counters.fma_instructions / promised
    kernel.within(loads, limit, f"bytes that threads load from {where} memory", unit="bytes")


def require_block_loads(kernel: Submission, case: Case, *, lane_groups: int = 1) -> None:
    """A block's loads from global memory are those of figure 5.2 at its own tiles.

    `lane_groups`: how many groups of lanes a warp has, each with channels of its own; so many fewer filters it covers.
    """
    tiles = tiles_of(kernel, case.problem)
    image, weights = block_loads(tiles, case.problem)
    products = case.problem.rows * case.problem.cols * tiles.places * tiles.block_filters
    promised = products / lane_groups / (image + weights / lane_groups)
    partial = case.run.launches[0].counters
    limit = SLACK * 4 * partial.fma_instructions / promised
    kernel.within(partial.global_load_bytes, limit, "bytes that blocks load from global memory", unit="bytes")


def require_parts(kernel: Submission, case: Case, least: int = 2) -> None:
    """Sums are made of parts: there are several times as many sums in registers, by the file's tiles, as results."""
    first = case.run.launches[0]
    sums = first.blocks * first.threads_per_block * tiles_of(kernel, case.problem).sums
    kernel.at_least(sums // case.run.outputs["y"].size, least, "parts of each sum")


def require_no_local_memory(kernel: Submission, case: Case) -> None:
    """Raise Judgement (PERF) for arrays that the compiler puts into local memory, which is global memory (C 4.4)."""
    counters = case.counters
    requests = counters.local_load_requests + counters.local_store_requests
    kernel.within(requests, 0, "requests to local memory")
