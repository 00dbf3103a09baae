"""What is graded in lab13_vgg16/03_first_layer_backward: dw and db of a layer with three channels, in one pass."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab13_vgg16.cases import check_first
from warpschool.grading import criterion, practice

WHOLE = [(1, 64, 8, 32), (2, 64, 3, 64)]
RAGGED = practice([(2, 7, 13, 9), (1, 1, 1, 1), (2, 20, 14, 14), (1, 70, 5, 130)])
COUNTED = practice([(1, 64, 10, 64), (2, 128, 5, 32)], count=1)
MANY = {"BATCH": 3, "F": 5, "H": 200, "W": 32}  # more pieces than blocks
PIECE = 32  # pixels of a row that a block takes at a time: each piece leaves 28 sums of every filter
FILTERS = 64  # of a block: x is read once for each 64 filters
MORE = 1.15  # for other pieces


def check(kernel, rng, cases, **options):
    for batch, f, h, w in cases:
        check_first(kernel, rng, BATCH=batch, F=f, H=h, W=w, **options)


@criterion(
    "Right answers for whole pieces",
    weight=3,
    hint=[
        "Which pixel meets weight (r, s) for result j of a row?",
        "pixels[c][r][j + s]: six neighbouring pixels serve four results and three weights.",
        "sum[k][row * 3 + s] += g[k][j] * six[j + s];  sum[k][SUMS - 1] += g[k][0] + ... + g[k][3]",
    ],
)
def test_correct(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "What do gradients and pixels hold outside the image?",
        "load gives zeros there, for dy, y and x. Do not leave a part of gradients unwritten, and no part unread.",
        "quad.x stays only where next_y[i].x > 0; for (int part = threadIdx.y; part < parts; part += ROWS)",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)


@criterion(
    "One channel",
    weight=1,
    hint=[
        "Does a 3, 9 or 27 stand in your code where CHANNELS is meant?",
        "CHANNELS * 3 rows of pixels, SUMS - 1 weights.",
        "for (int row = 0; row < CHANNELS * 3; ++row), pixels[row / 3][row % 3]",
    ],
)
def test_channels(kernel, rng):
    check(kernel, rng, [(1, 9, 6, 40)], channels=1)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Who writes gradients, and who reads them?",
        "All threads write before the first barrier and read after it; nobody writes again before the second one.",
        "store only what the thread has loaded: gradients[(thread + i * THREADS) / QUADS][thread % QUADS * 4]",
    ],
)
def test_race(kernel, rng):
    case = check_first(kernel, rng, **MANY)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
    atomics = case.counters.global_atomic_requests + case.counters.global_reduction_requests
    kernel.within(atomics, 0, "atomics on global memory")


@criterion(
    "No products with channels that do not exist",
    weight=2,
    hint=[
        "How many multiply-adds has a result of a filter?",
        "One for each weight: 27. The bias needs an addition.",
        "nine rows of pixels, three weights and four results each",
    ],
    counts="products at BATCH = 1, F = 64, H = 10, W = 64 and at BATCH = 2, F = 128, H = 5, W = 32: at most 28 for "
    "each result and filter",
)
def test_products(kernel, rng):
    for batch, f, h, w in COUNTED:
        counters = check_first(kernel, rng, BATCH=batch, F=f, H=h, W=w).counters
        each = counters.multiplications / (batch * f * h * w)
        kernel.at_least(each, 1, "products for each result and filter")
        kernel.within(each, 28, "products for each result and filter")


@criterion(
    "dy and y are read once",
    weight=2,
    hint=[
        "How often is a gradient loaded from global memory?",
        "Once, into shared memory, where all weights of its filter meet it.",
        "gradients[f][...] serves 27 weights; pixels[c][r][...] serves all filters of the block",
    ],
    counts="bytes of global loads at BATCH = 1, F = 64, H = 10, W = 64 and at BATCH = 2, F = 128, H = 5, W = 32: at "
    "most those of y, dy and the parts' sums, and those of the windows' rows of x for each 64 filters, and 15 % more; "
    "wavefronts of shared memory beyond those needed: none",
)
def test_bytes(kernel, rng):
    for batch, f, h, w in COUNTED:
        case = check_first(kernel, rng, BATCH=batch, F=f, H=h, W=w)
        results = batch * f * h * w
        rows = 3 * h - 2  # of x that the windows of H results touch, each time that they do
        columns = 36 * (w // PIECE) - 4  # and columns for all pieces of W: four more each, none outside the image
        loaded = 2 * results + results // PIECE * 28 + 3 * batch * rows * columns * (f // FILTERS)  # dy and y, sums, x
        kernel.within(case.counters.global_load_bytes, int(MORE * 4 * loaded), "bytes of global loads", unit="bytes")
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
