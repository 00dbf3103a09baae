"""What is graded in lab16_attention/06_tensor_cores: fused attention of halves by mma.sync."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import check_attention, products_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_tensor_products

D = 64
TSQ = 128
TSK = 64
WHOLE = [64, 128]
RAGGED = practice([1, 31, 65, 150])
COUNTED = practice([512, 128], count=1)


def keys_of_a_tile(kernel) -> int:
    """The kernel's own TSK: tiles of 32 keys are as good, and wait as often for each; smaller ones are not."""
    own = kernel.contract.declarations.constexpr_values({}).get("TSK", TSK)
    return int(min(max(own, TSK // 2), TSK))


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Lane 0 has row 0's scores of keys 0 and 1, and row 8's. Which factors does mma.sync expect of it?",
        "The same ones: element for element, two fragments of eight keys are one fragment of sixteen factors.",
        "a[i][0] = pack(score[i][2 * step][0], score[i][2 * step][1]); a[i][1] = the other row's; then fragment + 1",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_attention(kernel, rng, n, causal=0, heads=2)


@criterion(
    "Heads of 128 numbers",
    weight=2,
    hint=[
        "With D = 128 a row has 16 chunks. Is there a 64 in your code that means D?",
        "Loops over D / 16 steps and FRAGS_D fragments know no number.",
        "for (step = 0; step < D / 16; ++step), for (j = 0; j < FRAGS_D; ...)",
    ],
)
def test_wide(kernel, rng):
    for n, causal in ((64, 0), (100, 1)):
        check_attention(kernel, rng, n, causal=causal, d=128)


@criterion(
    "Queries look back only, if causal",
    weight=2,
    hint=[
        "Which row and which key is element n % 4 of fragment n / 4, for this lane?",
        "Row lane / 4, and 8 more for elements 2, 3; key 8 * fragment + 2 * (lane % 4), and 1 more for odd elements.",
        "if (key >= N || (causal && key > row)) score = -INFINITY",
    ],
)
def test_causal(kernel, rng):
    for n in (*WHOLE, 200):
        check_attention(kernel, rng, n, causal=1, heads=2)


@criterion(
    "Texts of any length",
    weight=2,
    hint=[
        "Rows past the end are zeros in shared memory. What score have their keys?",
        "0: they must be hidden as well, in the last tile of every text.",
        "key0 + TSK > N leads into the branch that hides",
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
        "A tile brings scores that are larger than all before. What must shrink, and by how much?",
        "The sum and all of the row's numbers in `out`, by 2^(old - new), both times scale.",
        "shrink = power_of_two(largest - larger); sum *= shrink; out[i][j][at] *= shrink",
    ],
)
def test_rising(kernel, rng):
    for causal in (0, 1):
        check_attention(kernel, rng, 200, causal=causal, rising=True)
        check_attention(kernel, rng, 130, causal=causal, spread=100, rising=True)


@criterion(
    "Copies and barriers keep their order",
    about="RACE",
    weight=3,
    hint=[
        "The values of this tile are copied to where the last tile's values were. Who still reads those?",
        "Nobody, behind a barrier that all pass after their last product; and what was copied may be read behind wait "
        "and barrier.",
        "wait; __syncthreads(); copy V ... scores ...; wait; __syncthreads(); copy the next K ... products",
    ],
)
def test_race(kernel, rng):
    for n, causal in ((200, 0), (150, 1)):
        sizes = {"causal": causal, "HEADS": 1, "N": n}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_attention(kernel, rng, 150, causal=1)


@criterion(
    "On tensor cores, half of it if causal, without conflicts",
    weight=3,
    hint=[
        "Which tiles need no product at all, and where do eight rows of a tile lie in the banks?",
        "Those behind the block's last query; in different ones, as `place` says.",
        "if (causal) end = min(N, row0 + TSQ)",
    ],
    counts="at 512 tokens and at 128, causal: operations of tensor cores at most those of tiles of 128 x 64 up to the "
    "diagonal; bytes of global stores: O and L; of global loads: Q once, K and V once for each tile of 128 queries; "
    "barriers a block: at most 2 for each tile of 64 keys (or 32, if TSK says so), and 2 more; sectors beyond the "
    "fewest and bank conflicts: none",
)
def test_counts(kernel, rng):
    for n in COUNTED:
        case = check_attention(kernel, rng, n, causal=1)
        tiles = n // TSQ
        keys = sum(min(n, (tile + 1) * TSQ) for tile in range(tiles))  # of all tiles of queries together
        require_tensor_products(kernel, case.run, products_of(n, D, causal=1, tile=16), share=0)
        kernel.within(case.counters.tensor_operations, 4 * D * TSQ * keys, "operations of tensor cores")
        stored, loaded = n * (2 * D + 4), 2 * D * (n + 2 * keys)
        kernel.within(case.counters.global_store_bytes, stored, "bytes of global stores", unit="bytes")
        kernel.within(case.counters.global_load_bytes, loaded, "bytes of global loads", unit="bytes")
        require_barriers(kernel, case.run, keys / keys_of_a_tile(kernel) / tiles)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
