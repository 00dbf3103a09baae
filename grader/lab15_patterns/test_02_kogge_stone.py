"""What is graded in lab15_patterns/02_kogge_stone: inclusive scans of 512 elements each."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab15_patterns.cases import SPAN, check_scan, require_additions
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block

WHOLE = [512, 1024, 4096]
RAGGED = practice([1, 2, 31, 33, 127, 511, 513, 1000, 20_001])
ALIGNED = 4096
COUNTED = practice([ALIGNED, 5 * SPAN], count=1)


@criterion(
    "Right sums",
    weight=3,
    hint=[
        "x = 3 1 7 0. After distance 1 the sums are 3 4 8 7. What does distance 2 make of the last two?",
        "Each thread adds the sum that ends `distance` before its element, if there is one; then the distance doubles.",
        "for distance = 1, 2, 4, ... < SPAN: if (t >= distance) sum += shared[t - distance]; share the new sum",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_scan(kernel, rng, n)


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "The last block has threads without an element. What do they hold, and what may they not do?",
        "They hold zero, pass every barrier, and neither load nor store.",
        "sum = i < n ? x[i] : 0; ...; if (i < n) y[i] = sum;",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        check_scan(kernel, rng, n)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A thread overwrites the sum that another thread reads in the same step. Which of the two comes first?",
        "Nobody knows. Read from one half of tile and write to the other, or read, wait, write, wait.",
        "if (t >= distance) sum += tile[full][t - distance]; full = 1 - full; tile[full][t] = sum; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    sizes = {"n": ALIGNED}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_scan(kernel, rng, ALIGNED)


@criterion(
    "Everybody adds, ten times at most",
    weight=3,
    hint=[
        "How far does a sum reach back after one step, two, three? How many steps does it take for 512?",
        "The distance doubles: nine steps. One thread that walks needs 511, with 31 lanes of its warp at rest.",
        "for (int distance = 1; distance < SPAN; distance *= 2)",
    ],
    counts="at n = 4096: additions, at most 10 for each element; arithmetic instructions of warps for each 512 "
    "elements, at most 256 (9 steps of 16 warps are 144); lanes that rest in them, at most 1024; doubles and halves "
    "count, too",
)
def test_steps(kernel, rng):
    for n in COUNTED:
        run = check_scan(kernel, rng, n)[2]
        require_additions(kernel, run, each=10, by_warps=256, idle=1024)


@criterion(
    "Two barriers a step",
    weight=1,
    hint=[
        "Nine steps: how often must the block wait in each?",
        "Once with two buffers, twice with one, and a warp that scans by shuffles not at all.",
        "tile[2][SPAN]: read tile[full], write tile[1 - full], one barrier",
    ],
    counts="barriers of a block, at n = 4096: at most 20",
)
def test_barriers(kernel, rng):
    for n in COUNTED:
        kernel.within(barriers_per_block(check_scan(kernel, rng, n)[2]), 20, "barriers for each block")


@criterion(
    "Full sectors, no bank conflicts",
    weight=1,
    hint=[
        "Which words do the 32 lanes of a warp read for the same distance?",
        "Neighbours: t - distance for neighbouring t. They lie in 32 banks, wherever they begin.",
        "tile[full][t - distance], x[i], y[i]",
    ],
    counts="sectors, and wavefronts of shared loads and stores, beyond the fewest, at n = 4096: none",
)
def test_conflicts(kernel, rng):
    for n in COUNTED:
        sizes, arrays, _ = check_scan(kernel, rng, n)
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
