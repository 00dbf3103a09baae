"""What is graded in lab15_patterns/01_segmented_sum: the sum of each segment."""

from __future__ import annotations

import numpy as np

from warpcourse.lab15_patterns.cases import atomic_lanes, segments
from warpschool.grading import criterion, practice

WARP = 32
EVEN = [(256, 8), (1024, 16), (4096, 512)]
RAGGED = practice([(1, 1), (31, 3), (33, 1), (127, 127), (257, 40), (1000, 300), (20_000, 17)])
ALIGNED = (4096, 100)
COUNTED = practice([ALIGNED, (11264, 900)], count=1)


def run_and_compare(kernel, rng, n, count, numbers):
    sizes = {"n": n, "S": count}
    arrays = kernel.inputs(sizes, rng, segment=numbers)
    run = kernel.run(sizes, arrays)
    x = arrays["x"].astype(np.float64)
    sums, scale = (np.bincount(numbers, weights=values, minlength=count) for values in (x, abs(x)))
    kernel.check_against(run, {"sums": sums}, k=n, scale=float(scale.max()))
    return sizes, arrays, run


@criterion(
    "Right sums",
    weight=3,
    hint=[
        "Lanes 0 to 4 belong to segment 7, lane 5 to segment 8. Which lanes may lane 3 add, and in which steps?",
        "A lane adds what comes from `offset` further on only if that lane exists and has the same segment number.",
        "other and its = shfl_down of sum and own, by offset; if (lane + offset < 32 && its == own) sum += other",
    ],
)
def test_correct(kernel, rng):
    for n, count in EVEN:
        run_and_compare(kernel, rng, n, count, np.arange(n) * count // n)


@criterion(
    "Segments of any lengths",
    weight=3,
    hint=[
        "A segment may lie in many blocks, or in a part of one warp. Who adds the parts together?",
        "The first lane of each run in a warp: lane 0, and every lane whose segment differs from the lane's before.",
        "before = shfl_up(own, 1); if (i < n && (lane == 0 || before != own)) atomicAdd(&sums[own], sum)",
    ],
)
def test_ragged(kernel, rng):
    for n, count in RAGGED:
        run_and_compare(kernel, rng, n, count, segments(rng, n, count))
    run_and_compare(kernel, rng, 3000, 5, np.full(3000, 3))  # the others are empty


@criterion(
    "All lanes shuffle",
    about="SYNC",
    weight=1,
    hint=[
        "The last warp has lanes without an element. May they leave before the shuffles?",
        "The mask of __shfl_down_sync names all 32 lanes: all of them must come, with a value that adds nothing.",
        "own = i < n ? segment[i] : S; sum = i < n ? x[i] : 0; ... shuffles outside of any if",
    ],
)
def test_lanes(kernel, rng):
    run_and_compare(kernel, rng, 1000 - 3, 50, segments(rng, 997, 50))


@criterion(
    "One atomic addition for each run of a warp",
    weight=3,
    hint=[
        "How many atomic additions does a segment of 3,200 elements need, if each warp adds its 32 lanes first?",
        "100: one for each warp. The other lanes' sums are parts of it, and must not be added again.",
        "if (lane == 0 || before != own) atomicAdd(...)",
    ],
    counts="lanes that add to global memory by atomics: at most one for each run of equal segment numbers in 32 "
    "neighbours; at n = 4096, with 100 segments, and with one",
)
def test_atomics(kernel, rng):
    for n, count in COUNTED:
        for numbers in (segments(rng, n, count), np.full(n, count // 2)):
            run = run_and_compare(kernel, rng, n, count, numbers)[2]
            cut = numbers[1:] != numbers[:-1]
            cut[WARP - 1 :: WARP] = True
            kernel.within(atomic_lanes(run, "global"), 1 + int(cut.sum()), "lanes that add to global memory")


@criterion(
    "Every element once, in full sectors",
    weight=2,
    hint=[
        "Which elements do the 32 lanes of a warp load together?",
        "Neighbours. A thread that walks along a whole segment leaves its warp with 32 sectors for each load.",
        "i = blockIdx.x * BLOCK + threadIdx.x; x[i] and segment[i]",
    ],
    counts="bytes of global loads: at most 8 for each element, and 64 for each 32 of them; sectors of loads beyond the "
    "fewest: none, at n = 4096",
)
def test_bytes(kernel, rng):
    for n, count in COUNTED:
        sizes, arrays, run = run_and_compare(kernel, rng, n, count, segments(rng, n, count))
        kernel.within(run.counters.global_load_bytes, 8 * n + 2 * n, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(sizes, arrays, stores=False)
