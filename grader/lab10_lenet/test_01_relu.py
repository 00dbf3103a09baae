"""What is graded in lab10_lenet/01_relu: y = max(x + bias, 0)."""

from __future__ import annotations

from warpcourse.lab10_lenet.cases import check_relu
from warpschool.grading import criterion, practice

WHOLE = [(2, 4, 64), (4, 32, 576)]
RAGGED = practice([(1, 1, 1), (3, 5, 7), (2, 33, 31), (1, 7, 257)])
COUNTED = practice([(2, 24, 576), (3, 32, 320)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Elements i and i + P belong to neighbouring channels. Which channel is element i of?",
        "Channel i / P of all images' channels: modulo C that is the number of its bias.",
        "y[i] = fmaxf(x[i] + bias[i / P % C], 0.0f)",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check_relu(kernel, rng, *case)


@criterion(
    "The guard",
    about="OOB",
    weight=2,
    hint=[
        "How many threads does the last block have too many?",
        "A thread past the last element neither loads nor stores.",
        "if (i < BATCH * C * P) { ... }",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check_relu(kernel, rng, *case)


@criterion(
    "No excess sectors",
    weight=2,
    hint=[
        "Are the elements of a warp's lanes neighbours?",
        "threadIdx.x must appear in the index with factor 1.",
        "i = blockIdx.x * THREADS + threadIdx.x",
    ],
    counts="sectors of global loads and stores beyond those that the bytes fill, at 2 x 24 x 576 and at 3 x 32 x 320: "
    "none",
)
def test_sectors(kernel, rng):
    for case in COUNTED:
        kernel.no_excess_sectors(*check_relu(kernel, rng, *case))


@criterion(
    "Each element read once, written once",
    weight=1,
    hint=[
        "What is loaded for an element besides itself?",
        "Its bias, and nothing else: no second look at x, no look at y.",
        "one load of x[i], one of bias[c], one store of y[i]",
    ],
    counts="bytes of global loads at the same cases: at most eight for each element; of stores: four",
)
def test_bytes(kernel, rng):
    for case in COUNTED:
        sizes, arrays = check_relu(kernel, rng, *case)
        counters = kernel.counters(sizes, arrays)
        kernel.within(counters.global_load_bytes, 2 * arrays["x"].nbytes, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, arrays["x"].nbytes, "bytes of global stores", unit="bytes")
