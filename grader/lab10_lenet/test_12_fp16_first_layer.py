"""What is graded in lab10_lenet/12_fp16_first_layer: a first layer with one channel on tensor cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpcourse.cases import RACES, convolution
from warpcourse.lab10_lenet.cases import check_half_stage
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products

PLAIN = [convolution(3, 1, 28, 32, 5), convolution(9, 1, 12, 8, 3)]
ODD = practice(
    [
        convolution(1, 1, 6, 8, 5), convolution(2, 1, (13, 10), 40, 3, pad=1), convolution(2, 1, (9, 17), 16, 6),
        convolution(1, 1, (9, 15), 8, (2, 7), pad=3),
    ],
    needs=lambda problem: min(problem.out_height, problem.out_width) >= 2,
)  # fmt: skip
COUNTED = practice([convolution(4, 1, 28, 32, 5)], count=1, scaled="batch")


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Result (row, col) needs the pixels (row + r, col + 2t) and the next one. Where is this pair if col is odd?",
        "In the second copy, which begins one pixel further on, at the same word.",
        "a[k] = from[k % 2 * ROWS * PITCH + (i + step*2 + k / 2) * PITCH] for columns k % 2 and rows k / 2",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_half_stage(kernel, rng, problem)


@criterion(
    "Right at ragged sizes",
    weight=3,
    hint=[
        "Which pixels of a row do not exist?",
        "Those left of PAD and right of PAD + W: zeros, in both copies.",
        "col = word * 2 - PAD + k; pixel[k] = 0 <= col && col < W && ... ? x[...] : zero",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_half_stage(kernel, rng, problem)


@criterion(
    "Infinite pixels stay where they are",
    weight=2,
    hint=[
        "A piece reads eight pixels of a row where the filter has S. What is infinity times zero?",
        "No number. What the filter does not need must not reach the product.",
        "& (step * 2 + k / 2 < R ? wanted : 0)",
    ],
)
def test_infinite(kernel, rng):
    check_half_stage(kernel, rng, PLAIN[1])  # what is compared below is one result of this kernel with another
    sizes = {"BATCH": 1, "H": 12, "W": 12, "F": 8, "R": 3, "S": 3, "PAD": 0}
    image = rng.uniform(-1, 1, (1, 12, 12)).astype(np.float16)
    image[0, :, 5] = np.inf
    arrays = kernel.inputs(sizes, rng, x=image)
    clean = {**arrays, "x": np.where(np.isinf(image), np.float16(0), image)}
    untouched = [0, 3, 4]  # windows of columns 0-3, 6-9 and 8-11
    expected = kernel.run(sizes, clean).outputs["y"][:, :, untouched].astype(np.float64)
    run = kernel.run(sizes, arrays)
    kernel.check_against(replace(run, outputs={"y": run.outputs["y"][:, :, untouched]}), {"y": expected})


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "The next image takes the place of this one. Who may still be reading it?",
        "Another warp: one barrier before the copies, one behind them.",
        "__syncthreads(); copy; __syncthreads(); multiply, as given",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        case = check_half_stage(kernel, rng, problem)
        kernel.no_hazards(*case, kinds=RACES)


@criterion(
    "No waste",
    weight=3,
    hint=[
        "How many loads from shared memory does a piece of 16 places and 16 steps of k take?",
        "Four of 32 bits. Two single pixels for each would be twice as many, and ldmatrix cannot begin anywhere.",
        "one 32-bit load for each a[k]",
    ],
    counts="at four images of 28 x 28, 32 filters of 5 x 5: bytes of shared loads, at most 0.25 for each product; bank "
    "conflicts: none; sectors of stores beyond those that the bytes fill: none",
)
def test_waste(kernel, rng):
    for problem in COUNTED:
        case = check_half_stage(kernel, rng, problem)
        run = kernel.run(*case)
        counters = run.counters
        require_tensor_products(kernel, run, 2 * problem.products, share=0)  # a bias is added, and the largest is kept
        kernel.within(counters.shared_load_bytes, 0.25 * problem.products, "bytes of shared loads", unit="bytes")
        kernel.no_excess_sectors(*case, loads=False)
        kernel.no_excess_wavefronts(*case)
