"""What is graded in lab05_work_per_thread/08_batched: C[i] = A[i] * B[i / SHARE] for a batch of products."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

FULL_TILES = [(3, 1, 128, 128, 16), (2, 1, 256, 128, 48)]
SHARED = [(4, 4, 128, 128, 16), (6, 2, 128, 128, 16), (5, 2, 33, 31, 17)]
RAGGED = practice([(2, 1, 1, 1, 1), (3, 1, 31, 33, 17), (2, 1, 129, 5, 127), (2, 1, 130, 132, 36)])
COUNTED = practice([(4, 2, 128, 256, 32), (3, 1, 256, 128, 48)], count=1)
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128
WPTM = WPTN = 8
AHEAD = 1.1  # a tenth more may be read from shared memory: what is fetched ahead is not used at the end


def run_and_compare(kernel, rng, batch, share, m, n, k):
    sizes = {"BATCH": batch, "SHARE": share, "M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    expected, scale = product_of(arrays["A"], arrays["B"][np.arange(batch) // share])
    kernel.check_against(run, {"C": expected}, k=k, scale=scale)
    return sizes, arrays, run


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which number does a block have that says to which product it belongs?",
        "Product i begins i * M * K floats after the start of A, and i * M * N after that of C.",
        "A += blockIdx.z * M * K;  C += blockIdx.z * M * N;  B likewise, with the products that share it in mind",
    ],
)
def test_correct(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, *case)


@criterion(
    "One B for several products",
    weight=2,
    hint=[
        "With SHARE = 2, which B do the products 0, 1, 2 and 3 take?",
        "Product i takes B number i / SHARE, rounded down.",
        "B += blockIdx.z / SHARE * K * N",
    ],
)
def test_shared(kernel, rng):
    for case in SHARED:
        run_and_compare(kernel, rng, *case)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Where does the second matrix of a batch begin, if a matrix has 31 rows of 17 floats?",
        "Matrices follow each other without gaps: the distance is the product of their own sizes, not of the tiles'.",
        "distances M * K, K * N and M * N",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        run_and_compare(kernel, rng, *case)


@criterion(
    "Full sectors",
    weight=1,
    hint=[
        "Table 6 calls it load and store efficiency: bytes asked for / bytes moved. When is it 100 %?",
        "The lanes of a warp load and store whole sectors of 32 bytes.",
        "as in 07_warp_tiled: two neighbouring float4s of a row of A, rows of B and of C",
    ],
    counts="sectors beyond the fewest that hold the requested bytes, at BATCH = 4, SHARE = 2, M = 128, N = 256, K = 32 "
    "and at BATCH = 3, SHARE = 1, M = 256, N = 128, K = 48: none",
)
def test_sectors(kernel, rng):
    for case in COUNTED:
        sizes, arrays, _ = run_and_compare(kernel, rng, *case)
        kernel.no_excess_sectors(sizes, arrays)


@criterion(
    "Little is read",
    weight=2,
    hint=[
        "A small product has as many loads for each FMA as a large one. What did the steps before this do about them?",
        "Only where A, B and C begin is new: tiles and registers are used as in the step before.",
        "three lines that move the pointers, nothing else",
    ],
    counts="for each of the BATCH M N K products, at BATCH = 4, SHARE = 2, M = 128, N = 256, K = 32 and at BATCH = 3, "
    "SHARE = 1, M = 256, N = 128, K = 48: bytes of global loads, at most 8 / 64, and bytes of shared loads, at most "
    "4 (1 / 8 + 1 / 8) = 1 and a tenth more for what is fetched ahead",
)
def test_bytes(kernel, rng):
    for batch, share, m, n, k in COUNTED:
        counters = run_and_compare(kernel, rng, batch, share, m, n, k)[2].counters
        products = batch * m * n * k
        kernel.within(counters.global_load_bytes, 8 * products // REUSE, "bytes of global loads", unit="bytes")
        per_product = counters.shared_load_bytes / products
        kernel.within(per_product, AHEAD * 4 * (1 / WPTM + 1 / WPTN), "bytes of shared loads for each product")
