"""What is graded in lab05_work_per_thread/09_transposes: C = op(A) * op(B) for NN, NT, TN and TT."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

KINDS = {"NN": (0, 0), "NT": (0, 1), "TN": (1, 0), "TT": (1, 1)}
FULL_TILES = [(128, 256, 48), (256, 256, 16)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (129, 5, 127), (132, 260, 36)])
COUNTED = practice([(128, 512, 64), (384, 256, 48)], count=1)
LOADS = 12  # wavefronts that bring a warp with 64 x 64 elements what it needs for one k, as in 07_warp_tiled
TILE_M, TILE_N, TILE_K = 128, 256, 8  # whose elements are stored 32 at a time
SLACK = 1.25


def run_and_compare(kernel, rng, kind, m, n, k):
    transpose_a, transpose_b = KINDS[kind]
    a, b = rng.uniform(-1, 1, (m, k)).astype(np.float32), rng.uniform(-1, 1, (k, n)).astype(np.float32)
    arrays = {"A": a.T.copy() if transpose_a else a, "B": b.T.copy() if transpose_b else b}
    sizes, constants = {"M": m, "N": n, "K": k}, {"TRANSPOSE_A": transpose_a, "TRANSPOSE_B": transpose_b}
    run = kernel.run(sizes, arrays, constants=constants)
    expected, scale = product_of(a, b)
    kernel.check_against(run, {"C": expected}, k=k, scale=scale)
    return sizes, arrays, constants, run


@criterion(
    "NN",
    weight=2,
    hint=[
        "Neither is transposed, as in 07_warp_tiled: which of the two tiles has to be turned?",
        "A's rows run along k: its float4s go into four rows of the tile. B's rows run along the tile.",
        "ALONG_K: to[0], to[SIZE + PAD], to[2 * (SIZE + PAD)], to[3 * (SIZE + PAD)]; else one float4 to `to`",
    ],
)
def test_nn(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, "NN", *case)


@criterion(
    "NT",
    weight=1,
    hint=[
        "B is stored as [N,K]: along which index do its rows run?",
        "Both matrices now run along k, so both tiles are turned, by the same code.",
        "from[i] moves by TSK floats from tile to tile if the rows run along k, else by TSK rows",
    ],
)
def test_nt(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, "NT", *case)


@criterion(
    "TN",
    weight=1,
    hint=[
        "A is stored as [K,M]: along which index do its rows run?",
        "Neither tile is turned: both matrices have rows that run along the tile.",
        "from[i] moves by TSK rows of `cols` floats from tile to tile",
    ],
)
def test_tn(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, "TN", *case)


@criterion(
    "TT",
    weight=1,
    hint=[
        "Both are transposed. Which of the two tiles is turned now?",
        "B's rows run along k, A's along the tile: the other way round than for NN.",
        "the same two branches on ALONG_K, for either matrix",
    ],
)
def test_tt(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, "TT", *case)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "A float4 runs along a row of the stored matrix. Which two sizes say where that row, and the matrix, end?",
        "load_quad takes the place in the stored matrix: row and column change places where the rows run along k.",
        "ALONG_K: (start + at(i), k0 + k_of(i)), else (k0 + k_of(i), start + at(i))",
    ],
)
def test_ragged(kernel, rng):
    for kind in KINDS:
        for case in RAGGED:
            run_and_compare(kernel, rng, kind, *case)


@criterion(
    "No excess sectors",
    weight=1,
    hint=[
        "How many neighbouring bytes of a row do neighbouring lanes load, for either way of storing?",
        "Two lanes load 32 neighbouring bytes of a row along k; of a row along the tile a whole warp loads 512.",
        "at(i) and k_of(i) as given: only `from` and the step from tile to tile depend on ALONG_K",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at M = 128, N = 512, K = 64 and at M = 384, N = "
    "256, K = 48, for NN, NT, TN and TT: none",
)
def test_sectors(kernel, rng):
    for case in COUNTED:
        for kind in KINDS:
            sizes, arrays, constants, _ = run_and_compare(kernel, rng, kind, *case)
            kernel.no_excess_sectors(sizes, arrays, constants=constants)


@criterion(
    "Few passes of shared memory",
    weight=2,
    hint=[
        "The products do not know how the matrices are stored. Which passes can differ then?",
        "The stores of a turned tile: PAD moves its groups of floats into different banks. The loads are those of 07.",
        "rows of SIZE + PAD floats in both tiles",
    ],
    counts="wavefronts of shared loads, and of shared stores, at M = 128, N = 512, K = 64 and at M = 384, N = 256, K = "
    "48: at most 1.25 times those of warps with 64 x 64 elements in tiles of 128 x 256, 8 deep, without bank "
    "conflicts, for each of NN, NT, TN and TT",
)
def test_wavefronts(kernel, rng):
    for m, n, k in COUNTED:
        loads = m // 64 * (n // 64) * (k + 1) * LOADS  # one k more, and one tile more: behind the last they are zero
        stores = m // TILE_M * (n // TILE_N) * (k // TILE_K + 1) * (TILE_M + TILE_N) * TILE_K // 32
        for kind in KINDS:
            own = run_and_compare(kernel, rng, kind, m, n, k)[3].counters
            kernel.at_least(own.shared_load_requests, 1, "loads from shared memory")
            kernel.within(own.shared_load_wavefronts, SLACK * loads, f"{kind}: shared load wavefronts")
            kernel.within(own.shared_store_wavefronts, SLACK * stores, f"{kind}: shared store wavefronts")
