"""What is graded in lab11_training/06_sgd_momentum: one step of gradient descent with momentum."""

from __future__ import annotations

from warpcourse.lab11_training.cases import check_sgd, moved_bytes
from warpschool.grading import criterion, practice

WHOLE = [1024, 4096]
RAGGED = practice([1, 2, 3, 5, 127, 1023, 1025])
COUNTED = practice([5120, 3008], count=1)
BYTES = 20  # for each weight: w, g and v are read, w and v are written


@criterion(
    "Right weights",
    weight=3,
    hint=[
        "Which v moves the weight: that of the last step, or the new one?",
        "The new one. Decay adds decay * w to the slope, before the momentum.",
        "v = momentum * v + (g + decay * w);  w = w - rate * v",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_sgd(kernel, rng, n)


@criterion(
    "Every number of weights",
    weight=2,
    hint=[
        "Which thread has the last weight of 1,023?",
        "One whose four are not all there: it takes what is left one by one, and nobody goes further.",
        "if (i + 3 < N) by float4s; else for (int j = i; j < N; ++j) one by one",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        check_sgd(kernel, rng, n)


@criterion(
    "Without momentum, without decay",
    weight=1,
    hint=[
        "What is left of v with a momentum of 0?",
        "The slope: the step is plain gradient descent. With a decay of 0 the weights do not enter it.",
        "the settings come as arguments: none of them is a constant",
    ],
)
def test_settings(kernel, rng):
    check_sgd(kernel, rng, 300, momentum=0.0, decay=0.0)
    check_sgd(kernel, rng, 300, momentum=0.5, decay=0.5)


@criterion(
    "20 bytes for each weight",
    weight=2,
    hint=[
        "Which arrays are read, and which written?",
        "Keep what was read in registers until it is written back.",
        "load each array once, update, store each array once",
    ],
    counts="bytes of global loads and stores, for each weight, and sectors beyond the fewest, at N = 5120 and at N = "
    "3008: 20, and none",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        case = check_sgd(kernel, rng, n)
        kernel.within(moved_bytes(case) / n, BYTES, "bytes for each weight")
        kernel.no_excess_sectors(case.sizes, case.arrays)
