"""Cases that many grader files share: run a kernel on random inputs and compare it with its float64 reference.

The `check_…` functions here return what `kernel.counters` and its like take:
`kernel.counters(*check_product(kernel, rng, 64, 64, 64))`. Those of the later labs return the whole `Case`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from warpschool.counters import Counters
from warpschool.grading.submission import Submission
from warpschool.harness.launcher import RunResult
from warpschool.nn import Convolution, convolve

Given = tuple[dict[str, Any], dict[str, np.ndarray]]
"""sizes and arrays"""
RACES = ("race", "divergent-barrier", "uninitialized")


@dataclass(frozen=True, eq=False)
class Case:
    """What a judged run was given, and what came of it."""

    kernel: Submission
    sizes: Mapping[str, Any]
    """integers, and floats where the kernel takes some"""
    arrays: Mapping[str, np.ndarray]
    run: RunResult

    def check(self, expected: Mapping[str, npt.ArrayLike], **tolerance: Any) -> Self:
        """Compare outputs with float64 references, as `Submission.check_against` does. Raises Judgement."""
        self.kernel.check_against(self.run, expected, **tolerance)
        return self

    @property
    def counters(self) -> Counters:
        return self.run.counters

    @property
    def operations(self) -> int:
        """Additions and multiplications of all threads, a multiply-add as two; doubles and halves too."""
        return self.counters.operations


def run_case(
    kernel: Submission, rng: np.random.Generator, sizes: Mapping[str, Any],
    constants: Mapping[str, int] | None = None, **given: np.ndarray,
) -> Case:  # fmt: skip
    """Run with constants that differ from the file's own only; arrays that are not given are random."""
    own = kernel.contract.declarations.constexpr_values({})
    changed = {name: value for name, value in (constants or {}).items() if own.get(name) != value}
    arrays = kernel.inputs(sizes, rng, constants=changed, **given)
    return Case(kernel, sizes, arrays, kernel.run(sizes, arrays, constants=changed))


def check_product(kernel: Submission, rng: np.random.Generator, m: int, n: int, k: int) -> Given:
    """C = A B for A [M,K] and either B [K,N] or Bt [N,K], as the kernel's header says. Raises Judgement."""
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    b = arrays["Bt"].T if "Bt" in arrays else arrays["B"]
    expected, scale = product_of(arrays["A"], b)
    kernel.check_against(kernel.run(sizes, arrays), {"C": expected}, k=k, scale=scale)
    return sizes, arrays


def product_of(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """A B in float64, and the sums of the magnitudes that are added up: where they cancel, little of them is left."""
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return left @ right, np.abs(left) @ np.abs(right)


def gemm_of(
    a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, alpha: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same of alpha A B + beta C; where beta is 0, C is not read, as in BLAS."""
    product, magnitudes = product_of(a, b)
    expected, scale = alpha * product, abs(alpha) * magnitudes
    if beta:
        added = beta * np.asarray(c, np.float64)
        expected, scale = expected + added, scale + np.abs(added)
    return expected, scale


def check_transpose(kernel: Submission, rng: np.random.Generator, m: int, n: int) -> Given:
    """At = A transposed, for A [M,N]. Raises Judgement."""
    sizes = {"M": m, "N": n}
    arrays = kernel.inputs(sizes, rng)
    kernel.check_against(kernel.run(sizes, arrays), {"At": arrays["A"].T})
    return sizes, arrays


def convolution(
    batch: int, channels: int, image: int | tuple[int, int], filters: int, window: int | tuple[int, int], *,
    stride: int = 1, pad: int = 0,
) -> Convolution:  # fmt: skip
    """A convolution in few words: one number stands for a square image or window."""
    height, width = image if isinstance(image, tuple) else (image, image)
    rows, cols = window if isinstance(window, tuple) else (window, window)
    return Convolution(
        batch=batch, channels=channels, height=height, width=width, filters=filters, rows=rows, cols=cols,
        stride=stride, pad=pad,
    )  # fmt: skip


def check_convolution(
    kernel: Submission, rng: np.random.Generator, problem: Convolution, *, constants: dict[str, int] | None = None
) -> Given:
    """y = x convolved with w. Raises Judgement."""
    arrays = kernel.inputs(problem.sizes, rng)
    expected = convolve(arrays["x"], arrays["w"], stride=problem.stride, pad=problem.pad)
    run = kernel.run(problem.sizes, arrays, constants=constants)
    kernel.check_against(run, {"y": expected}, k=problem.terms, scale=scale_of(arrays["x"], arrays["w"]))
    return problem.sizes, arrays


def scale_of(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What the magnitudes that a convolution adds up come to at most, for each filter of w [F,C,R,S]: [F,1,1]."""
    return np.abs(w.astype(np.float64)).sum(axis=(1, 2, 3))[:, None, None] * float(np.abs(x).max())


def check_no_race(kernel: Submission, rng: np.random.Generator, **sizes: int) -> None:
    """Raise Judgement for races, and for barriers and reads that go wrong in the same way; other hazards not judged."""
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
