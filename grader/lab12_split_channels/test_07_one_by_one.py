"""What is graded in lab12_split_channels/07_one_by_one: filters of 1 x 1."""

from __future__ import annotations

from warpcourse.cases import RACES, convolution
from warpcourse.lab12_split_channels.cases import (
    check_split,
    require_block_loads,
    require_no_local_memory,
    require_thread_loads,
)
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_registers

PLAIN = [convolution(1, 16, 8, 128, 1), convolution(1, 8, 7, 128, 1)]
ODD = practice([
    convolution(1, 1, 1, 128, 1),
    convolution(1, 13, (9, 7), 128, 1, stride=2),
    convolution(1, 9, (5, 6), 256, 1, stride=3, pad=2),
    convolution(1, 5, (4, 3), 128, 1, pad=1),  # places below the image and right of it
])
COUNTED = practice([convolution(1, 256, 16, 128, 1)], count=1, scaled="filters")
STRIDED = convolution(1, 64, 32, 128, 1, stride=2)
LEAST = 3  # multiply-adds for each load; 16 places and four filters have 64 / 20 = 3.2


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "With filters of 1 x 1, what is the sum over?",
        "Over the channels only: weight [c][filter] times pixel [c][place].",
        "in[TP] by float4s from places + c*PLACES; weight = filters[c*FB + 32*k]; sum[k][i] += weight*in[i]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "Which pixel lies under place p of the result?",
        "Row p / OW and column p % OW of the result, times the stride, less the padding; it may lie outside.",
        "row = p/OW*STRIDE - PAD, col = p%OW*STRIDE - PAD; inside: (e/PLACES*H + row)*W + col, else OUTSIDE",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "No race, and the same sum every time",
    about="RACE",
    weight=1,
    hint=[
        "What keeps the stage that is read from being overwritten?",
        "The barrier at the beginning of each stage, as before.",
        "leave the loop over the stages as it is",
    ],
    counts="races and atomic operations, at 256 channels of 16 x 16 and 128 filters: none",
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        counters = case.counters
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
        kernel.within(counters.global_atomic_requests, 0, "atomic operations on global memory")
        kernel.within(counters.global_reduction_requests, 0, "reductions in global memory")


@criterion(
    "Loads as the tiles promise",
    weight=3,
    hint=[
        "How many loads serve TK * TP products of a channel?",
        "TP pixels and TK weights, each once: pixels as float4s, before the loop over the filters.",
        "TP / 4 float4s; then for k: one weight, TP products",
    ],
    counts="bytes of shared and of global loads of the first kernel, at the same case: within a tenth of TK + "
    "TP floats for each channel and thread, and of the block's",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_thread_loads(kernel, case, LEAST)
        require_block_loads(kernel, case)


@criterion(
    "Pixels between the places are not loaded",
    weight=1,
    hint=[
        "With stride 2, how many of a channel's pixels are needed?",
        "A quarter: source says where the needed ones stand, and only those are copied.",
        "source from p / OW * STRIDE and p % OW * STRIDE",
    ],
    counts="bytes of global loads of the first kernel, at 64 channels of 32 x 32 with stride 2: within a tenth"
    " of the block's formula",
)
def test_strided(kernel, rng):
    case = check_split(kernel, rng, STRIDED)
    require_block_loads(kernel, case)


@criterion(
    "No bank conflicts",
    weight=1,
    hint=[
        "Which lanes read the same pixels?",
        "All: the places belong to the warp, the filters to the lanes.",
        "places = stage + warp*TP, filters = stage + STEP*PLACES + lane, as given",
    ],
    counts="passes of shared memory beyond the fewest, at 256 channels of 16 x 16: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)


@criterion(
    "No local memory",
    weight=1,
    hint=[
        "Which arrays of a thread are indexed by something that the compiler cannot know?",
        "Registers have no addresses: sum and in stay there only if every loop over them is unrolled completely.",
        "#pragma unroll in front of every loop over k, r, s and the places; constants only in array indices",
    ],
    counts="requests to local memory: none; bytes spilled, for sm_80: at most 64; registers of a block: at most 65536",
)
def test_local(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_no_local_memory(kernel, case)
        require_registers(kernel, case.run, where_known=True)
