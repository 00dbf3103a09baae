"""What is graded in lab09_winograd/06_three_channels: a convolution with few channels, bias and ReLU, in one kernel."""

from __future__ import annotations

from warpcourse.lab09_winograd.cases import check_first_layer
from warpschool.grading import criterion, practice

WHOLE = [(1, 16, 16, 32, 1), (2, 10, 18, 64, 0)]
RAGGED = practice([(2, 14, 14, 33, 1), (1, 3, 3, 1, 0), (1, 13, 9, 5, 1), (1, 5, 22, 40, 0)])


def tiles(batch, h, w):
    """Tiles of 4 x 4 results, with one pixel of padding."""
    return batch * (h // 4) * (w // 4)


COUNTED = practice(
    [(1, 32, 64, 32), (4, 16, 32, 64)], count=1, needs=lambda batch, h, w, f: tiles(batch, h, w) in (128, 256)
)
"""BATCH, H, W, F: one or two blocks of 128 threads, all with a tile."""
PADDED = 36 * 8 + 30  # multiply-adds for a tile and filter: products with 8 channels, five of them zeros; A^T M A


def check_all(kernel, rng, cases, **options):
    for batch, h, w, f, pad in cases:
        check_first_layer(kernel, rng, BATCH=batch, H=h, W=w, F=f, PAD=pad, **options)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "Which numbers of U and V make sum (i, j)?",
        "Column j has SIDE sums over the channels; A^T makes TILE numbers of them: column j of A^T M.",
        "column[i] += filters[f][c][i * SIDE + j] * v[c][i][j];  transform_output(results, column)",
    ],
)
def test_correct(kernel, rng):
    check_all(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Are there threads without a tile, and filters beyond the last one?",
        "A thread without a tile computes with zeros and writes nothing; it must reach the barriers, though.",
        "if (valid && ty * TILE + i < OH) store_row(...)",
    ],
)
def test_ragged(kernel, rng):
    check_all(kernel, rng, RAGGED)


@criterion(
    "One channel, with TILE = 2",
    weight=1,
    hint=[
        "Does a 3, 4 or 6 stand in your code where CHANNELS, TILE or SIDE is meant?",
        "Both constants can be changed in one place; the loops must follow.",
        "for (int c = 0; c < CHANNELS; ++c), for (int i = 0; i < SIDE; ++i)",
    ],
)
def test_variants(kernel, rng):
    check_all(kernel, rng, [(2, 9, 14, 20, 1)], channels=1, tile=2)


@criterion(
    "At most half the padded version's multiply-adds",
    weight=2,
    hint=[
        "What is each of the 36 sums a sum of?",
        "Three products: a loop over more channels multiplies zeros.",
        "36 * CHANNELS products for a tile and filter, and the transforms",
    ],
    counts="products for each tile and filter at PAD = 1 and BATCH = 1, H = 32, W = 64, F = 32 or BATCH = 4, H = 16, W "
    "= 32, F = 64, transforms included: at most half of 36 * 8 + 30, what 03 and 04 take if three channels are filled "
    "up to 8",
)
def test_products(kernel, rng):
    for batch, h, w, f in COUNTED:
        counters = check_first_layer(kernel, rng, BATCH=batch, H=h, W=w, F=f, PAD=1).run.counters
        each = counters.multiplications / (tiles(batch, h, w) * f)
        kernel.at_least(each, 1, "products for each tile and filter")
        kernel.within(each, PADDED / 2, "products for each tile and filter")


@criterion(
    "Only the result is written",
    weight=2,
    hint=[
        "Where are the transformed pixels while the filters pass by?",
        "In registers: neither V nor M is ever stored.",
        "float v[CHANNELS][SIDE][SIDE], and all its loops unrolled",
    ],
    counts="bytes of global stores at PAD = 1 and BATCH = 1, H = 32, W = 64, F = 32 or BATCH = 4, H = 16, W = 32, "
    "F = 64: at most those of y; requests to "
    "local memory: none",
)
def test_bytes(kernel, rng):
    for batch, h, w, f in COUNTED:
        case = check_first_layer(kernel, rng, BATCH=batch, H=h, W=w, F=f, PAD=1)
        counters = case.run.counters
        kernel.within(counters.global_store_bytes, case.run.outputs["y"].nbytes, "bytes of global stores", unit="bytes")
        kernel.within(counters.local_load_requests + counters.local_store_requests, 0, "requests to local memory")
