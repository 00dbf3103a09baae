"""What is graded in lab08_convolution/03_direct_shared: a convolution with the image's part in shared memory."""

from __future__ import annotations

from warpcourse.cases import RACES, check_convolution, convolution
from warpschool.grading import criterion, practice

MOST_PRODUCTS = 1_000_000  # of a drawn case: a check must stay short
LAYERS = [convolution(2, 1, 28, 32, 5), convolution(2, 32, 12, 8, 5)]
"""the layers of the digits' network (of the second, an eighth of the filters)"""
COUNTED = practice(
    [*LAYERS, convolution(1, 3, (18, 30), 4, 3)], count=1, needs=lambda problem: problem.products <= MOST_PRODUCTS
)
"""A channel of their results is one block's."""
PLAIN = [convolution(2, 1, 28, 3, 5), convolution(1, 3, 12, 4, 5), convolution(2, 4, 8, 3, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(1, 2, (40, 37), 2, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Where in the tile is the element of x that the result at (threadIdx.y, threadIdx.x) of the block needs "
        "for (r, s)?",
        "The tile begins at the corner of the block's first window, so it is r rows and s columns from the "
        "thread's own place.",
        "sum += tile[(threadIdx.y*STRIDE + r)*PITCH + threadIdx.x*STRIDE + s] * filter[r*S + s]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=2,
    hint=[
        "The tile is larger than the block. Which thread loads what, and what stands in the tile outside the image?",
        "Each thread loads several elements, BW and BH apart; those outside the image are written as zeros.",
        "for i = threadIdx.y; i < ROWS; i += BH: for j = threadIdx.x; j < COLS; j += BW: tile[i*PITCH + j] = "
        "inside ? x[...] : 0",
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
        "Two barriers for each channel: one after the loads, one after the products.",
        "load; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for problem in LAYERS:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_convolution(kernel, rng, problem)


@criterion(
    "An element that was loaded is used again",
    weight=3,
    hint=[
        "How many elements of a channel do all threads of a block need together, and how often is each of them used?",
        "(t + R - 1) * (t + S - 1) elements for t * t results: load each of them once, and the R * S of the "
        "filter once.",
        "tile and filter in shared memory; from global memory nothing inside the loops over r and s",
    ],
    counts="bytes of global loads at the two layers of the digits' network, 2 x 1 x 28 x 28 with 32 filters of 5 x 5 "
    "and 2 x 32 x 12 x 12 with 8, and at 1 x 3 x 18 x 30 with 4 filters of 3 x 3: for each channel of a result at most "
    "H W elements of the image and R S of the filter; those of the image then serve 18.4, 11.1 and 7.5 products each",
)
def test_reuse(kernel, rng):
    for problem in COUNTED:
        counters = kernel.counters(*check_convolution(kernel, rng, problem))
        planes = problem.batch * problem.filters * problem.channels
        limit = 4 * planes * (problem.height * problem.width + problem.rows * problem.cols)
        what = f"bytes of global loads, results of {problem.out_height} x {problem.out_width}"
        kernel.within(counters.global_load_bytes, limit, what, unit="bytes")


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "A block of 24 threads in a row: in which bank does lane 24, the first of the next row, find its element?",
        "Choose the distance of two rows so that the thread's place in the tile and in the block fall into the "
        "same bank.",
        "PITCH - BW is a multiple of 32: the given PITCH is the smallest that holds COLS",
    ],
    counts="passes of shared loads beyond one for each, at the same three: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        kernel.no_excess_wavefronts(*check_convolution(kernel, rng, problem), stores=False)
