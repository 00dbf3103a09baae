"""What is graded in lab08_convolution/01_direct: a convolution, one thread for each result."""

from __future__ import annotations

from warpcourse.cases import check_convolution, convolution
from warpschool.grading import criterion, practice

MOST_PRODUCTS = 4_000_000  # of a drawn case: a check must stay short


def fills_warps(problem):
    """Whether a channel's results fill whole warps of a block, and there are not too many products."""
    return problem.out_height * problem.out_width % 32 == 0 and problem.products <= MOST_PRODUCTS


COUNTED = practice([
    convolution(2, 1, 28, 32, 5),  # the two layers of the digits' network, with few images, the second with few filters
    convolution(2, 32, 12, 16, 5),
    convolution(3, 2, (20, 36), 8, 5),
], count=1, needs=fills_warps)
PLAIN = [convolution(2, 1, 28, 3, 5), convolution(1, 3, 12, 4, 5), convolution(2, 4, 8, 3, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(3, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(1, 2, (40, 37), 2, 3, pad=1),
    convolution(2, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which elements of x does the result at (row, col) need, and which element of w meets which of them?",
        "Sum over c, r and s: the element r rows and s columns from the window's corner, times element (c, r, "
        "s) of filter f.",
        "sum += x[((n*C + c)*H + row + r)*W + col + s] * w[((f*C + c)*R + r)*S + s]  (without stride and padding)",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right for every stride, padding and size",
    weight=3,
    hint=[
        "Where does the window of result (row, col) begin if windows move by STRIDE, and the image has PAD "
        "zeros around it?",
        "In row row * STRIDE - PAD. What lies outside the image counts as zero: do not read it.",
        "h = row*STRIDE + r - PAD; v = col*STRIDE + s - PAD; if (0 <= h && h < H && 0 <= v && v < W) ...",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_convolution(kernel, rng, problem)


@criterion(
    "No idle threads",
    weight=2,
    hint=[
        "A channel of 24 x 24 results, and a block of 32 x 32 threads: how many of them have no result to compute?",
        "Let the block have the shape of a channel, and cut channels that are too large into equal parts.",
        "block=(cdiv(OW, cdiv(OW, 32)), cdiv(OH, cdiv(OH, 32)))",
    ],
    counts="threads of whole warps beyond one for each result, with filters of 5 x 5, at 28 x 28 images with 32 of "
    "them, at 12 x 12 images of 32 channels with 16 and at 20 x 36 images of 2 channels with 8: none, as their results "
    "fill whole warps",
)
def test_idle(kernel, rng):
    for problem in COUNTED:
        case = check_convolution(kernel, rng, problem)
        kernel.within(_idle(kernel.run(*case)), 0, "threads without a result")


def _idle(run):
    lanes = sum(launch.blocks * (-(-launch.threads_per_block // 32) * 32) for launch in run.launches)
    return lanes - run.outputs["y"].size
