"""What is graded in lab11_training/08_bias_relu_pool: bias, ReLU and pooling, with bits for the way back."""

from __future__ import annotations

import math

from warpcourse.lab11_training.cases import check_pool
from warpschool.grading import criterion, practice

WHOLE = [(2, 3, 8, 8), (1, 4, 24, 24)]
ODD = practice([(1, 1, 2, 2), (3, 2, 7, 9), (1, 5, 3, 34), (2, 1, 5, 2), (1, 3, 9, 13)])
COUNTED = practice([(2, 6, 32, 32), (3, 5, 24, 16)], count=1)


@criterion(
    "Right results and bits",
    weight=3,
    hint=[
        "A window's largest result is below zero. Who gets the slope?",
        "Nobody: the ReLU was closed, and all four bits are 0. Otherwise one bit is set, that of the largest.",
        "pooled = 0; for each place: if (value > pooled) { pooled = value; bits = 1u << place; }",
    ],
)
def test_correct(kernel, rng):
    for shape in WHOLE:
        check_pool(kernel, rng, *shape)


@criterion(
    "Mean instead of largest, bytes instead of bits",
    weight=2,
    hint=[
        "Does the ReLU come before the mean or after it?",
        "Before: results below zero count as zero. Every result above zero passes the slope on: up to four bits.",
        "if (value > 0) { pooled += 0.25f * value; bits |= 1u << place; }",
    ],
)
def test_variants(kernel, rng):
    for average, packed in [(True, True), (False, False), (True, False)]:
        for shape in [(2, 3, 8, 8), (1, 3, 9, 13)]:
            check_pool(kernel, rng, *shape, average=average, packed=packed)


@criterion(
    "Equal results",
    weight=1,
    hint=[
        "Two results of a window are equal and the largest. How many bits are set?",
        "One, that of the first: otherwise the slope would count twice.",
        "value > pooled, not >=",
    ],
)
def test_ties(kernel, rng):
    check_pool(kernel, rng, 2, 3, 16, 16, ties=True)


@criterion(
    "Odd sizes",
    weight=2,
    hint=[
        "A warp votes with all 32 lanes. What does a lane vote whose window is cut by the edge?",
        "0, four times. And no lane may leave before the votes.",
        "compute bits inside the condition, vote outside it",
    ],
)
def test_odd(kernel, rng):
    for shape in ODD:
        check_pool(kernel, rng, *shape)


@criterion(
    "One pass over memory",
    weight=2,
    hint=[
        "What must be read and written for 32 windows?",
        "128 results, 32 means or maxima, and 16 bytes: four words, each written once.",
        "if (lane == place) word = vote;  then lanes 0 to 3 store one word each",
    ],
    counts="bytes of loads (each result once, a bias for each window) and stores (y, and 16 bytes for each 32 "
    "windows), and sectors beyond the fewest, at BATCH = 2, C = 6, H = W = 32 and at BATCH = 3, C = 5, H = 24, W = 16: "
    "none",
)
def test_pass(kernel, rng):
    for shape in COUNTED:
        case, windows = check_pool(kernel, rng, *shape), math.prod(shape) // 4
        stored = windows * 4 + windows // 2
        kernel.within(case.counters.global_load_bytes, windows * (16 + 4), "bytes of global loads", unit="bytes")
        kernel.within(case.counters.global_store_bytes, stored, "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(case.sizes, case.arrays)
