"""What is graded in lab05_work_per_thread/01_coarsened: C = A * B with several results per thread."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers

FULL_TILES = [(32, 32, 32), (64, 128, 96), (96, 256, 32)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (33, 132, 36), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
WPT = 8
REUSE = 16  # how often an element from global memory must serve, at least; tiles of 32 reach 32


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A thread computes WPT elements of one column. Which rows are they, for thread (x, y)?",
        "Rows y, y + RTS, y + 2 * RTS, ... of the tile: in the loads, in the sums and in the results.",
        "for k: b = tileB[k][x]; for w: sum[w] += tileA[y + w * RTS][k] * b",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    about="OOB",
    weight=2,
    hint=[
        "The block's threads load the whole tile in several rounds. Does each round have its own guard?",
        "Row and k of every single element are compared with M, N and K; the place in the tile is filled in any case.",
        "tileA[i][x] = row0 + i < M && k0 + x < K ? A[(row0 + i) * K + k0 + x] : 0",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        check_product(kernel, rng, m, n, k)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A tile has two dangers: somebody reads it before it is full, and somebody fills it while it is still read.",
        "Two barriers in each round: one after the loads, one after the products.",
        "load; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MNK", ALIGNED, strict=True)))
    check_product(kernel, rng, *ALIGNED)


@criterion(
    "Shared memory is read less",
    weight=3,
    hint=[
        "Which of the two factors of sum[w] += ... stays the same while w counts?",
        "Read the element of tileB once for each k and keep it in a register for all WPT sums.",
        "for k: { b = tileB[k][x]; for w < WPT: sum[w] += tileA[y + w * RTS][k] * b }",
    ],
    counts="bytes of shared loads for each of the M N K products, at M = N = K = 128: at most 4 (WPT + 1) / WPT = 4.5; "
    "and bytes of global loads: at most a sixteenth of the naive kernel's",
)
def test_shared_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        counters = run.counters
        kernel.within(counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
        per_product = counters.shared_load_bytes / (m * n * k)
        kernel.within(per_product, 4 * (WPT + 1) / WPT, "bytes of shared loads for each product")
