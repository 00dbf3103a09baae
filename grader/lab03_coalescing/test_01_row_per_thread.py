"""What is graded in lab03_coalescing/01_row_per_thread: C = A * B with coalesced accesses."""

from __future__ import annotations

from warpcourse.cases import check_product
from warpschool.grading import criterion, practice

SHAPES = practice([(1, 1, 1), (64, 96, 16), (31, 33, 17), (127, 5, 31), (5, 127, 33), (200, 182, 130)])
COUNTED = practice([(128, 128, 64), (64, 96, 32)], count=1)
WARP = 32
SECTORS_PER_STEP = 5  # a warp in one row of C needs one sector of A and four of B for each k


def require_coalesced_loads(kernel, rng):
    """The given kernel is right: what counts is a kernel that is right and coalesced."""
    for m, n, k in COUNTED:
        case = check_product(kernel, rng, m, n, k)
        # Blocks of 16 x 16 read two elements of A in two sectors, but only two sectors of B: as good as one row a warp.
        sectors = kernel.counters(*case).global_load_sectors
        if not sectors <= SECTORS_PER_STEP * k * m * n // WARP:
            kernel.no_excess_sectors(*case, stores=False)


@criterion(
    "No excess sectors on loads",
    weight=3,
    hint=[
        "Take two neighbouring lanes of a warp. How far apart in memory are the two elements of A that they load?",
        "threadIdx.x is what differs between neighbouring lanes. It must not choose the row.",
        "x chooses the column: the lanes then share one element of A and read neighbours of B",
    ],
    counts="sectors of global loads, at M = N = 128, K = 64: none beyond the fewest for the bytes of each request, "
    "or in all no more than five for each k and each 32 elements of C",
)
def test_loads(kernel, rng):
    require_coalesced_loads(kernel, rng)


@criterion(
    "No excess sectors on stores",
    weight=1,
    hint=[
        "Where in memory do the 32 results of a warp go?",
        "Results of one row of C are neighbours; results of one column lie N floats apart.",
        "C[row * N + col] with col from threadIdx.x",
    ],
    counts="sectors of global stores beyond the fewest that hold the stored bytes, at M = N = 128, K = 64",
)
def test_stores(kernel, rng):
    for m, n, k in COUNTED:
        kernel.no_excess_sectors(*check_product(kernel, rng, m, n, k), loads=False)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "The given kernel is right at every size. What did you change besides the two axes?",
        "BLOCK_X belongs to the axis of x and BLOCK_Y to that of y, in the block, in the grid and in the kernel.",
        "row = blockIdx.y * BLOCK_Y + threadIdx.y;  col = blockIdx.x * BLOCK_X + threadIdx.x",
    ],
    counts="right answers of a kernel whose loads are coalesced",
)
def test_ragged(kernel, rng):
    require_coalesced_loads(kernel, rng)
    for m, n, k in SHAPES:
        check_product(kernel, rng, m, n, k)
