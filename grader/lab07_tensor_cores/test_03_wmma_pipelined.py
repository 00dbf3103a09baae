"""What is graded in lab07_tensor_cores/03_wmma_pipelined: C = A * B on tensor cores, with copies under way."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_copies, require_registers, require_tensor_products

FULL_TILES = [(128, 256, 32), (128, 256, 96)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (17, 40, 72), (130, 264, 24)])
ALIGNED = (128, 256, 128)
COUNTED = practice([ALIGNED, (256, 128, 192)], count=1)
LONG = (128, 256, 1024)
IN_FLIGHT = 0.9


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "While tile t is multiplied, which tile do you begin to copy, and into which stage?",
        "Tile t + STAGES - 1, into the stage of tile t - 1: it is the one that nobody reads any more.",
        "copy(tile + STAGES - 1); ... wait_prior(STAGES - 2); __syncthreads(); fetch(tile + 1, 0)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Which copies are begun where a tile lies only partly inside a matrix?",
        "copy_chunk copies what is inside, zeros elsewhere; a tile past K begins no copy, but is committed.",
        "whole && k0 + TSK <= K ? copies through fromA and fromB : k0 < K ? copy_chunk : nothing; then commit",
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
        "A thread that has waited knows that its own copies have landed. Whose copies does it read?",
        "Everybody's: a barrier after the wait. The same barrier says that the oldest stage may be overwritten.",
        "__pipeline_wait_prior(STAGES - 2); __syncthreads(); only then fetch the next tile",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MNK", ALIGNED, strict=True)))
    check_product(kernel, rng, *ALIGNED)


@criterion(
    "Copies under way",
    weight=3,
    hint=[
        "How many committed groups of copies may still be on their way when a tile is multiplied?",
        "STAGES - 2 of them: wait for the oldest group only, and begin the next copy before the products.",
        "__pipeline_wait_prior(STAGES - 2), never 0 inside the loop; copy at step 0 of a tile",
    ],
    counts="matrix products that are issued while the warp has a committed copy that it has not waited for, at "
    "M = 128, N = 256, K = 1024: at least 90 % of them",
)
def test_in_flight(kernel, rng):
    m, n, k = LONG
    run = kernel.run(*check_product(kernel, rng, m, n, k))
    kernel.within(run.counters.multiplications, 0, "products of threads")
    require_tensor_products(kernel, run, 2 * m * n * k)
    require_copies(kernel, run, IN_FLIGHT)


@criterion(
    "Few bytes, full sectors, no bank conflicts",
    weight=2,
    hint=[
        "Who copies which chunk of 16 bytes, and how often is a chunk copied?",
        "A thread copies the same chunk of every ROWS_A-th row of A, and of every ROWS_B-th row of B, once.",
        "toA + row * LDA from fromA + row * K + k0; toB + row * LDB from fromB + (k0 + row) * N",
    ],
    counts="at M = 128, N = 256, K = 128: bytes of global loads and copies, at most M N K / 16; sectors, and "
    "wavefronts of shared memory, beyond the fewest: none",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        kernel.within(kernel.counters(*case).global_load_bytes, m * n * k // 16, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(*case)
        kernel.no_excess_wavefronts(*case)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "How many registers do 16 fragments of sums take, and those of two steps of k?",
        "128 for the sums, 8 for each fragment of A and B: indices known to the compiler, loops unrolled.",
        "a[step % 2][i] with step unrolled: both fragments of a pair are registers",
    ],
    counts="registers of a block, at most 65536; bytes that are spilled, for sm_80: at most 64",
)
def test_registers(kernel, rng):
    require_registers(kernel, kernel.run(*check_product(kernel, rng, *ALIGNED)))
