"""What is graded in lab11_training/05_conv_backward_filter: the gradients of filters and bias, in a fixed order."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES, convolution
from warpcourse.lab11_training.cases import atomics, blocks_with_atomics, check_conv_filter, check_slope
from warpschool.grading import criterion, practice
from warpschool.nn import convolve

PLAIN = [convolution(2, 3, 12, 8, 5), convolution(3, 8, 8, 16, 3, pad=1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 13, (9, 11), 35, 3, pad=2),
    convolution(2, 3, (23, 11), 2, (7, 5), stride=3, pad=4),
])
LONG = convolution(12, 1, 28, 6, 5, pad=2)  # 9,408 places
COUNTED = practice([convolution(4, 32, 12, 64, 5)], count=1, scaled="batch")
REUSE = 8  # products for each float that is loaded; tiles of 32 x 32 reach 15


@criterion(
    "Right gradients",
    weight=3,
    hint=[
        "Which pixel did weight (c, r, s) meet where the result at (i, j) was computed?",
        "x[n][c][i * STRIDE + r - PAD][j * STRIDE + s - PAD]; the bias met 1. Then sum over all places of all images.",
        "dw[f][c][r][s] = sum over n, i, j of dy[n][f][i][j] x[n][c][i*STRIDE + r - PAD][j*STRIDE + s - PAD]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_conv_filter(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=2,
    hint=[
        "What did a weight meet where its window lay partly outside the image?",
        "A zero of the padding: that place adds nothing for this weight, but it does for the bias.",
        "is_inside ? x[corner + term.x] : exists && term.w ? 1 : 0",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_conv_filter(kernel, rng, problem)


@criterion(
    "Long sums",
    weight=2,
    hint=[
        "How many blocks share the places here, and who adds up what they found?",
        "Each block writes its part; then a thread for every weight adds all parts.",
        "for (int split = 0; split < SPLITS; ++split) sum += parts[split * F * count + at]",
    ],
)
def test_long(kernel, rng):
    check_conv_filter(kernel, rng, LONG)


@criterion(
    "Finite differences agree",
    weight=1,
    hint=[
        "Let the loss be the sum of dy times y. What is its slope in the filters?",
        "dw: y is linear in w, too.",
        "compare sum(dw * direction) with (loss(w + h direction) - loss(w - h direction)) / 2h",
    ],
)
def test_slope(kernel, rng):
    problem = convolution(2, 3, 9, 4, 3, stride=2, pad=1)
    case = check_conv_filter(kernel, rng, problem)
    x, dy = (case.arrays[name].astype(np.float64) for name in ("x", "dy"))
    w = rng.uniform(-1, 1, problem.filter_shape)
    check_slope(kernel, rng, case, "dw", lambda filters: float((convolve(x, filters, stride=2, pad=1) * dy).sum()), w)


@criterion(
    "No race, and the same numbers on every run",
    about="RACE",
    weight=2,
    hint=[
        "In which order do atomic additions of several blocks arrive?",
        "In any. (a + b) + c is not a + (b + c) in floats, so the result would change from run to run.",
        "parts[(blockIdx.z * F + f) * count + term] = sum; add_parts adds them from the first to the last",
    ],
    counts="atomics at BATCH = 12, C = 1, H = W = 28, F = 6, R = S = 5: at most one for each block, which is a ticket "
    "and no sum",
)
def test_order(kernel, rng):
    case = check_conv_filter(kernel, rng, LONG)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
    kernel.within(atomics(case), blocks_with_atomics(case), "atomics")


@criterion(
    "Data is used again",
    weight=1,
    hint=[
        "How many products does a slope serve once it is in shared memory?",
        "One for each term of the block's tile; a pixel one for each filter.",
        "tiles of 32 filters by 32 terms: 1,024 products for 64 floats",
    ],
    counts="multiply-adds that the definition needs for each float loaded, and bank conflicts, at BATCH = 4, C = 32, "
    "H = W = 12, F = 64, R = S = 5: 8, and none",
)
def test_reuse(kernel, rng):
    for problem in COUNTED:
        case = check_conv_filter(kernel, rng, problem)
        reuse = problem.products / (case.counters.global_load_bytes / 4)
        kernel.at_least(reuse, REUSE, "products for each loaded float")
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
