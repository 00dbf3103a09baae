"""What is graded in lab10_lenet/02_average_pool: the mean of each window of 2 x 2."""

from __future__ import annotations

from warpcourse.lab10_lenet.cases import check_mean_pool
from warpschool.grading import criterion, practice

WHOLE = [(2, 4, 8, 16), (2, 32, 24, 24)]
RAGGED = practice([(1, 1, 2, 2), (2, 3, 5, 7), (3, 5, 9, 31), (1, 33, 2, 3)])
COUNTED = practice([(2, 16, 24, 24), (1, 12, 32, 40)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Window (i, j) of a channel begins at which row and column of x?",
        "At row 2i and column 2j; the next row is W elements further on.",
        "from = x + (plane*H + 2*i)*W + 2*j; 0.25f * (from[0] + from[1] + from[W] + from[W + 1])",
    ],
)
def test_correct(kernel, rng):
    for shape in WHOLE:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "Odd heights and widths, and the last block",
    weight=2,
    hint=[
        "5 x 7 elements have how many windows?",
        "2 x 3: what is left over belongs to none. But rows of x are still 7 long.",
        "PH = H / 2, PW = W / 2 count windows; H and W find elements; if (window < BATCH * C * PH * PW)",
    ],
)
def test_ragged(kernel, rng):
    for shape in RAGGED:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "One pass over memory",
    weight=2,
    hint=[
        "How often is an element of x read?",
        "Windows do not overlap: each element belongs to one, and one thread reads it once.",
        "four loads and one store for each window; neighbouring threads write neighbours",
    ],
    counts="bytes of global loads at 2 x 16 x 24 x 24 and at 1 x 12 x 32 x 40: those of x; sectors of stores beyond "
    "those that the bytes fill: none",
)
def test_bytes(kernel, rng):
    for shape in COUNTED:
        case = check_mean_pool(kernel, rng, shape)
        loaded = kernel.counters(*case).global_load_bytes
        kernel.within(loaded, case[1]["x"].nbytes, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(*case, loads=False)
