"""What is graded in lab06_half_precision/01_half_storage: C = A * B, stored as half, multiplied and summed as float."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice

FULL_TILES = [(128, 128, 16), (128, 256, 48), (256, 128, 32)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 6, 127), (130, 260, 36)])
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
HALF_BYTES = 2
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128
WPTM = WPTN = 8


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Eight bytes hold four halves. In which order do the words x and y of a uint2 hold them?",
        "The lower half of x comes first. __half22float2 turns the two halves of a word into two floats.",
        "low = __half22float2(halves of bits.x); high = the same of bits.y; quad = (low.x, low.y, high.x, high.y)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "When are four halves of a row aligned to eight bytes?",
        "Only if a row has a multiple of four of them; load_quad's other branch takes them one by one.",
        "load_quad(A, M, K, row0 + m, k0 + k) and load_quad(B, K, N, k0 + k, col0 + n)",
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
    "Half of the bytes",
    weight=3,
    hint=[
        "How many bytes of A and of B does a block ask for in each round, and how often does it ask for the same?",
        "Every element of both tiles is loaded once: TSM * TSK + TSK * TSN halves, four with each load.",
        "for (i = thread; i < TSM * TSK / 4; i += THREADS): one load_quad of A; the same for B",
    ],
    counts="bytes of global loads, at M = N = K = 256: at most half of what 05_vectorized may load as floats, "
    "2 (M N K) (1 / 64 + 1 / 64)",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*check_product(kernel, rng, m, n, k))
        limit = 2 * HALF_BYTES * m * n * k // REUSE
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")


@criterion(
    "Full sectors",
    weight=2,
    hint=[
        "A sector has 32 bytes: how many halves? How many of them does one lane load?",
        "Four neighbouring lanes load 16 neighbours of a row of A; the next four lanes the next row.",
        "m = i / 4 % TSM; k = i % 4 * 4",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at M = N = K = 256",
)
def test_sectors(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_sectors(*check_product(kernel, rng, m, n, k))


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "32 lanes store elements of 8 rows of A and of 4 groups of steps. Which banks are that, without place()?",
        "Rows of tileA begin in the same bank, so the four groups would meet: place() moves each by 8 columns.",
        "tileA[k + e][place(k, m)], and read with the same place: tileA[k][place(k, row)]",
    ],
    counts="wavefronts of shared loads and stores beyond the fewest, at M = N = K = 256: none; and bytes of shared "
    "loads for each product, at most 4 (1 / WPTM + 1 / WPTN) = 1",
)
def test_conflicts(kernel, rng):
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        counters = kernel.counters(*case)
        kernel.at_least(counters.shared_load_requests, 1, "loads from shared memory")
        kernel.within(counters.shared_load_bytes / (m * n * k), 4 * (1 / WPTM + 1 / WPTN), "bytes of shared loads")
        kernel.no_excess_wavefronts(*case)
