"""What is graded in lab08_convolution/11_fp16_implicit_gemm: half precision in NHWC on tensor cores."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES, convolution
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_tensor_products
from warpschool.nn import convolve

PLAIN = [convolution(2, 8, 12, 64, 5), convolution(3, 64, 8, 64, 1), convolution(2, 64, 8, 64, 3, pad=1)]
ODD = practice([
    convolution(1, 8, 1, 8, 1),
    convolution(3, 8, (7, 13), 16, (3, 2), stride=2, pad=1),
    convolution(2, 24, (9, 11), 72, 3, pad=1),
    convolution(1, 16, (23, 11), 8, (7, 11), stride=3, pad=4),
])
COUNTED = practice([convolution(4, 64, 12, 64, 3)], count=1, scaled="batch")
EDGE = 64
"""of a block's tile: what is loaded serves that many products at least"""
NHWC = (0, 2, 3, 1)


def check_half(kernel, rng, problem):
    """Accumulated in float32, rounded once to half."""
    arrays = kernel.inputs(problem.sizes, rng)
    x, w = (arrays[name].transpose(0, 3, 1, 2) for name in ("x", "w"))
    expected = convolve(x, w, stride=problem.stride, pad=problem.pad).transpose(NHWC)
    sums = convolve(np.abs(x), np.abs(w), stride=problem.stride, pad=problem.pad).transpose(NHWC)
    kernel.check_against(kernel.run(problem.sizes, arrays), {"y": expected}, k=problem.terms, scale=sums)
    return problem.sizes, arrays


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which 16 bytes of x are chunk k of a place's window, and in which order do ldmatrix's lanes give the rows?",
        "Channels c to c + 7 of element (r, s); lanes 0-15 give 16 rows of the first chunk, lanes 16-31 of the second.",
        "from = x + corner[i] + (r*W + s)*C + c; row = warp_row + i*16 + lane % 16, chunk = step*2 + lane / 16",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_half(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "Which chunks do not exist? Those outside the image, past K, of places past M, of filters past F.",
        "They are filled with 16 zeros, and their source must be a valid address all the same.",
        "__pipeline_memcpy_async(to, exists ? from : x, 16, exists ? 0 : 16)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_half(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A stage is filled by copies that run on. Where are they awaited, and by whom?",
        "Each thread waits for its own copies, then all for each other; the stage that is filled next was read "
        "one turn ago.",
        "__pipeline_wait_prior(STAGES - 2); __syncthreads(); load(...); __pipeline_commit(); multiply",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_half(kernel, rng, problem)


@criterion(
    "Few bytes for many products",
    weight=3,
    hint=[
        "How often is a chunk of the windows, and one of the filters, loaded from global memory?",
        "Once for each block that needs it, as halfs: a block of TSM x TSN needs TSM + TSN rows for TSM * TSN "
        "products.",
        "one copy for each chunk of the tile; in the loop over steps only ldmatrix",
    ],
    counts="bytes of global loads and copies, at four images of 64 x 12 x 12, 64 filters of 3 x 3: at most 2 "
    "(1/64 + 1/64) "
    "for each product, tiles of 64 places counted whole; bytes of global stores: those of y",
)
def test_bytes(kernel, rng):
    for problem in COUNTED:
        counters = kernel.counters(*check_half(kernel, rng, problem))
        results = problem.products // problem.terms
        places = results // problem.filters
        whole = -(-places // 128) * 128 / places
        limit = 4 / EDGE * whole * problem.products
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, 2 * results, "bytes of global stores", unit="bytes")


@criterion(
    "Every product on tensor cores",
    weight=2,
    hint=[
        "Which instruction multiplies, and how many products does it do?",
        "mma.sync multiplies 16 x 8 x 16; nothing is left for ordinary multiplications.",
        "for i < WSM / 16, j < WSN / 8: multiply(sum[i][j], a[i], ...)",
    ],
    counts="operations on tensor cores, at the same case: at least two for each product; and no "
    "single-precision multiply-adds",
)
def test_tensor(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_half(kernel, rng, problem))
        require_tensor_products(kernel, run, 2 * problem.products)
        kernel.within(run.counters.multiplications, 0, "products of threads")


@criterion(
    "No bank conflicts",
    weight=2,
    hint=[
        "ldmatrix reads the same chunk of eight rows at once. Where must they be stored?",
        "In eight different places of their rows: swizzled(row, chunk) says where.",
        "windows + swizzled(row, chunk) for copies and for ldmatrix",
    ],
    counts="passes of shared loads and stores beyond one for each, at the same case: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        kernel.no_excess_wavefronts(*check_half(kernel, rng, problem))
