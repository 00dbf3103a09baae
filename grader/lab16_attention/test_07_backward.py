"""What is graded in lab16_attention/07_backward: gradients of attention, scores computed anew."""

from __future__ import annotations

import numpy as np

from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import attend, largest_score, products_of
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_barriers, require_lanes, require_products

D = 64
TILE = 64
WHOLE = [64, 128]
RAGGED = practice([1, 31, 65, 100])
COUNTED = practice([256, 64], count=1)
EACH = 7  # products of N x N x D: scores and dP twice, and the three gradients
FLOATS = 8  # in a sector
LOADED = 1.6  # times the tiles that must be loaded
BARRIERS = 6  # for each tile of scores: a barrier of the block orders what one of the warp would, too
OTHER = 40  # operations for each score besides, in each of the two kernels


def given(kernel, rng, n, *, causal, heads=1, spread=2):
    """Inputs of which O and L are right for Q, K and V, and what comes of them in float64."""
    sizes = {"causal": causal, "HEADS": heads, "N": n}
    q, k, v = (rng.uniform(-1, 1, (heads, n, D)).astype(np.float32) for _ in range(3))
    right = attend(spread * q, k, v, bool(causal))
    known = {"Q": spread * q, "K": k, "V": v, "O": right.out, "L": right.log}
    return sizes, kernel.inputs(sizes, rng, **known), right


def check(kernel, rng, n, **more):
    sizes, arrays, right = given(kernel, rng, n, **more)
    run = kernel.run(sizes, arrays)
    dq, dk, dv = right.gradients(arrays["dO"])
    # A score, its logarithm and delta are off by parts of their terms' magnitudes; a power by as much of itself.
    off = 1 + 2 * largest_score(right.q, right.k)
    size = np.abs(arrays["dO"]).astype(np.float64)
    turned = np.swapaxes(right.probabilities, -1, -2)
    means = (size * abs(right.out)).sum(axis=-1, keepdims=True)
    changes = right.probabilities * (size @ np.swapaxes(abs(right.v), -1, -2) + means)
    changes /= np.sqrt(D)
    terms = 2 * D + n
    kernel.check_against(run, {"dV": dv}, k=terms, scale=off * (turned @ size))
    kernel.check_against(run, {"dQ": dq}, k=terms, scale=off * (changes @ abs(right.k)))
    kernel.check_against(run, {"dK": dk}, k=terms, scale=off * (np.swapaxes(changes, -1, -2) @ abs(right.q)))
    return sizes, arrays, run


@criterion(
    "Right gradients",
    weight=4,
    hint=[
        "P of a row sums to 1 whatever its scores are. What does that take from dP before it reaches a score?",
        "The row's mean of dP, weighed by P: delta, which is also the sum of dO * O.",
        "p = expf(s * scale - L); dS = p * (dP - delta) * scale; dV += P' dO; dK += dS' Q; dQ += dS K",
    ],
)
def test_correct(kernel, rng):
    for n in WHOLE:
        check(kernel, rng, n, causal=0, heads=2)


@criterion(
    "Queries look back only, if causal",
    weight=3,
    hint=[
        "Key 70: which queries have ever looked at it?",
        "70 and all behind it. A hidden score's P is 0, and so is its dS.",
        "hidden = causal && key > row; first = key0 in backward_keys, end = row0 + TS in backward_queries",
    ],
)
def test_causal(kernel, rng):
    for n in (*WHOLE, 90):
        check(kernel, rng, n, causal=1, heads=2)


@criterion(
    "Texts of any length",
    weight=2,
    hint=[
        "Rows past the end are zeros. What is exp(0 - L) for them, and where does it go?",
        "It meets rows of zeros: nothing comes of it unless it is infinite. And rows past the end are not stored.",
        "hidden = row >= N || key >= N || ...",
    ],
)
def test_ragged(kernel, rng):
    for n in RAGGED:
        for causal in (0, 1):
            check(kernel, rng, n, causal=causal)


@criterion(
    "Large scores",
    weight=2,
    hint=[
        "Scores of 100 and a logarithm of 99: how large is exp(100)?",
        "Too large; exp(score - L) is a probability, and never more than 1.",
        "expf(p * scale - L), one power of the difference",
    ],
)
def test_large(kernel, rng):
    check(kernel, rng, 70, causal=0, spread=100)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "P and then dS use the same tile. Who may still read P?",
        "The other lanes of the warp: a __syncwarp() lies between. Tiles that all threads load lie between barriers.",
        "leave P; __syncwarp(); use it; __syncwarp(); leave dS; __syncwarp(); use it",
    ],
)
def test_race(kernel, rng):
    for n, causal in ((128, 0), (65, 1)):
        sizes, arrays, _ = given(kernel, rng, n, causal=causal, heads=2)
        kernel.no_hazards(sizes, arrays, kinds=RACES)
    check(kernel, rng, 65, causal=1)


@criterion(
    "Scores are computed anew, half of them if causal",
    weight=3,
    hint=[
        "How many products of N x N x D do your kernels make, and over which tiles?",
        "Two for P and dP in each kernel, and three for the gradients; below the diagonal only.",
        "for (row0 = first; ...) and for (key0 = 0; key0 < end; ...)",
    ],
    counts="at 256 tokens and at 64, causal: products, of doubles and halves too, at most seven times those of one "
    "product over the tiles of 64 x 64 up to the diagonal, and 80 more for each score; bytes of global stores: the "
    "gradients and delta; sectors of global loads of each kernel: at most 1.6 times two tiles of 64 rows for each tile "
    "of scores and for each block; barriers a block: at most 6 for each tile, and 2 more; lanes at work: half of them "
    "on average; sectors beyond the fewest and bank conflicts: none",
)
def test_counts(kernel, rng):
    for n in COUNTED:
        sizes, arrays, run = check(kernel, rng, n, causal=1)
        tiles = -(-n // TILE)
        scores = tiles * (tiles + 1) // 2 * TILE * TILE
        most = products_of(n, D, causal=1, tile=TILE, each=EACH) + 2 * OTHER * scores + n * D
        require_products(kernel, run, 5 * n * (n + 1) // 2 * D, share=0)
        kernel.within(run.counters.multiplications, most, "products")
        kernel.within(run.counters.global_store_bytes, 4 * n * (3 * D + 1), "bytes of global stores", unit="bytes")
        kernel.no_excess_sectors(sizes, arrays)
        kernel.no_excess_wavefronts(sizes, arrays)
        # Each kernel loads its tiles once; L and delta, too, or once for each score of a thread.
        sectors = (tiles * (tiles + 1) // 2 + tiles) * 2 * TILE * D // FLOATS
        for launch in run.launches:
            loaded = launch.counters.sectors_read
            kernel.within(loaded, int(LOADED * sectors), f"sectors that {launch.kernel} loads from global memory")
        require_barriers(kernel, run, (tiles + 1) / 2, each=BARRIERS)
        require_lanes(kernel, run)
