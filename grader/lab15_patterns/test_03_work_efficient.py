"""What is graded in lab15_patterns/03_work_efficient: the same scans with fewer additions."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab15_patterns.cases import SPAN, check_scan, require_additions, require_few_conflicts
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block

WHOLE = [512, 1024, 4096]
RAGGED = practice([1, 2, 31, 33, 127, 257, 511, 513, 1000, 20_001])
ALIGNED = 4096
COUNTED = practice([ALIGNED, 5 * SPAN], count=1)
BARRIERS = 44


@criterion(
    "Right sums",
    weight=3,
    hint=[
        "Draw the tree over 3 1 7 0. Which sum lies before the node that covers 7 and 0?",
        "Down: the left child gets what lies before its parent, the right one that and the left child's sum. The right "
        "child stands where its parent does, so keep the left one's sum before it is overwritten.",
        "root = 0; for half = SPAN / 2 ... 1: sum = left; left = right; right += sum",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_scan(kernel, rng, n)


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "A thread has two elements. Can one of them exist without the other?",
        "Yes: each is guarded by itself, and an absent one is zero in the tree.",
        "own_high = high < n ? x[high] : 0; ...; if (high < n) y[high] = ...",
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
        "Which threads wrote the two sums that a node adds?",
        "Two threads of the level below, perhaps of another warp: between levels stands a barrier, up and down, and "
        "after the last level too.",
        "for half = ...: __syncthreads(); if (t < SPAN / 2 / half) ...   and once more before the results are read",
    ],
)
def test_race(kernel, rng):
    sizes = {"n": ALIGNED}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_scan(kernel, rng, ALIGNED)


@criterion(
    "Half of the additions",
    weight=4,
    hint=[
        "How many inner nodes has a tree over 512 elements, and how often does each of them add?",
        "511, once on the way up and once down: two additions for each element, and one for the element itself.",
        "if (t < SPAN / 2 / half): the first threads take the nodes of a level; the others rest",
    ],
    counts="at n = 4096: additions for each element, at most 4 (step 02 needs 8, the tree 3); arithmetic instructions "
    "of warps for each 512 elements, at most 128; lanes that rest in them, at most 512; doubles and halves count, too; "
    "barriers a block: at most 44 (two for each level, up and down, and some more)",
)
def test_work(kernel, rng):
    for n in COUNTED:
        run = check_scan(kernel, rng, n)[2]
        require_additions(kernel, run, each=4, by_warps=128, idle=512)
        kernel.within(barriers_per_block(run), BARRIERS, "barriers for each block")


@criterion(
    "Full sectors, hardly any bank conflicts",
    weight=3,
    hint=[
        "At a level with half = 16, which words do 16 lanes touch, and in which banks do these lie?",
        "Words 32 apart: all in one bank. One free word after each 32 moves each of them one bank further.",
        "tile[place(i)] with place(i) = i + i / 32, for every access",
    ],
    counts="at n = 4096: wavefronts of shared loads and stores beyond the fewest, at most 96 for each 512 elements "
    "(without gaps there are about 500); sectors beyond the fewest: none",
)
def test_conflicts(kernel, rng):
    for n in COUNTED:
        sizes, arrays, run = check_scan(kernel, rng, n)
        kernel.no_excess_sectors(sizes, arrays)
        require_few_conflicts(kernel, run, each=96)
