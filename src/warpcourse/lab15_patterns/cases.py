"""Cases of lab 15: inputs that make a pattern's weak place show, and counts that several of its graders hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxsim.limits import WARP
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult

SPAN = 512
"""Elements of one scan in steps 02 and 03."""


def segments(rng: np.random.Generator, n: int, count: int) -> npt.NDArray[np.uint32]:
    """Segment numbers of n elements, ascending below `count`: many short segments, some long, perhaps empty ones."""
    cuts = np.sort((n * rng.uniform(0, 1, count - 1) ** 2).astype(np.int64))
    return np.searchsorted(cuts, np.arange(n), side="right").astype(np.uint32)


def atomic_lanes(run: RunResult, space: str) -> int:
    """Lanes that execute atomics on "global" or "shared" memory, all launches together."""
    return int(run.counters[f"{space}_atomic_lanes"])


def scanned(x: np.ndarray, span: int = SPAN) -> npt.NDArray[np.float64]:
    """Inclusive sums of a vector, begun anew every `span` elements, in float64."""
    padded = np.zeros(-(-x.size // span) * span)
    padded[: x.size] = x
    return padded.reshape(-1, span).cumsum(axis=1).ravel()[: x.size]


def check_scan(
    kernel: Submission, rng: np.random.Generator, n: int
) -> tuple[dict[str, int], dict[str, np.ndarray], RunResult]:
    """Scans of `SPAN` elements each. Raises Judgement."""
    sizes = {"n": n}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    kernel.check_against(run, {"y": scanned(arrays["x"])}, k=SPAN, scale=scanned(abs(arrays["x"])))
    return sizes, arrays, run


def require_additions(kernel: Submission, run: RunResult, *, each: float, by_warps: int, idle: int) -> None:
    """Raise Judgement (PERF) for more additions than the step allows; doubles and halves count, too.

    `each`: additions for each element; `by_warps` and `idle`: arithmetic instructions of warps, and lanes that rest in
    them, for each `SPAN` elements. Fewer than one addition for (nearly) each element cannot have scanned anything.
    """
    counters, n = run.counters, run.outputs["y"].size
    kinds = ("fp32", "fp64", "fp16")
    warps = sum(counters[f"instructions_{kind}"] for kind in kinds)
    lanes = sum(counters[f"thread_instructions_{kind}"] for kind in kinds)
    spans = -(-n // SPAN)
    kernel.at_least(counters.operations, n - spans, "additions")
    kernel.within(counters.operations / n, each, "additions for each element")
    kernel.within(warps, by_warps * spans, "arithmetic instructions of warps")
    kernel.within(WARP * warps - lanes, idle * spans, "lanes that rest in arithmetic")


def require_few_conflicts(kernel: Submission, run: RunResult, *, each: int) -> None:
    """Raise Judgement (PERF) for more extra passes of shared memory than `each` for each `SPAN` elements."""
    spans = -(-run.outputs["y"].size // SPAN)
    kernel.within(run.counters.shared_bank_conflicts, each * spans, "extra passes of shared memory")
