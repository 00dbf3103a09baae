"""What is graded in lab10_lenet/08_argmax: the class with the largest score."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

WHOLE = [(128, 10), (256, 16)]
RAGGED = practice([(1, 1), (100, 10), (129, 3), (5, 100)])
COUNTED = practice([(128, 10), (192, 6)], count=1)
GATED = "right answers of a kernel without barriers and without shared memory"


def check(kernel, rng, batch, classes, *, levels=0, shift=0.0):
    sizes = {"BATCH": batch, "CLASSES": classes}
    shape = (batch, classes)
    scores = rng.integers(0, levels, shape) if levels else rng.uniform(-1, 1, shape)
    arrays = kernel.inputs(sizes, rng, x=(scores + shift).astype(np.float32))
    kernel.check_against(kernel.run(sizes, arrays), {"label": arrays["x"].argmax(axis=1).astype(np.int32)})
    return sizes, arrays


def check_without_waiting(kernel, rng, batch, classes):
    case = check(kernel, rng, batch, classes)
    counters = kernel.counters(*case)
    kernel.within(counters.block_barriers, 0, "barriers")
    kernel.within(counters.shared_load_requests + counters.shared_store_requests, 0, "requests to shared memory")
    return case, counters


def require_no_waiting(kernel, rng):
    """The given kernel is right: what counts is a kernel that is right and in which nobody waits."""
    for sizes in COUNTED:
        check_without_waiting(kernel, rng, *sizes)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Where do the scores of image n begin?",
        "At n * CLASSES. Remember the largest so far and its place.",
        "if (scores[i] > largest) { largest = scores[i]; best = i; }",
    ],
    counts=GATED,
)
def test_correct(kernel, rng):
    require_no_waiting(kernel, rng)
    for case in WHOLE:
        check(kernel, rng, *case)


@criterion(
    "Equal scores, and negative ones",
    weight=2,
    hint=[
        "Which of two equal scores counts, and with which one do you begin?",
        "The first one; begin with score 0, not with zero.",
        "largest = scores[0]; best = 0; later ones must be larger",
    ],
    counts=GATED,
)
def test_equals(kernel, rng):
    require_no_waiting(kernel, rng)
    check(kernel, rng, 200, 10, levels=3)
    check(kernel, rng, 50, 10, shift=-5.0)


@criterion(
    "Any number of images and classes",
    weight=2,
    hint=[
        "Which threads of the last block have no image?",
        "Those past BATCH: they must not load or store.",
        "if (image < BATCH) { ... }",
    ],
    counts=GATED,
)
def test_ragged(kernel, rng):
    require_no_waiting(kernel, rng)
    for case in RAGGED:
        check(kernel, rng, *case)


@criterion(
    "Nobody waits",
    weight=3,
    hint=[
        "How many barriers does the given kernel have, and what do most threads do between them?",
        "Let one thread do an image: nine comparisons, nothing to agree on, no shared memory.",
        "image = blockIdx.x * THREADS + threadIdx.x, and a loop over the classes",
    ],
    counts="barriers at 128 images of ten classes and at 192 of six: none; requests to shared memory: none; bytes of "
    "global loads: at most twice those of x",
)
def test_barriers(kernel, rng):
    for sizes in COUNTED:
        case, counters = check_without_waiting(kernel, rng, *sizes)
        kernel.within(counters.global_load_bytes, 2 * case[1]["x"].nbytes, "bytes of global loads", unit="bytes")
