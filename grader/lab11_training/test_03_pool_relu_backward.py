"""What is graded in lab11_training/03_pool_relu_backward: back through pooling and ReLU by bits."""

from __future__ import annotations

import math

from warpcourse.lab11_training.cases import check_pool_backward
from warpschool.grading import criterion, practice

WHOLE = [(2, 3, 8, 8), (1, 4, 24, 24)]
ODD = practice([(1, 1, 2, 2), (3, 2, 7, 9), (1, 5, 3, 34), (2, 1, 5, 2), (1, 3, 9, 13)])
COUNTED = practice([(2, 6, 32, 32), (3, 5, 24, 16)], count=1)


@criterion(
    "Right slopes from packed bits",
    weight=3,
    hint=[
        "Which of the four words, and which of its bits, belongs to place (1, 0) of window 37?",
        "Window 37 is number 5 of the second group of 32; place (1, 0) is number 2: bit 5 of word 4 + 2.",
        "words = saved4[cell / 32];  bits = (words.x >> lane & 1) | (words.y >> lane & 1) << 1 | ...",
    ],
)
def test_packed(kernel, rng):
    for shape in WHOLE:
        check_pool_backward(kernel, rng, *shape)


@criterion(
    "Mean instead of largest, bytes instead of bits",
    weight=2,
    hint=[
        "How much of a mean's slope belongs to one of its four numbers?",
        "A quarter; and as many of the four bits may be set as were above zero.",
        "slope * 0.25f for each bit that is set; with PACKED = 0 a byte holds the four bits of its window",
    ],
)
def test_variants(kernel, rng):
    for average, packed in [(True, True), (False, False), (True, False)]:
        for shape in [(2, 3, 8, 8), (1, 3, 9, 13)]:
            check_pool_backward(kernel, rng, *shape, average=average, packed=packed)


@criterion(
    "Odd sizes",
    weight=2,
    hint=[
        "With 7 rows, which slope does the last one have?",
        "Zero: it belongs to no window of 2 x 2. But it must be written, for nobody else writes it.",
        "a window that the edge cuts has bits of 0: write its one or two results that exist",
    ],
)
def test_odd(kernel, rng):
    for shape in ODD:
        check_pool_backward(kernel, rng, *shape)


@criterion(
    "Whole sectors",
    weight=2,
    hint=[
        "The lanes of a warp have neighbouring windows. Which floats does the first store of each write?",
        "Every second one, if it stores one float: half of each sector. The other half comes with the next store.",
        "*reinterpret_cast<float2*>(to) = make_float2(left, right), where W is even",
    ],
    counts="sectors beyond the fewest that hold the requested bytes at BATCH = 2, C = 6, H = W = 32 and at BATCH = 3, "
    "C = 5, H = 24, W = 16: none",
)
def test_sectors(kernel, rng):
    for shape in COUNTED:
        case = check_pool_backward(kernel, rng, *shape)
        kernel.no_excess_sectors(case.sizes, case.arrays)


@criterion(
    "One pass over memory",
    weight=1,
    hint=[
        "What must be read for 32 windows?",
        "32 slopes and 16 bytes of bits: four sectors, and one. 128 results are written: 16 sectors.",
        "one load of a uint4 that all lanes of a warp share, one of dy, two stores of float2",
    ],
    counts="sectors that loads and stores touch at BATCH = 2, C = 6, H = W = 32 and at BATCH = 3, C = 5, H = 24, W = "
    "16: those of dy and dz, and one for each 32 windows",
)
def test_pass(kernel, rng):
    for shape in COUNTED:
        counters, windows = check_pool_backward(kernel, rng, *shape).counters, math.prod(shape) // 4
        kernel.within(counters.global_load_sectors, windows // 8 + windows // 32, "sectors of loads", unit="sectors")
        kernel.within(counters.global_store_sectors, windows // 2, "sectors of stores", unit="sectors")
