"""What is graded in lab03_coalescing/04_gemm_bt: C = A * Bt^T through tiles in shared memory."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers

FULL_TILES = [(32, 32, 32), (64, 32, 96), (32, 96, 64)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (64, 96, 160)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
REUSE = 16  # how often a loaded element must serve, at least: tiles of 16 reach it, and 32 are used here


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Bt[n][k] is B[k][n]. Which row of Bt does column n of C need?",
        "Both tiles are rows along k: row y of tileA belongs to row y of the block, row x of tileB to column x.",
        "load both; barrier; for k < TILE: sum += tileA[y][k] * tileB[x][k]; barrier",
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
        "Which element of Bt does a thread load, and which element of C does it compute? They have different guards.",
        "The thread that computes column blockIdx.x * TILE + x loads row blockIdx.x * TILE + y of Bt.",
        "tileB[y][x] = colB < N && k0 + x < K ? Bt[colB * K + k0 + x] : 0, where colB = blockIdx.x * TILE + y",
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
    "No excess sectors",
    weight=3,
    hint=[
        "Along which index of Bt are neighbours in memory? Is that the one that threadIdx.x chooses in your load?",
        "Lanes that load Bt[col][k] with col from threadIdx.x lie K floats apart.",
        "in both loads x goes along k: A[row * K + k0 + x] and Bt[colB * K + k0 + x]",
    ],
    counts="sectors of loads and stores beyond the fewest that hold the requested bytes, at M = N = K = 128",
)
def test_sectors(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_sectors(*check_product(kernel, rng, m, n, k))


@criterion(
    "A sixteenth of the naive loads",
    weight=1,
    hint=[
        "How often is one element of Bt loaded from global memory by your kernel?",
        "In the loop over k the operands come from shared memory; global memory is read to fill the tiles only.",
        "each thread loads one float of A and one of Bt per round, and a round serves TILE products",
    ],
    counts="bytes of global loads, at M = N = K = 128: at most the naive kernel's, 8 M N K, divided by 16",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        counters = run.counters
        kernel.within(counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
