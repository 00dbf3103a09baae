"""What is graded in lab12_split_channels/05_split_c_block: channels split between the warps of a block."""

from __future__ import annotations

from warpcourse.cases import RACES, convolution
from warpcourse.lab12_split_channels.cases import (
    check_split,
    require_block_loads,
    require_no_local_memory,
    require_parts,
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
COUNTED = practice([convolution(1, 64, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "BC threads hold parts of the same sum, in different warps. Where can they meet?",
        "In shared memory: every group stores to PLACES * PADDED floats of its own; who writes a result adds them.",
        "shared[(group*PLACES + place)*PADDED + lane] = sum; barrier; for g = 0, 1, ...: add "
        "shared[(g*PLACES + place)*PADDED + f]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=2,
    hint=[
        "Are there channels that no group takes?",
        "Channels past C are zeros in the stage; each group takes every BC-th channel of it.",
        "the given loop: for (c = group; c < STEP; c += BC)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "No race, and the same sum every time",
    about="RACE",
    weight=3,
    hint=[
        "When may the groups' sums be added? And in which order?",
        "After a barrier that all threads reach; one thread adds all groups, always from the first to the last.",
        "store; __syncthreads(); for g in 0..BC-1: sum += ...; no atomics",
    ],
    counts="races, and atomic operations on shared memory, at 64 channels of 16 x 16 and 64 filters: none",
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
        kernel.within(case.counters.shared_atomic_requests, 0, "atomic operations on shared memory")


@criterion(
    "Loads as the tiles promise",
    weight=2,
    hint=[
        "Does a second group load anything a second time?",
        "Stages are shared by the groups, and each group multiplies its own channels only.",
        "compare with 03_staged_store.cu: the stages are the same",
    ],
    counts="bytes of shared and of global loads, at the same case: within a tenth of the formulas at the "
    "file's own tiles; threads that share a sum: at least two",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_parts(kernel, case)
        require_thread_loads(kernel, case, LEAST)
        require_block_loads(kernel, case)


@criterion(
    "No waste on the way out",
    weight=1,
    hint=[
        "Which bank does lane l meet at [place][l]?",
        "Rows of 33 floats keep lanes apart along the filters and along the places.",
        "result = shared + place*PADDED + lane",
    ],
    counts="passes of shared memory and sectors of global stores beyond the fewest, at the same case: none",
)
def test_waste(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
        kernel.no_excess_sectors(case.sizes, case.arrays, loads=False)


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
