"""What is graded in lab12_split_channels/06_split_c_grid: channels split across the grid, added in a fixed order."""

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
COUNTED = practice([convolution(1, 64, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3
FEW, MANY = {"SPLITS": 1}, {"SPLITS": 7}


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which stages belong to copy number blockIdx.z of the grid? And who adds what they leave?",
        "cdiv(stages, SPLITS) stages each, beginning where the copy before ends; add() sums the planes of part.",
        "first = blockIdx.z*share, last = min(first + share, stages); sum += part[split*size + i], split = 0, 1, ...",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding, size and number of parts",
    weight=3,
    hint=[
        "What if there are fewer stages than copies of the grid?",
        "Such a copy has no stages, and leaves zeros: first may lie past the end, last must not.",
        "last = min(first + share, stages); loops from first to last then do nothing",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)
    check_split(kernel, rng, ODD[1], constants=FEW)
    check_split(kernel, rng, ODD[1], constants=MANY)


@criterion(
    "No race, and the same sum every time",
    about="RACE",
    weight=3,
    hint=[
        "In which order do blocks finish? In which order are their results added?",
        "Each copy of the grid has a plane of its own; the second kernel adds the planes in order.",
        "no atomics: part + blockIdx.z*F*OH*OW, then one sum for each element",
    ],
    counts="races and atomic operations, at 64 channels of 16 x 16 and 64 filters: none",
)
def test_order(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        counters = case.counters
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
        kernel.within(counters.global_atomic_requests, 0, "atomic operations on global memory")
        kernel.within(counters.global_reduction_requests, 0, "reductions in global memory")


@criterion(
    "More blocks, no more products",
    weight=2,
    hint=[
        "Do two copies of the grid take the same stage?",
        "The shares meet exactly: every stage belongs to one copy.",
        "for (stage = first; stage < last; ++stage)",
    ],
    counts="products, at the same case: those of the definition; blocks of the first kernel: at least "
    "twice one for each 8 x 8 places",
)
def test_products(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        kernel.within(case.counters.multiplications, problem.products, "products")
        kernel.at_least(case.run.launches[0].blocks, 2 * problem.out_height * problem.out_width // 64, "blocks")


@criterion(
    "Loads as the tiles promise",
    weight=2,
    hint=[
        "Did the loop over a stage's channels change?",
        "A copy of the grid does what the whole grid did before, for its own stages.",
        "compare with 05_split_c_block.cu",
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
