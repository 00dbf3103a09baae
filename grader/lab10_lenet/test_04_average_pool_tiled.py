"""What is graded in lab10_lenet/04_average_pool_tiled: pooling whose warps read neighbours."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab10_lenet.cases import check_mean_pool
from warpschool.grading import criterion, practice

WHOLE = [(2, 4, 8, 16), (2, 32, 24, 24)]
RAGGED = practice([(1, 1, 2, 2), (2, 3, 5, 7), (3, 5, 9, 31), (1, 33, 2, 3)])
COUNTED = practice([(2, 16, 24, 24), (1, 12, 32, 40)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Element i of the block's upper rows belongs to window first + i / 2. Which column of it is it?",
        "Column i % 2: so it stands at column 2 * (window % PW) + i % 2 of x, and its lower one a row further down.",
        "uppers[i] = x[row + col]; lowers[i] = x[row + W + col]; then thread t takes upper[t] and lower[t]",
    ],
)
def test_correct(kernel, rng):
    for shape in WHOLE:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "Odd heights and widths, and the last block",
    weight=2,
    hint=[
        "Which elements does the last block not have?",
        "Those of windows past the last one: neither copied nor read, but the barrier is for all threads.",
        "if (w < windows) copy; __syncthreads(); if (window < windows) write",
    ],
)
def test_ragged(kernel, rng):
    for shape in RAGGED:
        check_mean_pool(kernel, rng, shape)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Who copied the elements of your window?",
        "Other threads: a barrier between, reached by all.",
        "copy; __syncthreads(); read",
    ],
)
def test_race(kernel, rng):
    for shape in COUNTED:
        sizes = dict(zip(("BATCH", "C", "H", "W"), shape, strict=True))
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
        check_mean_pool(kernel, rng, shape)


@criterion(
    "No excess sectors",
    weight=3,
    hint=[
        "Do neighbouring lanes load neighbouring elements of x?",
        "Let lanes run along elements, not along windows: 2 * THREADS elements of upper rows, then of lower ones.",
        "for (i = threadIdx.x; i < 2 * THREADS; i += THREADS) uppers[i] = ...",
    ],
    counts="sectors of global loads and stores beyond those that the bytes fill, at 2 x 16 x 24 x 24 and at 1 x 12 x "
    "32 x 40: none",
)
def test_sectors(kernel, rng):
    for shape in COUNTED:
        kernel.no_excess_sectors(*check_mean_pool(kernel, rng, shape))


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "Lanes t and t + 16 read floats 2t and 2t + 32: in which bank are these?",
        "In the same one. A float2 is read by half a warp at a time, and those 16 lie in 32 different banks.",
        "const float2 a = upper[threadIdx.x];",
    ],
    counts="passes of shared loads and stores beyond the fewest, at the same cases: none",
)
def test_banks(kernel, rng):
    for shape in COUNTED:
        kernel.no_excess_wavefronts(*check_mean_pool(kernel, rng, shape))
