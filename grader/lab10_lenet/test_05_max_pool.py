"""What is graded in lab10_lenet/05_max_pool: the largest of each window of 2 x 2, and which one it was."""

from __future__ import annotations

from warpcourse.lab10_lenet.cases import check_max_pool
from warpschool.grading import criterion, practice

WHOLE = [(2, 4, 8, 16), (2, 32, 24, 24)]
RAGGED = practice([(1, 1, 2, 2), (2, 3, 5, 7), (3, 5, 9, 31), (1, 33, 2, 3)])
COUNTED = practice([(2, 16, 24, 24), (1, 12, 32, 40)], count=1)
EQUALS = (3, 4, 10, 6)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which number has the element in the lower row, right column of a window?",
        "2 * row + column: 3. Keep the number together with the largest value so far.",
        "for i = 1, 2, 3: if (from[i / 2 * W + i % 2] > largest) { largest = ...; which = i; }",
    ],
)
def test_correct(kernel, rng):
    for shape in WHOLE:
        check_max_pool(kernel, rng, shape)


@criterion(
    "Odd heights and widths, and the last block",
    weight=2,
    hint=[
        "What is left over at an odd edge?",
        "It belongs to no window; but rows of x are W long all the same.",
        "PH and PW count windows, H and W find elements",
    ],
)
def test_ragged(kernel, rng):
    for shape in RAGGED:
        check_max_pool(kernel, rng, shape)


@criterion(
    "Windows of equals, and of negative numbers",
    weight=2,
    hint=[
        "What is the largest of four negative numbers, and which of two equal ones counts?",
        "Begin with the first element, not with zero; later ones must be larger, not as large.",
        "largest = from[0]; which = 0; then candidates with >",
    ],
)
def test_equals(kernel, rng):
    for levels in (1, 2, 3):
        check_max_pool(kernel, rng, EQUALS, levels=levels)


@criterion(
    "Five bytes for each window",
    weight=2,
    hint=[
        "How many bytes does your index take?",
        "One; and each element of x is read once.",
        "unsigned char which; index[window] = which;",
    ],
    counts="bytes of global loads at 2 x 16 x 24 x 24 and at 1 x 12 x 32 x 40: those of x; of stores: five for each "
    "window, and no sectors beyond those that they fill",
)
def test_bytes(kernel, rng):
    for shape in COUNTED:
        case = check_max_pool(kernel, rng, shape)
        counters, whole = kernel.counters(*case), case[1]["x"].nbytes
        kernel.within(counters.global_load_bytes, whole, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, whole // 16 * 5, "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(*case, loads=False)
