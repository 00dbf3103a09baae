"""What is graded in lab05_work_per_thread/04_register_blocked: C = A * B with a block of results per thread."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_products

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
        "A thread computes WPTM x WPTN elements. Which rows and which columns of the tile are they?",
        "Rows y + i * RTSM and columns x + j * RTSN: the same ones in the sums as in the results below.",
        "a[i] = tileA[y + i * RTSM][k];  b[j] = tileB[k][x + j * RTSN];  sum[i][j] += a[i] * b[j]",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "The tiles are filled with zeros past the edges. Does your loop run over the whole tile?",
        "The products need no guard: what is outside is zero, and results outside C are not stored.",
        "for (int k = 0; k < TSK; ++k), whatever K is",
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
        "64 products of a thread need how many different elements of tileA, and how many of tileB?",
        "For each k: WPTM elements of A and WPTN elements of B into registers first; only then multiply.",
        "for k: { load a[0..WPTM); load b[0..WPTN); for i, j: sum[i][j] += a[i] * b[j] }",
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
