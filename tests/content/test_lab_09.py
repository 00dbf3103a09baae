"""What the course promises of lab 09: products, operations, sectors, passes of the references; the notebook's tools."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from warpcourse.lab09_winograd import lab
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs, run_kernel
from warpschool.nn.winograd import matrices

COURSE = Course.find()
DIRECT = """// direct.cu: one thread for each result of one channel and one filter of 3 x 3.
// Entry: direct(const float x[H,W] in, const float w[3,3] in, float y[H-2,W-2] out, int H, int W)
// Launch: direct block=(16, 16) grid=(cdiv(W-2, 16), cdiv(H-2, 16))
extern "C" __global__ void direct(const float* x, const float* w, float* y, int H, int W)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= H - 2 || col >= W - 2) return;
    float sum = 0.0f;
    for (int k = 0; k < 9; ++k) sum += x[(row + k / 3) * W + col + k % 3] * w[k];
    y[row * (W - 2) + col] = sum;
}
"""


def run(idea: str, sizes: dict[str, int], **constants: int) -> RunResult:
    found = COURSE.step(f"lab09_winograd/{idea}")
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(sizes, inputs)
    assert result.hazards == () and result.overwritten == ()
    return result


@pytest.mark.parametrize(("tile", "products"), [(4, 36), (2, 16)])
def test_products_of_a_tile_where_direct_needs_nine_for_each_result(tile, products):
    x, w = np.ones((34, 66), np.float32), np.ones((3, 3), np.float32)
    direct = run_kernel(DIRECT, {}, {"x": x, "w": w}, device="sim").counters.fma_instructions
    sizes = {"POSITIONS": products, "C": 16, "F": 64, "P": 128}
    counted = run("03_batched_gemm", sizes).counters.fma_instructions
    tiles = 32 * 64 // tile**2
    assert direct / tiles == 9 * tile**2 == matrices(tile, 3).direct_products
    assert counted / (16 * 64 * 128) == products == matrices(tile, 3).positions


@pytest.mark.parametrize(
    ("idea", "sizes", "tiles", "limit"),
    [
        ("01_filter_transform", {"F": 64, "C": 16}, 64 * 16, 72),
        ("02_input_transform", {"BATCH": 1, "C": 4, "H": 32, "W": 64, "PAD": 1}, 4 * 8 * 16, 156),
        ("04_output_transform", {"BATCH": 1, "F": 4, "OH": 32, "OW": 64}, 4 * 8 * 16, 100),
    ],
)
def test_operations_of_a_tile(idea, sizes, tiles, limit):
    counters = run(idea, sizes).counters
    operations = counters.fma_instructions + counters.fadd_instructions + counters.fmul_instructions
    assert operations / tiles <= limit


def test_full_sectors():
    assert run("01_filter_transform", {"F": 64, "C": 16}).counters.excess_sectors == 0
    assert run("03_batched_gemm", {"POSITIONS": 2, "C": 16, "F": 64, "P": 256}).counters.excess_sectors == 0
    assert run("04_output_transform", {"BATCH": 1, "F": 4, "OH": 32, "OW": 64}).counters.excess_sectors == 0
    images = run("02_input_transform", {"BATCH": 1, "C": 4, "H": 32, "W": 64, "PAD": 1}).counters
    assert images.excess_store_sectors == 0


@pytest.mark.parametrize(
    ("idea", "sizes"),
    [
        ("01_filter_transform", {"F": 70, "C": 13}),
        ("03_batched_gemm", {"POSITIONS": 2, "C": 20, "F": 70, "P": 300}),
        ("06_three_channels", {"BATCH": 1, "H": 9, "W": 14, "F": 40, "PAD": 1}),
        ("07_fused_f2", {"BATCH": 1, "C": 5, "H": 9, "W": 21, "F": 70, "PAD": 1}),
    ],
)
def test_no_bank_conflicts(idea, sizes):
    counters = run(idea, sizes).counters
    assert counters.shared_load_requests > 0 == counters.shared_bank_conflicts


def test_the_epilogue_and_the_fused_kernel_pass_over_memory_once():
    pooled = run("05_fused_epilogue", {"BATCH": 1, "F": 4, "OH": 32, "OW": 64, "CROP": 0}).counters
    assert pooled.global_store_bytes == 4 * 4 * 16 * 32
    assert pooled.global_load_bytes < 1.03 * 4 * 36 * 4 * 8 * 16
    fused = run("07_fused_f2", {"BATCH": 1, "C": 16, "H": 8, "W": 16, "F": 64, "PAD": 1}).counters
    assert fused.global_load_bytes + fused.global_store_bytes == 4 * (16 * 128 + 64 * 16 * 9 + 64 * 128)


# ---------------------------------------------------------------- the notebook's tools


def test_right_results_of_matrices():
    exact = matrices(4, 3)
    rows = (exact.At, exact.G, exact.Bt)
    assert lab.right_results(rows, 4, 3) == 4
    assert lab.right_results(None, 4, 3) is lab.right_results((None, None, None), 4, 3) is None
    assert lab.right_results((exact.At, exact.G, exact.G), 4, 3) == 0
    wrong = [list(row) for row in exact.At]
    wrong[2][0] += Fraction(1, 1000)
    assert lab.right_results((wrong, exact.G, exact.Bt), 4, 3) == 3


def test_errors_are_gaps_where_numbers_overflow():
    errors = lab.errors_by_tile([2, 8])
    assert errors["float16"][0] is not None and errors["float16"][1] is None
    assert errors["float64"][1] < 1e-9 < errors["float32"][0]


def test_pictures():
    assert "4 x 4 tiles" in lab.draw_overlap(14).axes[0].get_title()
    titles = [axes.get_title() for axes in lab.draw_shift(14).axes]
    assert "0 windows across" in titles[0] and "33 windows across" in titles[1]


def test_recorded_layers_are_fast():
    table = lab.recorded()
    if not table.rows:
        pytest.skip("no recorded times in benchmarks/results")
    against_fastest = {row[0]: float(row[6]) for row in table.rows}
    assert max(against_fastest.values()) <= 1.0
    ours, called = (sum(float(row[k]) for row in table.rows if row[0].startswith("vgg")) for k in (2, 3))
    assert ours <= 0.5 * called
