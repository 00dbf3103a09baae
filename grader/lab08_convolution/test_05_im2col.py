"""What is graded in lab08_convolution/05_im2col: images unrolled into a matrix."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import convolution
from warpschool.grading import criterion, practice
from warpschool.nn import convolve
from warpschool.nn.references import im2col

PLAIN = [convolution(2, 1, 28, 1, 5), convolution(1, 3, 12, 1, 5), convolution(2, 4, 8, 1, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 1, (3, 2), stride=2, pad=1),
    convolution(1, 2, (40, 37), 1, 3, pad=1),
    convolution(2, 1, (23, 11), 1, (7, 11), stride=3, pad=4),
])
COUNTED = practice(
    [convolution(2, 8, 12, 1, 5), convolution(1, 5, (18, 10), 1, 3)], count=1,
    needs=lambda problem: problem.out_height * problem.out_width % 8 == 0,
)  # fmt: skip
"""8 x 8 and 16 x 8 windows: a row of cols for one (c, r, s) has so many elements, which fill sectors"""
NAMES = ("BATCH", "C", "H", "W", "R", "S", "STRIDE", "PAD")


def check_unrolled(kernel, rng, problem):
    sizes = {name: problem.sizes[name] for name in NAMES}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    kernel.check_against(run, {"cols": im2col(arrays["x"], problem)})
    return sizes, arrays, run


@criterion(
    "The right elements",
    weight=3,
    hint=[
        "Column `place` is the window of result (place / OW, place % OW). Where does that window begin in x?",
        "Row (c * R + r) * S + s of the matrix takes its element (r, s) of channel c.",
        "cols[(n*C*R*S + k)*OH*OW + place] = x[((n*C + c)*H + top + r)*W + left + s]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_unrolled(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "What stands in cols where a window hangs over the image's edge?",
        "A zero: written, not left out, and the element outside is not read.",
        "inside = 0 <= h && h < H && 0 <= v && v < W; cols[...] = inside ? x[...] : 0.0f",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_unrolled(kernel, rng, problem)


@criterion(
    "Filters times the matrix are the convolution",
    weight=2,
    hint=[
        "The filters are a matrix [F, C*R*S]: the order of its columns says which order the rows of cols must have.",
        "c first, then r, then s, as in w.",
        "k = (c*R + r)*S + s",
    ],
)
def test_product(kernel, rng):
    problem = convolution(2, 3, (9, 11), 4, (3, 2), stride=2, pad=1)
    _, arrays, run = check_unrolled(kernel, rng, problem)
    w = problem.arrays(rng)[1]
    y = w.reshape(problem.filters, -1).astype(np.float64) @ run.outputs["cols"]
    expected = convolve(arrays["x"], w, stride=problem.stride, pad=problem.pad)
    assert np.allclose(y.reshape(problem.output_shape), expected, atol=1e-9), "the unrolled images were right before"


@criterion(
    "Stores without waste",
    weight=3,
    hint=[
        "Which neighbours of cols do the lanes of a warp write at the same moment?",
        "They must be neighbours in a row: the same (c, r, s), neighbouring windows.",
        "lanes along `place`, a loop over r and s inside the thread",
    ],
    counts="sectors of global stores beyond those that the bytes fill, at two images of 8 x 12 x 12, filters of 5 x 5, "
    "and at one image of 5 x 18 x 10, filters of 3 x 3: none",
)
def test_stores(kernel, rng):
    for problem in COUNTED:
        sizes, arrays, _ = check_unrolled(kernel, rng, problem)
        kernel.at_least(kernel.counters(sizes, arrays).global_store_bytes, 1, "bytes of global stores")
        kernel.no_excess_sectors(sizes, arrays, loads=False)
