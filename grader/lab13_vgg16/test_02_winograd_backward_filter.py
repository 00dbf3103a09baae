"""What is graded in lab13_vgg16/02_winograd_backward_filter: dw = G^T (V dM^T) G and db, from the saved V and dM."""

from __future__ import annotations

from warpcourse.cases import RACES
from warpcourse.lab13_vgg16.cases import check_filters
from warpschool.grading import criterion, practice

WHOLE = [(64, 64, 128), (8, 32, 16)]
RAGGED = practice([(5, 7, 33), (1, 1, 1), (70, 20, 18), (3, 67, 130)])
LONG = [(3, 5, 1300), (2, 2, 4097)]
MOST = 64 * 64 * 512  # products at a position, of a drawn case: a check must stay short
COUNTED = practice([(64, 64, 320), (128, 128, 64)], count=1, needs=lambda c, f, p: c * f * p <= MOST)
TILE = 64  # channels and filters of which a block computes dU: V is read once for each 64 filters, dM for each channels
MORE = 1.25  # a quarter more than one part takes: for parts that are cut smaller
TRANSFORM = 64  # multiply-adds of G^T dU G for a filter and channel, at most


def check(kernel, rng, cases):
    for c, f, p in cases:
        check_filters(kernel, rng, C=c, F=f, P=p)


@criterion(
    "Right answers for whole tiles",
    weight=3,
    hint=[
        "G is 6 x 3. Which of its factors meet u[1] in the three weights, and how do those of u[2] differ?",
        "(u1 + u2) serves g[0] and g[2], (u2 - u1) serves g[1]; u3 and u4 likewise. And which number of dM has all "
        "factors one?",
        "g[0] = u0 / 4 - (u1 + u2) / 6 + (u3 + u4) / 24;  db = the sum over all tiles of position SIDE + 1",
    ],
)
def test_correct(kernel, rng):
    check(kernel, rng, WHOLE)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "Where does a part end if P is no multiple of anything?",
        "At P at the latest: first and end are both at most P, and load_quad gives zeros from `end` on.",
        "first = min(part * length, P);  end = min(first + length, P)",
    ],
)
def test_ragged(kernel, rng):
    check(kernel, rng, RAGGED)


@criterion(
    "Right answers in parts",
    weight=3,
    hint=[
        "How many parts are there, and who adds up their sums?",
        "Every tile belongs to one part, and add_parts adds number by number over all parts.",
        "length = cdiv(P, parts), made a multiple of 2 * TSP;  sum += dU[part * size + i]",
    ],
)
def test_parts(kernel, rng):
    check(kernel, rng, LONG)


@criterion(
    "No race, no atomics",
    about="RACE",
    weight=1,
    hint=[
        "Two blocks have sums of the same number of dU. Do they write to the same place?",
        "Each part has its own dU: atomics would add them in another order, with other last bits, each time.",
        "dU += blockIdx.z * C * F; add_parts adds the parts in their order",
    ],
    counts="races at C = 64, F = 64, P = 320 and at C = 128, F = 128, P = 64, and atomics on global memory",
)
def test_race(kernel, rng):
    for c, f, p in COUNTED:
        case = check_filters(kernel, rng, C=c, F=f, P=p)
        kernel.no_hazards(case.sizes, case.arrays, kinds=RACES)
        atomics = case.counters.global_atomic_requests + case.counters.global_reduction_requests
        kernel.within(atomics, 0, "atomics on global memory")


@criterion(
    "V and dM are read, not computed again",
    weight=2,
    hint=[
        "How often does a block read its tiles of V and dM?",
        "Once: from `first` to `end`, TSP at a time.",
        "length, first and end of the header's parts: no tile is in two parts",
    ],
    counts="products at C = 64, F = 64, P = 320 and at C = 128, F = 128, P = 64: at most 36 C F P and 64 for a filter "
    "and channel; bytes of global loads: at most V once for each 64 filters, dM once for each 64 channels, dU once, dM "
    "once more at one position for the bias, and a quarter more",
)
def test_products(kernel, rng):
    for c, f, p in COUNTED:
        counters = check_filters(kernel, rng, C=c, F=f, P=p).counters
        kernel.within(counters.multiplications, (36 * p + TRANSFORM) * c * f, "products")
        operands = c * (f // TILE) + f * (c // TILE)  # V and dM
        loaded = 4 * (36 * operands * p + 36 * c * f + f * p)  # and dU, and the bias's position of dM
        kernel.within(counters.global_load_bytes, int(MORE * loaded), "bytes of global loads", unit="bytes")


@criterion(
    "Full sectors, no bank conflicts",
    weight=2,
    hint=[
        "Which floats do the lanes of a warp load, of V, of dU and for the bias?",
        "Pairs of lanes load 32 bytes of a row; in filter_gradient and bias_gradient lanes are neighbours in memory.",
        "for (int p = thread; p < P; p += THREADS) sum += from[p];",
    ],
    counts="sectors and wavefronts beyond those needed, at C = 64, F = 64, P = 320 and at C = 128, F = 128, P = 64: "
    "none",
)
def test_sectors(kernel, rng):
    for c, f, p in COUNTED:
        case = check_filters(kernel, rng, C=c, F=f, P=p)
        kernel.no_excess_sectors(case.sizes, case.arrays)
        kernel.no_excess_wavefronts(case.sizes, case.arrays)
