"""What is graded in lab12_split_channels/09_batched_ragged: any number of images and filters."""

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

PLAIN = [convolution(2, 4, 8, 64, 3, pad=1), convolution(3, 8, 10, 64, 3)]
FILTERS = practice([
    convolution(1, 4, 8, 33, 3, pad=1), convolution(1, 3, 6, 1, 3), convolution(2, 5, (7, 9), 68, 3, pad=1),
])  # fmt: skip
IMAGES = practice([convolution(5, 3, 7, 40, 3, pad=1), convolution(1, 6, (9, 3), 5, 3)])
SHARED_BLOCK = {"BI": 2, "BH": 1}
COUNTED = practice([convolution(2, 64, 16, 64, 3, pad=1)], count=1, scaled="batch")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3


@criterion(
    "Right for several images",
    weight=3,
    hint=[
        "Where does the plane of filter f of image n begin, and which images does a block have?",
        "Planes follow each other by filters, then by images; images past BATCH are neither read nor written.",
        "to[((n*F + f)*OH + row)*OW + col]; a pixel exists only if n < BATCH",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for any number of filters",
    weight=4,
    hint=[
        "What do rows of w look like if F is odd? And what follows the last filter of a row?",
        "Rows begin anywhere: copy 4 bytes at a time; after the last filter comes the next row, which is not wanted.",
        "exists = row < C*WINDOW && f0 + e%FB < F; 16 bytes if F % 4 == 0, else 4",
    ],
)
def test_filters(kernel, rng):
    for problem in FILTERS:
        check_split(kernel, rng, problem)


@criterion(
    "Right where a block takes several images",
    weight=2,
    hint=[
        "BI images share a block. Which of them may not exist?",
        "The last block's: its pixels are zeros, its results are not stored.",
        "inside = inside && n < BATCH, with n = n0 + e/PLANE % BI",
    ],
)
def test_images(kernel, rng):
    for problem in IMAGES:
        check_split(kernel, rng, problem)
        check_split(kernel, rng, problem, constants=SHARED_BLOCK)


@criterion(
    "No race, and the same sum every time",
    about="RACE",
    weight=1,
    hint=[
        "What keeps the stage that is read from being overwritten?",
        "The barrier at the beginning of each stage, as before.",
        "leave the loop over the stages as it is",
    ],
    counts="races and atomic operations, at two images of 64 x 16 x 16 and 64 filters: none",
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        counters = case.counters
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
        kernel.within(counters.global_atomic_requests, 0, "atomic operations on global memory")
        kernel.within(counters.global_reduction_requests, 0, "reductions in global memory")


@criterion(
    "Wide copies where rows allow it",
    weight=2,
    hint=[
        "How many instructions copy 64 weights?",
        "16 bytes a lane: two for a warp and 64 rows... if F is a multiple of 4, every row begins at a "
        "multiple of 16 bytes.",
        "e = thread*4; e += THREADS*4; copy(weights + e, from, 16, ...)",
    ],
    counts="bytes that a warp copies by one cp.async, weights and pixels together, at the same case; bytes of "
    "shared and global loads within a tenth of the formulas at the file's own tiles",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        weights = case.counters.async_copy_bytes / case.counters.async_copy_requests
        kernel.at_least(weights, 200, "bytes of a copy to shared memory, on average", unit="bytes")
        require_block_loads(kernel, case)
        require_thread_loads(kernel, case, LEAST)


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
