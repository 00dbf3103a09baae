"""What is graded in lab08_convolution/06_im2col_gemm: im2col, then a product of matrices for each image."""

from __future__ import annotations

from warpcourse.cases import RACES, check_convolution, convolution
from warpschool.grading import criterion, practice

PLAIN = [convolution(2, 1, 28, 5, 5), convolution(2, 3, 12, 64, 5), convolution(3, 64, 8, 64, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 2, (17, 19), 70, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])
COUNTED = practice([convolution(2, 32, 12, 64, 5)], count=1, scaled="batch")
REUSE = 16  # how often an element from global memory must serve, at least; tiles of 64 reach 64


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "The filters are A, [F, K]. Which matrix is B, and where does image n's begin?",
        "cols holds a matrix [K, P] for each image: B of image n begins n * K * P floats behind cols, its "
        "results n * F * P behind y.",
        "tileX[k][j] = cols[(n*K + k0 + k)*P + col0 + j]; y[(n*F + f)*P + place] = sum",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "Which of F, P and K are no multiples of the tiles here, and what stands in a tile behind the edge?",
        "Zeros, in both tiles; and a result is stored only if its filter and its place exist.",
        "f < F && k < K ? w[f*K + k] : 0;  k < K && place < P ? cols[...] : 0;  if (f < F && place < P) y[...] = sum",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_convolution(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A tile has two dangers: somebody reads it before it is full, and somebody fills it while it is still read.",
        "The two barriers are given: what is loaded must be loaded before the first of them.",
        "load both tiles; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_convolution(kernel, rng, problem)


@criterion(
    "Tiles, not single elements",
    weight=2,
    hint=[
        "How often does the product read an element of cols from global memory, and how often is it used then?",
        "Elements go to shared memory once for each block, and serve all its rows.",
        "in the loop over k read tileW and tileX only",
    ],
    counts="bytes of global loads of both kernels for each product, at two images of 32 x 12 x 12, 64 filters "
    "of 5 x 5: at "
    "most a sixteenth of what two loads for each product would be",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        counters = kernel.counters(*check_convolution(kernel, rng, problem))
        kernel.within(counters.global_load_bytes, 8 * problem.products / REUSE, "bytes of global loads", unit="bytes")
