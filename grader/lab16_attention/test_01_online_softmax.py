"""What is graded in lab16_attention/01_online_softmax: quotients of powers, a block for each row."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block
from warpschool.nn import references

WHOLE = [(4, 256), (3, 1024)]
RAGGED = practice([(1, 1), (7, 31), (2, 127), (3, 257), (5, 1000)])
COUNTED = practice([(8, 2048), (12, 1024)], count=1)
ROUNDING = 8  # expf and the quotient round too


def check(kernel, rng, rows, cols, *, shift=0.0, factor=1.0, masked=0.0):
    sizes = {"ROWS": rows, "COLS": cols}
    scores = (factor * rng.uniform(-1, 1, (rows, cols)) + shift).astype(np.float32)
    hidden = int(masked * cols)
    scores[:, :hidden] = -np.inf
    arrays = kernel.inputs(sizes, rng, x=scores)
    run = kernel.run(sizes, arrays)
    expected = references.softmax(arrays["x"])
    kernel.check_against(run, {"y": expected}, k=ROUNDING * (int(factor) + cols), scale=expected.max())
    return sizes, arrays, run


@criterion(
    "Right quotients",
    weight=3,
    hint=[
        "Two parts of a row, one with largest score 3 and sum 2, one with 5 and 1. What is the pair of both?",
        "The largest is 5, and the first sum shrinks by exp(3 - 5). In the same way lanes come together, and warps.",
        "both.largest = fmaxf(a.largest, b.largest); both.sum = a.sum * expf(a.largest - both.largest) + the same of b",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case)


@criterion(
    "Rows of any length",
    weight=2,
    hint=[
        "Of 31 scores, which threads have one, and what have the others seen?",
        "Nothing: minus infinity and a sum of 0. They take part in shuffles and barriers all the same.",
        "start with nothing = {-INFINITY, 0.0f}; for (i = t; i < COLS; i += THREADS)",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check(kernel, rng, *case)


@criterion(
    "Large scores",
    weight=2,
    hint=[
        "What is exp(100) in single precision?",
        "Infinite. Only differences to the largest score go into expf.",
        "expf(score - largest), and the largest of the whole row at the end",
    ],
)
def test_large(kernel, rng):
    for shift, factor in ((500.0, 1.0), (-500.0, 1.0), (0.0, 100.0)):
        check(kernel, rng, 3, 600, shift=shift, factor=factor)


@criterion(
    "Masked scores",
    weight=3,
    hint=[
        "A thread has seen minus infinity only. What is minus infinity less minus infinity?",
        "No number, and NaN spreads to the whole row. A part whose sum is 0 must add 0.",
        "a.sum > 0.0f ? a.sum * expf(a.largest - both.largest) : 0.0f, and a masked score counts 0 in its sum",
    ],
)
def test_masked(kernel, rng):
    for masked in (0.5, 0.99):
        check(kernel, rng, 3, 800, masked=masked)
    check(kernel, rng, 2, 33, masked=0.97)


@criterion(
    "No race between warps",
    about="RACE",
    weight=2,
    hint=[
        "Warps leave their pairs in shared memory. When may another one read them?",
        "Behind a barrier that all threads of the block pass.",
        "of_warps[t / WARP] = row; __syncthreads(); then every warp joins the WARPS pairs",
    ],
)
def test_race(kernel, rng):
    for rows, cols in ((2, 1000), (1, 257)):
        sizes = {"ROWS": rows, "COLS": cols}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check(kernel, rng, 2, 1000)


@criterion(
    "Scores are read twice at most",
    weight=3,
    hint=[
        "How often do you go through the scores before you know both the largest and the sum?",
        "Once is enough: where the largest grows, the sum so far shrinks.",
        "row = join(row, one) for each score, in one loop",
    ],
    counts="bytes of global loads at 8 rows of 2048 and at 12 of 1024: at most twice those of x; barriers a block: at "
    "most 4; sectors beyond those that the bytes fill: none",
)
def test_bytes(kernel, rng):
    for rows, cols in COUNTED:
        sizes, arrays, run = check(kernel, rng, rows, cols)
        kernel.within(run.counters.global_load_bytes, 2 * arrays["x"].nbytes, "bytes of global loads", unit="bytes")
        kernel.within(barriers_per_block(run), 4, "barriers for each block")
        kernel.no_excess_sectors(sizes, arrays)
