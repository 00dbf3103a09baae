"""What is graded in lab09_winograd/04_output_transform: Y = A^T M A for every tile, cropped to the image."""

from __future__ import annotations

from warpcourse.lab09_winograd.cases import check_results
from warpschool.grading import criterion, practice

WHOLE = [(1, 2, 16, 16), (2, 3, 8, 32)]
RAGGED = practice([(2, 3, 14, 14), (1, 1, 1, 1), (3, 2, 13, 9), (1, 2, 3, 5), (1, 1, 31, 18), (2, 1, 17, 2)])
COUNTED = practice([(1, 4, 32, 64), (3, 3, 16, 40)], count=1)
OPERATIONS = 140  # 14 for each of 6 columns and 4 rows; the reference has 130


def check_all(kernel, rng, cases, **options):
    for batch, f, oh, ow in cases:
        check_results(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "Which row of the image is row i of the tile?",
        "A tile's rows are OW floats apart in the image; its columns are neighbours.",
        "transform_output(results, middle[i]);  store_row(to + i * OW, results, OW - col0, OW)",
    ],
)
def test_correct(kernel, rng):
    check_all(kernel, rng, WHOLE)


@criterion(
    "Cropped borders",
    weight=3,
    hint=[
        "14 x 14 results take 4 x 4 tiles: which results of the last ones are no pixels of the image?",
        "store_row takes care of the columns; rows from OH on are yours to leave out.",
        "if (row0 + i < OH) { ... }",
    ],
)
def test_ragged(kernel, rng):
    check_all(kernel, rng, RAGGED)


@criterion(
    "F(2x2,3x3) with TILE = 2",
    weight=1,
    hint=[
        "Does a 4 stand in your code where TILE is meant?",
        "transform_output exists twice; the compiler takes the one whose arrays have TILE results and SIDE sums.",
        "float results[TILE]; for (int i = 0; i < TILE; ++i) ...",
    ],
)
def test_small_tiles(kernel, rng):
    check_all(kernel, rng, [(2, 2, 14, 13), (1, 3, 7, 16)], tile=2)


@criterion(
    "Full sectors",
    weight=1,
    hint=[
        "How many floats does a lane write at once, and where does its neighbour write?",
        "A row of a tile is four neighbouring floats, and the neighbour's row follows it: one float4 for each lane.",
        "store_row(to + i * OW, results, OW - col0, OW) for each row i",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at BATCH = 1, F = 4, OH = 32, OW = 64 and at "
    "BATCH = 3, F = 3, OH = 16, OW = 40: none",
)
def test_sectors(kernel, rng):
    for batch, f, oh, ow in COUNTED:
        case = check_results(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow)
        kernel.no_excess_sectors(case.sizes, case.arrays)


@criterion(
    "Few operations a tile",
    weight=2,
    hint=[
        "m1 and m2 enter every row of A^T: with equal signs in two of them, with opposite signs in the others.",
        "m1 + m2, m1 - m2, m3 + m4 and m3 - m4 are enough for all four rows.",
        "y1 = (m1 - m2) + 2 (m3 - m4);  y2 = (m1 + m2) + 4 (m3 + m4);  y3 = (m1 - m2) + 8 (m3 - m4) + m5",
    ],
    counts="additions and multiplications for each tile and filter, a multiply-add is two, at BATCH = 1, F = 4, OH = "
    "32, OW = 64 and at BATCH = 3, F = 3, OH = 16, OW = 40: at most 140 = 14 (6 + 4)",
)
def test_operations(kernel, rng):
    for batch, f, oh, ow in COUNTED:
        case = check_results(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow)
        tiles = batch * (oh // 4) * (ow // 4)
        kernel.within(case.operations / (tiles * f), OPERATIONS, "operations for each tile and filter")
