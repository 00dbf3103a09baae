"""What is graded in lab13_vgg16/05_fc_small_batch_backward: dx, dw and db of a fully connected layer for few images."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab13_vgg16.cases import check_dense_backward
from warpschool.grading import criterion, practice

WHOLE = [(32, 128, 128), (32, 64, 512)]
RAGGED = practice([(5, 33, 7), (1, 1, 1), (33, 130, 131), (7, 10, 300)])
ALIGNED = {"BATCH": 32, "IN": 256, "OUT": 512}
COUNTED = practice([(32, 256, 256), (32, 128, 640)], count=1)
TILE_M, TILE_N = 32, 128  # rows and columns of a product that a block computes: operands are read once for each tile
PART = 128  # outputs whose products are one part's sums
MORE = 1.05


def check(kernel, rng, cases, **options):
    for batch, inputs, outputs in cases:
        check_dense_backward(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "dx = dy w^T and dw = x^T dy: which dimension does each sum run over, and how are the operands stored?",
        "Rows of dy and w run along the outputs, the sum of dx. Rows of x and dy run across the sum of dw, the images.",
        "multiply<true, true>(dy, w, shares, BATCH, IN, OUT, ...); multiply<false, false>(x, dy, dw, IN, OUT, ...)",
    ],
)
def test_correct(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes, with and without a mask",
    weight=3,
    hint=[
        "When is dx zero although the shares are not?",
        "With MASK, where x is 0: a ReLU in front of this layer let nothing pass.",
        "dx[at] = !MASK || x[at] > 0 ? sum : 0",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)
    check(kernel, rng, [(5, 33, 7)], mask=0)


@criterion(
    "No race, no atomics",
    about="RACE",
    weight=1,
    hint=[
        "Blocks of different parts have the same tile of dx. Where do they write?",
        "To their own part of shares, which fc_data adds in order.",
        "shares += blockIdx.z * BATCH * IN, and one thread of fc_data for each dx",
    ],
)
def test_race(kernel, rng):
    case = check_dense_backward(kernel, rng, **ALIGNED)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
    atomics = case.counters.global_atomic_requests + case.counters.global_reduction_requests
    kernel.within(atomics, 0, "atomics on global memory")


@criterion(
    "Each weight is read once, each gradient written once",
    weight=3,
    hint=[
        "How many blocks read the same weight, and how many have the same tile of dw?",
        "One of each: a block of fc_shares has all images, and the sums of dw are short and need no parts.",
        "first = 0, end = BATCH for dw",
    ],
    counts="bytes of global stores at BATCH = 32, IN = 256, OUT = 256 and at BATCH = 32, IN = 128, OUT = 640: at most "
    "those of dw, db, dx and the shares of one part for each 128 outputs; bytes of loads: at most those of w once, x "
    "and dy once for each tile of 32 x 128 and once more, the parts' shares, and a twentieth more; multiply-adds: two "
    "for each image and weight",
)
def test_bytes(kernel, rng):
    for batch, inputs, outputs in COUNTED:
        counters = check_dense_backward(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs).counters
        data = (outputs // PART + 1) * batch * inputs  # the shares, and dx; or x for the mask
        stored = inputs * outputs + outputs + data
        kernel.within(counters.global_store_bytes, 4 * stored, "bytes of global stores", unit="bytes")
        shares = inputs * outputs + inputs // TILE_N * batch * outputs  # w, and dy for each column of tiles
        x, dy = outputs // TILE_N * batch * inputs, (inputs // TILE_M + 1) * batch * outputs  # for dw and db
        limit = int(MORE * 4 * (shares + data + x + dy))
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")
        kernel.within(counters.multiplications, 2 * batch * inputs * outputs, "products")


@criterion(
    "Full sectors, no bank conflicts",
    weight=1,
    hint=[
        "Which elements do neighbouring lanes read and write?",
        "Tile and multiply take care of the matrices; in fc_data neighbouring lanes have neighbouring inputs.",
        "shares[part * BATCH * IN + at]",
    ],
    counts="sectors and wavefronts beyond those needed, at BATCH = 32, IN = 256, OUT = 256 and at BATCH = 32, IN = "
    "128, OUT = 640: none",
)
def test_sectors(kernel, rng):
    for batch, inputs, outputs in COUNTED:
        case = check_dense_backward(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
