"""What is graded in lab05_work_per_thread/10_sparse: C = A * B with A in compressed rows."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

SHAPES = practice([(32, 128, 64, 0.1), (64, 256, 128, 0.5), (16, 128, 40, 1.0)])
RAGGED = practice([(1, 1, 1, 1.0), (31, 33, 17, 0.3), (5, 127, 65, 0.9), (33, 1, 40, 0.05), (7, 300, 100, 0.02)])
COUNTED = practice([(48, 128, 128, 64), (24, 384, 96, 40)], count=1)
"""M, N, K and the elements in each row of A where sectors are counted: with a multiple of 8 every row starts one"""


def compressed(a):
    """Row starts, columns and values of a matrix; a matrix of zeros keeps one of them."""
    rows, cols = np.nonzero(a) if a.any() else (np.array([0]), np.array([0]))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(a)))])
    return {"row_start": starts.astype(np.int32), "column": cols.astype(np.int32), "value": a[rows, cols]}


def run_and_compare(kernel, rng, a, n):
    (m, k), parts = a.shape, compressed(a)
    sizes = {"M": m, "N": n, "K": k, "NNZ": len(parts["value"])}
    arrays = kernel.inputs(sizes, rng, **parts)
    run = kernel.run(sizes, arrays)
    most = int(np.diff(parts["row_start"]).max())
    expected, scale = product_of(a, arrays["B"])
    kernel.check_against(run, {"C": expected}, k=max(1, most), scale=float(scale.max()))
    return sizes, arrays, run


def random_matrix(rng, m, k, density):
    return (rng.uniform(-1, 1, (m, k)) * (rng.uniform(0, 1, (m, k)) < density)).astype(np.float32)


def aligned_matrix(rng, m, k, elements):
    a = np.zeros((m, k), np.float32)
    for row in a:
        row[rng.permutation(k)[:elements]] = rng.uniform(0.5, 1, elements)
    return a


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Row m of A is made of the elements row_start[m] to row_start[m + 1]. Which rows of B do they need?",
        "Element e adds value[e] times row column[e] of B to row m of C.",
        "lanes load 32 elements; for i: k, a by shuffle from lane i; for j: sum[j] += a * B[k * N + col0 + 32 * j]",
    ],
)
def test_correct(kernel, rng):
    for m, n, k, density in SHAPES:
        run_and_compare(kernel, rng, random_matrix(rng, m, k, density), n)


@criterion(
    "Empty rows and ragged sizes",
    weight=2,
    hint=[
        "A row can have no element at all, or 33 of them. How many does the last turn of your loop have?",
        "In the last turn fewer than 32 elements are left: load none behind the end, add only those that are there.",
        "mine = min(start + lane, end - 1);  count = min(32, end - start)",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k, density in RAGGED:
        run_and_compare(kernel, rng, random_matrix(rng, m, k, density), n)
    run_and_compare(kernel, rng, np.zeros((3, 9), np.float32), 40)


@criterion(
    "Lanes stay together",
    weight=2,
    hint=[
        "Rows of A have different lengths. Can two lanes of one warp have different numbers of elements to add?",
        "If all lanes of a warp work on one row of A, they take the same branches, whatever the row holds.",
        "lanes lie along the columns of C; the loop over a row's elements is the same for all of them",
    ],
    counts="branches at which a warp's lanes part, with rows of different lengths, at M = 48, N = 128, K = 128 and at "
    "M = 24, N = 384, K = 96: none",
)
def test_divergence(kernel, rng):
    for m, n, k, _ in COUNTED:
        run = run_and_compare(kernel, rng, random_matrix(rng, m, k, rng.uniform(0.1, 0.4)), n)[2]
        line, worst = max(run.lines.items(), key=lambda item: item[1].divergent_branches)
        kernel.within(worst.divergent_branches, 0, "branches at which lanes part", line=line)


@criterion(
    "No excess sectors",
    weight=2,
    hint=[
        "32 lanes read B together. Do they read a row of it, or 32 places that the elements of A name?",
        "Lane and column of B grow together; the element of A is the same for all lanes.",
        "B[k * N + col0 + 32 * j], with col0 from the lane",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at M = 48, N = 128, K = 128 with 64 elements in "
    "each row of A, and at M = 24, N = 384, K = 96 with 40: none",
)
def test_sectors(kernel, rng):
    for m, n, k, elements in COUNTED:
        sizes, arrays, _ = run_and_compare(kernel, rng, aligned_matrix(rng, m, k, elements), n)
        kernel.no_excess_sectors(sizes, arrays)
