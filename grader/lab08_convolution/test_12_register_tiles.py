"""What is graded in lab08_convolution/12_register_tiles: a direct convolution with tiles in registers."""

from __future__ import annotations

from warpcourse.cases import RACES, check_convolution, convolution
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products, require_registers

PLAIN = [convolution(4, 1, 28, 8, 5), convolution(4, 3, 12, 8, 5)]
ODD = practice([
    convolution(1, 1, 5, 1, 5),
    convolution(5, 3, (9, 11), 11, 5, pad=2),
    convolution(7, 2, (12, 8), 3, 5, pad=1),
    convolution(2, 1, (7, 14), 9, 5),
    convolution(3, 2, (7, 12), 11, 5, pad=2),  # whole quads, and filters that do not fill a block
])
COUNTED = practice([convolution(8, 8, 12, 16, 5)], count=1, scaled="batch")


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Which float of the piece meets element s of the filter's row, for the i-th of four neighbouring results?",
        "The piece begins with the first result's window: the i-th result needs float s + i.",
        "sum[f][q][i] += weight[f] * piece[q][s + i]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_convolution(kernel, rng, problem)


@criterion(
    "Right at ragged sizes",
    weight=3,
    hint=[
        "Did you keep to the stage's layout? Rows are PITCH floats apart, elements of the filters FB floats.",
        "from[q] is where the thread's quad begins; row r of its window is r * PITCH further on.",
        "get_quad(&piece[q][i], stage + from[q] + r*PITCH + i); get_quad(&weight[f], filters + (r*FILTER_S + "
        "s)*FB + f)",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_convolution(kernel, rng, problem)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A stage is filled by copies that run on. Where are they awaited, and by whom?",
        "Each thread waits for its own copies, then all for each other; the second barrier protects the stage "
        "that is filled next.",
        "__pipeline_wait_prior(1); __syncthreads(); ...; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for problem in COUNTED:
        kernel.no_hazards(problem.sizes, kernel.inputs(problem.sizes, rng), kinds=RACES)
        check_convolution(kernel, rng, problem)


@criterion(
    "Registers are used again",
    weight=4,
    hint=[
        "How often do you load a float of the image from shared memory for one row of the window? And how often "
        "use it?",
        "The piece stays in registers while s runs; the FPT weights stay while all places are multiplied.",
        "for r: load piece[QUADS][WINDOW]; for s: load weight[FPT]; for f, q, i: multiply",
    ],
    counts="bytes of shared loads for each multiply-add, at eight images of 8 x 12 x 12, 16 filters of 5 x 5: "
    "at most 0.75 "
    "(14 float4s for 320 of them are 0.7; two floats for each would be 8)",
)
def test_shared_bytes(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_convolution(kernel, rng, problem))
        require_products(kernel, run, problem.products)
        kernel.within(run.counters.shared_load_bytes / problem.products, 0.75, "bytes of shared loads for each product")


@criterion(
    "No waste of memory",
    weight=2,
    hint=[
        "Do all lanes of a warp read the same weights, and neighbouring quads of the image?",
        "The lanes of a warp differ in threadIdx.x only; threadIdx.y chooses the filters.",
        "filters = stage + IMAGES*PLANE + threadIdx.y*FPT, as given",
    ],
    counts="sectors of global stores beyond those that the bytes fill, and bank conflicts, at the same case: none",
)
def test_waste(kernel, rng):
    for problem in COUNTED:
        case = check_convolution(kernel, rng, problem)
        kernel.no_excess_sectors(*case, loads=False)
        kernel.no_excess_wavefronts(*case)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "Is every index into sum, piece and weight known to the compiler?",
        "Loops with constant bounds, unrolled: an array with an unknown index goes to local memory.",
        "#pragma unroll in front of each of the loops",
    ],
    counts="registers of a block, at most 65536; bytes spilled, for sm_80, at most 64; requests to local memory: none",
)
def test_registers(kernel, rng):
    for problem in COUNTED:
        run = kernel.run(*check_convolution(kernel, rng, problem))
        require_registers(kernel, run)
        local = run.counters.local_load_requests + run.counters.local_store_requests
        kernel.within(local, 0, "requests to local memory")
