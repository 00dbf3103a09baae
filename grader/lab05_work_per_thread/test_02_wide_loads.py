"""What is graded in lab05_work_per_thread/02_wide_loads: C = A * B with 16-byte accesses."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_wide

FULL_TILES = [(32, 32, 32), (64, 128, 96), (96, 256, 32)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (33, 132, 36), (9, 35, 10), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
REUSE = 16  # how often an element from global memory must serve, at least; tiles of 32 x 128 reach 51


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A thread's column has become four columns. Which four, and which element of a float4 belongs to which?",
        "One float4 of tileA holds four steps of k: each of its elements is multiplied with another row of tileB.",
        "add_product(sum[w], a.x, tileB[k][x]); then a.y with row k + 1, a.z with k + 2, a.w with k + 3",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "A row of 33 floats does not start at a multiple of 16 bytes. Who takes care of that?",
        "load_quad and store_quad do, if they are told the matrix, its size and the first of the four places.",
        "tileA[m][quad] = load_quad(A, M, K, row0 + m, k0 + 4 * quad);  tileB[i][x] = load_quad(B, K, N, k0 + i, col)",
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
    "Global loads are 16 bytes wide",
    weight=2,
    hint=[
        "How many bytes does one lane bring with one load instruction?",
        "A float4 is one instruction if its address is a multiple of 16 bytes: both tiles are filled that way.",
        "load_quad for every four neighbours of A, and of B",
    ],
    counts="bytes that a warp asks for in one load, in each line, at M = N = K = 128: 512 from 32 lanes, at least "
    "three quarters of that; and in all at most a sixteenth of the naive kernel's bytes",
)
def test_wide_loads(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        kernel.within(run.counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
        require_wide(kernel, run, "global_load")


@criterion(
    "Global stores are 16 bytes wide",
    weight=1,
    hint=[
        "How many instructions store a thread's four neighbouring results?",
        "Four neighbours of a row of C are one float4.",
        "store_quad(C, M, N, row, col, sum[w])",
    ],
    counts="bytes that a warp writes in one store, in each line, at M = N = K = 128: at least three quarters of 512",
)
def test_wide_stores(kernel, rng):
    for m, n, k in COUNTED:
        require_wide(kernel, kernel.run(*check_product(kernel, rng, m, n, k)), "global_store")
