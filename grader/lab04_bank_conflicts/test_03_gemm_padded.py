"""What is graded in lab04_bank_conflicts/03_gemm_padded: C = A * Bt^T, pairs of floats and no bank conflicts."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers

FULL_TILES = [(32, 32, 32), (64, 32, 96), (32, 96, 64)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (64, 96, 160)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
WARP = 32
MOST_LOADS = 1.75


@criterion(
    "Right answers",
    weight=2,
    hint=[
        "A pair at k holds the elements k and k + 1. Which two products does it stand for?",
        "k grows by 2; both halves of both pairs are used.",
        "a = pair k of row y of tileA, b = pair k of row x of tileB: sum += a.x * b.x; sum += a.y * b.y",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=1,
    hint=[
        "With K = 17 the second pair reaches past the end of a row. What does the tile hold there?",
        "The tiles are filled with zeros past the edge, so the loop over k need not know.",
        "the loop over pairs always runs over the whole tile",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        check_product(kernel, rng, m, n, k)


@criterion(
    "No race",
    about="RACE",
    weight=1,
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
    "No bank conflicts",
    weight=3,
    hint=[
        "A 64-bit load serves 16 lanes at a time. In which banks do the pairs of 16 neighbouring rows lie?",
        "Rows of TILE floats put all pairs of a column into the same two banks. One unused pair at the end moves them.",
        "PAD = 2: TILE + 1 would leave every other pair without its alignment",
    ],
    counts="wavefronts of shared loads and stores beyond the fewest, at M = N = K = 128: none",
)
def test_wavefronts(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_wavefronts(*check_product(kernel, rng, m, n, k))


@criterion(
    "One shared load for each FMA",
    weight=2,
    hint=[
        "How many loads from shared memory does one FMA need if every load brings one float?",
        "A float2 brings two steps of k: two loads, two FMAs.",
        "a load of float2 from each tile for every second k",
    ],
    counts="loads from shared memory for each of the M N K products, at M = N = K = 128: a float2 brings two, so one "
    "is enough; at most 1.75, since the compiler takes some pairs apart where it unrolls; single floats have two. How "
    "the products are added is free; barriers for each block: two for every 8 steps of k, and two more",
)
def test_wide(kernel, rng):
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        run = kernel.run(*case)
        kernel.at_least(run.counters.shared_load_bytes, 1, "bytes of shared loads", unit="bytes")
        loads = WARP * kernel.shared_loads(*case) / (m * n * k)
        kernel.within(loads, MOST_LOADS, "shared loads for each product")
        require_barriers(kernel, run, k / SHORTEST)


@criterion(
    "No excess sectors",
    weight=1,
    hint=[
        "Conflicts can be avoided by loading the tiles in another order, but then global memory pays for it.",
        "In both loads x goes along k.",
        "the global accesses stay as they are in lab03_coalescing/04_gemm_bt",
    ],
    counts="sectors of loads and stores beyond the fewest that hold the requested bytes, at M = N = K = 128",
)
def test_sectors(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_sectors(*check_product(kernel, rng, m, n, k))
