"""What is graded in lab10_lenet/11_fp16_conv_relu_pool: a whole stage in half precision on tensor cores."""

from __future__ import annotations

from warpcourse.cases import RACES, convolution
from warpcourse.lab10_lenet.cases import check_half_stage
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products

PLAIN = [convolution(2, 32, 12, 64, 5), convolution(3, 8, 8, 24, 3, pad=1)]
ODD = practice(
    [convolution(1, 8, 2, 8, 1), convolution(3, 8, (7, 13), 16, (3, 2), pad=1), convolution(2, 24, (9, 11), 72, 3)],
    needs=lambda problem: min(problem.out_height, problem.out_width) >= 2,
)
FEATURES = [convolution(5, 64, 4, 72, 4), convolution(9, 16, 1, 10, 1)]
COUNTED = practice([convolution(4, 32, 12, 64, 5)], count=1, scaled="batch")


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which four of a thread's sums are one window?",
        "Elements 0 and 2 of two neighbouring pieces for one filter, elements 1 and 3 for the next one.",
        "for e in 0..3: result = sum[i + e / 2][j][e % 2 * 2 (+ 1)] + bias; value += max(result, 0) / 4",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_half_stage(kernel, rng, problem)


@criterion(
    "Right at ragged sizes",
    weight=3,
    hint=[
        "Does your mean know that there may be fewer windows and filters than the tile has?",
        "It need not: rows past the last window are zeros, and what is outside y is not stored.",
        "value of every window of the tile, in the order of the tile",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_half_stage(kernel, rng, problem)


@criterion(
    "Without pooling, and without ReLU: a fully connected layer",
    weight=3,
    hint=[
        "With POOL = 1, how many windows are two rows of a piece?",
        "Two, of one result each: value[0] is row g's, value[1] row g + 8's.",
        "to = POOL == 1 ? e : 0; value[to] += result / (POOL * POOL); ReLU only if RELU",
    ],
)
def test_features(kernel, rng):
    for problem, relu in zip(FEATURES, (True, False), strict=True):
        check_half_stage(kernel, rng, problem, pool=False, relu=relu)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "The results take the place of the tiles in shared memory. Who may still be reading those?",
        "Another warp: a barrier stands before the first result is stored, and one before results are read.",
        "__pipeline_wait_prior(0); __syncthreads(); store; __syncthreads(); read, as given",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_half_stage(kernel, rng, problem)
        kernel.no_hazards(*case, kinds=RACES)


@criterion(
    "One pass, on tensor cores",
    weight=3,
    hint=[
        "What leaves the kernel?",
        "The means, as halfs, sixteen bytes at a time.",
        "no shuffles, no second kernel: each thread has whole windows",
    ],
    counts="at four images of 32 x 12 x 12, 64 filters of 5 x 5: operations on tensor cores, at least two for each "
    "product; bytes of global stores: those of y; sectors of stores beyond those that the bytes fill, and bank "
    "conflicts: none",
)
def test_bytes(kernel, rng):
    for problem in COUNTED:
        case = check_half_stage(kernel, rng, problem)
        run = kernel.run(*case)
        counters = run.counters
        require_tensor_products(kernel, run, 2 * problem.products, share=0)  # a bias is added, and the largest is kept
        pooled = problem.products // problem.terms // 4
        kernel.within(counters.global_store_bytes, 2 * pooled, "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(*case, loads=False)
        kernel.no_excess_wavefronts(*case)
