"""What is graded in lab00_first_kernels/03_block_sum: one sum for every 256 elements."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

SPAN = 256  # elements of one sum
WARP = 32
IDLE = 96 + 8 * 31
"""Lanes that may rest for a sum: where eight sums of warps are added, eight lanes of 32 work in three steps; and a
compiler may leave each warp's last addition to the one lane whose sum is needed, as clang does."""
FULL_BLOCKS = [256, 1024, 4096]
RAGGED = practice([1, 31, 33, 255, 257, 1000, 40_000])
ALIGNED = 16 * SPAN
COUNTED = practice([ALIGNED, 5 * SPAN], count=1)


def block_sums(x):
    padded = np.zeros(-(-x.size // SPAN) * SPAN)
    padded[: x.size] = x
    return padded.reshape(-1, SPAN).sum(axis=1)


def run_and_compare(kernel, rng, n):
    sizes = {"n": n}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    x = arrays["x"].astype(np.float64)
    kernel.check_against(run, {"sums": block_sums(x)}, k=SPAN, scale=float(block_sums(abs(x)).max()))
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Follow eight elements by hand: add the upper half to the lower half. Which four sums are left, and where?",
        "Each halving needs the whole block's result of the one before: a barrier after every one, outside any branch.",
        "for half = 128, 64: if (t < half) partial[t] += partial[t + half]; barrier. Then warp 0 shuffles.",
    ],
)
def test_correct(kernel, rng):
    for n in FULL_BLOCKS:
        run_and_compare(kernel, rng, n)


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "What is in shared memory for the threads whose element does not exist?",
        "Threads past the end still take part in every barrier: they contribute zero instead of leaving.",
        "partial[t] = i < n ? x[i] : 0.0f;",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, rng, n)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Warps of a block run in any order. Which value may be read before its writer has written it?",
        "Between a write to partial and another warp's read there must be a barrier that every thread reaches.",
        "load; __syncthreads(); then in the loop: add; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    sizes = {"n": ALIGNED}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=("race", "divergent-barrier", "uninitialized"))
    run_and_compare(kernel, rng, ALIGNED)


@criterion(
    "No bank conflicts",
    weight=1,
    hint=[
        "Which words of shared memory do the 32 lanes of one warp touch in the same instruction?",
        "partial[2 * t * stride] puts lanes into the same bank; neighbours for neighbouring lanes never do.",
        "Add the upper half to the lower half: partial[t] += partial[t + half]",
    ],
    counts="wavefronts of shared loads and stores beyond one per request, at n = 4096",
)
def test_wavefronts(kernel, rng):
    kernel.no_excess_wavefronts(*run_and_compare(kernel, rng, ALIGNED))


@criterion(
    "Full warps add",
    weight=1,
    hint=[
        "With t % (2 * stride) == 0 every warp stays busy to the end, for one or two lanes each.",
        "Let the lower half of the threads work, so that whole warps finish; leave the last 32 values to shuffles.",
        "for offset = 16, 8, 4, 2, 1: sum += __shfl_down_sync(0xffffffff, sum, offset), by all 32 lanes",
    ],
    counts="lanes that rest in additions, at n = 4096: the reference has none, 344 for each sum are allowed; and "
    "additions by warps, of doubles and halves too: at most 64 for each sum",
)
def test_active_lanes(kernel, rng):
    for n in COUNTED:
        sums = -(-n // SPAN)
        counters = kernel.counters(*run_and_compare(kernel, rng, n))
        kinds = ("fp32", "fp64", "fp16")
        warps = sum(counters[f"instructions_{kind}"] for kind in kinds)
        lanes = sum(counters[f"thread_instructions_{kind}"] for kind in kinds)
        kernel.at_least(lanes, SPAN * (sums - 1), "additions")
        kernel.within(WARP * warps - lanes, IDLE * sums, "lanes that rest in additions")
        kernel.within(warps, 64 * sums, "additions by warps")


@criterion(
    "At most four barriers",
    weight=1,
    hint=[
        "Once a single warp holds everything that is left, who would a barrier wait for?",
        "The last halvings happen inside one warp: shuffles need no barrier.",
        "one barrier after the load, one after half = 128, one after half = 64: three",
    ],
    counts="barrier instructions and arrivals at barrier objects, once per warp, at n = 4096: 4 for each 32 elements",
)
def test_barriers(kernel, rng):
    for n in COUNTED:
        counters = kernel.counters(*run_and_compare(kernel, rng, n))
        kernel.within(counters.block_barriers, 4 * n // WARP, "barriers, counted once per warp")
