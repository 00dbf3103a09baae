"""What is graded in lab16_attention/05_fused: attention in one kernel, without a score in memory."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import check_attention, products_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_lanes, require_products

D = 64
TILE = 64
WHOLE = [64, 128]
RAGGED = practice([1, 31, 65, 100])
COUNTED = practice([320, 64], count=1)
OTHER = 40  # operations for each score besides the two products


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "The second tile brings a larger score than the first. What is wrong with what you have summed so far?",
        "It was weighed by exp(score - old largest): it shrinks by exp(old - new), the sum and every number of O.",
        "shrink = expf(largest[i] - larger); sum = sum * shrink + part; out = shrink * out + ...",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_attention(kernel, rng, n, causal=0, heads=2)
    check_attention(kernel, rng, 64, causal=0, d=128)


@criterion(
    "Queries look back only, if causal",
    weight=2,
    hint=[
        "Which keys of a tile that the diagonal crosses may weigh something for row `row`?",
        "Those up to it. The others get minus infinity before the largest is looked for.",
        "hidden = key >= N || (causal && key > row)",
    ],
)
def test_causal(kernel, rng):
    for n in (*WHOLE, 90):
        check_attention(kernel, rng, n, causal=1, heads=2)


@criterion(
    "Texts of any length",
    weight=2,
    hint=[
        "65 tokens: the second tile holds one key and 63 rows of zeros. What score have these?",
        "0, and exp(0 - largest) is no small number: hide them like keys behind the query.",
        "key >= N is hidden; row < N before anything is stored",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        for causal in (0, 1):
            check_attention(kernel, rng, n, causal=causal)


@criterion(
    "Scores that grow from tile to tile",
    weight=3,
    hint=[
        "Every tile brings scores that are larger than all before, by hundreds. What overflows, and what becomes 0?",
        "Nothing overflows if each power is of a score less the largest so far; old sums shrink to nothing, rightly.",
        "larger = the maximum of largest[i] and this tile's row; all exponents are score - larger",
    ],
)
def test_rising(kernel, rng):
    for causal in (0, 1):
        check_attention(kernel, rng, 200, causal=causal, rising=True)
        check_attention(kernel, rng, 130, causal=causal, spread=400, rising=True)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Who reads the tile of values while you load the next one?",
        "Threads that are slower: one barrier before loading, one behind it. Probabilities stay within a warp.",
        "__syncthreads(); load_rows(...); __syncthreads();   and __syncwarp() between writing tileP and reading it",
    ],
)
def test_race(kernel, rng):
    for n, causal in ((128, 0), (65, 1)):
        sizes = {"causal": causal, "HEADS": 2, "N": n}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_attention(kernel, rng, 65, causal=1)


@criterion(
    "Half of the products, if causal, and no score in memory",
    weight=3,
    hint=[
        "Up to which key does any query of this block look? And who stores something besides O and L?",
        "Up to its last query; nobody.",
        "if (causal) end = min(N, row0 + TSQ); one store of each number of O, at the end",
    ],
    counts="at 320 tokens and at 64, causal: products, of doubles and halves too, at most those of the tiles of 64 x "
    "64 up to the diagonal, and 40 more for each score; bytes of global stores: O and L; of global loads: Q once, and "
    "K and V once for each tile of 64 queries that looks at them; sectors beyond the fewest and bank conflicts: none; "
    "barriers for each block: at most 2 for each tile of 64 keys, and 2; lanes at work in an instruction: at least 16",
)
def test_counts(kernel, rng):
    for n in COUNTED:
        case = check_attention(kernel, rng, n, causal=1)
        tiles = -(-n // TILE)
        looked_at = tiles * (tiles + 1) // 2
        most = products_of(n, D, causal=1, tile=TILE) + OTHER * looked_at * TILE * TILE
        require_products(kernel, case.run, n * (n + 1) * D, share=0)
        kernel.within(case.counters.multiplications, most, "products")
        stored, loaded = 4 * n * (D + 1), 4 * TILE * D * (tiles + 2 * looked_at)
        kernel.within(case.counters.global_store_bytes, stored, "bytes of global stores", unit="bytes")
        kernel.within(case.counters.global_load_bytes, loaded, "bytes of global loads", unit="bytes")
        require_barriers(kernel, case.run, tiles)
        require_lanes(kernel, case.run)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
