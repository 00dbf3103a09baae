"""What is graded in lab09_winograd/01_filter_transform: U = G g G^T for every filter."""

from __future__ import annotations

from warpcourse.lab09_winograd.cases import check_filters
from warpschool.grading import criterion, practice

WHOLE = [(32, 8), (64, 16)]
RAGGED = practice([(1, 1), (33, 3), (31, 17), (70, 9)])
COUNTED = practice([(64, 16), (160, 8)], count=1)
OPERATIONS = 135  # 15 for each of 3 columns and 6 rows; the reference has 125


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which numbers of G g does number (i, j) of G g G^T need?",
        "Each of the three columns of g becomes six numbers; then each of those six rows becomes six again.",
        "u = G (middle[0][i], middle[1][i], middle[2][i]);  to[(i * SIDE + j) * position] = u[j]",
    ],
)
def test_correct(kernel, rng):
    for f, c in WHOLE:
        check_filters(kernel, rng, F=f, C=c)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Which threads have neither a filter nor a channel to write?",
        "Rows of U are F long and positions C * F apart, whatever the block's tile is.",
        "only threads with f < F && c < C write; all threads reach the barrier",
    ],
)
def test_ragged(kernel, rng):
    for f, c in RAGGED:
        check_filters(kernel, rng, F=f, C=c)


@criterion(
    "F(2x2,3x3) with TILE = 2",
    weight=1,
    hint=[
        "Does a 6 stand in your code where SIDE is meant?",
        "transform_filter exists twice; the compiler takes the one whose array has SIDE numbers.",
        "float u[SIDE]; transform_filter(u, ...); for (int j = 0; j < SIDE; ++j) ...",
    ],
)
def test_small_tiles(kernel, rng):
    for f, c in [(33, 9), (64, 16)]:
        check_filters(kernel, rng, tile=2, F=f, C=c)


@criterion(
    "Full sectors",
    weight=2,
    hint=[
        "Which filters do the 32 lanes of a warp write at the same time?",
        "Neighbours in U have neighbouring f: the lanes run along f. In w neighbours are the weights of one filter.",
        "to = U + c * F + f, with f = f0 + lane",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, loads and stores, at F = 64, C = 16 and at F = "
    "160, C = 8: none",
)
def test_sectors(kernel, rng):
    for f, c in COUNTED:
        case = check_filters(kernel, rng, F=f, C=c)
        kernel.no_excess_sectors(case.sizes, case.arrays)


@criterion(
    "Few operations a tile",
    weight=2,
    hint=[
        "Rows 1 and 2 of G differ in one sign. What can be computed once for both?",
        "Even powers of a point and of its negative are equal: g0 and g2 enter rows 1 and 2 alike, and rows 3 and 4.",
        "sixth = g2 / 6;  ones = g0 / 6 + sixth;  twos = g0 / 24 + sixth;  then one fmaf for each of rows 1 to 4",
    ],
    counts="additions and multiplications for each filter and channel, a multiply-add is two, at F = 64, C = 16 and at "
    "F = 160, C = 8: at most 135 = 15 (3 + 6)",
)
def test_operations(kernel, rng):
    for f, c in COUNTED:
        case = check_filters(kernel, rng, F=f, C=c)
        kernel.within(case.operations / (f * c), OPERATIONS, "operations for each filter's channel")
