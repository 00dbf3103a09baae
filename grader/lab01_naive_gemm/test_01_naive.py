"""What is graded in lab01_naive_gemm/01_naive: C = A * B."""

from __future__ import annotations

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

FULL_TILES = [(32, 32, 32), (64, 32, 48), (16, 96, 32)]
RAGGED = practice([(1, 1, 1), (31, 33, 17), (1, 100, 7), (127, 5, 31), (200, 182, 130)])
ALIGNED = (64, 64, 64)
COUNTED = practice([ALIGNED, (32, 96, 48)], count=1)


def run_and_compare(kernel, rng, m, n, k):
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    run = kernel.run(sizes, arrays)
    expected, scale = product_of(arrays["A"], arrays["B"])
    kernel.check_against(run, {"C": expected}, k=k, scale=scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Write down C[1][2] for 3 x 3 matrices. Which row of A and which column of B does it take?",
        "A has rows of K elements, B and C have rows of N elements.",
        "for k = 0 .. K-1: sum += A[row * K + k] * B[k * N + col];  then C[row * N + col] = sum",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        run_and_compare(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    about="OOB",
    weight=2,
    hint=[
        "Which threads have no element of C to compute?",
        "The guard belongs around everything that touches A, B or C.",
        "if (row < M && col < N) { the loop and the store }",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        run_and_compare(kernel, rng, m, n, k)


@criterion(
    "At most 2K loads per element",
    weight=1,
    hint=[
        "How many floats of A and of B does one element of C need?",
        "Neither C nor an element that is already in a register has to be loaded in the loop.",
        "keep the sum in a register, load A and B once per k, store once after the loop",
    ],
    counts="bytes of global loads, at M = N = K = 64: 2 K floats for each element of C",
)
def test_loads(kernel, rng):
    for m, n, k in COUNTED:
        counters = kernel.counters(*run_and_compare(kernel, rng, m, n, k))
        kernel.within(counters.global_load_bytes, m * n * 2 * k * 4, "bytes of global loads", unit="bytes")
