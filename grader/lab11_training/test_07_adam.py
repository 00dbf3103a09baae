"""What is graded in lab11_training/07_adam: one step of Adam."""

from __future__ import annotations

from warpcourse.lab11_training.cases import check_adam, moved_bytes
from warpschool.grading import criterion, practice

WHOLE = [1024, 4096]
RAGGED = practice([1, 2, 3, 5, 127, 1023, 1025])
COUNTED = practice([5120, 3008], count=1)
BYTES = 28  # for each weight: w, g, m and v are read, w, m and v are written


@criterion(
    "Right weights",
    weight=3,
    hint=[
        "Which of the two means is that of squares, and where do the corrections go?",
        "v. The corrections go into the step, not into what is stored; epsilon stands outside the root.",
        "m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;  "
        "w -= rate * m correction1 / (sqrtf(v correction2) + epsilon)",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_adam(kernel, rng, n)


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
        check_adam(kernel, rng, n)


@criterion(
    "28 bytes for each weight",
    weight=2,
    hint=[
        "Which arrays are read, and which written?",
        "Keep what was read in registers until it is written back.",
        "load each array once, update, store each array once",
    ],
    counts="bytes of global loads and stores, for each weight, and sectors beyond the fewest, at N = 5120 and at N = "
    "3008: 28, and none",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        case = check_adam(kernel, rng, n)
        kernel.within(moved_bytes(case) / n, BYTES, "bytes for each weight")
        kernel.no_excess_sectors(case.sizes, case.arrays)
