"""What is graded in lab09_winograd/03_batched_gemm: M[i] = U[i]^T V[i] for each position of a tile."""

from __future__ import annotations

import math

from warpcourse.cases import RACES
from warpcourse.lab09_winograd.cases import check_products
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_products

FULL_TILES = [(2, 16, 64, 128), (3, 32, 128, 640)]
RAGGED = practice([
    (1, 1, 1, 1), (2, 3, 64, 130), (3, 17, 33, 31), (2, 20, 64, 768), (1, 40, 70, 7),
    (2, 16, 36, 128), (2, 16, 64, 100),  # float4s all aligned, but a tile that is not whole: one way, and the other
])
ALIGNED = (36, 16, 64, 128)
COUNTED = practice([ALIGNED, (9, 32, 128, 256)], count=1)
AHEAD = 1.1  # a tenth more may be read from shared memory: what is fetched ahead is not used at the end


def check(kernel, rng, positions, c, f, p):
    return check_products(kernel, rng, POSITIONS=positions, C=c, F=f, P=p)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which number does a block have that says to which position it belongs?",
        "Position i begins i * C * F floats after the start of U, i * C * P after V's and i * F * P after M's.",
        "U += blockIdx.z * C * F, in 64 bits, and so on; rows of both tiles are channels",
    ],
)
def test_correct(kernel, rng):
    for case in FULL_TILES:
        check(kernel, rng, *case)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "What do the tiles hold where there is no filter, no image tile or no channel any more?",
        "Zeros: then the products beyond the edges add nothing, and only the stores need care.",
        "whole tiles through fromU and fromV, all others through load_quad(U, C, F, ...) and load_quad(V, C, P, ...)",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check(kernel, rng, *case)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "Two buffers: one is read while the other one is filled. Which one does `store` get?",
        "store(buffer) writes the tile that is multiplied after the next barrier.",
        "tileU[buffer][row][col] = nextU[i], tileV[buffer][row][col] = nextV[i]",
    ],
)
def test_race(kernel, rng):
    case = check(kernel, rng, *ALIGNED)
    kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)


@criterion(
    "36 products where direct convolution takes 144",
    weight=2,
    hint=[
        "How many multiply-adds do C channels, F filters and P tiles of 36 positions need?",
        "No more than one for each of them: tiles that divide the sizes leave nothing over.",
        "sum[i][j] += u[i] * v[j], for each channel once",
    ],
    counts="multiply-adds at 36 positions, C = 16, F = 64, P = 128: at most 36 C F P, a quarter of 144 C F P; and at 9 "
    "positions, C = 32, F = 128, P = 256: at most 9 C F P",
)
def test_products(kernel, rng):
    for case in COUNTED:
        run = check(kernel, rng, *case).run
        kernel.within(run.counters.multiplications, math.prod(case), "products")
        require_products(kernel, run, math.prod(case))


@criterion(
    "Full sectors",
    weight=1,
    hint=[
        "Which elements do neighbouring lanes load?",
        "Neighbours in U have neighbouring f, neighbours in V neighbouring p.",
        "float4s row by row: row_of(thread, i, TSF) and col_of(thread, i, TSF)",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at 36 positions, C = 16, F = 64, P = 128 and "
    "at 9 positions, C = 32, F = 128, P = 256: none",
)
def test_sectors(kernel, rng):
    for sizes in COUNTED:
        case = check(kernel, rng, *sizes)
        kernel.no_excess_sectors(case.sizes, case.arrays)


@criterion(
    "Little is read from shared memory",
    weight=1,
    hint=[
        "How many products does a thread make of the elements that it fetches for a channel?",
        "8 + 8 elements serve 64 products, as in lab 05.",
        "WPTF = WPTP = 8; fetch and the products stay as they are",
    ],
    counts="bytes of shared loads for each multiply-add, at 36 positions, C = 16, F = 64, P = 128 and at 9 positions, "
    "C = 32, F = 128, P = 256: at most 4 (1 / 8 + 1 / 8) = 1 and a tenth more for what is fetched ahead",
)
def test_shared(kernel, rng):
    for case in COUNTED:
        each = check(kernel, rng, *case).run.counters.shared_load_bytes / math.prod(case)
        kernel.within(each, AHEAD, "bytes of shared loads for each product")
