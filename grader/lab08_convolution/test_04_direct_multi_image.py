"""What is graded in lab08_convolution/04_direct_multi_image: a convolution, several images a block."""

from __future__ import annotations

from ptxsim.limits import WARP
from warpcourse.cases import RACES, check_convolution, convolution
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products

IMAGES = 4
THREADS = 1024  # of a block, at most
MOST_PRODUCTS = 1_000_000  # of a drawn case: a check must stay short


def images_of_a_block(problem):
    return max(1, min(IMAGES, THREADS // (problem.out_height * problem.out_width)))


def fills_warps(problem):
    """Whether blocks with as many images as fit have whole warps at work, and there are not too many products."""
    images = images_of_a_block(problem)
    whole = problem.batch % images == 0 and images * problem.out_height * problem.out_width % WARP == 0
    return whole and problem.products <= MOST_PRODUCTS


def four_fit(problem):
    return images_of_a_block(problem) == IMAGES and fills_warps(problem)


FIRST = convolution(4, 1, 28, 8, 5)
SECOND = convolution(4, 32, 12, 8, 5)
THIRD = convolution(8, 3, (10, 18), 4, 3)
SMALL = practice([SECOND, THIRD], count=1, needs=four_fit)
COUNTED = practice([FIRST, SECOND, THIRD], count=1, needs=fills_warps)
LANES = 31  # of 32 lanes at work for a multiply-add
PLAIN = [convolution(4, 1, 28, 2, 5), convolution(4, 3, 12, 4, 5), convolution(8, 4, 8, 3, 1)]
ODD = practice([
    convolution(1, 1, 1, 1, 1),
    convolution(7, 2, (7, 13), 5, (3, 2), stride=2, pad=1),
    convolution(2, 2, (40, 37), 2, 3, pad=1),
    convolution(5, 1, (23, 11), 2, (7, 11), stride=3, pad=4),
])


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "The block's third dimension numbers its images. Which image is this thread's, and which tile?",
        "The block has BI images; image threadIdx.z of them has the tile that begins PLANE floats times "
        "threadIdx.z further on.",
        "n = blockIdx.x / F * BI + threadIdx.z; tile = shared + threadIdx.z * PLANE",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right for every number of images, stride, padding and size",
    weight=3,
    hint=[
        "What do the threads of an image do that does not exist, in the last block?",
        "They load nothing and store nothing, but they help to load the filter and wait at the barriers.",
        "inside = n < BATCH && 0 <= h && ...; at the end: if (n < BATCH && row < OH && col < OW)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_convolution(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A tile has two dangers: somebody reads it before it is full, and somebody fills it while it is still read.",
        "Two barriers for each channel: one after the loads, one after the products.",
        "load; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    kernel.no_hazards(SECOND.sizes, kernel.inputs(SECOND.sizes, rng), kinds=RACES)
    check_convolution(kernel, rng, SECOND)


@criterion(
    "A filter is loaded once for four images",
    weight=3,
    hint=[
        "Who needs the filter of this channel? How often does a block load it?",
        "All images of the block meet the same filter: all their threads share its R * S loads.",
        "for (i = number of the thread in the block; i < R*S; i += threads of the block) filter[i] = w[...]",
    ],
    counts="bytes of global loads, at 4 images of 12 x 12 with 32 channels, 8 filters of 5 x 5, and at 8 images of 10 "
    "x 18 with 3 channels, 4 filters of 3 x 3: for each filter and channel, and each four images, at most four times H "
    "W elements of images and once R S of the filter",
)
def test_filter(kernel, rng):
    for problem in SMALL:
        counters = kernel.counters(*check_convolution(kernel, rng, problem))
        images, window = problem.height * problem.width, problem.rows * problem.cols
        each = problem.batch * images + problem.batch // IMAGES * window
        limit = 4 * problem.filters * problem.channels * each
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")


@criterion(
    "Full warps",
    weight=2,
    hint=[
        "How many of a warp's 32 lanes add a product? Count the threads that have no result, and warps whose "
        "lanes part ways.",
        "A block of 8 x 8 x 4 threads has eight full warps, if every thread has a result and no branch parts them.",
        "no `if` around the loops over r and s: what lies outside the image is zero in the tile",
    ],
    counts="lanes at work for each multiply-add of a warp, at four images with results of 8 x 8 and of 24 x 24, and at "
    "eight with results of 8 x 16: at least 31",
)
def test_lanes(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_convolution(kernel, rng, problem))
        require_products(kernel, run, problem.products)
        warps = sum(run.counters[f"instructions_{kind}"] for kind in ("fp32", "fp64", "fp16"))
        lanes = sum(run.counters[f"thread_instructions_{kind}"] for kind in ("fp32", "fp64", "fp16"))
        most = (WARP / LANES - 1) * problem.products
        kernel.within(WARP * warps - lanes, most, "lanes that rest in arithmetic")


@criterion(
    "No bank conflicts",
    weight=1,
    hint=[
        "In which bank does the first thread of the next image find its element?",
        "Choose the distance of two tiles so that the thread's place in them and in the block fall into the same bank.",
        "PLANE - BH*BW is a multiple of 32: the given PLANE is the smallest that holds the rows",
    ],
    counts="passes of shared loads beyond one for each, at the same three: none",
)
def test_banks(kernel, rng):
    for problem in COUNTED:
        kernel.no_excess_wavefronts(*check_convolution(kernel, rng, problem), stores=False)
