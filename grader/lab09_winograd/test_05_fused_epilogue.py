"""What is graded in lab09_winograd/05_fused_epilogue: bias, ReLU and 2 x 2 max pooling in the output transform."""

from __future__ import annotations

from warpcourse.lab09_winograd.cases import check_epilogue
from warpschool.grading import criterion, practice

WHOLE = [(1, 2, 16, 16), (2, 3, 8, 32)]
RAGGED = practice([(2, 2, 14, 14), (1, 1, 2, 2), (3, 2, 13, 9), (1, 2, 3, 5), (1, 1, 31, 18)])
SHIFTED = [(2, 3, 14, 14), (1, 2, 13, 9), (1, 1, 6, 18), (2, 1, 2, 3), (1, 1, 17, 30)]
COUNTED = practice([(1, 4, 32, 64), (3, 3, 12, 20)], count=1)
ONE_PASS = 1.05  # the bias is asked for again by every thread


def check_all(kernel, rng, cases, *, crop=0, **options):
    for batch, f, oh, ow in cases:
        check_epilogue(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow, CROP=crop, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "In which order do bias, ReLU and pooling come, and does it matter here?",
        "The largest of four results plus the bias is the largest of the four sums: add once, after pooling.",
        "fmaxf(largest + bias[f], 0.0f)",
    ],
)
def test_correct(kernel, rng):
    check_all(kernel, rng, WHOLE)


@criterion(
    "Borders",
    weight=2,
    hint=[
        "13 x 9 results have how many windows of 2 x 2?",
        "6 x 4: a row or column that is left over belongs to no window, and a tile may have windows outside.",
        "all windows of row i go into pooled; store_row and the rows' condition leave out what lies outside",
    ],
)
def test_ragged(kernel, rng):
    check_all(kernel, rng, RAGGED)


@criterion(
    "Tiles that begin outside: 14 x 14 in the middle of 16 x 16",
    weight=3,
    hint=[
        "With CROP = 1 the first result of the image is the second of its tile. Where does the second window end?",
        "In the next tile: its first column, the first row of the one below, and a corner belong to your windows.",
        "patch[i][TILE] from the right, patch[TILE][j] from below, patch[TILE][TILE] from the corner; then move by 1",
    ],
)
def test_shifted(kernel, rng):
    check_all(kernel, rng, SHIFTED, crop=1)


@criterion(
    "Without pooling, and with TILE = 2",
    weight=1,
    hint=[
        "With POOL = 1, how many results has a window?",
        "One: the loops over POOL * POOL and TILE / POOL must not know any number by heart.",
        "for (int k = 1; k < POOL * POOL; ++k), for (int j = 0; j < TILE / POOL; ++j)",
    ],
)
def test_variants(kernel, rng):
    for crop in (0, 1):
        check_all(kernel, rng, [(2, 2, 14, 13)], crop=crop, pool=1)
        check_all(kernel, rng, [(1, 2, 14, 11)], crop=crop, tile=2)


@criterion(
    "One pass over memory",
    weight=2,
    hint=[
        "What is still written, once bias, ReLU and pooling are done?",
        "M is read once and a quarter of the results is written. Nothing goes to memory in between.",
        "results stay in patch; pooled leaves by store_row",
    ],
    counts="bytes of global loads and stores at CROP = 0 and BATCH = 1, F = 4, OH = 32, OW = 64 or "
    "BATCH = 3, F = 3, OH = 12, OW = 20: at most those of M, bias "
    "and y and a twentieth more",
)
def test_bytes(kernel, rng):
    for batch, f, oh, ow in COUNTED:
        case = check_epilogue(kernel, rng, BATCH=batch, F=f, OH=oh, OW=ow, CROP=0)
        counters = case.run.counters
        needed = sum(array.nbytes for array in (*case.arrays.values(), case.run.outputs["y"]))
        moved = counters.global_load_bytes + counters.global_store_bytes
        kernel.within(moved, int(ONE_PASS * needed), "bytes of global loads and stores", unit="bytes")
