"""What is graded in lab08_convolution/07_implicit_gemm: a product of matrices, one of which is never stored."""

from __future__ import annotations

from warpcourse.cases import RACES, check_convolution, convolution
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_registers

PLAIN = [convolution(2, 1, 28, 5, 5), convolution(2, 3, 12, 64, 5), convolution(3, 64, 8, 64, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 2, (17, 19), 70, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])
COUNTED = practice([convolution(4, 16, 12, 64, 5)], count=1, scaled="batch")
REUSE = 16  # how often an element from global memory must serve, at least; tiles of 64 x 128 reach 85 / 2
PASSES = 8  # that bring a warp with 32 x 64 results what it needs for one step of k
SLACK = 1.25


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Column `place` of cols belongs to which image and which window? And what follows (r, s) down that column?",
        "n = place / (OH*OW), then row and column of the result; down a column s counts fastest, then r, then c.",
        "corner = (n*C*H + top)*W + left; step: ++s, ++offset; end of a row: offset += W - S; of a window: "
        "offset += (H - R)*W",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "Three reasons not to read x: the element lies outside the image, k lies past K, the column past all images.",
        "rows and cols hold bits for the first, and none for columns that do not exist; k is compared with K.",
        "is_inside = k < K && (rows[i] >> r & cols[i] >> s & 1)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_convolution(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Two buffers: one is read while the other one is filled. When may the filled one be read?",
        "After the barrier at the end of a tile everybody has stored the next tile and nobody reads this one any more.",
        "... store(1 - buffer) ... last k: __syncthreads(); fetch(1 - buffer, 0)",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_convolution(kernel, rng, problem)


@criterion(
    "The matrix is never stored",
    weight=3,
    hint=[
        "What does the kernel write to global memory? What must it write?",
        "The results and nothing else: the tiles of cols go from x to registers to shared memory.",
        "nextX[i][j] = is_inside ? x[corner[i] + offset] : 0.0f",
    ],
    counts="bytes of global stores, at four images of 16 x 12 x 12, 64 filters of 5 x 5: those of y; bytes of "
    "global loads: "
    "at most a sixteenth of two for each product; no Scratch arrays",
)
def test_stores(kernel, rng):
    for problem in COUNTED:
        case = check_convolution(kernel, rng, problem)
        counters = kernel.counters(*case)
        results = problem.products // problem.terms
        kernel.within(len(kernel.contract.scratch), 0, "scratch arrays")
        kernel.within(counters.global_store_bytes, 4 * results, "bytes of global stores", unit="bytes")
        kernel.within(counters.global_load_bytes, 8 * problem.products / REUSE, "bytes of global loads", unit="bytes")


@criterion(
    "Few passes of shared memory",
    weight=2,
    hint=[
        "How many floats does a thread read from shared memory for each step of k, and for how many multiply-adds?",
        "WPTM + WPTN, in float4s, for WPTM * WPTN of them; lanes in patches of 2 x 2 share them.",
        "the given fetch and product do this: leave tx and ty as they are",
    ],
    counts="passes of shared loads, at the same case: at most 1.25 times those of warps with 32 x 64 results, which "
    "take 8 for each step of k and for one step more, and no bank conflicts",
)
def test_wavefronts(kernel, rng):
    for problem in COUNTED:
        own = kernel.counters(*check_convolution(kernel, rng, problem))
        warps = problem.products // problem.terms // (32 * 64)
        best = warps * (problem.terms + 1) * PASSES
        kernel.at_least(own.shared_load_requests, 1, "loads from shared memory")
        kernel.within(own.shared_load_wavefronts, SLACK * best, "passes of shared loads")
        kernel.within(own.shared_bank_conflicts, 0, "passes lost to bank conflicts")


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "How many sums, elements and floats in flight does a thread keep?",
        "What does not fit is spilled to local memory: at most 255 registers a thread, 65536 a multiprocessor.",
        "arrays with constant indices only, loops with constant bounds unrolled",
    ],
    counts="registers of a block, at most 65536; bytes spilled, for sm_80, at most 64; requests to local memory: none",
)
def test_registers(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_convolution(kernel, rng, problem))
        require_registers(kernel, run)
        local = run.counters.local_load_requests + run.counters.local_store_requests
        kernel.within(local, 0, "requests to local memory")
