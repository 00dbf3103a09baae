"""What is graded in lab09_winograd/07_fused_f2: all of F(2x2,3x3) in one kernel."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab09_winograd.cases import check_fused
from warpschool.grading import criterion, practice

WHOLE = [(1, 4, 8, 16, 64, 1), (2, 8, 16, 32, 64, 1)]
RAGGED = practice([(2, 5, 14, 14, 33, 1), (1, 3, 9, 37, 70, 0), (1, 1, 3, 3, 1, 0), (1, 6, 17, 8, 3, 1)])
ONE_BLOCK = {"BATCH": 1, "C": 16, "H": 8, "W": 16, "F": 64, "PAD": 1}
COUNTED = practice([(1, 16, 16, 16, 64), (1, 12, 8, 32, 128)], count=1)
"""BATCH, C, H, W, F: some blocks of 8 x 16 results of 64 filters; one pixel of padding"""
POSITIONS = 16
BYTES = 1.25
PRODUCTS = 1.25  # a quarter more, for transforms by multiply-adds


def check_all(kernel, rng, cases):
    for batch, c, h, w, f, pad in cases:
        check_fused(kernel, rng, BATCH=batch, C=c, H=h, W=w, F=f, PAD=pad)


@criterion(
    "Right answers for whole blocks",
    weight=3,
    hint=[
        "Where must number (i, j) of a filter's channel stand in tileU?",
        "Position i * 4 + j, then the channel, then the filter; in tileV likewise, with the tile last.",
        "tileU[((i * 4 + j) * TSC + c) * TSF + f] = u[j];  tileV[((i * 4 + j) * TSC + warp) * TILES + lane] = d[i][j]",
    ],
)
def test_correct(kernel, rng):
    check_all(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "What do filters and channels that do not exist contribute?",
        "Zeros: g and the pixels are zero there, so transform and multiply them like all others.",
        "every thread writes its numbers to tileU, whether or not its filter exists",
    ],
)
def test_ragged(kernel, rng):
    check_all(kernel, rng, RAGGED)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Who reads tileV, and which warps write it?",
        "Every warp reads what four warps have written: the barriers are given, your writes have their places.",
        "row = (warp * OWN + own) * TSC + c: two positions for each warp",
    ],
)
def test_race(kernel, rng):
    case = check_fused(kernel, rng, **ONE_BLOCK)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "16 products for each tile, filter and channel",
    weight=2,
    hint=[
        "How many positions has a tile of 4 x 4 numbers, and how many does a warp have?",
        "Each sum gets one product for each channel; the transforms need no multiplications but those by a half.",
        "sum[own][i][j] += u[i] * v[j], with u and v of position warp * OWN + own",
    ],
    counts="products at PAD = 1 and BATCH = 1, C = 16, H = 16, W = 16, F = 64 or BATCH = 1, C = 12, H = 8, W = 32, F = "
    "128: at most 16 for each tile, filter and channel and a quarter more; direct convolution takes 36",
)
def test_products(kernel, rng):
    for batch, c, h, w, f in COUNTED:
        counters = check_fused(kernel, rng, BATCH=batch, C=c, H=h, W=w, F=f, PAD=1).run.counters
        each = counters.multiplications / (batch * (h // 2) * (w // 2) * c * f)
        kernel.at_least(each, 1, "products for each tile, filter and channel")
        kernel.within(each, PRODUCTS * POSITIONS, "products for each tile, filter and channel")


@criterion(
    "Bytes of images, filters and results",
    weight=2,
    hint=[
        "What would the four kernels of steps 01 to 04 read and write?",
        "U, V and M stay in shared memory and registers: pixels and weights come in, results go out.",
        "only `pixels` and `weights` are loaded, only y is stored",
    ],
    counts="bytes of global loads and stores at PAD = 1 and BATCH = 1, C = 16, H = 16, W = 16, F = 64 or BATCH = 1, C "
    "= 12, H = 8, W = 32, F = 128: at most those of y, of w once for each 8 x 16 results of an image, and of x, with "
    "two more rows and columns where such results meet, once for each 64 filters; and a quarter more",
)
def test_bytes(kernel, rng):
    for batch, c, h, w, f in COUNTED:
        case = check_fused(kernel, rng, BATCH=batch, C=c, H=h, W=w, F=f, PAD=1)
        down, across = h // 8, w // 16  # blocks
        pixels = batch * c * (10 * down - 2) * (18 * across - 2) * (f // 64)
        needed = 4 * (pixels + batch * down * across * 9 * c * f) + case.run.outputs["y"].nbytes
        moved = case.run.counters.global_load_bytes + case.run.counters.global_store_bytes
        kernel.within(moved, int(BYTES * needed), "bytes of global loads and stores", unit="bytes")
