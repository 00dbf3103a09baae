"""What is graded in lab08_convolution/02_direct_constant: a convolution with filters in constant memory."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import convolution, scale_of
from warpschool.grading import criterion, practice
from warpschool.nn import convolve
from warpschool.nn.pipelines import parts

PLAIN = [convolution(2, 1, 28, 3, 5), convolution(1, 3, 12, 4, 5)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(1, 2, (40, 37), 2, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])
SECOND = convolution(1, 32, 12, 64, 5)
"""64 filters of 32 x 5 x 5 have 51,200 elements: four parts"""
COUNTED = practice([convolution(2, 1, 28, 32, 5)], count=1, scaled="batch")


def run_part(kernel, problem, x, w, y, first, count):
    sizes = problem.sizes | {"F0": first, "PART": count}
    return kernel.run(sizes, {"x": x, "part": w[first : first + count], "y": y})


def check_whole(kernel, rng, problem):
    """All filters in one part."""
    x, w = problem.arrays(rng)
    y = np.full(problem.output_shape, 7, np.float32)
    run = run_part(kernel, problem, x, w, y, 0, problem.filters)
    expected = convolve(x, w, stride=problem.stride, pad=problem.pad)
    kernel.check_against(run, {"y": expected}, k=problem.terms, scale=scale_of(x, w))
    return run


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "What changed since the step before? The filters are in `filters`, in the order in which they were in w.",
        "Element (f, c, r, s) of this part's filters stands at ((f * C + c) * R + r) * S + s.",
        "sum += x[...] * filters[((f*C + c)*R + r)*S + s]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_whole(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=2,
    hint=[
        "Where does the window of result (row, col) begin if windows move by STRIDE, and the image has PAD "
        "zeros around it?",
        "In row row * STRIDE - PAD. What lies outside the image counts as zero: do not read it.",
        "h = row*STRIDE + r - PAD; v = col*STRIDE + s - PAD; if (0 <= h && h < H && 0 <= v && v < W) ...",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_whole(kernel, rng, problem)


@criterion(
    "Right part by part",
    weight=3,
    hint=[
        "Filters F0 to F0 + PART are in constant memory. Which is the first of them there, and where does its "
        "channel of y go?",
        "In `filters` a part begins at 0; in y its first channel is F0 of F.",
        "y[((n*F + F0 + f)*OH + row)*OW + col] = sum",
    ],
)
def test_parts(kernel, rng):
    x, w = SECOND.arrays(rng)
    y = np.full(SECOND.output_shape, 7, np.float32)
    expected = y.astype(np.float64)
    whole = convolve(x, w)
    for first, count in parts(SECOND):
        run = run_part(kernel, SECOND, x, w, y, first, count)
        expected[:, first : first + count] = whole[:, first : first + count]
        kernel.check_against(run, {"y": expected}, k=SECOND.terms, scale=scale_of(x, w))  # others are as they were
        y = run.outputs["y"]


@criterion(
    "Filters come from constant memory, one word for all lanes",
    weight=3,
    hint=[
        "The constant cache hands out one word at a time. When do all 32 lanes of a warp want the same one?",
        "When c, r, s and the filter are the same for all lanes: lanes differ in row and col only.",
        "f = blockIdx.x % PART, not threadIdx.x % PART",
    ],
    counts="passes of the constant cache, at two images of 28 x 28 and 32 filters of 5 x 5: one for each load "
    "of a warp; "
    "and bytes of global loads: at most 4 for each product, those of x",
)
def test_uniform(kernel, rng):
    for problem in COUNTED:
        counters = check_whole(kernel, rng, problem).counters
        kernel.at_least(counters.constant_load_requests, 1, "loads from constant memory")
        kernel.within(counters.constant_load_passes, counters.constant_load_requests, "passes of the constant cache")
        kernel.within(counters.global_load_bytes, 4 * problem.products, "bytes of global loads", unit="bytes")
