"""What is graded in lab12_split_channels/04_split_c_warp: channels split between the lanes of a warp."""

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

PLAIN = [convolution(1, 4, 8, 32, 3, pad=1), convolution(1, 8, 18, 64, 3)]
ODD = practice([
    convolution(1, 1, 3, 64, 3),
    convolution(1, 5, (7, 9), 128, 3, pad=1),
    convolution(1, 3, (17, 4), 64, 3, pad=2),
])
COUNTED = practice([convolution(1, 64, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and four filters have 576 / 72 = 8
GROUPS = 4  # of lanes, in the given file


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which lanes hold parts of the same sum?",
        "Those with the same lane % WK: their distance is a multiple of WK.",
        "for distance = WK, 2*WK, ... < 32: mine += __shfl_xor_sync(0xffffffff, mine, distance), for every sum",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=2,
    hint=[
        "Does every lane take part in every shuffle?",
        "Places past the edge are computed like all others; only their stores are left out.",
        "no condition around the shuffles",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "The same sum every time",
    weight=2,
    hint=[
        "Is the order of the additions the same for every lane and every run?",
        "A shuffle by xor adds the same pairs each time; atomic adds come in any order.",
        "no atomics: __shfl_xor_sync with distances WK, 2*WK, ...",
    ],
    counts="atomic operations and races, at 64 channels of 16 x 16 and 64 filters: none",
)
def test_order(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.within(case.counters.shared_atomic_requests, 0, "atomic operations on shared memory")
        kernel.within(case.counters.global_atomic_requests, 0, "atomic operations on global memory")
        kernel.within(case.counters.global_reduction_requests, 0, "reductions in global memory")
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "Loads as the tiles promise",
    weight=2,
    hint=[
        "Which channels does a group of lanes take?",
        "Group g takes channels g, g + WC, ... of each stage: no lane takes one twice.",
        "for (c = group; c < STEP; c += WC), as given",
    ],
    counts="bytes of shared and of global loads, at the same case: within a tenth of the formulas at the "
    "file's own tiles; a warp covers a quarter of the filters",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_thread_loads(kernel, case, LEAST)
        require_block_loads(kernel, case, lane_groups=GROUPS)


@criterion(
    "No bank conflicts",
    weight=1,
    hint=[
        "Four groups of lanes read four planes at once. In which banks?",
        "The given PLANE and WEIGHTS put the channels' words into different banks.",
        "leave PLANE and WEIGHTS as they are",
    ],
    counts="passes of shared loads and stores beyond the fewest, at the same case: none",
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
