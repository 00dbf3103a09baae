"""What is graded in lab01_naive_gemm/02_alpha_beta: D = alpha * A * B + beta * C."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import gemm_of
from warpschool.grading import criterion, practice

SHAPES = practice([(32, 32, 32), (31, 33, 17), (1, 1, 1), (200, 182, 130)])
ALIGNED = (64, 64, 64)
COUNTED = practice([ALIGNED, (32, 96, 48)], count=1)


def factor(rng):
    """Another one in every case; a sixteenth is exact."""
    return int(rng.integers(8, 40)) / 16


def run_and_compare(kernel, rng, m, n, k, alpha, beta, **given):
    sizes = {"M": m, "N": n, "K": k, "alpha": alpha, "beta": beta}
    arrays = kernel.inputs(sizes, rng, **given)
    run = kernel.run(sizes, arrays)
    expected, scale = gemm_of(arrays["A"], arrays["B"], arrays["C"], alpha, beta)
    kernel.check_against(run, {"D": expected}, k=k + 1, scale=scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Put alpha = 1 and beta = 0: what is left? Then alpha = 0 and beta = 1.",
        "alpha multiplies the finished sum once; C is read at the element that is written to D.",
        "D[row * N + col] = alpha * sum + beta * C[row * N + col]",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in SHAPES:
        run_and_compare(kernel, rng, m, n, k, alpha=factor(rng), beta=-factor(rng))
        run_and_compare(kernel, rng, m, n, k, alpha=0.0, beta=factor(rng))


@criterion(
    "beta = 0 does not read C",
    weight=1,
    hint=[
        "What is 0 times NaN?",
        "BLAS promises that C is not read when beta is 0, so that fresh memory may be passed.",
        "result = alpha * sum;  if (beta != 0) result += beta * C[...]",
    ],
)
def test_beta_zero(kernel, rng):
    for m, n, k in SHAPES:
        run_and_compare(kernel, rng, m, n, k, alpha=factor(rng), beta=0.0, C=np.full((m, n), np.nan, np.float32))


@criterion(
    "One pass over C and D",
    weight=1,
    hint=[
        "How often does your kernel touch C and D for one element?",
        "Inside the loop over k nothing but A and B is loaded.",
        "loop over k; then one load of C, one store to D",
    ],
    counts="requested bytes, at M = N = K = 64: 2 K + 1 floats loaded and one stored for each element of D",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*run_and_compare(kernel, rng, m, n, k, alpha=factor(rng), beta=-factor(rng)))
        kernel.within(counters.global_load_bytes, m * n * (2 * k + 1) * 4, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, m * n * 4, "bytes of global stores", unit="bytes")
