"""What is graded in lab10_lenet/06_fully_connected: y = x w + bias, and ReLU."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab10_lenet.cases import check_fully_connected
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products, require_registers

WHOLE = [(64, 32, 64), (128, 48, 128)]
RAGGED = practice([(1, 1, 1), (33, 100, 10), (5, 17, 129), (65, 31, 6)])
ALIGNED = (128, 128, 128)
COUNTED = practice([(128, 64, 192), (64, 96, 128)], count=1)
TILE = 32  # what is loaded serves that many products at least
SHARED = 2.0  # bytes for each product: a patch of 4 x 4 needs as many


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which image and which feature is sum[i][j] of?",
        "Image ty + i and feature tx + j, four by four: row k of both tiles holds what they need of step k.",
        "a[i] = tileX[k][...]; b[j] = tileW[k][...]; sum[i][j] += a[i] * b[j]; then + bias[col]",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check_fully_connected(kernel, rng, *case)


@criterion(
    "ReLU where it is asked for",
    weight=2,
    hint=[
        "May the last layer's scores be negative?",
        "Yes: RELU is an argument, and is 0 there.",
        "if (RELU) value = fmaxf(value, 0.0f), after the bias",
    ],
)
def test_relu(kernel, rng):
    for relu in (True, False):
        check_fully_connected(kernel, rng, 70, 32, 64, relu=relu)


@criterion(
    "Any number of images and features",
    weight=2,
    hint=[
        "Ten classes: what do the other threads of a tile do?",
        "Tiles are filled with zeros past the edges; results outside y are not stored.",
        "if (row < BATCH && col < OUT) y[row * OUT + col] = ...",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check_fully_connected(kernel, rng, *case, relu=True)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A tile has two dangers: it is read before it is full, and filled while it is still read.",
        "With two buffers one barrier a round is enough: behind the stores to the other buffer.",
        "load next; multiply this; store next; __syncthreads()",
    ],
)
def test_race(kernel, rng):
    sizes = {**dict(zip(("BATCH", "IN", "OUT"), ALIGNED, strict=True)), "RELU": 1}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_fully_connected(kernel, rng, *ALIGNED)


@criterion(
    "Weights serve many images",
    weight=3,
    hint=[
        "How many images use a weight that was loaded from global memory once? And one from shared memory?",
        "All images of a tile; and all of a thread's patch, if it stays in a register.",
        "outer products: WPTM + WPTN loads from shared memory for WPTM * WPTN multiply-adds",
    ],
    counts="bytes of global loads at 128 images, 64 features to 192, and at 64 images, 96 features to 128: at most "
    "8/32 for each product; bytes of shared loads for each multiply-add: at most 2; bytes of stores: those of y",
)
def test_bytes(kernel, rng):
    for batch, inputs, outputs in COUNTED:
        run = kernel.run(*check_fully_connected(kernel, rng, batch, inputs, outputs))
        counters = run.counters
        products = batch * inputs * outputs
        require_products(kernel, run, products, share=0)  # a bias is added
        kernel.within(counters.global_load_bytes, 8 / TILE * products, "bytes of global loads", unit="bytes")
        kernel.within(counters.shared_load_bytes / products, SHARED, "bytes of shared loads for each product")
        kernel.within(counters.global_store_bytes, 4 * batch * outputs, "bytes of global stores", unit="bytes")


@criterion(
    "No waste of memory",
    weight=2,
    hint=[
        "Do the lanes of a warp load whole sectors, and does each bank serve one of them?",
        "Eight lanes take 32 neighbouring bytes of an image; rows of the transposed tile lie PAD floats apart more.",
        "keep row_of_X and k_of_X as given; store float4s",
    ],
    counts="sectors beyond those that the bytes fill, and bank conflicts, at the same cases: none",
)
def test_waste(kernel, rng):
    for sizes in COUNTED:
        case = check_fully_connected(kernel, rng, *sizes)
        kernel.no_excess_sectors(*case)
        kernel.no_excess_wavefronts(*case)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "Is every index into sum, a and b known to the compiler?",
        "Loops with constant bounds, unrolled: an array with an unknown index goes to local memory.",
        "#pragma unroll in front of each of the loops",
    ],
    counts="registers of a block, at most 65536; bytes that are spilled, for sm_80: at most 64",
)
def test_registers(kernel, rng):
    require_registers(kernel, kernel.run(*check_fully_connected(kernel, rng, *ALIGNED)))
