"""What is graded in lab00_first_kernels/02_matrix_add: C = A + B."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

FULL_BLOCKS = [(64, 64), (32, 128), (128, 32)]
RAGGED = practice([(1, 1), (1, 100), (100, 1), (31, 33), (127, 65), (200, 182)])
ALIGNED = (64, 128)
COUNTED = practice([ALIGNED, (96, 64)], count=1)


def run_and_compare(kernel, rng, m, n):
    sizes = {"M": m, "N": n}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    kernel.check_against(run, {"C": arrays["A"].astype(np.float64) + arrays["B"]})
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Row-major: how far apart in memory are C[row][col] and C[row + 1][col]?",
        "y counts rows and x counts columns; a row holds N elements, not M.",
        "row from blockIdx.y and threadIdx.y, col from x;  C[row * N + col] = A[row * N + col] + B[row * N + col]",
    ],
)
def test_correct(kernel, rng):
    for m, n in FULL_BLOCKS:
        run_and_compare(kernel, rng, m, n)


@criterion(
    "Both guards",
    about="OOB",
    weight=2,
    hint=[
        "A block can reach past the last row, past the last column, or both.",
        "A column past N is the start of the next row: without its guard the kernel writes there.",
        "if (row < M && col < N) { ... }",
    ],
)
def test_guards(kernel, rng):
    for m, n in RAGGED:
        run_and_compare(kernel, rng, m, n)


@criterion(
    "No excess sectors",
    weight=2,
    hint=[
        "Lanes of a warp differ in threadIdx.x first. Do they run along a row or down a column in your kernel?",
        "Lanes that run down a column touch one sector each, 32 for a warp instead of 4.",
        "col = blockIdx.x * blockDim.x + threadIdx.x, and col is the index with factor 1",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at M = 64, N = 128",
)
def test_sectors(kernel, rng):
    for m, n in COUNTED:
        kernel.no_excess_sectors(*run_and_compare(kernel, rng, m, n))
