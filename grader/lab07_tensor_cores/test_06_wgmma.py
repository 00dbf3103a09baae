"""What is graded in lab07_tensor_cores/06_wgmma: C = A * B by wgmma and the TMA."""

from __future__ import annotations

from warpcourse.cases import product_of
from warpschool.grading import criterion, practice

FULL_TILES = [(256, 256, 64), (512, 768, 256)]
RAGGED = practice([(1, 8, 8), (31, 40, 24), (300, 264, 72), (129, 520, 1000)])
COUNTED = practice([(512, 256, 128), (256, 768, 192)], count=1)


def check_half_product(kernel, rng, m, n, k):
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    expected, scale = product_of(arrays["A"], arrays["B"])
    kernel.check_against(kernel.run(sizes, arrays), {"C": expected}, k=k, scale=scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Who tells the warpgroups that a tile has landed, and who tells the sender that a stage is free?",
        "full[stage] counts bytes; empty[stage] counts warpgroups of all blocks of the cluster that read the stage.",
        "send: wait(empty), expect_bytes, copy_box; multiply: wait(full), fence, multiply, commit, wait, arrive(empty)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_half_product(kernel, rng, m, n, k)


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
    for m, n, k in RAGGED:
        check_half_product(kernel, rng, m, n, k)


@criterion(
    "Tiles by the TMA, products by wgmma",
    weight=2,
    hint=[
        "What is left for threads to load, and how many products of 64 x 256 x 16 make a tile?",
        "Nothing, and TSK / 16 for each warpgroup: the descriptors move on by 32 bytes along the rows.",
        "for (int k = 0; k < TSK; k += 16) multiply(d, a + (2 * k >> 4), b + (2 * k >> 4), step + k > 0)",
    ],
    counts="at M = 512, N = 256, K = 128 and at M = 256, N = 768, K = 192: operations of tensor cores, exactly 2 M N "
    "K; loads of threads from global memory: none; wavefronts of shared memory beyond the fewest: none",
)
def test_engines(kernel, rng):
    for m, n, k in COUNTED:
        case = check_half_product(kernel, rng, m, n, k)
        counters = kernel.counters(*case)
        kernel.at_least(counters.tensor_operations, 2 * m * n * k, "operations of tensor cores")
        kernel.within(counters.tensor_operations, 2 * m * n * k, "operations of tensor cores")
        kernel.within(counters.global_load_requests, 0, "loads of threads from global memory")
        kernel.no_excess_wavefronts(*case)
