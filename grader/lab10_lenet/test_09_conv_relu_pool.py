"""What is graded in lab10_lenet/09_conv_relu_pool: convolution, bias, ReLU and the mean of 2 x 2 in one kernel."""

from __future__ import annotations

from warpcourse.cases import RACES, convolution
from warpcourse.lab10_lenet.cases import check_stage
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products, require_registers

PLAIN = [convolution(3, 1, 28, 8, 5), convolution(2, 4, 12, 16, 5)]
ODD = practice(
    [
        convolution(1, 1, 6, 1, 5),
        convolution(3, 2, (7, 9), 5, 5, pad=2),
        convolution(2, 3, (13, 10), 9, 5),
        convolution(2, 1, (8, 15), 3, 5, pad=1),
    ]
)
COUNTED = practice([convolution(4, 8, 12, 16, 5)], count=1, scaled="batch")
SHARED = 2.75  # bytes for each product that is needed; tiles reach beyond the image, and make three times as many


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which row of the image do the upper and the lower row of results need at row r of the filter?",
        "Rows r and r + 1 of the thread's patch: piece[r % 2] and piece[(r + 1) % 2], the second one just loaded.",
        "sum[f][i / 4][i % 4] += weight[f] * piece[(r + i / 4) % 2][s + i % 4]; then bias, ReLU, a quarter of four",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_stage(kernel, rng, problem)


@criterion(
    "Right at ragged sizes",
    weight=3,
    hint=[
        "9 x 11 results: how many windows, and what becomes of the rest?",
        "4 x 5: the rest is computed by nobody. A thread has two windows; the second may not exist.",
        "if (exists) to[0] = means[0]; if (col + 1 < PW) to[1] = means[1], as given",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_stage(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A stage is filled by copies that run on. Where are they awaited, and by whom?",
        "Each thread waits for its own copies, then all for each other, at the beginning of each step.",
        "__pipeline_wait_prior(0); __syncthreads(); start the next copies; multiply",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_stage(kernel, rng, problem)
        kernel.no_hazards(*case, kinds=RACES)


@criterion(
    "One pass over memory",
    weight=4,
    hint=[
        "What leaves the kernel, and what is never stored?",
        "A quarter of the results, after bias and ReLU. Sums, biased sums and ReLU's results stay in registers.",
        "y[BATCH,F,PH,PW] is the only array that is written, besides the turned filters",
    ],
    counts="bytes of global stores at four images of 8 x 12 x 12, 16 filters of 5 x 5: those of y and of the filters; "
    "sectors beyond those that the bytes fill: none",
)
def test_bytes(kernel, rng):
    for problem in COUNTED:
        case = check_stage(kernel, rng, problem)
        pooled = problem.products // problem.terms
        limit = pooled + case[1]["w"].nbytes
        kernel.within(kernel.counters(*case).global_store_bytes, limit, "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(*case)


@criterion(
    "Registers are used again",
    weight=3,
    hint=[
        "How often do you load a row of the image for one channel?",
        "Once for each of R + 1 rows: what the lower row of results reads now, the upper one reads in the next turn.",
        "for r: load one more row into piece[(r + 1) % 2]; for s: load weight[FPT]; multiply eight results by each",
    ],
    counts="bytes of shared loads for each product that is needed, at the same case: at most 2.75; bank conflicts "
    "of loads: none",
)
def test_shared(kernel, rng):
    for problem in COUNTED:
        case = check_stage(kernel, rng, problem)
        run = kernel.run(*case)
        require_products(kernel, run, problem.products, share=0)  # a bias is added, and the largest is kept
        each = run.counters.shared_load_bytes / problem.products
        kernel.within(each, SHARED, "bytes of shared loads for each product")
        kernel.no_excess_wavefronts(*case, stores=False)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "Is every index into sum, piece and weight known to the compiler?",
        "Loops with constant bounds, unrolled: an array with an unknown index goes to local memory.",
        "#pragma unroll in front of each of the loops",
    ],
    counts="registers of a block, at most 65536; bytes that are spilled, for sm_80: at most 64",
)
def test_registers(kernel, rng):
    for problem in COUNTED:
        require_registers(kernel, kernel.run(*check_stage(kernel, rng, problem)))
