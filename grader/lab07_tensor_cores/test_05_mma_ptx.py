"""What is graded in lab07_tensor_cores/05_mma_ptx: C = A * B by ldmatrix and mma.sync, from swizzled tiles."""

from __future__ import annotations

from warpcourse.cases import check_no_race, check_product
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_copies, require_registers, require_tensor_products

FULL_TILES = [(128, 256, 64), (128, 256, 192)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (17, 40, 72), (130, 264, 152)])
ALIGNED = (128, 256, 128)
COUNTED = practice([ALIGNED, (256, 128, 192)], count=1)
REUSED = (128, 256, 256)  # more tiles than there are stages, so that copies follow reads into the same place
LONG = (128, 256, 2048)
IN_FLIGHT = 0.9
MMA = 2 * 16 * 8 * 16  # operations; WMMA's products are twice as large


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which row of 16 bytes does lane l name for ldmatrix, if four matrices of 8 x 8 make 16 x 16 elements?",
        "Rows 0 to 15 by lanes 0 to 15, and the same rows eight columns further on by lanes 16 to 31.",
        "A: row y + lane % 16, chunk 2 * step + lane / 16; B: row lane % 16, chunk x / CHUNK + 2 * j + lane / 16",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Does what lies outside the matrices change which lane holds which element?",
        "No: tiles are always whole, and store_four leaves out what is outside.",
        "all i, all turns, whatever M, N and K are",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        check_product(kernel, rng, m, n, k)


@criterion(
    "No race",
    about="RACE",
    weight=1,
    hint=[
        "A thread that has waited knows that its own copies have landed. Whose copies does it read?",
        "Everybody's: a barrier after the wait. The same barrier says that the oldest stage may be overwritten.",
        "copies go to `last`, the stage of the tile before this one",
    ],
)
def test_race(kernel, rng):
    check_no_race(kernel, rng, **dict(zip("MNK", REUSED, strict=True)))
    check_product(kernel, rng, *REUSED)


@criterion(
    "No excess wavefronts",
    weight=3,
    hint=[
        "ldmatrix reads eight rows of 16 bytes at a time. In which banks do eight rows of a tile lie, chunk by chunk?",
        "place_in_A and place_in_B move every chunk by its row's number: copies and ldmatrix must both ask them.",
        "beginA[step] = place_in_A(y + lane % 16, step * 2 + lane / 16), not row * TSK + ...",
    ],
    counts="wavefronts of shared memory, and sectors, beyond the fewest, at M = 128, N = 256, K = 128: "
    "none; bytes of global loads and copies: at most M N K / 16",
)
def test_conflicts(kernel, rng):
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        counters = kernel.counters(*case)
        kernel.at_least(counters.shared_load_requests, 1, "loads from shared memory")
        kernel.no_excess_wavefronts(*case)
        kernel.no_excess_sectors(*case)
        kernel.within(counters.global_load_bytes, m * n * k // 16, "bytes of global loads", unit="bytes")


@criterion(
    "Every product on tensor cores, copies under way",
    weight=2,
    hint=[
        "How many mma.sync of 16 x 8 x 16 does a warp's tile need for one step?",
        "FRAGS_M * FRAGS_N calls of multiply; four registers of B hold two fragments, of 8 columns each.",
        "meanwhile(step, i * FRAGS_N + turn); multiply(sum[i][j], a[step % 2][i], &b[step % 2][j / 2][j % 2 * 2])",
    ],
    counts="at M = 128, N = 256, K = 2048: operations of tensor cores, exactly 2 M N K, at most 4096 by one product; "
    "matrix products that are issued while the warp has a committed copy that it has not waited for, at least 90 %",
)
def test_tensor(kernel, rng):
    m, n, k = LONG
    run = kernel.run(*check_product(kernel, rng, m, n, k))
    counters = run.counters
    require_tensor_products(kernel, run, 2 * m * n * k, exactly=True)
    kernel.within(counters.multiplications, 0, "products of threads")
    each = counters.tensor_operations // counters.tensor_instructions
    kernel.within(each, MMA, "operations of one product of a warp, which mma.sync does on 16 x 8 x 16")
    require_copies(kernel, run, IN_FLIGHT)


@criterion(
    "Enough registers",
    weight=1,
    hint=[
        "128 sums and two steps of fragments: how many registers is that of 255?",
        "About 230: whatever else is kept in arrays must have few elements, and indices known to the compiler.",
        "beginA and beginB hold offsets in halves, one for each step and one for each pair of fragments",
    ],
    counts="registers of a block, at most 65536; bytes that are spilled, for sm_80: at most 64",
)
def test_registers(kernel, rng):
    require_registers(kernel, kernel.run(*check_product(kernel, rng, *ALIGNED)))
