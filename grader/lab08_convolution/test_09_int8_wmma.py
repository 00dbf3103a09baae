"""What is graded in lab08_convolution/09_int8_wmma: 8-bit images and filters on tensor cores."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES, convolution
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products
from warpschool.nn import convolve

PLAIN = [convolution(2, 1, 28, 5, 5), convolution(2, 4, 12, 64, 5), convolution(1, 64, 8, 64, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 2, (17, 19), 70, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])
COUNTED = practice([convolution(4, 16, 12, 64, 5)], count=1, scaled="batch")
REUSE = 16


def check_exact(kernel, rng, problem):
    """All 256 values occur; the result is an integer and must be exact."""
    shapes = {"x": problem.image_shape, "w": problem.filter_shape}
    given = {name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()}
    arrays = kernel.inputs(problem.sizes, rng, **given)
    expected = convolve(arrays["x"], arrays["w"], stride=problem.stride, pad=problem.pad)
    run = kernel.run(problem.sizes, arrays)
    kernel.check_against(run, {"y": expected.astype(np.int64)})
    return problem.sizes, arrays


@criterion(
    "Exact results",
    weight=4,
    hint=[
        "Which element of x is row k of cols at this place? Take k apart into c, r and s.",
        "c = k / (R*S), r = k / S % R, s = k % S; a column of cols is a row of tileX, so its fragments are "
        "column-major.",
        "b.at[i] = x[((n*C + c)*H + top + r)*W + left + s]; load_matrix_sync(windows[i], &tileX[...*PITCH + k], PITCH)",
    ],
)
def test_exact(kernel, rng):
    for problem in PLAIN:
        check_exact(kernel, rng, problem)


@criterion(
    "Exact for every stride, padding and size",
    weight=3,
    hint=[
        "What stands in a tile where there is no filter, no place, no further k, or no image?",
        "Zeros: a and b begin as zeros, and only what exists is read.",
        "if (k < K && place < N && 0 <= h && h < H && 0 <= v && v < W) b.at[i] = x[...]",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_exact(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A tile has two dangers: somebody reads it before it is full, and somebody fills it while it is still read.",
        "The barriers are given: fragments are loaded between the first and the second of them.",
        "store the 16 bytes; __syncthreads(); fragments and products; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_exact(kernel, rng, problem)


@criterion(
    "Every product on tensor cores",
    weight=3,
    hint=[
        "Which instruction multiplies, and how many products does it do?",
        "wmma::mma_sync multiplies 16 x 16 x 16; nothing is left for ordinary multiplications.",
        "for i, j < PARTS: wmma::mma_sync(sum[i][j], filters[i], windows[j], sum[i][j])",
    ],
    counts="matrix instructions, at four images of 16 x 12 x 12, 64 filters of 5 x 5: at least one for each "
    "4096 products; "
    "bytes of global loads: at most a sixteenth of two for each product",
)
def test_tensor(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_exact(kernel, rng, problem))
        require_tensor_products(kernel, run, 2 * problem.products)
        limit = 2 * problem.products / REUSE
        kernel.within(run.counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")
