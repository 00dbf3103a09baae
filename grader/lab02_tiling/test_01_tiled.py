"""What is graded in lab02_tiling/01_tiled: C = A * B through tiles in shared memory."""

from __future__ import annotations

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers

FULL_TILES = [(32, 32, 32), (64, 32, 96), (32, 96, 64)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (64, 96, 160)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
TILE = 16


def run_and_compare(kernel, rng, m, n, k):
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    expected, scale = product_of(arrays["A"], arrays["B"])
    kernel.check_against(run, {"C": expected}, k=k, scale=scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "In the first round a block needs a tile of A and a tile of B. Which rows and columns are they?",
        "Thread (x, y) loads A[row][k0 + x] and B[k0 + y][col], and then uses row y of tile A, column x of tile B.",
        "load both; barrier; for k < TILE: sum += tileA[y][k] * tileB[k][x]; barrier",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        run_and_compare(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "K = 17 needs two rounds of 16. What do the tiles hold in the second one?",
        "Past the edge of A or B a tile holds zeros. Every thread fills its place, with or without an element of C.",
        "tileA[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        run_and_compare(kernel, rng, m, n, k)


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
    sizes = dict(zip("MNK", ALIGNED, strict=True))
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=("race", "divergent-barrier", "uninitialized"))
    run_and_compare(kernel, rng, *ALIGNED)


@criterion(
    "A sixteenth of the naive loads",
    weight=2,
    hint=[
        "How often is one element of A loaded from global memory, in the naive kernel and in yours?",
        "In the loop over k the operands come from shared memory; global memory is read to fill the tiles only.",
        "each thread loads one float of A and one of B per round, and a round serves TILE products",
    ],
    counts="bytes of global loads, at M = N = K = 128: at most the naive kernel's, 8 M N K, divided by 16",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*run_and_compare(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        counters = run.counters
        kernel.within(counters.global_load_bytes, 8 * m * n * k // TILE, "bytes of global loads", unit="bytes")
