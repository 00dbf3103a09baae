"""What is graded in lab06_half_precision/04_gemm_int8: C = A * Bt^T for 8-bit integers, exactly."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_wide

FULL_TILES = [(128, 128, 32), (128, 256, 96), (256, 128, 64)]
RAGGED = practice([
    (1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 6, 127), (130, 260, 36), (5, 9, 130),
    (5, 16, 48),  # rows of whole words that end within a tile
])
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128
WPTM = WPTN = 8


def case(rng, m, n, k):
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    return {"M": m, "N": n, "K": k}, {"A": a, "Bt": b}


def run_and_compare(kernel, sizes, arrays):
    run = kernel.run(sizes, arrays)
    kernel.check_against(run, {"C": arrays["A"].astype(np.int32) @ arrays["Bt"].T.astype(np.int32)})
    return run


@criterion(
    "Exact answers",
    weight=3,
    hint=[
        "A word holds four steps of k of one row. What does __dp4a make of two such words?",
        "The sum of four products, added to its third argument: words take the place of floats, and K / 4 that of K.",
        "for w: a[i] = tileA[w][row of i]; b[j] = tileB[w][col of j]; sum[i][j] = __dp4a(a[i], b[j], sum[i][j])",
    ],
)
def test_exact(kernel, rng):
    for m, n, k in FULL_TILES:
        run_and_compare(kernel, *case(rng, m, n, k))
    sizes, arrays = case(rng, 16, 16, 4096)
    run_and_compare(kernel, sizes, {name: np.full_like(array, -128) for name, array in arrays.items()})


@criterion(
    "K need not be a multiple of four",
    weight=3,
    hint=[
        "With K = 17 the rows begin at odd addresses. What can a thread load there?",
        "Single bytes. The first of four is the lowest of its word; a negative one must not reach into the others.",
        "words[byte / 4] |= (from[byte] & 0xff) << byte % 4 * 8, for each byte with col + byte < cols",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        run_and_compare(kernel, *case(rng, m, n, k))


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A tile has two dangers: somebody reads it before it is full, and somebody fills it while it is still read.",
        "Two barriers in each round: one after the loads, one after the products.",
        "load; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    kernel.no_hazards(*case(rng, *ALIGNED), kinds=RACES)
    run_and_compare(kernel, *case(rng, *ALIGNED))


@criterion(
    "Four products for each instruction",
    weight=3,
    hint=[
        "How many instructions do 64 results of a thread need for four steps of k?",
        "One __dp4a each. A loop over bytes with * and + needs four, and more to take the words apart.",
        "sum[i][j] = __dp4a(a[i], b[j], sum[i][j])",
    ],
    counts="dot products of four bytes, of all threads, at M = N = K = 256: exactly M N K / 4",
)
def test_dots(kernel, rng):
    for m, n, k in COUNTED:
        run = run_and_compare(kernel, *case(rng, m, n, k))
        dots = run.counters.dot_instructions
        kernel.at_least(dots, m * n * k // 4, "dot products of four bytes")
        kernel.within(dots, m * n * k // 4, "dot products of four bytes")
        kernel.comes_from(run, "dots")


@criterion(
    "A quarter of the bytes, 16 at a time",
    weight=2,
    hint=[
        "How many bytes has an element, and how many elements does a lane bring with one load?",
        "One byte, and 16 of them as an int4; a thread reads four words of a tile by one load.",
        "load_words(A, M, K, row0 + m, k0 + w * 4); get_quad(&a[i], &tileA[w][y + i * RTSM])",
    ],
    counts="for each of the M N K products, at M = N = K = 256: bytes of global loads, at most 2 / 64, and of shared "
    "loads, at most 1 / 8 + 1 / 8; bytes that a warp loads by one instruction, in each line: at least three quarters "
    "of 512",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        run = run_and_compare(kernel, *case(rng, m, n, k))
        kernel.within(run.counters.global_load_bytes, 2 * m * n * k // REUSE, "bytes of global loads", unit="bytes")
        kernel.at_least(run.counters.shared_load_requests, 1, "loads from shared memory")
        kernel.within(run.counters.shared_load_bytes / (m * n * k), 1 / WPTM + 1 / WPTN, "bytes of shared loads, each")
        require_wide(kernel, run, "global_load", "shared_load")


@criterion(
    "Full sectors, no bank conflicts",
    weight=2,
    hint=[
        "Two lanes load 32 neighbouring bytes of a row. Into which banks do 32 lanes store their first words?",
        "16 rows, and two words four rows of the tile apart: with rows of TSM + 4 words those are 16 banks apart.",
        "m = i / 2 % TSM; w = i % 2 * 4; tileA[w + e][m], rows of TSM + PAD words",
    ],
    counts="sectors, and wavefronts of shared loads and stores, beyond the fewest, at M = N = K = 256: none",
)
def test_conflicts(kernel, rng):
    for m, n, k in COUNTED:
        sizes, arrays = case(rng, m, n, k)
        run_and_compare(kernel, sizes, arrays)
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
