"""What is graded in lab03_coalescing/03_transpose_tiled: At = A transposed, through shared memory."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_transpose
from warpschool.grading import criterion, practice

FULL_TILES = [(32, 32), (64, 96), (96, 32)]
RAGGED = practice([(1, 1), (1, 127), (127, 1), (31, 33), (33, 65), (200, 182)])
ALIGNED = (128, 128)
COUNTED = practice([ALIGNED, (96, 160)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "The block's tile starts at row0, col0 of A. Where does it start in At?",
        "Rows of At are columns of A: its row is col0 + y, its column row0 + x.",
        "tile[y][x] = A[(row0 + y) * N + col0 + x]; barrier; At[(col0 + y) * M + row0 + x] = tile[x][y]",
    ],
)
def test_correct(kernel, rng):
    for m, n in FULL_TILES:
        check_transpose(kernel, rng, m, n)


@criterion(
    "Right answers at ragged sizes",
    about="OOB",
    weight=2,
    hint=[
        "The tile is cut off at two edges of A. Is it cut off at the same threads when At is written?",
        "Two guards: one for the element of A, another one, with rows and columns exchanged, for the element of At.",
        "load if (row0 + y < M && col0 + x < N); store if (col0 + y < N && row0 + x < M)",
    ],
)
def test_ragged(kernel, rng):
    for m, n in RAGGED:
        check_transpose(kernel, rng, m, n)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Who wrote the element of the tile that your thread reads?",
        "Another thread of the block: a barrier has to stand between the two loops, and every thread has to reach it.",
        "loop of loads; __syncthreads(); loop of stores",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MN", ALIGNED, strict=True)))
    check_transpose(kernel, rng, *ALIGNED)


@criterion(
    "No excess sectors",
    weight=3,
    hint=[
        "Draw the 32 elements that one warp stores. Do they lie in a row of At?",
        "x runs along a row of A in the loads and along a row of At in the stores; the tile is read the other way.",
        "store: At[(col0 + y) * M + row0 + x] = tile[x][y], with x from threadIdx.x",
    ],
    counts="sectors of loads and stores beyond the fewest that hold the requested bytes, at M = N = 128",
)
def test_sectors(kernel, rng):
    for m, n in COUNTED:
        kernel.no_excess_sectors(*check_transpose(kernel, rng, m, n))
