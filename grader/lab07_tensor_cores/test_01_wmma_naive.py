"""What is graded in lab07_tensor_cores/01_wmma_naive: D = alpha * A * B + beta * C, a warp for each tile of 16 x 16."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import gemm_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products

SHAPES = practice([(16, 16, 16), (64, 32, 48), (80, 112, 16), (16, 160, 96)])
LONG = practice([(272, 16, 16), (16, 288, 16)], count=1)  # rows and columns that no byte counts
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (64, 160, 96)], count=1)


def eighths(rng, first, last):
    """A factor that is exact as a half: a multiple of 1/8 from `first` to `last`."""
    return float(rng.integers(round(8 * first), round(8 * last) + 1)) / 8


def run_and_compare(kernel, rng, m, n, k, *, alpha=1.0, beta=0.0, **given):
    sizes = {"M": m, "N": n, "K": k, "alpha": alpha, "beta": beta}
    arrays = kernel.inputs(sizes, rng, **given)
    run = kernel.run(sizes, arrays)
    expected, scale = gemm_of(arrays["A"], arrays["B"], arrays["C"], alpha, beta)
    kernel.check_against(run, {"D": expected}, k=k + 2, scale=scale)  # two more roundings: by alpha and by beta
    return run


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A warp computes 16 x 16 elements. Which 16 rows of A and which 16 columns of B does it need at step k?",
        "A's fragment begins at (row, k), in rows of K elements; B's at (k, col), in rows of N.",
        "load_matrix_sync(a, A + row * K + k, K); load_matrix_sync(b, B + k * N + col, N); mma_sync(sum, a, b, sum)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in (*SHAPES, *LONG):
        run_and_compare(kernel, rng, m, n, k)


@criterion(
    "alpha and beta",
    weight=2,
    hint=[
        "Nobody says which lane holds which element of sum. Why may you still combine it with a fragment of C?",
        "Fragments of one kind lie in the lanes alike: x[i] of both is the same element. With beta = 0 C is not read.",
        "if (beta != 0) load result from C; for i < num_elements: result.x[i] = alpha * sum.x[i] + beta * result.x[i]",
    ],
)
def test_alpha_beta(kernel, rng):
    run_and_compare(kernel, rng, 64, 32, 48, alpha=-eighths(rng, 1.125, 2), beta=eighths(rng, 0.125, 0.875))
    run_and_compare(kernel, rng, 32, 48, 16, alpha=0.0, beta=eighths(rng, 1.125, 2))
    nothing = np.full((32, 32), np.nan, np.float32)
    run_and_compare(kernel, rng, 32, 32, 32, alpha=eighths(rng, 1.125, 2), beta=0.0, C=nothing)


@criterion(
    "Every product on tensor cores",
    weight=3,
    hint=[
        "How many products does one mma_sync make, and how many does the kernel need?",
        "16 x 16 x 16 = 4096 each: K / 16 of them for every tile of D; lanes multiply by alpha and beta only.",
        "for (k = 0; k < K; k += 16) { load a; load b; mma_sync }",
    ],
    counts="operations of tensor cores, at M = N = K = 128: exactly 2 M N K; multiply-adds of threads: at most M N",
)
def test_tensor(kernel, rng):
    for m, n, k in COUNTED:
        factors = {"alpha": eighths(rng, 1.125, 2), "beta": eighths(rng, 0.125, 0.875)}
        counters = run_and_compare(kernel, rng, m, n, k, **factors).counters
        kernel.within(counters.multiplications, 2 * m * n, "products of threads, by alpha and beta")
        require_tensor_products(kernel, run_and_compare(kernel, rng, m, n, k), 2 * m * n * k, exactly=True)


@criterion(
    "Two fragments for each product",
    weight=1,
    hint=[
        "How many bytes are two fragments of 16 x 16 halves?",
        "1024 for 4096 products, a quarter of a byte each. Which fragment do you load more often than once?",
        "one load of a and one of b for each k",
    ],
    counts="bytes of global loads, at M = N = K = 128: at most M N K / 4, and 4 M N for C",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = run_and_compare(kernel, rng, m, n, k, beta=eighths(rng, 0.125, 0.875)).counters
        kernel.within(counters.global_load_bytes, m * n * k // 4 + 4 * m * n, "bytes of global loads", unit="bytes")
