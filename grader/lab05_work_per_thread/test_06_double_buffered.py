"""What is graded in lab05_work_per_thread/06_double_buffered: C = A * B with the next tile in flight."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block, require_products, require_registers

FULL_TILES = [(128, 128, 16), (128, 256, 48), (256, 128, 32)]
RAGGED = practice(
    [(1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 5, 127), (130, 260, 36), (33, 260, 36), (130, 36, 36)]
)
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
WPTM = WPTN = 8
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128
TSK = 8
AHEAD = 1.1  # a tenth more may be read from shared memory: what is fetched ahead is not used at the end


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "While tile t is multiplied, which tile is loaded, and into which of the two buffers is it stored?",
        "The next one, k0 + (buffer + 1) * TSK, into buffer 1 - buffer.",
        "load early in the tile; store(1 - buffer) late; fetch the next step of k before multiplying this one",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "The loop prepares one tile more than there are. What must that one hold?",
        "A tile past K is a tile of zeros; the last one of an odd number of tiles is multiplied with zeros, too.",
        "whole && k0 + TSK <= K ? read through the pointers : load_quad, which gives zeros outside",
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
    "One barrier a tile",
    weight=3,
    hint=[
        "With one buffer a tile needs two barriers. Which of them does the second buffer save?",
        "Storing the next tile disturbs nobody: only before it is read must everybody have stored it.",
        "no barrier between load, store(1 - buffer) and the products; one at the end of the tile",
    ],
    counts="barriers that a block passes, at M = N = K = 256: at most ceil(K / TSK) + 2, with the TSK of your file, "
    "and with at least 8 in its place",
)
def test_barriers(kernel, rng):
    for m, n, k in COUNTED:
        run = kernel.run(*check_product(kernel, rng, m, n, k))
        tile = max(TSK, run.plan.contract.declarations.constexpr_values({}).get("TSK", TSK))
        kernel.within(barriers_per_block(run), -(-k // tile) + 2, "barriers for each block")


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "Two tiles on their way need registers. How many has a thread, if two blocks share a multiprocessor?",
        "What does not fit is spilled to local memory: smaller tiles, less unrolling or fewer blocks help.",
        "LOADS_A and LOADS_B float4s, 2 (WPTM + WPTN) elements and WPTM * WPTN sums: about 110 of 128",
    ],
    counts="registers of a block, at most 65536, bytes that are spilled to local memory, at most 64, for sm_80",
)
def test_registers(kernel, rng):
    require_registers(kernel, kernel.run(*check_product(kernel, rng, *ALIGNED)))


@criterion(
    "Shared memory is read less",
    weight=1,
    hint=[
        "64 products of a thread need how many different elements of tileA, and how many of tileB?",
        "For each k: two float4s of each tile into registers; only then multiply.",
        "for k: { get_quad twice for a; get_quad twice for b; for i, j: sum[i][j] += a[i] * b[j] }",
    ],
    counts="bytes of shared loads for each of the M N K products, at M = N = K = 256: "
    "at most 4 (1 / WPTM + 1 / WPTN) = 1, and a tenth more for what is fetched ahead; and "
    "bytes of global loads: at most the naive kernel's divided by 64",
)
def test_shared_bytes(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*check_product(kernel, rng, m, n, k))
        kernel.within(counters.global_load_bytes, 8 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
        per_product = counters.shared_load_bytes / (m * n * k)
        kernel.within(per_product, AHEAD * 4 * (1 / WPTM + 1 / WPTN), "bytes of shared loads for each product")


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
