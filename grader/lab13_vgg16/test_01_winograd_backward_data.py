"""What is graded in lab13_vgg16/01_winograd_backward_data: dM = A dY A^T, dV = U dM, and dx, the sum of B dV B^T."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab13_vgg16.cases import check_data
from warpschool.grading import criterion, practice

WHOLE = [(1, 64, 16, 16, 32), (2, 3, 5, 8, 12)]
RAGGED = practice([
    (2, 5, 7, 13, 9), (1, 1, 1, 2, 2), (2, 70, 20, 14, 14), (1, 3, 8, 6, 31),
    (1, 3, 4, 10, 7),  # six tiles: rows of M and V that are no whole quads
])  # fmt: skip
ALIGNED = {"BATCH": 1, "C": 64, "F": 16, "H": 16, "W": 128}
TILES_C, TILES_P = 64, 128  # channels and tiles of which a block computes dV
COUNTED = practice(
    [(1, 64, 32, 16, 128), (2, 128, 16, 16, 64)], count=1,
    needs=lambda batch, c, f, h, w: batch * (h // 4) * (w // 4) == TILES_P,
)  # fmt: skip
"""BATCH, C, F, H, W"""
DATA = 40  # multiply-adds of A dY A^T for a tile, at most
IMAGE = 98  # and of B dV B^T
MORE = 1.05  # a twentieth more than it takes if all is loaded once, but for the neighbours' shares


def check(kernel, rng, cases, **options):
    for batch, c, f, h, w in cases:
        check_data(kernel, rng, BATCH=batch, C=c, F=f, H=h, W=w, **options)


@criterion(
    "dM: gradients in front of ReLU and pooling, transformed",
    weight=3,
    hint=[
        "Which of a window's results has a gradient, and what are columns 0 to 5 of A^T?",
        "Only the chosen one: choice is k + 1 for result k of the window. A column of A^T holds a point's powers.",
        "results[...] = chosen[j] == k + 1 ? row[j] : 0;  m[3] = y[0] + 2 y[1] + 4 y[2] + 8 y[3], m[5] = y[3]",
    ],
)
def test_results(kernel, rng):
    for pool in (1, 2):
        check(kernel, rng, WHOLE, pool=pool, only_dm=True)


@criterion(
    "dV and dx for whole tiles",
    weight=3,
    hint=[
        "What does the product need of U: sums over channels, or over filters? And who else gives to your pixels?",
        "Rows of U run along the filters, so four floats of nextU[i] go to four rows of tileU. The tiles before and "
        "after give to the first and the last pixel, along rows and along columns.",
        "tileU[buffer][f + 1][c] = nextU[i].y;  d[0] = -4 (v1 - v2) - 2 (v3 - v4) + 4 v5 + before",
    ],
)
def test_images(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Borders",
    weight=2,
    hint=[
        "13 x 9 results: which windows, tiles and neighbours exist?",
        "load_row and the lambda `number` give zeros for what lies outside; nothing else may be read.",
        "transform_middle(pixels, column, number(-1, right, SIDE - 1, j), number(1, right, 0, j))",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)
    check(kernel, rng, [(2, 5, 7, 13, 9), (1, 2, 3, 14, 14)], pool=2)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Two buffers: one is read while the other one is filled. Which one does `store` get?",
        "store(buffer) writes the tile that is multiplied after the next barrier. And each pixel has one writer.",
        "tileM[buffer][...] = nextM[i], tileU[buffer][...] likewise; no atomics",
    ],
)
def test_race(kernel, rng):
    case = check_data(kernel, rng, **ALIGNED)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
    atomics = case.counters.global_atomic_requests + case.counters.global_reduction_requests
    kernel.within(atomics, 0, "atomics on global memory")


@criterion(
    "No more products than forward",
    weight=2,
    hint=[
        "How many multiply-adds had M = U^T V, and how many has dV = U dM?",
        "36 C F P both. The transforms take additions mostly.",
        "share sums: v1 + v2 and v1 - v2, v3 + v4 and v3 - v4 serve all pixels of the middle",
    ],
    counts="products at BATCH = 1, C = 64, F = 32, H = 16, W = 128 and at BATCH = 2, C = 128, F = 16, H = 16, W = 64: "
    "at most 36 C F P, and 40 and 98 for a tile that is transformed to dM and from dV",
)
def test_products(kernel, rng):
    for batch, c, f, h, w in COUNTED:
        counters = check_data(kernel, rng, BATCH=batch, C=c, F=f, H=h, W=w).counters
        tiles = batch * (h // 4) * (w // 4)
        kernel.within(counters.multiplications, (36 * c * f + DATA * f + IMAGE * c) * tiles, "products")


@criterion(
    "A neighbour's share costs one row or column",
    weight=2,
    hint=[
        "How many of a neighbour's 36 numbers does your thread load?",
        "Its last number of each row (from the left), or its first (from the right): six, and one at each corner.",
        "eight columns of eight numbers in all: 36 of its own, 24 at the sides, 4 at the corners",
    ],
    counts="bytes of global loads at BATCH = 1, C = 64, F = 32, H = 16, W = 128 and at BATCH = 2, C = 128, F = 16, H = "
    "16, W = 64: at most dy, the choices, U and dV once, dM once for each 64 channels, of dV six numbers of each tile "
    "beside a tile and one at each corner, and a twentieth more",
)
def test_loads(kernel, rng):
    for batch, c, f, h, w in COUNTED:
        counters = check_data(kernel, rng, BATCH=batch, C=c, F=f, H=h, W=w).counters
        down, across = h // 4, w // 4
        tiles = batch * down * across
        beside = 2 * batch * ((down - 1) * across + down * (across - 1))  # tiles as neighbours of others: at a side,
        corners = 4 * batch * (down - 1) * (across - 1)  # and at a corner
        results = (4 + 1) * batch * f * h * w  # dy, and a byte for each choice
        product = 4 * 36 * (c * f * (tiles // TILES_P) + f * tiles * (c // TILES_C))  # U and dM
        images = 4 * c * (36 * tiles + 6 * beside + corners)
        limit = int(MORE * (results + product + images))
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")


@criterion(
    "Full sectors, no bank conflicts",
    weight=2,
    hint=[
        "Which numbers do neighbouring lanes write, in dM, in dx and in shared memory?",
        "Neighbouring tiles. A warp turns two groups of 16 rows, 4 rows of tileU apart: TSC + PAD floats lie between.",
        "tileU[buffer][f + e][c] with c = channel_of(thread, i), f = quad_of(thread, i)",
    ],
    counts="sectors of stores and wavefronts beyond those needed, at BATCH = 1, C = 64, F = 32, H = 16, W = 128 and at "
    "BATCH = 2, C = 128, F = 16, H = 16, W = 64: none",
)
def test_sectors(kernel, rng):
    for batch, c, f, h, w in COUNTED:
        case = check_data(kernel, rng, BATCH=batch, C=c, F=f, H=h, W=w)
        kernel.no_excess_sectors(case.sizes, case.arrays, loads=False)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
