"""What is graded in lab05_work_per_thread/07_warp_tiled: C = A * B with a tile for each warp."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products, require_registers

FULL_TILES = [(128, 128, 16), (128, 256, 48), (256, 128, 32)]
RAGGED = practice(
    [(1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 5, 127), (130, 260, 36), (33, 260, 36), (130, 36, 36)]
)
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (256, 512, 128)], count=1)
WARP = 32
PASSES = 12  # wavefronts that bring a warp with 64 x 64 elements what it needs for one k
SLACK = 1.4


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which warp of the block computes which WSM x WSN part of its tile?",
        "Warps fill the tile row by row; inside its part, each lane has its place among RTSM x RTSN others.",
        "x = (warp % (TSN / WSN)) * WSN + 4 * (lane's column); y = (warp / (TSN / WSN)) * WSM + 4 * (lane's row)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Did the places of a thread's results move with its place in the tile?",
        "Results stand at y + i / 4 * 4 * RTSM + i % 4 and x + j * RTSN, for the new x and y.",
        "the loads are shared out among all threads of the block as before; only x and y change",
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
        "Two buffers: one is read while the other one is filled. When may the filled one be read?",
        "After the barrier at the end of a tile everybody has stored the next tile and nobody reads this one any more.",
        "... store(1 - buffer) ... last k: __syncthreads(); fetch(1 - buffer, 0)",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MNK", ALIGNED, strict=True)))
    check_product(kernel, rng, *ALIGNED)


@criterion(
    "Few passes of shared memory",
    weight=3,
    hint=[
        "A warp of 2 x 16 lanes reads how many different float4s of tileA and of tileB for one k? One of 4 x 8?",
        "The nearer a warp's lanes are to a square, the fewer elements it needs; and larger thread tiles help.",
        "WSM = WSN = 64, WPTM = 16, WPTN = 8; lanes in patches of 2 x 2",
    ],
    counts="wavefronts of shared loads for each 32 products, at M = N = K = 256: at most 1.4 times those of warps with "
    "64 x 64 elements, which take 12 for each k and for one k more",
)
def test_wavefronts(kernel, rng):
    for m, n, k in COUNTED:
        own = kernel.counters(*check_product(kernel, rng, m, n, k))
        best = m // 64 * (n // 64) * (k + 1) * PASSES
        kernel.at_least(own.shared_load_requests, 1, "loads from shared memory")
        actual, limit = (wavefronts * WARP / (m * n * k) for wavefronts in (own.shared_load_wavefronts, best))
        kernel.within(actual, SLACK * limit, "wavefronts of shared loads for each 32 products")


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "How many sums, elements and float4s in flight does a thread keep?",
        "What does not fit is spilled to local memory: at most 255 registers a thread, 65536 a multiprocessor.",
        "WPTM * WPTN = 128 sums leave half of the registers for everything else",
    ],
    counts="registers of a block, at most 65536, bytes that are spilled to local memory, at most 64, for sm_80",
)
def test_registers(kernel, rng):
    require_registers(kernel, kernel.run(*check_product(kernel, rng, *ALIGNED)))


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
