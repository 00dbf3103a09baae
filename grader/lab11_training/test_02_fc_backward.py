"""What is graded in lab11_training/02_fc_backward: the gradients of a fully connected layer."""

from __future__ import annotations

import math

import numpy as np

from warpcourse.cases import RACES
from warpcourse.lab11_training.cases import atomics, blocks_with_atomics, check_fc, check_slope
from warpschool.grading import criterion, practice

WHOLE = [(32, 64, 32), (64, 32, 96)]
RAGGED = practice([(1, 1, 1), (7, 100, 10), (33, 31, 70), (65, 45, 33)])
COUNTED = practice([(64, 64, 96), (32, 160, 64)], count=1)
REUSE = 8  # products for each float that is loaded; tiles of 16 x 16 reach 8, of 32 x 32 16


@criterion(
    "Right gradients",
    weight=3,
    hint=[
        "Over what does the sum for one weight run, over what the sum for one input?",
        "A weight is used once for each image, an input once for each result. The bias is a weight of an input of 1.",
        "dw[i][o] = sum over n of x[n][i] dy[n][o];  db[o] = sum over n of dy[n][o];  dx[n][i] = sum over o of "
        "dy[n][o] w[i][o]",
    ],
)
def test_correct(kernel, rng):
    for sizes in WHOLE:
        check_fc(kernel, rng, *sizes)


@criterion(
    "Every number of images, inputs and results",
    weight=2,
    hint=[
        "What stands in a tile past the last image, and past the last result?",
        "Zeros: they add nothing. Rows of w are inputs: their number and that of the images end at different places.",
        "tileW[row][lane] = i < IN && k < OUT ? w[i * OUT + k] : 0",
    ],
)
def test_ragged(kernel, rng):
    for sizes in RAGGED:
        check_fc(kernel, rng, *sizes)


@criterion(
    "Back through a ReLU",
    weight=2,
    hint=[
        "x is what a ReLU left. Which inputs did it change?",
        "Where x is zero the ReLU was closed: nothing that happens to its input changes the loss.",
        "dx = RELU && !(x > 0) ? 0 : sum",
    ],
)
def test_relu(kernel, rng):
    for sizes in [(33, 40, 17), (32, 32, 32)]:
        check_fc(kernel, rng, *sizes, relu=True)


@criterion(
    "Finite differences agree",
    weight=1,
    hint=[
        "Let the loss be the sum of dy times y. What are its slopes in x and in w?",
        "They are dx and dw: y is linear in both.",
        "compare sum(dw * direction) with (loss(w + h direction) - loss(w - h direction)) / 2h",
    ],
)
def test_slope(kernel, rng):
    case = check_fc(kernel, rng, 9, 20, 12)
    x, w, dy = (case.arrays[name].astype(np.float64) for name in ("x", "w", "dy"))
    check_slope(kernel, rng, case, "dw", lambda weights: float((x @ weights * dy).sum()), w)
    check_slope(kernel, rng, case, "dx", lambda inputs: float((inputs @ w * dy).sum()), x)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Who still reads a tile when the next one is loaded?",
        "One barrier after loading, one after the products, and everybody passes both.",
        "load; __syncthreads(); products and bias; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for sizes in COUNTED:
        case = check_fc(kernel, rng, *sizes)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "Data is used again, in a fixed order",
    weight=2,
    hint=[
        "How many products does a float serve that was loaded from global memory?",
        "Tiles in shared memory: TS x TS results share TS rows and TS columns. And no atomics: their order is chance.",
        "four results each way for a thread: float4s of shared memory, sixteen products",
    ],
    counts="multiply-adds that the definition needs (2 * BATCH * IN * OUT) for each float loaded, bank conflicts, and "
    "atomics, at BATCH = 64, IN = 64, OUT = 96 and at BATCH = 32, IN = 160, OUT = 64: 8, none, at most one for each "
    "block",
)
def test_reuse(kernel, rng):
    for sizes in COUNTED:
        case = check_fc(kernel, rng, *sizes)
        products = 2 * math.prod(sizes)  # dw and dx
        reuse = products / (case.counters.global_load_bytes / 4)
        kernel.at_least(reuse, REUSE, "products for each loaded float")
        kernel.within(atomics(case), blocks_with_atomics(case), "atomics")
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
