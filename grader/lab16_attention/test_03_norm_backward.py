"""What is graded in lab16_attention/03_norm_backward: gradients of x, gamma and beta."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import normalised
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block, require_read_once

WHOLE = [(4, 256), (560, 64)]
RAGGED = practice([(1, 1), (7, 31), (2, 127), (533, 33), (5, 1000)])
COUNTED = practice([(1056, 256), (1584, 128)], count=1)
LONG = practice([(6, 2048), (5, 1536)], count=1)  # rows for one block each, of several columns for each thread
PARTS = 528
BARRIERS = 6  # two for the row's sums, and some before and behind them


def check(kernel, rng, rows, cols, *, centred=1):
    sizes = {"ROWS": rows, "COLS": cols, "centred": centred}
    x = (rng.uniform(-1, 1, (rows, cols)) + 0.5).astype(np.float32)
    _, mean, rstd = normalised(x, centred)
    arrays = kernel.inputs(sizes, rng, x=x, mean=mean.astype(np.float32), rstd=rstd.astype(np.float32))
    run = kernel.run(sizes, arrays)
    mean, rstd, gamma, dy = (arrays[name].astype(np.float64) for name in ("mean", "rstd", "gamma", "dy"))
    h = (x - mean[:, None]) * rstd[:, None]
    g = dy * gamma
    means = [(values).mean(axis=1, keepdims=True) for values in (g * centred, g * h)]
    dx = rstd[:, None] * (g - means[0] - h * means[1])
    # Differences cancel: what is off is a part of what goes into them.
    sizes_of = [abs(values).mean(axis=1, keepdims=True) for values in (g, g * h)]
    kernel.check_against(
        run, {"dx": dx}, k=cols + 8, scale=rstd[:, None] * (abs(g) + sizes_of[0] + abs(h) * sizes_of[1])
    )
    kernel.check_against(run, {"dgamma": (dy * h).sum(axis=0)}, k=rows + 8, scale=(abs(dy * h)).sum(axis=0))
    kernel.check_against(run, {"dbeta": dy.sum(axis=0)}, k=rows, scale=abs(dy).sum(axis=0))
    return sizes, arrays, run


@criterion(
    "Right gradients",
    weight=4,
    hint=[
        "If x of one element grows, mean and deviation of its row change too. What does that do to the others?",
        "It takes the mean of g from all of them, and h times the mean of g * h.",
        "dx = rstd * (g - sum(g) / COLS - h * sum(g * h) / COLS)",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case)


@criterion(
    "RMSNorm: without centring",
    weight=2,
    hint=[
        "With centred = 0 nothing was subtracted. What is left of dx?",
        "The mean of g stays; the deviation's part goes as before.",
        "of_mean = centred ? sums.x / COLS : 0.0f",
    ],
)
def test_uncentred(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case, centred=0)


@criterion(
    "Any number of rows and columns",
    weight=2,
    hint=[
        "529 rows and 528 blocks: who takes the last row?",
        "The block that also has row 0: its columns' sums go on from one row to the next.",
        "for (r = blockIdx.x; r < ROWS; r += gridDim.x), sums set to 0 before it",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        for centred in (0, 1):
            check(kernel, rng, *case, centred=centred)


@criterion(
    "No race between threads",
    about="RACE",
    weight=2,
    hint=[
        "Which threads touch column 7 of the sums in shared memory?",
        "One, if a thread's columns are t, t + THREADS, ... in each row. Sums over a row go through sums_of_block.",
        "sum_gamma[i] += ... in the loop over this thread's own i",
    ],
)
def test_race(kernel, rng):
    sizes = {"ROWS": 540, "COLS": 257, "centred": 1}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check(kernel, rng, 2, 257)


@criterion(
    "x and dy are read once",
    weight=3,
    hint=[
        "After the two sums you need g and h of the row again. Where are they?",
        "In shared memory, if you have kept them: a thread reads its own.",
        "g[i] and h[i] are written in the first loop and read in the second",
    ],
    counts="sectors of global loads at 1056 rows of 256, at 1584 of 128, and at 6 of 2048, gamma among them: at most 4 "
    "times those of x, for each row 256 numbers of mean and rstd, and the parts once; bytes of x and of dy that a "
    "block loads: each once; sectors beyond the fewest: none; bank conflicts: none; barriers a row of 2048: at most 6",
)
def test_bytes(kernel, rng):
    for rows, cols in (*COUNTED, *LONG):
        sizes, arrays, run = check(kernel, rng, rows, cols)
        # gamma may be read twice: who keeps dy in place of g multiplies once more.
        numbers = 4 * rows * cols + 256 * rows + min(rows, PARTS) * 2 * cols
        kernel.within(run.counters.sectors_read, numbers // 8, "sectors of global loads")
        # Nobody needs x or dy twice: so a sum of all loads does not do.
        require_read_once(kernel, sizes, arrays, "x", "dy", block=int(rng.integers(min(rows, PARTS))))
        if rows <= PARTS:
            kernel.within(barriers_per_block(run), BARRIERS, "barriers for each block")
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
