"""What the grader files of the split channels' lab share: a convolution with filters [C,R,S,F], and what tiles promise.

Budgets follow the file's own tiles: a kernel may choose others, as long as its threads keep enough in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from warpcourse.cases import Case, scale_of
from warpcourse.lab12_split_channels import tiles
from warpcourse.lab12_split_channels.tiles import Tiles, block_loads, is_flat, thread_intensity
from warpschool.grading.budgets import require_products
from warpschool.grading.submission import Submission
from warpschool.nn import Convolution, convolve

SLACK = 1.1
"""PTX loads are within a tenth of the formula's."""


@dataclass(frozen=True, eq=False)
class SplitCase(Case):
    """A judged convolution."""

    problem: Convolution


def check_split(
    kernel: Submission, rng: np.random.Generator, problem: Convolution, *, constants: Mapping[str, int] | None = None
) -> SplitCase:
    """y = x convolved with w, the filters stored as [C,R,S,F]. Raises Judgement."""
    arrays = kernel.inputs(problem.sizes, rng, constants=constants)
    filters = arrays["w"].transpose(3, 0, 1, 2)
    expected = convolve(arrays["x"], filters, stride=problem.stride, pad=problem.pad)
    run = kernel.run(problem.sizes, arrays, constants=constants)
    case = SplitCase(kernel, problem.sizes, arrays, run, problem)
    return case.check({"y": expected}, k=problem.terms, scale=scale_of(arrays["x"], filters))


def tiles_of(kernel: Submission, problem: Convolution) -> Tiles:
    """The tiles that the submitted file describes."""
    return tiles.tiles_of(kernel.contract, flat=is_flat(problem))


def require_thread_loads(kernel: Submission, case: SplitCase, least: float) -> None:
    """A thread's loads are those of figure 4.6 at its own tiles, which must reach `least` multiply-adds for a load."""
    promised = thread_intensity(tiles_of(kernel, case.problem), case.problem)
    kernel.at_least(promised, least, "multiply-adds for each load, by the formula at the file's tiles")
    counters = case.counters
    require_products(kernel, case.run, case.problem.products)
    loads = counters.shared_load_bytes or counters.global_load_bytes
    where = "shared" if counters.shared_load_bytes else "global"
    limit = SLACK * 4 * case.problem.products / promised
    kernel.within(loads, limit, f"bytes that threads load from {where} memory", unit="bytes")


def require_block_loads(kernel: Submission, case: SplitCase, *, lane_groups: int = 1) -> None:
    """A block's loads from global memory are those of figure 5.2 at its own tiles.

    `lane_groups`: how many groups of lanes a warp has, each with channels of its own; so many fewer filters it covers.
    """
    own = tiles_of(kernel, case.problem)
    image, weights = block_loads(own, case.problem)
    products = case.problem.rows * case.problem.cols * own.places * own.block_filters
    promised = products / lane_groups / (image + weights / lane_groups)
    partial = case.run.launches[0].counters
    limit = SLACK * 4 * case.problem.products / promised
    kernel.within(partial.global_load_bytes, limit, "bytes that blocks load from global memory", unit="bytes")


def require_parts(kernel: Submission, case: SplitCase, least: int = 2) -> None:
    """Sums are made of parts: there are several times as many sums in registers, by the file's tiles, as results."""
    first = case.run.launches[0]
    sums = first.blocks * first.threads_per_block * tiles_of(kernel, case.problem).sums
    kernel.at_least(sums // case.run.outputs["y"].size, least, "parts of each sum")


def require_no_local_memory(kernel: Submission, case: SplitCase) -> None:
    """Raise Judgement (PERF) for arrays that the compiler puts into local memory, which is global memory (C 4.4)."""
    counters = case.counters
    requests = counters.local_load_requests + counters.local_store_requests
    kernel.within(requests, 0, "requests to local memory")
