"""What is graded in lab04_bank_conflicts/02_transpose_swizzled: no bank conflicts, and no padding either."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_transpose
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import shared_bytes_of_blocks

FULL_TILES = [(32, 32), (64, 96), (96, 32)]
RAGGED = practice([(1, 1), (1, 127), (127, 1), (31, 33), (33, 65), (200, 182)])
ALIGNED = (128, 128)
COUNTED = practice([ALIGNED, (96, 160)], count=1)


@criterion(
    "Right answers",
    weight=2,
    hint=[
        "Element (y, x) of the tile lives at column x ^ y of row y. Where does the element (x, y) live?",
        "The same rule for writing and reading: the column of the tile is exchanged with its XOR with the row.",
        "write tile[y][x ^ y]; read tile[x][y ^ x]",
    ],
)
def test_correct(kernel, rng):
    for m, n in FULL_TILES:
        check_transpose(kernel, rng, m, n)


@criterion(
    "Right answers at ragged sizes",
    weight=1,
    hint=[
        "Does the swizzle change which elements of A and At exist?",
        "The guards ask for places in A and At, not in the tile: they stay as they are.",
        "load if (row0 + y < M && col0 + x < N); store if (col0 + y < N && row0 + x < M)",
    ],
)
def test_ragged(kernel, rng):
    for m, n in RAGGED:
        check_transpose(kernel, rng, m, n)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Do two elements ever get the same place in the tile?",
        "x ^ y takes every value once while x runs along a row; and the barrier between the loops has to stay.",
        "loop: tile[y][x ^ y] = ...; __syncthreads(); loop: ... = tile[x][y ^ x]",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MN", ALIGNED, strict=True)))
    check_transpose(kernel, rng, *ALIGNED)


@criterion(
    "No bank conflicts",
    weight=3,
    hint=[
        "Write down a table of x ^ y for x, y = 0, 1, 2, 3. What do its rows and its columns have in common?",
        "The XOR has to use a number that differs from lane to lane along the column: the row of the tile.",
        "tile[row][column ^ row], in both loops",
    ],
    counts="wavefronts of shared loads and stores beyond the fewest, at M = N = 128",
)
def test_wavefronts(kernel, rng):
    for m, n in COUNTED:
        kernel.no_excess_wavefronts(*check_transpose(kernel, rng, m, n))


@criterion(
    "No excess sectors",
    weight=1,
    hint=[
        "Conflicts can be avoided by giving up coalescing, but then global memory pays for it.",
        "The swizzle is inside the tile only: loads go along a row of A, stores along a row of At.",
        "the global accesses stay as they are in lab03_coalescing/03_transpose_tiled",
    ],
    counts="sectors of loads and stores beyond the fewest that hold the requested bytes, at M = N = 128",
)
def test_sectors(kernel, rng):
    for m, n in COUNTED:
        kernel.no_excess_sectors(*check_transpose(kernel, rng, m, n))


@criterion(
    "No extra shared memory",
    weight=2,
    hint=[
        "How many floats does a tile of TILE x TILE elements need?",
        "The swizzle takes the place of the padding.",
        "float tile[TILE][TILE]",
    ],
    counts="bytes of shared memory, static and dynamic, of all blocks together, at M = N = 128: four for each element",
)
def test_shared_bytes(kernel, rng):
    for m, n in COUNTED:
        sizes, arrays = check_transpose(kernel, rng, m, n)
        used = shared_bytes_of_blocks(kernel.run(sizes, arrays))
        kernel.within(used, 4 * m * n, "shared memory of all blocks", unit="bytes")
