"""What is graded in lab05_work_per_thread/03_rectangular: C = A * Bt^T with three tile sizes."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers

FULL_TILES = [(64, 64, 32), (128, 64, 96), (64, 192, 64)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (65, 5, 127), (130, 67, 33), (200, 182, 130)])
ALIGNED = (128, 128, 128)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
SHORTEST = 8  # steps of k of the shortest tiles for which two barriers a round are enough
WPTM = 8
REUSE = 48  # how often an element from global memory must serve, at least: square tiles of 32 do not reach it


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A tile now has more elements than the block has threads. How does a thread find the ones that it loads?",
        "Number the elements of a tile: i / TSK is the row, i % TSK the step of k; a thread takes every THREADS-th.",
        "for i = thread; i < TSM * TSK; i += threads: tileA[i / TSK][i % TSK] = A[(row0 + i / TSK) * K + k0 + i % TSK]",
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
        "Which row of A, which row of Bt and which k belong to element i of a tile? Compare those three.",
        "Guards use the element's own place, not that of the thread's results; past the edge the tile holds zeros.",
        "row < M && k1 < K ? A[row * K + k1] : 0, and the same with col < N for Bt",
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
    weight=2,
    hint=[
        "Which of the two pairs stays the same for all WPTM rows of a thread?",
        "Read the pair of tileB once for every second k, and one pair of tileA for each row.",
        "for k += 2: { b = pair of tileB[x]; for w: { a = pair of tileA[y + w * RTSM]; two FMAs } }",
    ],
    counts="bytes of shared loads for each of the M N K products, at M = N = K = 128: "
    "at most 4 (WPTM + 1) / WPTM = 4.5",
)
def test_shared_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        require_barriers(kernel, run, k / SHORTEST)
        counters = run.counters
        kernel.at_least(counters.shared_store_bytes, 1, "bytes stored to shared memory")
        per_product = counters.shared_load_bytes / (m * n * k)
        kernel.within(per_product, 4 * (WPTM + 1) / WPTM, "bytes of shared loads for each product")


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "The lanes of a warp read rows x of tileB, at the same k. How far apart are their banks?",
        "Rows of TSK + PAD floats: a pair of floats must stay aligned, and 16 pairs must fill the 32 banks.",
        "PAD = 2",
    ],
    counts="wavefronts of shared loads and stores beyond the fewest, at M = N = K = 128",
)
def test_wavefronts(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_wavefronts(*check_product(kernel, rng, m, n, k))


@criterion(
    "Global memory is read less",
    weight=1,
    hint=[
        "How often is one element of A loaded, if a block has TSN columns?",
        "Each element of A is loaded N / TSN times and each of Bt M / TSM times; TSK does not matter.",
        "TSM = TSN = 64",
    ],
    counts="requested bytes of global loads, at M = N = K = 128: at most the naive kernel's, 8 M N K, divided by 48",
)
def test_global_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*check_product(kernel, rng, m, n, k))
        kernel.within(counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
