"""What is graded in lab00_first_kernels/01_saxpy: z = a * x + y."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

FULL_BLOCKS = [256, 1024, 4096]
RAGGED = practice([1, 31, 255, 257, 1000, 40_000])
ALIGNED = 4096
COUNTED = practice([ALIGNED, 11264], count=1)


def run_and_compare(kernel, rng, n):
    a = round(float(rng.uniform(-4, 4)), 3)  # another one in every case: none can be learnt by heart
    sizes = {"n": n, "a": a}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    product, y = float(np.float32(a)) * arrays["x"].astype(np.float64), arrays["y"]
    kernel.check_against(run, {"z": product + y}, k=2, scale=abs(product) + abs(y))
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which element belongs to thread 3 of block 2, if a block has 256 threads?",
        "The index needs three things: blockIdx.x, blockDim.x and threadIdx.x.",
        "i = blockIdx.x * blockDim.x + threadIdx.x;  z[i] = a * x[i] + y[i]",
    ],
)
def test_correct(kernel, rng):
    for n in FULL_BLOCKS:
        run_and_compare(kernel, rng, n)


@criterion(
    "The guard",
    about="OOB",
    weight=2,
    hint=[
        "n = 1000 needs 4 blocks of 256 threads, and that is 24 threads too many. What do they do?",
        "A thread whose index is n or more must neither load nor store.",
        "if (i < n) { z[i] = ... }",
    ],
)
def test_guard(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, rng, n)


@criterion(
    "No excess sectors",
    weight=1,
    hint=[
        "The 32 lanes of a warp load together. Are their elements neighbours in memory?",
        "Excess sectors appear when lane t does not take the element next to that of lane t - 1.",
        "threadIdx.x belongs in the index with factor 1: blockIdx.x * blockDim.x + threadIdx.x",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at n = 4096",
)
def test_sectors(kernel, rng):
    for n in COUNTED:
        kernel.no_excess_sectors(*run_and_compare(kernel, rng, n))
