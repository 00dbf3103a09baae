"""What is graded in lab12_split_channels/02_block_tile: a block shares its part of the image and its filters."""

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
COUNTED = practice([convolution(1, 16, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Where in a stage does channel c of the thread's piece begin, and where its weight (r, s)?",
        "Planes are PLANE floats apart, rows PITCH; the weights of a channel follow each other, FB floats "
        "for each (r, s).",
        "get_row<...>(in[i], tile + c*PLANE + i*PITCH); weight = filters[(c*WINDOW + r*FILTER_S + s)*FB + 32*k]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=2,
    hint=[
        "What must a stage hold outside the image, and past the last channel?",
        "Zeros, written by the copy itself: its last argument says how many bytes of zeros to write instead.",
        "at = c0*H*W + source[l]; exists = at < C*H*W; copy(to + e, exists ? x + at : x, 4, exists ? 0 : 4)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A stage is read while the next one is filled. What keeps them apart?",
        "Everybody waits for the own copies, then the barrier; only then the stage before is overwritten.",
        "wait_prior; __syncthreads(); load the stage after next into the buffer that was read last",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "Loads as the tiles promise",
    weight=4,
    hint=[
        "How often does the block load a pixel from global memory, and a thread from shared memory?",
        "Once for each block and stage; from there once for each thread, by get_row, before the loops over k, r and s.",
        "in[PH][PW] by get_row; for k, r, s one weight; for TH * TW places one product each",
    ],
    counts="bytes of shared and of global loads, at 16 channels of 16 x 16 and 64 filters: within a tenth of "
    "the formulas at the file's own tiles (figures 4.6 and 5.2 of the thesis)",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_thread_loads(kernel, case, LEAST)
        require_block_loads(kernel, case)


@criterion(
    "No bank conflicts",
    weight=1,
    hint=[
        "Which lanes of a warp read the same pixel, and which neighbouring weights?",
        "All lanes read the same pixels, which is a broadcast; lane l reads weight l of 32 neighbours.",
        "filters = stage + STEP*PLANE + lane; the thread's next filter is 32 floats on",
    ],
    counts="passes of shared loads and stores beyond the fewest, at the same case: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)


@criterion(
    "No local memory",
    weight=2,
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
