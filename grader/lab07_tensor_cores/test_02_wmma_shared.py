"""What is graded in lab07_tensor_cores/02_wmma_shared: C = A * B on tensor cores, from tiles in shared memory."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products

FULL_TILES = [(128, 128, 64), (128, 256, 64)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (17, 40, 72), (130, 136, 24)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (256, 128, 192)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which 16 rows of tileA does fragment i of a warp hold, and which 16 columns of tileB fragment j?",
        "Rows y + 16 i at step k, columns x + 16 j; every a[i] meets every b[j].",
        "for k: load a[i] from &tileA[y + i * 16][k], b[j] from &tileB[k][x + j * 16]; mma_sync for all i, j",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "A fragment always has 16 x 16 elements. What do they hold where the matrix ends?",
        "load_chunk fills the tile with zeros outside: multiply the whole tile always, whatever M, N and K are.",
        "for (int k = 0; k < TSK; k += 16), all i, all j",
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
    "Every product on tensor cores",
    weight=2,
    hint=[
        "How many products does one mma_sync make, and how many does a block's tile need?",
        "4096 each. No lane multiplies anything itself.",
        "TSK / 16 * FRAGS_M * FRAGS_N calls of mma_sync for each tile and warp",
    ],
    counts="operations of tensor cores, at M = N = K = 128: exactly 2 M N K; multiply-adds of threads: none",
)
def test_tensor(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        kernel.within(run.counters.multiplications, 0, "products of threads")
        require_tensor_products(kernel, run, 2 * m * n * k, exactly=True)


@criterion(
    "A quarter of the naive kernel's bytes",
    weight=3,
    hint=[
        "The naive kernel loads both fragments for each product. How often does a block use an element of its tile?",
        "An element of tileA serves TSN columns, one of tileB TSM rows, if it is loaded from global memory once.",
        "each chunk of both tiles by one thread; all fragments from shared memory",
    ],
    counts="bytes of global loads, at M = N = K = 128: at most M N K / 16, a quarter of 01_wmma_naive's",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*check_product(kernel, rng, m, n, k))
        kernel.at_least(counters.shared_load_requests, 1, "loads from shared memory")
        kernel.within(counters.global_load_bytes, m * n * k // 16, "bytes of global loads", unit="bytes")


@criterion(
    "Full sectors, no bank conflicts",
    weight=2,
    hint=[
        "A fragment is loaded in rows of 16 bytes, eight of them at a time. In which banks do eight rows lie?",
        "Rows of LDA = TSK + PAD halves begin 16 bytes further on each, so that eight rows fill all banks once.",
        "chunks of 16 bytes at &tileA[row][colA] and &tileB[row][colB]; leading dimensions LDA and LDB",
    ],
    counts="sectors, and wavefronts of shared memory, beyond the fewest, at M = N = K = 128: none",
)
def test_conflicts(kernel, rng):
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        kernel.no_excess_sectors(*case)
        kernel.no_excess_wavefronts(*case)
