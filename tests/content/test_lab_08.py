"""What the course promises of lab 08: every road leads to the same convolution, at its own price."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.content.channels_last import ChannelsLast

from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError, NeedsError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve, pipelines

COURSE = Course.find()
LAB = "lab08_convolution/"
CASES = {
    "first layer": {"batch": 3, "channels": 1, "height": 28, "width": 28, "filters": 4, "rows": 5, "cols": 5},
    "one of all": {"batch": 1, "channels": 1, "height": 1, "width": 1, "filters": 1, "rows": 1, "cols": 1},
    "strided": {
        "batch": 2, "channels": 3, "height": 13, "width": 9, "filters": 5, "rows": 3, "cols": 2, "stride": 2, "pad": 1,
    },
    "eleven": {
        "batch": 1, "channels": 2, "height": 19, "width": 23, "filters": 3, "rows": 11, "cols": 11, "stride": 4,
        "pad": 2,
    },
}  # fmt: skip
ONE_FILE = ("01_direct", "03_direct_shared", "04_direct_multi_image", "06_im2col_gemm", "07_implicit_gemm")


@cache
def program(step: str, **constants: int) -> Program:
    found = COURSE.step(step if "/" in step else LAB + step)
    return Program(
        parse_contract(found.solution.read_text("utf-8"), name=found.file_name), device="sim", constants=constants
    )


@cache
def roads() -> dict[str, pipelines.Pipeline]:
    found: dict[str, pipelines.Pipeline] = {name: pipelines.OneFile(program(name)) for name in ONE_FILE}
    found["02_direct_constant"] = pipelines.RollingConstant(program("02_direct_constant"))
    found["10_fft"] = pipelines.Fft(program("10_fft"))
    return found


@pytest.mark.parametrize("name", roads())
@pytest.mark.parametrize("case", CASES)
@pytest.mark.thinned(3)
def test_every_road_is_right_for_every_stride_padding_and_size(name, case):
    problem = Convolution(**CASES[case])
    x, w = problem.arrays(np.random.default_rng(5))
    result = pipelines.run(roads()[name], x, w, stride=problem.stride, pad=problem.pad)
    expected = convolve(x, w, stride=problem.stride, pad=problem.pad)
    assert result.hazards == ()
    assert not np.abs(result.y.get() - expected).max() > 2e-5
    assert result.y.shape == problem.output_shape


@pytest.mark.parametrize("case", CASES)
def test_integers_on_tensor_cores_are_exact(case):
    problem = Convolution(**CASES[case])
    x, w = problem.arrays(np.random.default_rng(5), np.int8)
    result = pipelines.run(pipelines.OneFile(program("09_int8_wmma")), x, w, stride=problem.stride, pad=problem.pad)
    assert result.hazards == () and result.y.dtype == np.int32
    np.testing.assert_array_equal(result.y.get(), convolve(x, w, stride=problem.stride, pad=problem.pad))


@pytest.mark.parametrize("case", CASES)
def test_half_precision_is_rounded_once(case):
    problem = Convolution(**CASES[case])
    x, w = problem.arrays(np.random.default_rng(5), np.float16)
    own = ChannelsLast(program("11_fp16_implicit_gemm"))
    result = pipelines.run(own, x, w, stride=problem.stride, pad=problem.pad)
    expected = convolve(x, w, stride=problem.stride, pad=problem.pad)
    assert result.hazards == () and result.y.shape == problem.output_shape
    assert not (np.abs(result.y.get() - expected) > 2.0**-11 * np.abs(expected) + 1e-4).any()


@pytest.mark.parametrize("name", roads())
def test_every_road_refuses_shapes_that_do_not_fit_and_shows_both(name):
    with pytest.raises(ArgumentError, match=r"\[1, 2, 5, 5\], filters \[1, 3, 3, 3\]"):
        pipelines.run(roads()[name], np.zeros((1, 2, 5, 5), np.float32), np.zeros((1, 3, 3, 3), np.float32))


@pytest.mark.parametrize(
    "constants", [{"FILTER_R": 3, "FILTER_S": 3, "SETS": 2}, {"FILTER_R": 3, "FILTER_S": 3, "QUADS": 1}]
)
def test_register_tiles_for_other_filters(constants):
    problem = Convolution(batch=9, channels=3, height=10, width=14, filters=9, rows=3, cols=3, pad=1)
    x, w = problem.arrays(np.random.default_rng(6))
    own = program("12_register_tiles", **constants)
    result = pipelines.run(pipelines.OneFile(own), x, w, pad=1)
    assert result.hazards == () and not np.abs(result.y.get() - convolve(x, w, pad=1)).max() > 2e-5
    with pytest.raises(NeedsError, match="R == FILTER_R"):
        pipelines.run(pipelines.OneFile(own), x, np.zeros((9, 3, 5, 5), np.float32), pad=1)


def test_register_tiles_for_one_size():
    problem = Convolution(batch=7, channels=1, height=9, width=12, filters=8, rows=5, cols=5, pad=0)
    fixed = {"FIXED_C": 1, "FIXED_H": 9, "FIXED_W": 12, "FIXED_F": 8, "FIXED_PAD": 0}
    x, w = problem.arrays(np.random.default_rng(7))
    own = program("12_register_tiles", **fixed, SETS=4, IMAGES=2, QUADS=1)  # two sets keep the filters of their stage
    result = pipelines.run(pipelines.OneFile(own), x, w)
    assert result.hazards == () and not np.abs(result.y.get() - convolve(x, w)).max() > 2e-5
    with pytest.raises(NeedsError, match="FIXED_F"):
        pipelines.run(pipelines.OneFile(own), x, w[:5])


@pytest.mark.parametrize(("edge", "channels", "reuse"), [(24, 1, 18.37), (8, 4, 11.11)])
def test_reuse_of_the_shared_tile_is_what_the_formula_says(edge, channels, reuse):
    problem = Convolution(
        batch=1, channels=channels, height=edge + 4, width=edge + 4, filters=4, rows=5, cols=5
    )  # fmt: skip
    x, w = problem.arrays(np.random.default_rng(8))
    counters = pipelines.run(pipelines.OneFile(program("03_direct_shared")), x, w).counters
    loads = counters.global_load_bytes // 4 - problem.filters * problem.terms  # without those of the filters
    assert problem.products / loads == pytest.approx(25 * edge**2 / (edge + 4) ** 2) == pytest.approx(reuse, abs=0.01)


def test_im2col_stores_the_matrix_and_implicit_gemm_does_not():
    problem = Convolution(batch=2, channels=8, height=12, width=12, filters=64, rows=5, cols=5)
    x, w = problem.arrays(np.random.default_rng(9))
    stored = {
        step: pipelines.run(pipelines.OneFile(program(step)), x, w)
        for step in ("06_im2col_gemm", "07_implicit_gemm")
    }  # fmt: skip
    results, matrix = 4 * 2 * 64 * 64, 4 * 2 * problem.terms * 64
    assert stored["06_im2col_gemm"].scratch_bytes == matrix
    assert stored["06_im2col_gemm"].counters.global_store_bytes == results + matrix
    assert stored["07_implicit_gemm"].scratch_bytes == 0
    assert stored["07_implicit_gemm"].counters.global_store_bytes == results


def test_constant_memory_is_filled_part_by_part():
    problem = Convolution(batch=1, channels=32, height=12, width=12, filters=64, rows=5, cols=5)
    assert pipelines.parts(problem) == [(0, 16), (16, 16), (32, 16), (48, 16)]
    huge = Convolution(batch=1, channels=1000, height=12, width=12, filters=1, rows=5, cols=5)
    with pytest.raises(ArgumentError, match="25,000 elements; constant memory holds 16,384"):
        pipelines.parts(huge)


def test_frequencies_save_operations_for_large_filters_only():
    saved = []
    for window in (1, 3, 5, 7, 9, 11):
        problem = Convolution(
            batch=4, channels=16, height=32, width=32, filters=16, rows=window, cols=window, pad=window // 2
        )
        saved.append(pipelines.transform_flop(problem) + pipelines.product_flop(problem) < problem.flop)
    assert not saved[0] and saved[-1] and saved == sorted(saved)
