"""What is graded in lab10_lenet/03_average_pool_relu: bias and ReLU inside the pooling."""

from __future__ import annotations

from warpcourse.lab10_lenet.cases import check_mean_pool
from warpschool.grading import criterion, practice

WHOLE = [(2, 4, 8, 16), (2, 32, 24, 24)]
RAGGED = practice([(1, 1, 2, 2), (2, 3, 5, 7), (3, 5, 9, 31), (1, 33, 2, 3)])
COUNTED = practice([(2, 16, 24, 24), (1, 12, 32, 40)], count=1)
LIMIT = 1.25  # a bias for each window, where a register would not hold it


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Is the mean of four ReLUs the ReLU of their mean?",
        "No: each of the four elements gets the bias and becomes at least zero, then they are added.",
        "sum += fmaxf(from[...] + bias[plane % C], 0.0f) four times; y = 0.25f * sum",
    ],
)
def test_correct(kernel, rng):
    for shape in WHOLE:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "Odd heights and widths, and the last block",
    weight=2,
    hint=[
        "Which channel is a plane of, if an image has C of them?",
        "plane % C; and what is left over at an edge belongs to no window.",
        "if (window < BATCH * C * PH * PW) { plane = window / (PH * PW); bias[plane % C] }",
    ],
)
def test_ragged(kernel, rng):
    for shape in RAGGED:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "One pass over memory",
    weight=3,
    hint=[
        "Where is the result of ReLU, before it is averaged?",
        "In a register. x is read once, a quarter as much is written, and nothing goes to memory in between.",
        "no second kernel and no array for what lies between",
    ],
    counts="bytes of global loads at 2 x 16 x 24 x 24 and at 1 x 12 x 32 x 40: at most 1.25 times those of x (the bias "
    "is asked for again for each window); of global stores: those of y",
)
def test_bytes(kernel, rng):
    for shape in COUNTED:
        case = check_mean_pool(kernel, rng, shape)
        counters, whole = kernel.counters(*case), case[1]["x"].nbytes
        kernel.within(counters.global_load_bytes, LIMIT * whole, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, whole // 4, "bytes of global stores", unit="bytes")
