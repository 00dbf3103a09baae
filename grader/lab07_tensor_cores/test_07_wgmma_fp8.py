"""What is graded in lab07_tensor_cores/07_wgmma_fp8: C = alpha * A * Bt^T for floats of 8 bits."""

from __future__ import annotations

from warpcourse import floats8
from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

FULL_TILES = [(256, 256, 128, 1.0), (512, 768, 384, 0.125)]
RAGGED = practice([(1, 8, 16, 1.0), (31, 40, 48, 0.5), (300, 264, 144, -2.0), (129, 520, 1008, 0.25)])
COUNTED = practice([(512, 256, 128, 1.0), (256, 768, 256, 1.0)], count=1)


def numbers(rng, rows, k):
    """Whole numbers up to 8, each row times a power of two: e4m3 holds them, tensor cores add them without error."""
    whole = rng.integers(-8, 9, (rows, k))
    return floats8.encode(whole * 2.0 ** rng.integers(-4, 1, (rows, 1)))


def check_product(kernel, rng, m, n, k, alpha):
    sizes = {"M": m, "N": n, "K": k, "alpha": alpha}
    arrays = {"A": numbers(rng, m, k), "Bt": numbers(rng, n, k)}
    product, scale = product_of(floats8.decode(arrays["A"]), floats8.decode(arrays["Bt"]).T)
    kernel.check_against(kernel.run(sizes, arrays), {"C": alpha * product}, k=k, scale=abs(alpha) * scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "How many bytes further on are the next 32 steps of k, in a row of A and in a row of Bt?",
        "32 in both; the descriptors count units of 16 bytes. A block brings SHARE rows of Bt, for its whole cluster.",
        "multiply(d, a + (k >> 4), b + (k >> 4), tile + k > 0), k += 32; copy_box_to_all from row col + rank * SHARE",
    ],
)
def test_correct(kernel, rng):
    for m, n, k, alpha in FULL_TILES:
        check_product(kernel, rng, m, n, k, alpha)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "What does the TMA bring where a box sticks out of the array, and how many bytes does it announce?",
        "Zeros, and always the bytes of the whole box; a box of C that sticks out is cut off when it is stored.",
        "expect_bytes(&full[stage], BYTES_A + BYTES_B) for every tile, the last one too",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k, alpha in RAGGED:
        check_product(kernel, rng, m, n, k, alpha)


@criterion(
    "Tiles by the TMA, products by wgmma",
    weight=2,
    hint=[
        "What is left for threads to load, and how many products of 64 x 256 x 32 make a tile?",
        "Nothing, and TSK / 32 for each warpgroup: the descriptors move on by 32 bytes along the rows.",
        "for (int k = 0; k < TSK; k += 32) multiply(d, a + (k >> 4), b + (k >> 4), tile + k > 0)",
    ],
    counts="at M = 512, N = 256, K = 128 and at M = 256, N = 768, K = 256: operations of tensor cores, exactly 2 M N "
    "K; loads of threads from global memory: none; wavefronts of shared memory beyond the fewest: none",
)
def test_engines(kernel, rng):
    for m, n, k, alpha in COUNTED:
        case = check_product(kernel, rng, m, n, k, alpha)
        counters = kernel.counters(*case)
        kernel.at_least(counters.tensor_operations, 2 * m * n * k, "operations of tensor cores")
        kernel.within(counters.tensor_operations, 2 * m * n * k, "operations of tensor cores")
        kernel.within(counters.global_load_requests, 0, "loads of threads from global memory")
        kernel.no_excess_wavefronts(*case)
