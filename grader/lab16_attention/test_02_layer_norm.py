"""What is graded in lab16_attention/02_layer_norm: rows without their mean, in units of their deviation."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import normalised
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block

WHOLE = [(4, 256), (3, 1024)]
RAGGED = practice([(1, 1), (7, 31), (2, 127), (3, 257), (5, 1000)])
COUNTED = practice([(8, 2048), (12, 1024)], count=1)
THREADS = 256  # each may load one number of its row besides, such as one to subtract from all
BARRIERS = 6  # one for each sum, and as many again before and behind it


def check(kernel, rng, rows, cols, *, centred=1, shift=0.0, spread=1.0):
    sizes = {"ROWS": rows, "COLS": cols, "centred": centred}
    x = (spread * rng.uniform(-1, 1, (rows, cols)) + shift).astype(np.float32)
    arrays = kernel.inputs(sizes, rng, x=x)
    run = kernel.run(sizes, arrays)
    y, mean, rstd = normalised(x, centred)
    gamma, beta = (arrays[name].astype(np.float64) for name in ("gamma", "beta"))
    # A sum of the row is off by a part of its terms' magnitudes; in units of the deviation that is so much.
    units = np.abs(x).max(axis=1) * rstd + 1
    scale = (units[:, None] + abs(y)) * (abs(gamma) + abs(beta))
    kernel.check_against(run, {"y": y * gamma + beta}, k=4 * cols, scale=scale)
    kernel.check_against(run, {"mean": mean}, k=cols, scale=np.abs(x).max(axis=1))
    kernel.check_against(run, {"rstd": rstd}, k=4 * cols, scale=rstd * units)
    return sizes, arrays, run


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "What does a thread need to know of the row before it can write its first result?",
        "The mean of all, and then the mean of all squared deviations from it: two sums over the block.",
        "middle = sum_of_block(sum, first) / COLS; squares of row[i] - middle; scale = rsqrtf(... / COLS + SMALL)",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case, shift=0.5)


@criterion(
    "RMSNorm: without centring",
    weight=2,
    hint=[
        "With centred = 0, what takes the place of the mean?",
        "Zero: results are divided by the root of the mean square, and nothing is subtracted.",
        "middle = centred ? sum_of_block(...) / COLS : 0.0f",
    ],
)
def test_uncentred(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case, centred=0, shift=0.5)


@criterion(
    "Rows of any length",
    weight=2,
    hint=[
        "Of 31 numbers, what do the other threads add to the sums?",
        "Zero; and the mean is a sum divided by COLS, not by the number of threads.",
        "for (i = t; i < COLS; i += THREADS); all threads call sum_of_block",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        for centred in (0, 1):
            check(kernel, rng, *case, centred=centred)


@criterion(
    "A mean that is large beside the deviation",
    weight=3,
    hint=[
        "x is about 2000, give or take 1. How many digits of the mean of x squared less 2000 squared are right?",
        "None. Subtract first, square then: deviations are small numbers, known to many digits.",
        "deviation = row[i] - middle; squares += deviation * deviation",
    ],
)
def test_large_mean(kernel, rng):
    for rows, cols in ((3, 600), (2, 1000)):
        check(kernel, rng, rows, cols, shift=float(rng.integers(1800, 2200)))


@criterion(
    "No race between warps",
    about="RACE",
    weight=2,
    hint=[
        "Both sums go through shared memory. Who may still be reading the first one's room?",
        "Somebody who has passed the barrier a little later: give the second sum a room of its own.",
        "sum_of_block(sum, first) and sum_of_block(squares, second)",
    ],
)
def test_race(kernel, rng):
    for rows, cols in ((2, 1000), (1, 257)):
        sizes = {"ROWS": rows, "COLS": cols, "centred": 1}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check(kernel, rng, 2, 1000)


@criterion(
    "A row is read once",
    weight=3,
    hint=[
        "How often does your row come from memory?",
        "It fits into shared memory, where each thread keeps its own elements.",
        "row[i] = x[begin + i] in the first loop; the others read row[i]",
    ],
    counts="bytes of global loads at 8 rows of 2048 and at 12 of 1024, gamma and beta among them: at most 3 times "
    "those of x, and one number more for each thread; barriers a block: at most 6; sectors beyond those that the bytes "
    "fill: none; bank conflicts: none",
)
def test_bytes(kernel, rng):
    for rows, cols in COUNTED:
        sizes, arrays, run = check(kernel, rng, rows, cols)
        most = 3 * arrays["x"].nbytes + 4 * rows * THREADS
        kernel.within(run.counters.global_load_bytes, most, "bytes of global loads", unit="bytes")
        kernel.within(barriers_per_block(run), BARRIERS, "barriers for each block")
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
