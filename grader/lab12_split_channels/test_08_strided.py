"""What is graded in lab12_split_channels/08_strided: any stride."""

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

PLAIN = [convolution(1, 4, 15, 64, 3, stride=2, pad=1), convolution(1, 8, 17, 64, 3, stride=2)]
ODD = practice([
    convolution(1, 1, 3, 64, 3, stride=2),
    convolution(1, 5, (8, 11), 128, 3, stride=2, pad=1),
    convolution(1, 3, (18, 5), 64, 3, stride=2, pad=2),
])
OTHERS = {1: convolution(1, 5, (7, 9), 64, 3, stride=1, pad=1), 3: convolution(1, 5, (10, 13), 64, 3, stride=3, pad=1)}
COUNTED = practice([convolution(1, 64, 31, 64, 3, stride=2, pad=1)], count=1, scaled="filters")
LEAST = 2.8  # multiply-adds for each load; 4 x 4 places and two filters have 288 / (81 + 18) = 2.9


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Where does the window of the place at (i, j) of the tile begin?",
        "FILTER_STRIDE rows and columns on for each place: in the piece and in the image.",
        "sum[k][i][j] += weight * in[i*FILTER_STRIDE + r][j*FILTER_STRIDE + s]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=3,
    hint=[
        "Where in the image does the block's part begin?",
        "row0 and col0 count results: the image's rows are FILTER_STRIDE times as far, less the padding.",
        "row += row0*FILTER_STRIDE - PAD, col += col0*FILTER_STRIDE - PAD",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "Right for other strides",
    weight=2,
    hint=[
        "Is there a 2 in your code that should be FILTER_STRIDE?",
        "The constant is replaced for another stride; everything must follow from it.",
        "no literal strides; PH, PW, IH and IW follow already",
    ],
)
def test_others(kernel, rng):
    for stride, problem in OTHERS.items():
        check_split(kernel, rng, problem, constants={"FILTER_STRIDE": stride})


@criterion(
    "No race, and the same sum every time",
    about="RACE",
    weight=1,
    hint=[
        "What keeps the stage that is read from being overwritten?",
        "The barrier at the beginning of each stage, as before.",
        "leave the loop over the stages as it is",
    ],
    counts="races and atomic operations, at 64 channels of 31 x 31, 64 filters and stride 2: none",
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
    weight=2,
    hint=[
        "Is every pixel of the piece loaded once for a channel?",
        "in[PH][PW] by get_row, before the loops over k, r and s.",
        "get_row<...>(in[i], tile + c*PLANE + i*PITCH) for all PH rows",
    ],
    counts="bytes of shared and of global loads of the first kernel, at the same case: within a tenth of the "
    "formulas at the file's own tiles",
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
