"""What is graded in lab15_patterns/07_radix_pass: keys with values, sorted by four bits."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block

WARP = 32
WHOLE = [256, 1024, 8192]
RAGGED = practice([1, 2, 31, 33, 127, 255, 257, 1000, 20_001])
ALIGNED = 8192
COUNTED = practice([ALIGNED, 13 * 512], count=1)
BARRIERS = 20  # five order what the given parts and the keys' places need; four splits by a bit each need 16


def run_and_compare(kernel, rng, n, shift, keys=None):
    sizes = {"n": n, "shift": shift}
    keys = rng.integers(0, 1 << 32, n) if keys is None else keys
    arrays = kernel.inputs(sizes, rng, keys=keys.astype(np.uint32), values=rng.permutation(n))
    run = kernel.run(sizes, arrays)
    order = np.argsort(arrays["keys"] >> shift & 15, kind="stable")
    kernel.check_against(run, {"sorted_keys": arrays["keys"][order], "sorted_values": arrays["values"][order]})
    return sizes, arrays, run


@criterion(
    "Sorted by four bits, values with their keys",
    weight=3,
    hint=[
        "A block has 20 keys of digit 3, and they begin at place 40 of its order. Where does the one at place 45 go?",
        "Five behind the place where the block's keys of digit 3 begin among all: starts[3][block] + 45 - 40.",
        "to = starts[its * gridDim.x + blockIdx.x] + t - count[0][its]",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        run_and_compare(kernel, rng, n, 4 * int(rng.integers(8)))


@criterion(
    "Equal digits stay in their order",
    weight=2,
    hint=[
        "A sort by eight passes relies on what each pass leaves as it was. What is that?",
        "Keys with the same digit: those of lower blocks first, then of lower warps, then of lower lanes.",
        "place = count[warp][digit] + popc(same & lower_lanes())",
    ],
)
def test_stable(kernel, rng):
    run_and_compare(kernel, rng, 2000, 8, rng.integers(0, 2, 2000) << 8)
    run_and_compare(kernel, rng, 2000, 28, np.full(2000, 0xF0000000))


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "The last block has 17 keys. Which places of its order hold something?",
        "The first 17, since threads past the end have a digit of their own that nobody counts: thread t has one of "
        "them if it has a key at all.",
        "inside = first + t < n, for both halves: what comes in, and what goes out",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, rng, n, 0)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Thread t stores a key that another thread has put in order. Is it there yet?",
        "After a barrier, which all threads of the block pass, with or without a key.",
        "if (inside) block_keys[place] = key; __syncthreads(); if (inside) ... block_keys[t]",
    ],
)
def test_race(kernel, rng):
    sizes = {"n": ALIGNED, "shift": 12}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    run_and_compare(kernel, rng, ALIGNED, 12)


@criterion(
    "Keys twice, values once",
    weight=2,
    hint=[
        "Which kernel needs the keys, and which the values?",
        "count_digits and move read the keys, move alone the values; every one of them is stored once.",
        "one load of keys[i] in each of both, one of values[i] in move",
    ],
    counts="for each 32 keys, at n = 8192: sectors of global loads, at most 24 (keys and values are 12, starts one for "
    "each digit that a warp stores); bytes of stores, at most 8 for each key and 32 for each digit of a block; "
    "atomics: none; barriers a block: at most 20",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        run = run_and_compare(kernel, rng, n, 20)[2]
        counters = run.counters
        kernel.within(counters.sectors_read, 24 * n // WARP, "sectors of global loads")
        kernel.within(counters.global_store_bytes, 8 * n + 512 * n // 256, "bytes of global stores", unit="bytes")
        kernel.within(barriers_per_block(run), BARRIERS, "barriers for each block")


@criterion(
    "Neighbours go to neighbours",
    weight=3,
    hint=[
        "32 lanes hold keys of 16 digits. How many places do they store to, before and after their block is in order?",
        "Before, nearly 16 places far apart; after, 32 keys in order have two or three digits, and each is a stretch.",
        "block_keys[place] = key; barrier; key = block_keys[t]: neighbours t have the same digit, or the next",
    ],
    counts="sectors of global stores for each 32 keys, at n = 8192, random digits: at most 20 (keys and values are 8, "
    "one or two more for each stretch of equal digits, and 2 for the digits' numbers)",
)
def test_sectors(kernel, rng):
    for n in COUNTED:
        counters = run_and_compare(kernel, rng, n, 16)[2].counters
        kernel.within(counters.global_store_sectors, 20 * n // WARP, "sectors of global stores")


@criterion(
    "Few bank conflicts",
    weight=1,
    hint=[
        "Rows of count have 20 words, not 16. Which banks do eight warps' numbers of four digits lie in?",
        "All 32: 20 w mod 32 is another multiple of 4 for each warp w. Only where a key goes in the block is chance.",
        "count[warp][digit] with rows of ROW words; block_keys[t] for neighbouring t",
    ],
    counts="wavefronts of shared loads beyond the fewest, at n = 8192: at most four for each 32 keys",
)
def test_conflicts(kernel, rng):
    for n in COUNTED:
        counters = run_and_compare(kernel, rng, n, 24)[2].counters
        kernel.within(counters.shared_load_bank_conflicts, 4 * n // WARP, "extra passes of loads from shared memory")
