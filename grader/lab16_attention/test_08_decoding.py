"""What is graded in lab16_attention/08_decoding: one query for each head over keys and values that are kept."""

from __future__ import annotations

import numpy as np

from ptxsim.limits import SECTOR_BYTES
from warpcourse.cases import RACES
from warpcourse.lab16_attention.cases import attend, largest_score
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import barriers_per_block, require_lanes

D = 128
GROUP = 4
SPLIT = 512
LOADED = 1.25  # times K and V: queries, pairs and the parts' sums besides
BARRIERS = 4  # one orders what teams leave for each other
WHOLE = [(1, 1, 512), (2, 2, 1024)]
RAGGED = practice([(1, 1, 1), (2, 1, 31), (1, 3, 513), (3, 2, 700)])
COUNTED = practice([(1, 2, 2048), (2, 1, 1536)], count=1)


def check(kernel, rng, texts, groups, n, *, spread=4, rising=False):
    sizes = {"TEXTS": texts, "GROUPS": groups, "N": n}
    q = spread * rng.uniform(-1, 1, (texts, groups, GROUP, D))
    k, v = (rng.uniform(-1, 1, (texts, groups, n, D)) for _ in range(2))
    if rising:
        q, k = abs(q), k * np.linspace(0, 2, n)[:, None]
    arrays = kernel.inputs(sizes, rng, Q=q, K=k, V=v)
    run = kernel.run(sizes, arrays)
    right = attend(arrays["Q"], arrays["K"], arrays["V"], causal=False)
    score = largest_score(arrays["Q"], arrays["K"])
    scale = (1 + 2 * score) * (right.probabilities @ abs(right.v))
    kernel.check_against(run, {"O": right.out}, k=n + D, scale=scale)
    return sizes, arrays, run


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "Two parts of a text have largest scores 3 and 5. By how much does each part's sum of values shrink?",
        "To exp(3 - 5) of itself, and not at all; so do their totals, by which O is divided.",
        "shrink = expf(pairs[...] - larger); all += total * shrink; sum += sums[...] * shrink; O = sum / all",
    ],
)
def test_correct(kernel, rng):
    for case in WHOLE:
        check(kernel, rng, *case)


@criterion(
    "Any number of keys",
    weight=3,
    hint=[
        "513 keys are two parts. What do the 15 teams of lanes without a key leave in the second one?",
        "Minus infinity, 0 and zeros. Minus infinity less itself is no number: do not let it into expf.",
        "score = there ? part * scale : -INFINITY; exp of it is 0; shrink only what there is",
    ],
)
def test_ragged(kernel, rng):
    for case in RAGGED:
        check(kernel, rng, *case)


@criterion(
    "Large and growing scores",
    weight=3,
    hint=[
        "Later keys have larger scores, by hundreds. What happens to what was summed before?",
        "It shrinks, rightly to nothing; no power exceeds 1.",
        "larger = the maximum of largest[g] and the TURN new scores; exponents are score - larger",
    ],
)
def test_rising(kernel, rng):
    check(kernel, rng, 1, 1, 800, spread=60, rising=True)
    check(kernel, rng, 1, 2, 600, spread=60)


@criterion(
    "No race",
    about="RACE",
    weight=2,
    hint=[
        "Teams leave pairs and sums for each other in shared memory. When are all of them there?",
        "Behind a barrier that every thread passes.",
        "team_sums[team][g][...] = ...; __syncthreads(); then one warp for each query",
    ],
)
def test_race(kernel, rng):
    sizes = {"TEXTS": 1, "GROUPS": 2, "N": 600}
    kernel.no_hazards(sizes, kernel.inputs(sizes, rng), kinds=RACES)
    check(kernel, rng, 1, 2, 600)


@criterion(
    "Keys and values are read once for all heads of a group",
    weight=3,
    hint=[
        "Four queries look at the same key. How often does it come from memory?",
        "Once: a lane keeps its eight numbers of the key and uses them for all GROUP queries.",
        "keys[turn] is loaded once; for (g = 0; g < GROUP; ++g) part += query[g][i] * key[i]",
    ],
    counts="at 2 groups of 2048 keys and at two texts of 1536: sectors of global loads at most 1.25 times those of K "
    "and V; barriers a block: at most 4; lanes at work: half of them on average; sectors beyond the fewest, but for "
    "one of each number of a pair, and bank conflicts: none",
)
def test_bytes(kernel, rng):
    for texts, groups, n in COUNTED:
        sizes, arrays, run = check(kernel, rng, texts, groups, n)
        # Not bytes: a number that all lanes load would count for each, and each block has queries, each part pairs.
        most = LOADED * (arrays["K"].nbytes + arrays["V"].nbytes) // SECTOR_BYTES
        kernel.within(run.counters.sectors_read, int(most), "sectors of global loads")
        kernel.within(barriers_per_block(run), BARRIERS, "barriers for each block")
        require_lanes(kernel, run)
        # The numbers of a query's pairs stand a sector apart: who brings all of them at once needs no fewer.
        kernel.no_excess_sectors(sizes, arrays, most=2 * GROUP * texts * groups * -(-n // SPLIT))
        kernel.no_excess_wavefronts(sizes, arrays)
