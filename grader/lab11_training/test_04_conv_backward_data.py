"""What is graded in lab11_training/04_conv_backward_data: the gradient of a convolution's images."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES, convolution
from warpcourse.lab11_training.cases import check_conv_data, check_slope
from warpschool.grading import criterion, practice
from warpschool.nn import convolve

PLAIN = [convolution(2, 3, 12, 8, 5), convolution(3, 8, 8, 16, 3, pad=1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 35, (9, 11), 3, 3, pad=2),
    convolution(2, 3, (23, 11), 2, (7, 5), stride=3, pad=4),
])
COUNTED = practice([convolution(2, 32, 12, 64, 5)], count=1, scaled="batch")
REUSE = 4  # products for each float loaded; tiles of 16 x 16 reach 4.9 without zeros' loads, the reference has 8


@criterion(
    "Right gradients",
    weight=3,
    hint=[
        "In which windows does pixel (h, v) take part, and which element of the filter does it meet there?",
        "With a stride of 1, element (r, s) in the window whose corner is (h + PAD - r, v + PAD - s), if there is one.",
        "dx[n][c][h][v] = sum over f, r, s of w[f][c][r][s] dy[n][f][h + PAD - r][v + PAD - s]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_conv_data(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "With a stride of 2 and no padding, does pixel 5 meet element 2 of a filter?",
        "Only if 5 - 2 is a multiple of 2, and 3 / 2 a result that exists. Pixels that no window reached have slope 0.",
        "corner = first - i; corner >= 0 && corner % stride == 0 && corner / stride < size",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_conv_data(kernel, rng, problem)


@criterion(
    "Finite differences agree",
    weight=1,
    hint=[
        "Let the loss be the sum of dy times y. What is its slope in the images?",
        "dx: y is linear in x. So changing x along a direction changes the loss by the sum of dx times it.",
        "compare sum(dx * direction) with (loss(x + h direction) - loss(x - h direction)) / 2h",
    ],
)
def test_slope(kernel, rng):
    problem = convolution(2, 3, 9, 4, 3, stride=2, pad=1)
    case = check_conv_data(kernel, rng, problem)
    w, dy = (case.arrays[name].astype(np.float64) for name in ("w", "dy"))
    x = rng.uniform(-1, 1, problem.image_shape)
    check_slope(kernel, rng, case, "dx", lambda images: float((convolve(images, w, stride=2, pad=1) * dy).sum()), x)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "If every result adds its share to the pixels of its window, who else adds to the same pixel?",
        "All windows that overlap there. Let each pixel collect its own sum instead.",
        "one barrier for each tile: everybody has read the old one, and the new one is complete",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_conv_data(kernel, rng, problem)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "Data is used again",
    weight=2,
    hint=[
        "How many products does a slope serve once it is in shared memory?",
        "One for each channel of the block's tile; a filter's element one for each pixel.",
        "tiles of 32 channels by 128 pixels: 32 * 128 products for 32 + 128 floats",
    ],
    counts="multiply-adds that the definition needs for each float loaded, and bank conflicts, at BATCH = 2, C = 32, "
    "H = W = 12, F = 64, R = S = 5: 4, and none",
)
def test_reuse(kernel, rng):
    for problem in COUNTED:
        case = check_conv_data(kernel, rng, problem)
        reuse = problem.products / (case.counters.global_load_bytes / 4)
        kernel.at_least(reuse, REUSE, "products for each loaded float")
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
