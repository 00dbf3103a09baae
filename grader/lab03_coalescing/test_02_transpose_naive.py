"""What is graded in lab03_coalescing/02_transpose_naive: At = A transposed."""

from __future__ import annotations

from warpcourse.cases import check_transpose
from warpschool.grading import criterion, practice

FULL_BLOCKS = [(32, 32), (64, 96), (96, 32)]
RAGGED = practice([(1, 1), (1, 127), (127, 1), (31, 33), (33, 65), (200, 182)])
COUNTED = practice([(128, 128), (96, 160)], count=1)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Where does the element in row 1, column 2 of A stand in At?",
        "A has rows of N elements, At has rows of M elements.",
        "At[col * M + row] = A[row * N + col]",
    ],
)
def test_correct(kernel, rng):
    for m, n in FULL_BLOCKS:
        check_transpose(kernel, rng, m, n)


@criterion(
    "Right answers at ragged sizes",
    about="OOB",
    weight=2,
    hint=[
        "Which threads have no element of A?",
        "Row and column both need a guard: a column past N is the start of the next row.",
        "if (row < M && col < N) { copy }",
    ],
)
def test_ragged(kernel, rng):
    for m, n in RAGGED:
        check_transpose(kernel, rng, m, n)


@criterion(
    "Every element moves once",
    weight=1,
    hint=[
        "How many bytes must a transpose load, and how many must it store?",
        "One load and one store for each element are enough.",
        "each thread: one element of A to one place of At",
    ],
    counts="requested bytes, at M = N = 128: one float loaded and one stored for each element",
)
def test_bytes(kernel, rng):
    for m, n in COUNTED:
        counters = kernel.counters(*check_transpose(kernel, rng, m, n))
        kernel.within(counters.global_load_bytes, 4 * m * n, "bytes of global loads", unit="bytes")
        kernel.within(counters.global_store_bytes, 4 * m * n, "bytes of global stores", unit="bytes")


@criterion(
    "One side without excess sectors",
    weight=1,
    hint=[
        "A warp moves 32 elements. Do they lie in one row of A, in one row of At, or in neither?",
        "Without shared memory one side has to walk along a column, but not both.",
        "col = blockIdx.x * TILE + threadIdx.x: the lanes then read a row of A",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at M = N = 128, on loads or on stores",
)
def test_one_side(kernel, rng):
    for m, n in COUNTED:
        case = check_transpose(kernel, rng, m, n)
        if kernel.counters(*case).excess_store_sectors:
            kernel.no_excess_sectors(*case, stores=False)
