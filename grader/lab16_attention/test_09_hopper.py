"""What is graded in lab16_attention/09_hopper: fused attention of halves by wgmma and the TMA."""

from __future__ import annotations

from ptxsim.limits import WARP
from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import check_attention, products_of
from warpschool.grading import criterion, practice

D = 64
TILE = 128
WHOLE = [128, 256]
RAGGED = practice([1, 63, 129, 300])
COUNTED = practice([384, 128], count=1)
MANY = 140  # heads: more than an H100 has SMs, so that some blocks take a second pair of tiles


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which rows of K do four steps of 16 numbers lie in, and where does the fifth begin, if D = 128?",
        "Within a panel of 64 numbers a step is 32 bytes along the rows; the next four steps are the next panel's.",
        "inK = step / 4 * PANEL_K + step % 4 * 32, and the same in Q; values: 16 rows of 128 bytes further down",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_attention(kernel, rng, n, causal=0, heads=2)


@criterion(
    "Heads of 128 numbers",
    weight=2,
    hint=[
        "A row of 128 halves is 256 bytes. How do the TMA's boxes, 128 bytes wide, lie in shared memory?",
        "As two panels, one behind the other: the second half of every row is PANEL_K bytes further on.",
        "describe(tile, PANEL_K) says so for values; for keys each step names its panel",
    ],
)
def test_wide(kernel, rng):
    for n, causal in ((128, 0), (200, 1)):
        check_attention(kernel, rng, n, causal=causal, d=128)


@criterion(
    "Queries look back only, if causal",
    weight=2,
    hint=[
        "Which tile of keys has keys to hide from some query of the block, and when does it come?",
        "The one with the diagonal, the last that the block looks at. It comes first here.",
        "hide((tiles - 1) * TSK), before the loop; inside it no key is hidden",
    ],
)
def test_causal(kernel, rng):
    for n in (256, 300):
        check_attention(kernel, rng, n, causal=1, heads=2)


@criterion(
    "Texts of any length",
    weight=2,
    hint=[
        "What does the TMA bring of rows past the end, and how many bytes does it announce?",
        "Zeros, and all the bytes of a box. Their scores are 0 and must be hidden; their rows of O are not stored.",
        "expect_bytes(&fullK[stage], BYTES_K) for every tile; key >= N is hidden; row < N is stored",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        for causal in (0, 1):
            check_attention(kernel, rng, n, causal=causal)


@criterion(
    "Scores that grow from tile to tile, either way",
    weight=3,
    hint=[
        "A tile brings scores larger than all before, while values of the tile before it are being weighed. When may "
        "`out` shrink?",
        "Behind wait_for_products<0>, and before the next values are begun: `settle` does both, in this order.",
        "wait for keys; settle(); begin_scores(now); wait for values; begin_values(now - 1)",
    ],
)
def test_growing(kernel, rng):
    for rising in (True, False):
        check_attention(kernel, rng, 300, causal=0, rising=rising, falling=not rising)
        check_attention(kernel, rng, 300, causal=1, spread=100, rising=rising, falling=not rising)


@criterion(
    "Blocks stay",
    weight=2,
    hint=[
        "A block's second tile of queries begins. Which stage, and which phase, do its first keys belong to?",
        "The next ones: stages and phases go on over all tiles that a block takes, so `first` counts them.",
        "stage_of(first + tile), parity_of(first + tile); first += tiles at the end, on both sides",
    ],
)
def test_many(kernel, rng):
    check_attention(kernel, rng, 65, causal=1, heads=MANY)


@criterion(
    "Copies, products and threads wait for each other",
    about="RACE",
    weight=3,
    hint=[
        "Who may still read a stage when the TMA writes to it, and who may read registers that a product writes?",
        "Nobody: a stage is given back behind the wait for the products that read it, and sums are used behind theirs. "
        "wait_for_products<1> waits for scores, which were begun first; values are still on their way.",
        "begin_scores(now); begin_values(now - 1); wait_for_products<1>(); arrive(keys); ...; "
        "settle(); arrive(values of now - 2)",
    ],
)
def test_race(kernel, rng):
    for n, causal in ((600, 0), (400, 1)):
        sizes = {"causal": causal, "HEADS": 1, "N": n}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_attention(kernel, rng, 300, causal=1)


@criterion(
    "Tiles by the TMA, half of the products if causal, by wgmma",
    weight=3,
    hint=[
        "What is left for threads to load from global memory, and which tiles of keys need no product?",
        "Nothing, and those behind the block's last query; scores are stored nowhere.",
        "place() returns min(N, row0 + TSQ) keys, if causal",
    ],
    counts="at 384 tokens and at 128, causal: operations of tensor cores: at least those of tiles of 16 x 16 up to the "
    "diagonal, at most those of tiles of 128 x 128; loads of threads from global memory: none; bytes of global stores: "
    "O and L; barriers and arrivals: for each tile at most two of all warps; sectors beyond the fewest and bank "
    "conflicts: none",
)
def test_engines(kernel, rng):
    # What a block passes before its first tile, most blocks here pass for nothing: only what tiles add is counted.
    alone = check_attention(kernel, rng, TILE, causal=1).run.launches[0]
    warps = -(-alone.threads_per_block // WARP)
    for n in COUNTED:
        case = check_attention(kernel, rng, n, causal=1)
        tiles = -(-n // TILE)
        barriers = case.counters.block_barriers - alone.counters.block_barriers
        more = tiles * (tiles + 1) // 2 - 1
        kernel.within(barriers, 2 * warps * more, f"barriers that warps pass for {more} more tiles")
        most = 2 * products_of(n, D, causal=1, tile=TILE)
        least = 2 * products_of(n, D, causal=1, tile=16)
        kernel.at_least(case.counters.tensor_operations, least, "operations of tensor cores")
        kernel.within(case.counters.tensor_operations, most, "operations of tensor cores")
        kernel.within(case.counters.global_load_requests, 0, "loads of threads from global memory")
        kernel.within(case.counters.global_store_bytes, n * (2 * D + 4), "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
