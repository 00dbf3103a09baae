"""What is graded in lab15_patterns/06_compaction: elements above a limit, in their order."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpschool.grading import criterion, practice

BLOCK = 256
WARP = 32
SECTOR_FLOATS = 8
WHOLE = [256, 1024, 8192]
RAGGED = practice([1, 2, 31, 33, 127, 255, 257, 1000, 20_001])
ALIGNED = 8192
COUNTED = practice([ALIGNED, 13 * 512], count=1)


def run_and_compare(kernel, rng, n, limit, **given):
    sizes = {"n": n, "limit": float(np.float32(limit))}
    arrays = kernel.inputs(sizes, rng, **given)
    run = kernel.run(sizes, arrays)
    x = arrays["x"]
    kept = x[x > np.float32(limit)]
    kernel.check_against(run, {"y": np.concatenate([kept, np.zeros(n - kept.size, np.float32)])})
    return sizes, arrays, run


@criterion(
    "Kept, in their order",
    weight=3,
    hint=[
        "Lanes 2, 3 and 7 keep theirs. At which places of the warp's part do they store?",
        "0, 1 and 2: the number of kept elements before a lane. The warps before add theirs, and the block's start.",
        "place = start[blockIdx.x] + of_warps before + popc(vote & ((1 << lane) - 1)); if (keep) y[place] = own",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        run_and_compare(kernel, rng, n, rng.uniform(-0.5, 0.5))


@criterion(
    "Ragged lengths, all and none",
    weight=2,
    hint=[
        "A thread past the end holds zero. Is zero larger than a negative limit?",
        "It may be: only elements that exist are kept, in the count and in the vote.",
        "keep = i < n && own > limit; all 32 lanes vote",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, rng, n, rng.uniform(-0.9, 0.3))
    for limit in (-2, 2):
        run_and_compare(kernel, rng, 1000, limit)


@criterion(
    "More than 1024 blocks",
    weight=1,
    hint=[
        "start[b] counts what all blocks before b keep. What is b, when n is 300,000?",
        "Up to 1171: the given kernel walks in rounds of 1024. Do your numbers reach it for every block?",
        "kept[blockIdx.x] = number, by one thread of every block",
    ],
)
def test_many_blocks(kernel, rng):
    run_and_compare(kernel, rng, 300_000, 0.3)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A thread needs the numbers of other warps. When are they there?",
        "After a barrier between the store of the warp's number and the first read of another's.",
        "if (lane == 0) of_warps[warp] = __popc(vote); __syncthreads(); place += of_warps[w]",
    ],
)
def test_race(kernel, rng):
    sizes = {"n": ALIGNED, "limit": 0.1}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    run_and_compare(kernel, rng, ALIGNED, 0.1)


@criterion(
    "x twice, y once",
    weight=2,
    hint=[
        "How often is an element loaded, by count_kept and by compact together?",
        "Twice. Numbers of warps and blocks are small; nobody walks over the elements before its own.",
        "one load of x[i] in each kernel; the scan is over votes and over of_warps",
    ],
    counts="at n = 8192: sectors of global loads for each 32 elements, at most 12 (x twice is 8); bytes of stores, at "
    "most 4 for each kept element and half a byte for each of all; atomics: none",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        run = run_and_compare(kernel, rng, n, 0.2)[2]
        kept = int(np.count_nonzero(run.outputs["y"]))
        kernel.within(run.counters.sectors_read, 12 * n // WARP, "sectors of global loads")
        kernel.within(run.counters.global_store_bytes, 4 * kept + n // 2, "bytes of global stores", unit="bytes")


@criterion(
    "Stores side by side",
    weight=2,
    hint=[
        "How many sectors does a warp touch when its lanes store 16 neighbouring floats?",
        "Two, or three if they begin inside a sector: kept elements of a warp are neighbours in y.",
        "place counts only kept elements before this one, so neighbours among the kept store to neighbours",
    ],
    counts="sectors of global stores, at n = 8192: at most one for each 8 kept elements, and two for each 32 elements; "
    "sectors of loads beyond the fewest: none",
)
def test_sectors(kernel, rng):
    for n in COUNTED:
        sizes, arrays, run = run_and_compare(kernel, rng, n, 0.2)
        kept = int(np.count_nonzero(run.outputs["y"]))
        most = kept // SECTOR_FLOATS + 2 * n // WARP
        kernel.within(run.counters.global_store_sectors, most, "sectors of global stores")
        kernel.no_excess_sectors(sizes, arrays, stores=False)
