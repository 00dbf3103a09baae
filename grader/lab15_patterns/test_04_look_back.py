"""What is graded in lab15_patterns/04_look_back: one scan over all blocks, in one pass."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab15_patterns.cases import scanned
from warpschool.grading import criterion, practice

TILE = 4096
WARP = 32
WHOLE = [TILE, 2 * TILE, 8 * TILE]
RAGGED = practice([1, 31, 33, 127, 1000, 4095, 4097, 40_001])
ALIGNED = 8 * TILE
WAITING = (3, 1)
"""tiles, and the one that starts first: those behind it wait for tile 0, which the simulator lets in late"""
COUNTED = practice([ALIGNED, 5 * TILE], count=1)


def run_and_compare(kernel, rng, n, first=0):
    sizes = {"n": n, "first": first}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    x = arrays["x"]
    kernel.check_against(run, {"y": scanned(x, n)}, k=n, scale=scanned(abs(x), n))
    return sizes, arrays, run


@criterion(
    "Right sums",
    weight=3,
    hint=[
        "What lies before tile 5, if tile 4 has told its own sum only, and tile 3 the sum up to its end?",
        "Both: walk back from tile - 1, add tile sums, and stop behind the first prefix. Tile 0 has nothing before it.",
        "A lane for each of 32 tiles, k = tile - 1 - lane: wait until flag[k] is not 0; up to the nearest PREFIX, add "
        "prefix[k] where flag[k] is PREFIX, else sum[k]; without one, the 32 tiles before",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        run_and_compare(kernel, rng, n)


@criterion(
    "Ragged lengths",
    weight=2,
    hint=[
        "The last tile is not full. Who has its sum?",
        "scan_tile still: elements past the end are zero. And before tile 0 there is none: what do lanes find there?",
        "known = k < 0 ? PREFIX : NOTHING; ask while it is NOTHING; add only where k >= 0; all pass the barrier",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        run_and_compare(kernel, rng, n)


@criterion(
    "Flags order what they announce",
    about="RACE",
    weight=3,
    hint=[
        "A flag says that a sum is there. What keeps a block from reading the sum as it was before?",
        "Two sides: the writer stores the sum, then the flag by release; the reader loads the flag by acquire, then "
        "the sum. A flag that is written and read like any other variable orders nothing.",
        "sum[tile] = all; tell(&flag[tile], SUM);   and: known = ask(&flag[k]) until it is not NOTHING; part = sum[k]",
    ],
)
def test_order(kernel, rng):
    tiles, first = WAITING
    for sizes in ({"n": ALIGNED, "first": 0}, {"n": TILE * tiles, "first": first}):
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    run_and_compare(kernel, rng, ALIGNED)


@criterion(
    "Whoever waits looks further back",
    weight=3,
    hint=[
        "Tile 5 starts first and tells its sum. What can tile 6 do while tile 4 has told nothing yet?",
        "Add tile 5's sum and wait for tile 4: only a flag that says nothing is a reason to wait.",
        "known = ask(&flag[k]) until it is not NOTHING; ends = __ballot_sync(ALL, known == PREFIX); lanes up to the "
        "first of ends add; where ends is 0, all do, and the warp goes on with the 32 tiles before",
    ],
)
def test_waiting(kernel, rng):
    tiles, first = WAITING
    run_and_compare(kernel, rng, TILE * tiles - int(rng.integers(TILE)), first)


@criterion(
    "Tiles by ticket",
    about="TLE",
    weight=2,
    hint=[
        "Block 9 starts first and waits for block 8, which finds no room on the GPU. Who ends this?",
        "Nobody, unless the tile that a block takes depends on when it starts: the next number of a common counter.",
        "if (t == 0) drawn = atomicAdd(ticket, 1); __syncthreads(); tile = (drawn + first) % gridDim.x",
    ],
)
def test_ticket(kernel, rng):
    for n in (1, 9000, ALIGNED):
        run = run_and_compare(kernel, rng, n)[2]
        kernel.check_against(run, {"ticket": [-(-n // TILE)]})  # every block has drawn one


@criterion(
    "One pass over memory",
    weight=3,
    hint=[
        "How often are x loaded and y stored, if blocks wait for each other instead of for a second kernel?",
        "Once each. What a block has found before its tile is added while its sums are still in registers.",
        "own stays in registers; start + own is the only thing stored to y",
    ],
    counts="sectors of global memory, at n = 32768, for each 32 elements: loaded at most 6, stored at most 5 (x and "
    "y are 4 each); sectors beyond the fewest: at most one for each 32 elements",
)
def test_bytes(kernel, rng):
    for n in COUNTED:
        counters = run_and_compare(kernel, rng, n)[2].counters
        warps = n // WARP
        kernel.within(counters.sectors_read, 6 * warps, "sectors of global loads")
        kernel.within(counters.global_store_sectors, 5 * warps, "sectors of global stores")
        kernel.within(counters.excess_sectors, warps, "sectors beyond the fewest")
