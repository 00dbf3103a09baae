"""What is graded in lab04_bank_conflicts/01_transpose_padded: At = A transposed, without bank conflicts."""

from __future__ import annotations

from warpcourse.cases import check_transpose
from warpschool.grading import criterion, practice

SHAPES = practice([(1, 1), (64, 96), (96, 32), (1, 127), (127, 1), (31, 33), (33, 65), (200, 182)])
COUNTED = practice([(128, 128), (96, 160)], count=1)


def require_no_conflicts(kernel, rng):
    """The given kernel is right: what counts is a kernel that is right and free of conflicts."""
    for m, n in COUNTED:
        kernel.no_excess_wavefronts(*check_transpose(kernel, rng, m, n))


@criterion(
    "No bank conflicts",
    weight=3,
    hint=[
        "Bank = word address modulo 32. In which banks do the 32 elements of one column of the tile lie?",
        "Rows of 32 floats all start in bank 0. How long must a row be for the next one to start in bank 1?",
        "float tile[TILE][TILE + 1]",
    ],
    counts="wavefronts of shared loads and stores beyond the fewest, at M = N = 128",
)
def test_wavefronts(kernel, rng):
    require_no_conflicts(kernel, rng)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "The given kernel is right at every size. What did you change besides the padding?",
        "Padding moves the rows of the tile apart; every index into it stays as it was, and so do the guards.",
        "only the declaration of the tile knows of the padding",
    ],
    counts="right answers of a kernel without bank conflicts",
)
def test_ragged(kernel, rng):
    require_no_conflicts(kernel, rng)
    for m, n in SHAPES:
        check_transpose(kernel, rng, m, n)


@criterion(
    "No excess sectors",
    weight=1,
    hint=[
        "Conflicts can be avoided by giving up coalescing, but then global memory pays for it.",
        "Loads still go along a row of A and stores along a row of At.",
        "the global accesses stay as they are in lab03_coalescing/03_transpose_tiled",
    ],
    counts="sectors of loads and stores beyond the fewest that hold the requested bytes, at M = N = 128, "
    "of a kernel without bank conflicts",
)
def test_sectors(kernel, rng):
    require_no_conflicts(kernel, rng)
    for m, n in COUNTED:
        kernel.no_excess_sectors(*check_transpose(kernel, rng, m, n))
