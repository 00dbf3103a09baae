"""What is graded in lab08_convolution/08_layout: layouts that change inside the kernel that produces the data."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES, convolution, scale_of
from warpschool.grading import criterion, practice
from warpschool.nn import convolve
from warpschool.nn.references import pooling_order


def in_pairs(problem):
    """Whether the results fall into whole windows of 2 x 2: what the step is made for."""
    return problem.out_height % 2 == 0 and problem.out_width % 2 == 0


PLAIN = [convolution(2, 1, 28, 32, 5), convolution(1, 8, 12, 16, 5)]
ODD = practice([
    convolution(1, 1, 2, 1, 1),
    convolution(3, 2, (8, 14), 5, (3, 2), stride=2, pad=1),
    convolution(2, 33, (6, 10), 35, 3, pad=1),
    convolution(1, 5, (18, 12), 3, (5, 3), pad=2),
], needs=in_pairs)
COUNTED = practice(
    [convolution(1, 64, 12, 32, 5), convolution(2, 32, (6, 20), 64, (3, 5))], count=1,
    needs=lambda problem: in_pairs(problem) and problem.out_height * problem.out_width % 32 == 0,
)  # fmt: skip
"""Channels, filters, and the results of a channel fill tiles of 32, so that no sector is filled in part."""


def check_layout(kernel, rng, problem):
    arrays = kernel.inputs(problem.sizes, rng)
    w = np.ascontiguousarray(arrays["w"].transpose(3, 2, 0, 1))  # [R,S,C,F] -> [F,C,R,S]
    expected = pooling_order(convolve(arrays["x"], w, stride=problem.stride, pad=problem.pad))
    run = kernel.run(problem.sizes, arrays)
    kernel.check_against(run, {"y": expected}, k=problem.terms, scale=scale_of(arrays["x"], w))
    return problem.sizes, arrays


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Rows 4i to 4i + 3 of a channel of y hold the four elements of the windows in rows 2i and 2i + 1 of the "
        "results.",
        "From a place in y: its column is the window's, its row modulo 4 the element of the window, its row / 4 "
        "the window's row.",
        "row = place / (OW/2) / 4 * 2 + element / 2; col = place % (OW/2) * 2 + element % 2",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_layout(kernel, rng, problem)


@criterion(
    "Right at ragged sizes",
    about="OOB",
    weight=3,
    hint=[
        "How many channels, filters and places do the last blocks have?",
        "Each store and each load has its own guard: the one before the barrier other than the one behind it.",
        "in: c0 + i < C && place0 + lane < H*W; out: c0 + lane < C && place0 + i < H*W",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_layout(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Who fills the tile, and who reads it?",
        "Other threads: a barrier between, reached by all of them.",
        "tile[...] = ...; __syncthreads(); ... = tile[...];",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_layout(kernel, rng, problem)


@criterion(
    "No waste on either side",
    weight=4,
    hint=[
        "Along which axis do the lanes of a warp read, along which do they write? Is that the axis in which "
        "memory runs?",
        "Lanes along filters while computing, along places while storing: the tile in shared memory turns one "
        "into the other.",
        "tile[place][lane = filter] = sum; __syncthreads(); y[... filter ... place0 + lane] = tile[lane][filter]",
    ],
    counts="sectors of global loads and stores beyond those that the bytes fill, in both kernels, at one image of "
    "64 x 12 x 12, 32 filters of 5 x 5, and at two of 32 x 6 x 20, 64 filters of 3 x 5: none",
)
def test_sectors(kernel, rng):
    for problem in COUNTED:
        case = check_layout(kernel, rng, problem)
        kernel.at_least(kernel.counters(*case).global_store_bytes, 1, "bytes of global stores")
        kernel.no_excess_sectors(*case)


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "A column of the tile is read by 32 lanes: in which banks do its elements lie?",
        "PITCH = TILE + 1 moves each row by one bank.",
        "tile[TILE][PITCH]",
    ],
    counts="passes of shared loads and stores beyond one for each, at the same cases: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        kernel.no_excess_wavefronts(*check_layout(kernel, rng, problem))
