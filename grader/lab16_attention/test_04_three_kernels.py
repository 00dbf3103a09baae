"""What is graded in lab16_attention/04_three_kernels: attention with its scores in memory."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import check_attention, products_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_lanes, require_products

D = 64
TILE = 32
WHOLE = [64, 96]
RAGGED = practice([1, 31, 33, 100])
COUNTED = practice([256, 96], count=1)
OTHER = 40  # operations of the softmax for each score, exp and its parts among them, by either compiler


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which number multiplies every score, and what are P's rows divided by?",
        "1 / sqrt(D), so that scores of random vectors spread by about one; and the sum of exp(score - largest).",
        "largest over all lanes by shuffles, then the sum of expf(S - largest) over all lanes",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check_attention(kernel, rng, n, causal=0, heads=2)
    check_attention(kernel, rng, 64, causal=0, d=128)


@criterion(
    "Queries look back only, if causal",
    weight=3,
    hint=[
        "Query 5 is in a tile with keys 0 to 31. Which of them must not weigh anything?",
        "Keys 6 to 31: a score of minus infinity becomes a probability of 0.",
        "hidden = causal && col > row; S = hidden ? -INFINITY : sum * scale()",
    ],
)
def test_causal(kernel, rng):
    for n in (*WHOLE, 40):
        check_attention(kernel, rng, n, causal=1, heads=2)


@criterion(
    "Texts of any length",
    weight=2,
    hint=[
        "With 33 tokens the second tile holds one. What do the other 31 rows and columns hold?",
        "Zeros, so that they add nothing; and nobody stores them.",
        "row < N ? Q[...] : 0.0f; if (row < N && col < N) S[...] = ...",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        for causal in (0, 1):
            check_attention(kernel, rng, n, causal=causal)


@criterion(
    "Large scores",
    weight=2,
    hint=[
        "Scores of 300 occur. What is exp(300) in single precision?",
        "Infinite: subtract the row's largest score first.",
        "expf(S - largest), never expf(S)",
    ],
)
def test_large(kernel, rng):
    for causal in (0, 1):
        check_attention(kernel, rng, 50, causal=causal, spread=400, rising=True)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "A tile is read by all threads. When may the next one overwrite it?",
        "When all have read it: behind a second barrier.",
        "load; __syncthreads(); multiply; __syncthreads();",
    ],
)
def test_race(kernel, rng):
    for n, causal in ((64, 0), (33, 1)):
        sizes = {"causal": causal, "HEADS": 2, "N": n}
        kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check_attention(kernel, rng, 33, causal=1)


@criterion(
    "Half of the products, if causal",
    weight=3,
    hint=[
        "Which tiles of S can a causal text leave out altogether, in both products?",
        "All above the diagonal: they are neither computed nor read.",
        "if (causal && col0 > row0 + TS - 1) return;   and   end = min(N, row0 + TS)",
    ],
    counts="products, of doubles and halves too, at 256 tokens and at 96: at most those of the tiles of 32 x 32 up to "
    "the diagonal, and 40 more for each score; sectors beyond those that the bytes fill, and bank conflicts: none; "
    "barriers for each block: at most 2 for each tile of 32 keys, and 2; lanes at work in an instruction: at least 16",
)
def test_products(kernel, rng):
    for n in COUNTED:
        case = check_attention(kernel, rng, n, causal=1)
        least = n * (n + 1) * D
        most = products_of(n, D, causal=1, tile=TILE) + OTHER * n * (n + TILE) // 2
        require_products(kernel, case.run, least, share=0)
        kernel.within(case.counters.multiplications, most, "products")
        require_barriers(kernel, case.run, n / TILE)
        require_lanes(kernel, case.run)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
