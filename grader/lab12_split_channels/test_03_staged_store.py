"""What is graded in lab12_split_channels/03_staged_store: results leave through shared memory."""

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

PLAIN = [convolution(1, 4, 8, 64, 3, pad=1), convolution(1, 8, 18, 64, 3)]
ODD = practice([
    convolution(1, 1, 3, 64, 3),
    convolution(1, 5, (7, 9), 128, 3, pad=1),
    convolution(1, 3, (17, 4), 64, 3, pad=2),
])
COUNTED = practice([convolution(1, 32, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A result lies in shared memory under its place and its filter. Who stores it to y?",
        "Place p of the block is row p / (BW*TW), column p % (BW*TW) of it; its filters are 33 floats "
        "behind the last place's.",
        "shared[place*PADDED + lane] = sum[k][...]; barrier; y[((f0 + 32*k + f)*OH + row)*OW + col] = "
        "shared[place*PADDED + f]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=2,
    hint=[
        "Which places of a block do not exist?",
        "The lanes go on until PLACES; rows and columns of a block may lie past OH and OW.",
        "for (place = lane; place < PLACES; place += 32): if (row < OH && col < OW)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Three things happen to the same floats: stages were read there, results are stored, results are loaded.",
        "A barrier after the stores, and one before the next 32 filters are stored.",
        "for k: store; __syncthreads(); load and write y; __syncthreads()",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "Whole sectors leave",
    weight=3,
    hint=[
        "Which address of y does the neighbouring lane write?",
        "Lanes run along the places, and each warp takes its own filters.",
        "for (place = lane; ...; place += 32): for (f = warp; f < 32; f += WARPS)",
    ],
    counts="sectors of global stores beyond those that the bytes fill, at 32 channels of 16 x 16 and 64 filters: none",
)
def test_sectors(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_excess_sectors(case.sizes, case.arrays, loads=False)


@criterion(
    "No bank conflicts",
    weight=3,
    hint=[
        "In which bank lies [place][filter] with rows of 32 floats? And with rows of 33?",
        "With 33, neighbouring filters and neighbouring places both lie in neighbouring banks.",
        "index = place * PADDED + filter, for the store and for the load",
    ],
    counts="passes of shared loads and stores beyond the fewest, at the same case: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)


@criterion(
    "Loads as the tiles promise",
    weight=1,
    hint=[
        "Did you change how stages are filled and multiplied?",
        "They stay as they were in 02; only the end of the kernel is new.",
        "compare with 02_block_tile.cu",
    ],
    counts="bytes of shared and of global loads, at the same case: within a tenth of the formulas at the "
    "file's own tiles",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_thread_loads(kernel, case, LEAST)
        require_block_loads(kernel, case)


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
