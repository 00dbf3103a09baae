"""What is graded in lab08_convolution/14_sliding_windows: wgmma over one tile for a whole row."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import convolution
from warpschool.grading import criterion, practice
from warpschool.nn import convolve

PLAIN = [convolution(2, 64, 8, 64, 1), convolution(5, 64, 12, 64, 3, pad=1), convolution(1, 128, 20, 128, 3)]
ODD = practice([
    convolution(1, 8, 1, 8, 1),
    convolution(3, 8, (7, 13), 16, (3, 2), pad=1),
    convolution(2, 72, (17, 35), 136, 3, pad=1),
    convolution(1, 16, (23, 11), 8, (7, 3), pad=4),
])
MOST_PRODUCTS = 30_000_000  # of a drawn case: a check must stay short
COUNTED = practice(
    [convolution(5, 64, 12, 64, 3, pad=1), convolution(2, 128, (18, 10), 128, 2)], count=1,
    needs=lambda problem: problem.products <= MOST_PRODUCTS,
)  # fmt: skip
NHWC = (0, 2, 3, 1)


def check_half(kernel, rng, problem):
    """Accumulated in float32, rounded once to half."""
    arrays = kernel.inputs(problem.sizes, rng)
    x, w = (arrays[name].transpose(0, 3, 1, 2) for name in ("x", "w"))
    expected = convolve(x, w, stride=1, pad=problem.pad).transpose(NHWC)
    sums = convolve(np.abs(x), np.abs(w), stride=1, pad=problem.pad).transpose(NHWC)
    kernel.check_against(kernel.run(problem.sizes, arrays), {"y": expected}, k=problem.terms, scale=sums)
    return problem.sizes, arrays


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which row of the tile holds element (r, s) of the window that begins at the tile's first place?",
        "Row s: the descriptor starts s rows of the tile further on; the filters of column s are s tiles further on.",
        "a = describe(filters + (stage * MOST_S + s) * BYTES_W ...); b = describe(... + (my_p + s) * TSK * 2)",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_half(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=3,
    hint=[
        "Places run through rows of W + 2 * PAD. Which of them are results, and where do they stand in y?",
        "Those whose column is less than OW; place / WP counts rows of all images, and y has as many, OW wide.",
        "row = place / WP; col = place % WP; if col < OW: y[(row * OW + col) * F + f]",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_half(kernel, rng, problem)


@criterion(
    "Windows by the TMA, products by wgmma",
    weight=2,
    hint=[
        "What is left for threads to load from global memory?",
        "Nothing: threads read the tile of results from shared memory, in swizzled rows, and store it.",
        "chunk ^ place % 8, where results are stored and where they are read",
    ],
    counts="at 5 images of 12 x 12, 64 channels, 64 filters of 3 x 3, padding 1, and "
    "at 2 of 18 x 10, 128 channels, 128 filters of 2 x 2: "
    "operations of tensor cores: at least those of the convolution; loads of threads from global memory: none; "
    "wavefronts of shared memory beyond the fewest: none",
)
def test_engines(kernel, rng):
    for problem in COUNTED:
        case = check_half(kernel, rng, problem)
        counters = kernel.counters(*case)
        kernel.at_least(counters.tensor_operations, problem.flop, "operations of tensor cores")
        kernel.within(counters.global_load_requests, 0, "loads of threads from global memory")
        kernel.no_excess_wavefronts(*case)
