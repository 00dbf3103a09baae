"""What is graded in lab15_patterns/05_histogram: how often each byte occurs."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpcourse.lab15_patterns.cases import atomic_lanes
from warpschool.grading import criterion, practice

BINS = 256
WARP = 32
WHOLE = [8192, 16384, 65536]
RAGGED = practice([1, 31, 33, 127, 255, 8191, 8193, 50_001])
ALIGNED = 65536
COUNTED = practice([ALIGNED, 40960], count=1)


def picture(rng, n):
    """Most bytes near one value, as in a photograph."""
    return np.clip(rng.normal(90, 40, n), 0, BINS - 1).astype(np.uint8)


def runs(rng, n):
    """Stretches of one value, as in a drawing; they begin anywhere."""
    return np.repeat(rng.integers(0, BINS, n // 40 + 1), rng.integers(60, 120, n // 40 + 1))[:n].astype(np.uint8)


def run_and_compare(kernel, x):
    sizes, arrays = {"n": x.size}, {"x": x}
    run = kernel.run(sizes, arrays)
    kernel.check_against(run, {"count": np.bincount(x, minlength=BINS)})
    return sizes, arrays, run


@criterion(
    "Every byte is counted",
    weight=3,
    hint=[
        "Two threads see the same byte at the same time. How do both of them count?",
        "By an atomic addition, to the block's counters first; at the end these are added to all, by atomics too.",
        "atomicAdd(&own[bin], ...); ...; __syncthreads(); atomicAdd(&count[bin], own[bin])",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        run_and_compare(kernel, picture(rng, n))
    run_and_compare(kernel, rng.integers(0, BINS, 8192).astype(np.uint8))
    run_and_compare(kernel, np.full(20_000, 255, np.uint8))


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "Lanes past the end vote with the others. What do they say?",
        "A value that no byte has, so that they find only each other; and nobody counts it.",
        "bin = i < n ? x[i] : BINS; same = match_any(bin); if (bin < BINS && ...) atomicAdd(...)",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, picture(rng, n))


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Who clears a counter, who adds to it, and who reads it at the end?",
        "Three different threads: a barrier after the clearing, and one before the block's counters are read.",
        "own[bin] = 0; __syncthreads(); count all; __syncthreads(); atomicAdd(&count[bin], own[bin])",
    ],
)
def test_race(kernel, rng):
    kernel.no_hazards({"n": ALIGNED}, {"x": picture(rng, ALIGNED)}, kinds=RACES)
    run_and_compare(kernel, picture(rng, ALIGNED))


@criterion(
    "A histogram for each block",
    weight=3,
    hint=[
        "How often does a block add to memory that all blocks share, if it counts in its own shared memory?",
        "256 times at most, for 8192 bytes or more. Counting in global memory takes an addition for every byte.",
        "__shared__ int own[BINS]; the loop adds to own; after it each thread adds one counter to count",
    ],
    counts="lanes that add to global memory by atomics: at most one for each 32 bytes of x, at n = 65536",
)
def test_global(kernel, rng):
    for n in COUNTED:
        run = run_and_compare(kernel, rng.integers(0, BINS, n).astype(np.uint8))[2]
        kernel.within(atomic_lanes(run, "global"), n // WARP, "lanes that add to global memory")


@criterion(
    "One addition for lanes with the same value",
    weight=3,
    hint=[
        "All 32 lanes of a warp see the same byte. How many additions to one counter is that, one after the other?",
        "32, if each lane adds for itself. __match_any_sync gives each lane the lanes that have its value.",
        "same = __match_any_sync(0xffffffff, bin); the lowest lane of same adds __popc(same)",
    ],
    counts="lanes that add to shared memory by atomics, at n = 65536: at most one for each 16 bytes where all are the "
    "same, and for each 8 in stretches of 60 to 120 equal ones",
)
def test_shared(kernel, rng):
    for n in COUNTED:
        what = "lanes that add to shared memory"
        run = run_and_compare(kernel, np.full(n, int(rng.integers(BINS)), np.uint8))[2]
        kernel.within(atomic_lanes(run, "shared"), n // 16, f"{what}, for one value")
        run = run_and_compare(kernel, runs(rng, n))[2]
        kernel.within(atomic_lanes(run, "shared"), n // 8, f"{what}, for stretches of one value")


@criterion(
    "Every byte is loaded once",
    weight=1,
    hint=[
        "Which bytes do the 32 lanes of a warp load together?",
        "32 neighbours, one sector. A thread that takes a stretch of its own leaves its warp with 32 sectors.",
        "i = first + t, with first from blockIdx.x * BLOCK on, by gridDim.x * BLOCK",
    ],
    counts="bytes of global loads: at most one and a quarter for each of x; sectors of loads beyond the fewest: none, "
    "at n = 65536",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        sizes, arrays, run = run_and_compare(kernel, picture(rng, n))
        kernel.within(run.counters.global_load_bytes, n + n // 4, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(sizes, arrays, stores=False)
