"""What is graded in lab13_vgg16/04_fc_small_batch: y = ReLU(x w + bias) for few images, sums in parts."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab13_vgg16.cases import check_dense
from warpschool.grading import criterion, practice

WHOLE = [(32, 64, 128), (32, 512, 128)]
RAGGED = practice([(5, 33, 7), (1, 1, 1), (33, 130, 131), (7, 300, 10)])
ALIGNED = {"BATCH": 32, "IN": 512, "OUT": 256}
COUNTED = practice([(32, 640, 128), (32, 256, 256)], count=1)
TILE = PART = 128  # outputs of a block, and products of a part's sums


def check(kernel, rng, cases, **options):
    for batch, inputs, outputs in cases:
        check_dense(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "Which inputs belong to part blockIdx.z, and who adds the parts up?",
        "Part z begins at z * length and ends `length` later, at IN at the latest; fc_finish adds all sums and a bias.",
        "multiply<true, false>(x, w, sums, BATCH, OUT, IN, blockIdx.y * TSM, blockIdx.x * TSN, first, end)",
    ],
)
def test_correct(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes, with and without ReLU",
    weight=3,
    hint=[
        "May a part be empty?",
        "Yes: length is a multiple of two tiles, so the last parts may begin behind IN. first and end are at most IN.",
        "first = min(blockIdx.z * length, IN);  y[at] = RELU ? fmaxf(sum, 0) : sum",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)
    check(kernel, rng, [(5, 33, 7)], relu=0)


@criterion(
    "No race, no atomics",
    about="RACE",
    weight=1,
    hint=[
        "Blocks of different parts have the same tile of y. Where do they write?",
        "To their own part of sums; atomics on y would add in another order each time.",
        "sums += blockIdx.z * BATCH * OUT, and one thread of fc_finish for each y",
    ],
)
def test_race(kernel, rng):
    case = check_dense(kernel, rng, **ALIGNED)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
    atomics = case.counters.global_atomic_requests + case.counters.global_reduction_requests
    kernel.within(atomics, 0, "atomics on global memory")


@criterion(
    "Each weight is read once",
    weight=3,
    hint=[
        "How many blocks read the same weight?",
        "One: a block has all images of the batch, and each input belongs to one part.",
        "first = blockIdx.z * length: parts that overlap read twice, and give wrong sums",
    ],
    counts="bytes of global loads at BATCH = 32, IN = 640, OUT = 128 and at BATCH = 32, IN = 256, OUT = 256: at most "
    "those of w, of x for each tile of 128 outputs, of bias for each image, and of the sums of one part for each 128 "
    "inputs; multiply-adds: at most one for each image and weight",
)
def test_bytes(kernel, rng):
    for batch, inputs, outputs in COUNTED:
        counters = check_dense(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs).counters
        sums = inputs // PART * batch * outputs
        floats = inputs * outputs + batch * inputs * (outputs // TILE) + batch * outputs + sums
        kernel.within(counters.global_load_bytes, 4 * floats, "bytes of global loads", unit="bytes")
        kernel.within(counters.multiplications, batch * inputs * outputs, "products")


@criterion(
    "Full sectors, no bank conflicts",
    weight=1,
    hint=[
        "Which elements do neighbouring lanes read and write?",
        "Tile and multiply take care of x and w; in fc_finish neighbouring lanes have neighbouring outputs.",
        "sums[part * BATCH * OUT + at]",
    ],
    counts="sectors and wavefronts beyond those needed, at BATCH = 32, IN = 640, OUT = 128 and at BATCH = 32, IN = "
    "256, OUT = 256: none",
)
def test_sectors(kernel, rng):
    for batch, inputs, outputs in COUNTED:
        case = check_dense(kernel, rng, BATCH=batch, IN=inputs, OUT=outputs)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
