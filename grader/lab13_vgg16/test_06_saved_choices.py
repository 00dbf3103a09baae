"""What is graded in lab13_vgg16/06_saved_choices: bias, ReLU, 2 x 2 max pooling, and a byte for what passed through."""

from __future__ import annotations

from warpcourse.lab13_vgg16.cases import check_choices
from warpschool.grading import criterion, practice

WHOLE = [(1, 2, 16, 16), (2, 3, 8, 32)]
RAGGED = practice([(2, 2, 14, 14), (1, 1, 2, 2), (3, 2, 13, 9), (1, 1, 31, 18)])
COUNTED = practice([(1, 4, 16, 64), (2, 3, 8, 128)], count=1)
ONE_PASS = 1.05  # the bias is asked for again by every thread


def check(kernel, rng, cases, **options):
    for batch, f, oh, ow in cases:
        check_choices(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "Which number does result (1, 0) of a window have, and which one does 'none' have?",
        "1 to 4 row by row, so (1, 0) is 3; 0 where the largest result plus bias is not positive.",
        "if (result > largest) { largest = result; chosen[j] = k + 1; }",
    ],
)
def test_correct(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Borders",
    weight=2,
    hint=[
        "13 x 9 results have how many windows of 2 x 2?",
        "6 x 4: store_row and the rows' condition leave out what lies outside.",
        "all windows of row i go into kept and chosen",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)


@criterion(
    "Equal results, and zero",
    weight=2,
    hint=[
        "Four equal results: which one passes? And a largest one of exactly 0?",
        "The first one; and none, because ReLU has slope 0 there.",
        "result > largest, not >=;  if (!(kept[j] > 0)) chosen[j] = 0",
    ],
)
def test_ties(kernel, rng):
    check(kernel, rng, [(1, 12, 8, 8)], ties=True)


@criterion(
    "Without pooling",
    weight=1,
    hint=[
        "With POOL = 1, how many results has a window?",
        "One: choice is 1 where it is positive.",
        "for (int k = 1; k < POOL * POOL; ++k), patch[i * POOL + k / POOL][j * POOL + k % POOL]",
    ],
)
def test_unpooled(kernel, rng):
    check(kernel, rng, [(2, 2, 14, 13), (1, 2, 8, 16)], pool=1)


@criterion(
    "One pass over memory",
    weight=2,
    hint=[
        "What is written for a window?",
        "Five bytes. M is read once, and nothing goes to memory in between.",
        "results stay in patch; kept and chosen leave by store_row",
    ],
    counts="bytes of global loads and stores at BATCH = 1, F = 4, OH = 16, OW = 64 and at BATCH = 2, F = 3, OH = 8, OW "
    "= 128: at most those of M, bias, y and choice and a twentieth more; sectors beyond those needed: none",
)
def test_bytes(kernel, rng):
    for batch, f, oh, ow in COUNTED:
        case = check_choices(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow)
        needed = sum(array.nbytes for array in (*case.arrays.values(), *case.run.outputs.values()))
        moved = case.counters.global_load_bytes + case.counters.global_store_bytes
        kernel.within(moved, int(ONE_PASS * needed), "bytes of global loads and stores", unit="bytes")
        kernel.no_excess_sectors(case.sizes, case.arrays)
