"""What is graded in lab10_lenet/07_softmax: scores to probabilities."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice
from warpschool.nn import references

WHOLE = [(8, 10), (4, 32), (4, 128)]
RAGGED = practice([(1, 1), (7, 10), (3, 33), (5, 1000)])
LARGE = (6, 10)
COUNTED = practice([(16, 128), (12, 224)], count=1)
ROUNDING = 8  # expf and the quotient round too


def check(kernel, rng, batch, classes, *, shift=0.0, factor=1.0):
    sizes = {"BATCH": batch, "CLASSES": classes}
    scores = (factor * rng.uniform(-1, 1, (batch, classes)) + shift).astype(np.float32)
    arrays = kernel.inputs(sizes, rng, x=scores)
    expected = references.softmax(arrays["x"])
    roundings = ROUNDING * (int(factor) + classes)
    kernel.check_against(kernel.run(sizes, arrays), {"y": expected}, k=roundings, scale=expected.max())
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "The lanes have seen different classes. What must they agree on before anyone divides?",
        "On the largest score and on the sum: five rounds of shuffles, at distances 16, 8, 4, 2, 1.",
        "other = __shfl_xor_sync(0xffffffff, largest, distance); sum = sum*exp(before - largest) + more*exp(other - "
        "largest)",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case)


@criterion(
    "Any number of images and classes",
    weight=2,
    hint=[
        "With ten classes, what have lanes 10 to 31 seen?",
        "Nothing: a score less than any, and a sum of zero. They take part in the shuffles all the same.",
        "for (i = lane; i < CLASSES; i += 32); no lane leaves before the shuffles",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check(kernel, rng, *case)


@criterion(
    "Large scores",
    weight=3,
    hint=[
        "What is exp(100) in single precision?",
        "Infinite. exp(x - largest) is at most 1, and the quotient is the same.",
        "subtract the largest score before every expf",
    ],
)
def test_large(kernel, rng):
    for shift, factor in ((500.0, 1.0), (-500.0, 1.0), (0.0, 100.0)):
        check(kernel, rng, *LARGE, shift=shift, factor=factor)


@criterion(
    "Scores are read twice at most",
    weight=2,
    hint=[
        "How often do you go through the scores?",
        "The largest and the sum can be found together: where the largest grows, the sum so far shrinks.",
        "before = largest; largest = fmaxf(before, score); sum = sum*expf(before - largest) + expf(score - largest)",
    ],
    counts="bytes of global loads at 16 images of 128 classes and at 12 of 224: at most twice those of x; sectors "
    "beyond those that the bytes fill: none",
)
def test_bytes(kernel, rng):
    for sizes in COUNTED:
        case = check(kernel, rng, *sizes)
        loaded = kernel.counters(*case).global_load_bytes
        kernel.within(loaded, 2 * case[1]["x"].nbytes, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(*case)
