"""What is graded in lab07_tensor_cores/04_wmma_int8: C = A * Bt^T for 8-bit integers on tensor cores."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_copies, require_tensor_products

FULL_TILES = [(128, 256, 64), (128, 256, 192)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (17, 40, 80), (130, 264, 100)])
ALIGNED = (128, 256, 256)
COUNTED = practice([ALIGNED, (256, 512, 256)], count=1)
LONG = (128, 256, 2048)
IN_FLIGHT = 0.9


def case(rng, m, n, k):
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    return {"M": m, "N": n, "K": k}, {"A": a, "Bt": b}


def run_and_compare(kernel, sizes, arrays):
    run = kernel.run(sizes, arrays)
    exact = arrays["A"].astype(np.float64) @ arrays["Bt"].T.astype(np.float64)  # below 2^53
    kernel.check_against(run, {"C": exact.astype(np.int64)})
    return run


@criterion(
    "Exact answers",
    weight=3,
    hint=[
        "Rows of Bt run along k. Is the fragment of B, with its rows along k, row_major or col_major in such a tile?",
        "Column n of B is row n of the tile: col_major, and it begins at (x + 16 j, 16 step).",
        "load_matrix_sync(b[step % 2][j], tileB + (x + j * 16) * LD + step * 16, LD); a likewise with y and i",
    ],
)
def test_exact(kernel, rng):
    for m, n, k in FULL_TILES:
        run_and_compare(kernel, *case(rng, m, n, k))
    sizes, arrays = case(rng, 16, 16, 4096)
    run_and_compare(kernel, sizes, {name: np.full_like(array, -128) for name, array in arrays.items()})


@criterion(
    "Any M, N and K",
    weight=3,
    hint=[
        "With K = 17 no row but the first begins on 16 bytes. Which copies are possible then?",
        "copy_chunk puts such bytes one by one into a chunk, zeros behind the end; whole tiles need K % 16 == 0.",
        "whole && k0 + TSK <= K ? 16 bytes at once : k0 < K ? copy_chunk with (row, k0 + col1) : nothing",
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
        "A thread that has waited knows that its own copies have landed. Whose copies does it read?",
        "Everybody's: a barrier after the wait. The same barrier says that the oldest stage may be overwritten.",
        "copy(tile + STAGES - 1) writes the stage of tile - 1, fetch(tile, ...) reads that of tile",
    ],
)
def test_race(kernel, rng):
    kernel.no_hazards(*case(rng, *ALIGNED), kinds=RACES)
    run_and_compare(kernel, *case(rng, *ALIGNED))


@criterion(
    "Every product on tensor cores, copies under way",
    weight=3,
    hint=[
        "When is the next tile on its way, while this one is multiplied?",
        "As in 03_wmma_pipelined: copies are begun by copy, committed there, and awaited STAGES - 2 groups later.",
        "__pipeline_memcpy_async for every chunk of whole tiles, not loads and stores",
    ],
    counts="at M = 128, N = 256, K = 2048: operations of tensor cores, exactly 2 M N K; matrix products that are "
    "issued while the warp has a committed copy that it has not waited for, at least 90 %",
)
def test_tensor(kernel, rng):
    m, n, k = LONG
    run = run_and_compare(kernel, *case(rng, m, n, k))
    require_tensor_products(kernel, run, 2 * m * n * k, exactly=True)
    require_copies(kernel, run, IN_FLIGHT)


@criterion(
    "Few bytes, full sectors, no bank conflicts",
    weight=2,
    hint=[
        "A row of a tile has 64 bytes. How many lanes copy it, 16 bytes each?",
        "Four neighbours; and rows of LD = 80 bytes put eight rows of 16 bytes into different banks.",
        "row1 = thread / 4, col1 = thread % 4 * 16; every ROWS-th row of both tiles",
    ],
    counts="at M = 128, N = K = 256: bytes of global loads and copies, at most M N K / 32; sectors, and wavefronts of "
    "shared memory, beyond the fewest: none",
)
def test_bytes(kernel, rng):
    for m, n, k in COUNTED:
        sizes, arrays = case(rng, m, n, k)
        run = run_and_compare(kernel, sizes, arrays)
        kernel.within(run.counters.global_load_bytes, m * n * k // 32, "bytes of global loads", unit="bytes")
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
