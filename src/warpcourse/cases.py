"""Cases that many grader files share: run a product or a transpose on random inputs and compare it with NumPy's.

Each returns what `kernel.counters` and its like take: `kernel.counters(*check_product(kernel, rng, 64, 64, 64))`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpschool.grading.submission import Submission
from warpschool.nn import Convolution, convolve

Case = tuple[dict[str, Any], dict[str, np.ndarray]]
"""sizes and arrays"""
RACES = ("race", "divergent-barrier", "uninitialized")


def check_product(kernel: Submission, rng: np.random.Generator, m: int, n: int, k: int) -> Case:
    """C = A B for A [M,K] and either B [K,N] or Bt [N,K], as the kernel's header says. Raises Judgement."""
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    b = arrays["Bt"].T if "Bt" in arrays else arrays["B"]
    kernel.check_against(kernel.run(sizes, arrays), {"C": arrays["A"].astype(np.float64) @ b}, k=k)
    return sizes, arrays


def check_transpose(kernel: Submission, rng: np.random.Generator, m: int, n: int) -> Case:
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
) -> Case:
    """y = x convolved with w. Raises Judgement."""
    arrays = kernel.inputs(problem.sizes, rng)
    expected = convolve(arrays["x"], arrays["w"], stride=problem.stride, pad=problem.pad)
    run = kernel.run(problem.sizes, arrays, constants=constants)
    kernel.check_against(run, {"y": expected}, k=problem.terms)
    return problem.sizes, arrays


def check_no_race(kernel: Submission, rng: np.random.Generator, **sizes: int) -> None:
    """Raise Judgement for races, and for barriers and reads that go wrong in the same way; other hazards not judged."""
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
