"""What is graded in lab05_work_per_thread/05_vectorized: C = A * B with float4 from global memory to registers."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_products, require_wide

FULL_TILES = [(128, 128, 16), (128, 256, 48), (256, 128, 32)]
RAGGED = practice(
    [(1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 5, 127), (130, 260, 36), (33, 260, 36), (130, 36, 36)]
)
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
WPTM = WPTN = 8
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Element (row m, step k) of A is kept in tileA[k][m]. Where do the four floats of a float4 from A go?",
        "They are four steps of k of one row: into four rows of tileA, at the same column.",
        "tileA[k][m] = quad.x; tileA[k + 1][m] = quad.y; tileA[k + 2][m] = quad.z; tileA[k + 3][m] = quad.w",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Which thread loads which float4, and is every float4 of both tiles loaded by somebody?",
        "load_quad takes care of edges and alignment, if it gets the matrix's own rows and columns.",
        "load_quad(A, M, K, row0 + m, k0 + k) and load_quad(B, K, N, k0 + k, col0 + n)",
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
    "Global accesses are 16 bytes wide",
    weight=2,
    hint=[
        "How many bytes does one lane bring with one load instruction, and how many does it store with one store?",
        "Four neighbours of a row of A, of B and of C are one float4 each.",
        "load_quad for both tiles, store_quad for C",
    ],
    counts="bytes that a warp moves with one global load or store, in each line, at M = N = K = 256: "
    "512 from 32 lanes, at least three quarters of that",
)
def test_wide_global(kernel, rng):
    for m, n, k in COUNTED:
        require_wide(kernel, kernel.run(*check_product(kernel, rng, m, n, k)), "global_load", "global_store")


@criterion(
    "Shared loads are 16 bytes wide",
    weight=2,
    hint=[
        "Are the rows of A that a thread needs for one k neighbours in tileA?",
        "They are if k is the first index of tileA; then four rows are one float4, as four columns of B are.",
        "get_quad(&a[i], &tileA[k][y + i * RTSM]), with y a multiple of 4",
    ],
    counts="bytes that a warp reads with one shared load, in each line, at M = N = K = 256: "
    "at least three quarters of 512",
)
def test_wide_shared(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        kernel.at_least(run.counters.shared_load_requests, 1, "loads from shared memory")
        require_wide(kernel, run, "shared_load")


@criterion(
    "Shared memory is read less",
    weight=1,
    hint=[
        "64 products of a thread need how many different elements of tileA, and how many of tileB?",
        "For each k: two float4s of each tile into registers; only then multiply.",
        "for k: { get_quad twice for a; get_quad twice for b; for i, j: sum[i][j] += a[i] * b[j] }",
    ],
    counts="bytes of shared loads for each of the M N K products, at M = N = K = 256: "
    "at most 4 (1 / WPTM + 1 / WPTN) = 1; and bytes of global loads: at most the naive kernel's divided by 64",
)
def test_shared_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        counters = run.counters
        kernel.within(counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
        per_product = counters.shared_load_bytes / (m * n * k)
        kernel.within(per_product, 4 * (1 / WPTM + 1 / WPTN), "bytes of shared loads for each product")


@criterion(
    "No local memory",
    weight=1,
    hint=[
        "Registers have no addresses. What happens to an array whose index is not known when the kernel is compiled?",
        "Loops over sum, a and b have constant bounds and can be unrolled; nothing else may choose an element.",
        "for (int i = 0; i < WPTM; ++i), with WPTM a constexpr int",
    ],
    counts="requests to local memory, at M = N = K = 256: none",
)
def test_local(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        counters = run.counters
        require_products(kernel, run, m * n * k)
        kernel.within(counters.local_load_requests + counters.local_store_requests, 0, "requests to local memory")
