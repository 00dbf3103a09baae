"""What is graded in lab06_half_precision/02_half2: C = A * B, two products for each instruction."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import check_no_race, product_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_registers

FULL_TILES = [(128, 128, 16), (128, 256, 48), (256, 128, 32)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (129, 6, 127), (130, 260, 36)])
ALIGNED = (256, 256, 256)
COUNTED = practice([ALIGNED, (384, 128, 256)], count=1)
HALF_BYTES = 2
REUSE = 64  # how often an element from global memory must serve, at least; tiles of 128 reach 128
PROMOTE = 16
LONG_SUM = (64, 64, 64)


def run_and_compare(kernel, rng, m, n, k, **given):
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng, **given)
    run = kernel.run(sizes, arrays)
    expected, scale = product_of(arrays["A"], arrays["B"])
    kernel.check_against(run, {"C": expected}, k=k, accumulator="float16", promoted_every=PROMOTE, scale=scale)
    return sizes, arrays, run


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "A half2 of sums belongs to two neighbouring columns. Which element of A multiplies both?",
        "One row's element in both halves (__low2half2, __high2half2) times a pair of tileB, added to a pair of sums.",
        "part[i][j] = __hfma2(both, b[j], part[i][j]); sum[i][2 * j] += __low2float(...), sum[i][2 * j + 1] += high",
    ],
)
def test_correct(kernel, rng):
    for case in FULL_TILES:
        run_and_compare(kernel, rng, *case)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Where the matrices end, the tiles hold zeros. Does every element of a tile take part?",
        "Only whole tiles are multiplied; load_quad and store_quad take care of the edges.",
        "for k < PROMOTE, for all i and j, whatever M, N and K are",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        run_and_compare(kernel, rng, *case)


@criterion(
    "At most 16 products are summed as half",
    weight=3,
    hint=[
        "A half has 11 bits. What is 2048 + 1, as a half?",
        "It is 2048. What is added to a large sum is lost, so the sums kept as half must stay short.",
        "after each PROMOTE products: sum += the half sums as floats, and the half sums start at zero again",
    ],
)
def test_promoted(kernel, rng):
    m, n, k = LONG_SUM
    a, b = np.ones((m, k)), np.ones((k, n))
    a[:, 0], b[0] = 64, 32  # one product of 2048, then many of 1: each is half a step of the sum, and is rounded away
    run_and_compare(kernel, rng, m, n, k, A=a, B=b)
    run_and_compare(kernel, rng, m, n, 1024, A=rng.uniform(0, 8, (m, 1024)), B=rng.uniform(0, 8, (1024, n)))


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
    check_no_race(kernel, rng, **dict(zip("MNK", ALIGNED, strict=True)))
    run_and_compare(kernel, rng, *ALIGNED)


@criterion(
    "Two products for each instruction",
    weight=3,
    hint=[
        "How many multiply-adds would be left if every one of them made two products?",
        "__hfma2 works on two halves at once; __hfma on one, and a product of floats on one as well.",
        "part[i][j] = __hfma2(both, b[j], part[i][j]) for j < WPTN / 2",
    ],
    counts="packed multiply-adds of all threads, at M = N = K = 256: at least 15 / 16 of M N K / 2 (the first of 16 "
    "may be a plain product) and at most M N K / 2; multiply-adds of floats: at most M N K / 16",
)
def test_packed(kernel, rng):
    for m, n, k in COUNTED:
        run = run_and_compare(kernel, rng, m, n, k)[2]
        counters = run.counters
        pairs = m * n * k // 2
        kernel.at_least(counters.packed_fma_instructions, pairs * 15 // 16, "packed multiply-adds")
        kernel.within(counters.packed_fma_instructions, pairs, "packed multiply-adds")
        others = counters.products + counters.thread_instructions_fp64
        kernel.within(others, m * n * k // 16, "products of floats")
        kernel.comes_from(run, "packed products")


@criterion(
    "Half of the bytes, in shared memory too",
    weight=2,
    hint=[
        "How many bytes has an element of a tile now?",
        "Both tiles hold halves. A thread reads 8 rows by one load of 16 bytes, 8 columns by two of 8 bytes.",
        "column = *(const uint4*)&tileA[k][place(k, y)]; quad = *(const uint2*)&tileB[k][x + j * 2 * RTSN]",
    ],
    counts="for each of the M N K products, at M = N = K = 256: bytes of global loads, at most 4 / 64, and of shared "
    "loads, at most 2 (1 / 8 + 1 / 8) = 0.5; sectors and wavefronts beyond the fewest: none",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        sizes, arrays, run = run_and_compare(kernel, rng, m, n, k)
        counters, products = run.counters, m * n * k
        limit = 2 * HALF_BYTES * products // REUSE
        kernel.within(counters.global_load_bytes, limit, "bytes of global loads", unit="bytes")
        kernel.at_least(counters.shared_load_requests, 1, "loads from shared memory")
        kernel.within(counters.shared_load_bytes / products, HALF_BYTES * (1 / 8 + 1 / 8), "bytes of shared loads")
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "Two kinds of sums need registers. How many has a thread, if two blocks share a multiprocessor?",
        "64 sums as float, 32 pairs as half2, and the elements of one step of k: unroll no further than needed.",
        "#pragma unroll 4 over k; all indices of part, sum, a and b known to the compiler",
    ],
    counts="registers of a block, at most 65536; bytes spilled, for sm_80, at most 64; requests to local memory: none",
)
def test_registers(kernel, rng):
    for m, n, k in COUNTED:
        run = run_and_compare(kernel, rng, m, n, k)[2]
        require_registers(kernel, run)
        local = run.counters.local_load_requests + run.counters.local_store_requests
        kernel.within(local, 0, "requests to local memory")
