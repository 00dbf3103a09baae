"""What is graded in lab09_winograd/02_input_transform: V = B^T d B for every tile."""

from __future__ import annotations

from warpcourse.lab09_winograd.cases import check_images
from warpschool.grading import criterion, practice

WHOLE = [(1, 2, 18, 18, 0), (2, 3, 10, 34, 0)]
RAGGED = practice(
    [(2, 3, 14, 14, 1), (1, 1, 1, 1, 1), (1, 2, 3, 5, 0), (3, 2, 13, 9, 1), (1, 1, 33, 31, 0), (1, 1, 5, 6, 2)],
    needs=lambda batch, c, h, w, pad: h + 2 * pad >= 3 and w + 2 * pad >= 3,
)


def tiles(batch, h, w, pad):
    """Tiles of 4 x 4 results."""
    return batch * -(-(h + 2 * pad - 2) // 4) * -(-(w + 2 * pad - 2) // 4)


COUNTED = practice(
    [(1, 4, 32, 64, 1), (2, 3, 18, 38, 0)], count=1, needs=lambda batch, c, h, w, pad: tiles(batch, h, w, pad) % 8 == 0
)
"""BATCH, C, H, W, PAD: the tiles of a channel fill sectors."""
OPERATIONS = 252  # 21 for each of 6 columns and 6 rows; the reference has 240


def check_all(kernel, rng, cases, **options):
    for batch, c, h, w, pad in cases:
        check_images(kernel, rng, BATCH=batch, C=c, H=h, W=w, PAD=pad, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "Which pixel is the first one of tile (1, 2)?",
        "Tiles begin every TILE pixels and are SIDE = TILE + 2 pixels wide: neighbours share two columns.",
        "row0 = ty * TILE - PAD;  d[i][j] = x[row0 + i][col0 + j]",
    ],
)
def test_correct(kernel, rng):
    check_all(kernel, rng, WHOLE)


@criterion(
    "Padding and ragged sizes",
    about="OOB",
    weight=3,
    hint=[
        "Which pixels of a tile may be outside the image, and on which sides?",
        "All four: padding lies above and to the left, and the last tiles reach over the right and lower edge.",
        "row >= 0 && row < H && col >= 0 && col < W ? from[row * W + col] : 0.0f",
    ],
)
def test_ragged(kernel, rng):
    check_all(kernel, rng, RAGGED)


@criterion(
    "F(2x2,3x3) with TILE = 2",
    weight=1,
    hint=[
        "Does a 4 or a 6 stand in your code where TILE or SIDE is meant?",
        "transform_input exists twice; the compiler takes the one whose array has SIDE pixels.",
        "for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = d[i][j];",
    ],
)
def test_small_tiles(kernel, rng):
    check_all(kernel, rng, [(2, 2, 14, 13, 1), (1, 3, 9, 16, 0)], tile=2)


@criterion(
    "Rows of V in full sectors",
    weight=1,
    hint=[
        "Which tiles do the 32 lanes of a warp write at the same time?",
        "Neighbours in V are neighbouring tiles of one position and one channel: the lanes run along the tiles.",
        "to = V + c * P + p;  number (i, j) goes to to[(i * SIDE + j) * position]",
    ],
    counts="sectors of stores beyond the fewest that hold the bytes, at BATCH = 1, C = 4, H = 32, W = 64, PAD = 1 and "
    "at BATCH = 2, C = 3, H = 18, W = 38, PAD = 0: none",
)
def test_sectors(kernel, rng):
    for batch, c, h, w, pad in COUNTED:
        case = check_images(kernel, rng, BATCH=batch, C=c, H=h, W=w, PAD=pad)
        kernel.no_excess_sectors(case.sizes, case.arrays, loads=False)


@criterion(
    "Few operations a tile",
    weight=2,
    hint=[
        "Rows 1 and 2 of B^T differ in the signs of two numbers. What can be computed once for both?",
        "d4 - 4 d2 serves rows 1 and 2, d4 - d2 rows 3 and 4; what is left of each pair differs only in its sign.",
        "a = d4 - 4 d2;  b = d3 - 4 d1;  row 1 = a + b;  row 2 = a - b;  the same with d4 - d2 and 2 (d3 - d1)",
    ],
    counts="additions and multiplications for each tile and channel, a multiply-add is two, at BATCH = 1, C = 4, H = "
    "32, W = 64, PAD = 1 and at BATCH = 2, C = 3, H = 18, W = 38, PAD = 0: at most 252 = 21 (6 + 6)",
)
def test_operations(kernel, rng):
    for batch, c, h, w, pad in COUNTED:
        case = check_images(kernel, rng, BATCH=batch, C=c, H=h, W=w, PAD=pad)
        each = case.operations / (tiles(batch, h, w, pad) * c)
        kernel.within(each, OPERATIONS, "operations for each tile and channel")
