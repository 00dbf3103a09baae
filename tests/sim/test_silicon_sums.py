"""How tensor cores add: an H200's record, to the last bit, and one case for each finding of the studies about them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ptxsim import Memory, parse
from ptxsim.adders import adder
from ptxsim.errors import LaunchError
from ptxsim.oracle.silicon_sums import silicon_product

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import tensor_sums


def bits(values, type_: str) -> np.ndarray:
    single = np.asarray(values, np.float32)
    if type_ == "f16":
        return single.astype(np.float16).view(np.uint16)
    return single.view(np.uint32) >> 16 if type_ == "bf16" else single.view(np.uint32)


def dot(a, b, c: float, type_: str, d: str = "f32", instruction: str = "mma") -> float:
    x, y = bits(a, type_)[None], bits(b, type_)[:, None]
    found = silicon_product(x, y, bits([[c]], d), (type_, type_, d), instruction)
    return float(found.view(np.float16 if d == "f16" else np.float32)[0, 0])


@pytest.mark.parametrize("type_", ["f16", "bf16", "tf32"])
def test_exact_sums_are_exact(type_):
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-16, 17, (4, *shape)) for shape in ((16, 16), (16, 8), (16, 8)))
    found = silicon_product(bits(a, type_), bits(b, type_), bits(c, "f32"), (type_, type_, "f32"))
    np.testing.assert_array_equal(found.view(np.float32), (a @ b + c).astype(np.float32))


def test_terms_far_below_the_largest_are_cut_off_each():
    tiny = 2.0**-13
    assert dot([1, tiny], [1, tiny], 0, "bf16") == 1  # below the result
    assert dot([1, -1, 2.0**-12], [1, 1, 2.0**-13], 0, "bf16") == 2.0**-25  # the last bit that is kept
    assert dot([1, -1, 2.0**-13], [1, 1, 2.0**-13], 0, "bf16") == 0
    assert dot([1, -1, *[2.0**-13] * 8], [1, 1, *[2.0**-13] * 8], 0, "bf16") == 0  # eight of them are no more


def test_the_accumulator_is_a_term_like_others():
    assert dot([2.0**-13], [2.0**-13], 1, "bf16") == 1
    assert dot([1, -1], [1, 1], 2.0**-26, "bf16") == 0


def test_the_exponent_is_that_of_the_factors():
    # 1.5 * 1.5 = 2.25 counts as exponent 0: 2^-25 is kept beside it, and beside 2 * 1 it is not
    assert dot([1.5, -1.5, 2.0**-12], [1.5, 1.5, 2.0**-13], 0, "bf16") == 2.0**-25
    assert dot([2, -2, 2.0**-12], [1, 1, 2.0**-13], 0, "bf16") == 0


def test_results_are_cut_off_towards_zero():
    for sign in (1, -1):
        found = dot([1, 2.0**-12], [sign, sign * 1.5 * 2.0**-12], 0, "bf16")
        assert found == sign  # to nearest it would be the next number


def test_half_sums_are_rounded_to_nearest_even():
    assert dot([1, 2.0**-11], [1, 1], 0, "f16", "f16") == 1
    assert dot([1, 2.0**-11, 2.0**-14], [1, 1, 2.0**-4], 0, "f16", "f16") == 1 + 2.0**-10
    assert dot([255, 255], [255, 255], 0, "f16", "f16") == np.inf


def test_groups_follow_each_other():
    assert dot([1] * 16 + [2.0**-12] * 16, [1] * 16 + [2.0**-12] * 16, 0, "bf16") == 16
    assert adder("mma", "f16", "f32").group == 16 and adder("mma", "tf32", "f32").group == 8
    # within one group of eight the first two cancel; in different ones they do not
    a = [2.0**13, *[0] * 3, -(2.0**13), *[0] * 3, 1] + [0] * 7
    assert dot(a, [2.0**13] * 8 + [1] * 8, 0, "tf32") == 1


def test_eight_bit_numbers_have_a_narrow_adder_in_warpgroups():
    ones = np.full((1, 32), 0x38, np.uint8)
    c = np.array([[2.0**14]], np.float32).view(np.uint32)
    for instruction, wanted in (("wgmma", 2.0**14), ("mma", 2.0**14 + 32)):  # each 1 lies 14 bits below
        found = silicon_product(ones, ones.T, c, ("e4m3", "e4m3", "f32"), instruction)
        assert found.view(np.float32)[0, 0] == wanted


def test_infinities_and_nans():
    inf, nan = np.inf, np.nan
    assert dot([inf, 1], [1, 1], 0, "f16") == inf
    assert dot([inf, 1], [-1, 1], 0, "f16") == -inf
    for a, b, c in (([inf, inf], [1, -1], 0), ([inf], [0], 0), ([nan], [1], 0), ([inf], [1], -inf), ([1], [1], nan)):
        x, y = bits(a, "f16")[None], bits(b, "f16")[:, None]
        found = silicon_product(x, y, bits([[c]], "f32"), ("f16", "f16", "f32"))
        assert found[0, 0] == 0x7FFFFFFF


def test_subnormal_numbers_count():
    least = 2.0**-24
    assert dot([least], [1], 0, "f16") == least
    assert dot([least], [1], 0, "f16", "f16") == least
    assert dot([2.0**-100], [2.0**-49], 0, "bf16") == 2.0**-149
    assert dot([2.0**-100], [2.0**-50], 0, "bf16") == 0
    assert dot([0], [0], 2.0**-149, "bf16") == 2.0**-149


# ---------------------------------------------------------------- a GPU's record

RECORD = Path(__file__).parent / "data" / "silicon_sums.npz"


@pytest.fixture(scope="module")
def recorded():
    with np.load(RECORD) as archive:
        return {name: archive[name] for name in archive.files}


def simulated(kind: tensor_sums.Kind, a, b, c, how: str) -> np.ndarray:
    memory = Memory()
    allocations = []
    for k, x in enumerate(tensor_sums.operands(kind, a, b, c)):
        allocations.append(memory.allocate(x.nbytes, f"operand {k}"))
        allocations[-1].view()[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    block = 128 if kind.instruction == "wgmma" else 32
    kernel = parse(tensor_sums.program(kind)).kernel("k")
    record = kernel.launch(len(a), block, allocations, memory, tensor_sums=how)
    assert not record.hazards
    return tensor_sums.results(kind, allocations[2].view().view(np.uint32).copy())


@pytest.mark.parametrize("kind", tensor_sums.KINDS, ids=lambda k: k.name)
@pytest.mark.thinned(3)
def test_every_bit_is_that_of_the_gpu(kind, recorded):
    a, b, c, d = (recorded[f"{kind.name}/{name}"] for name in "abcd")
    types = kind.ab, kind.ab, kind.d
    np.testing.assert_array_equal(silicon_product(a, b, c, types, kind.instruction), d)
    np.testing.assert_array_equal(simulated(kind, a, b, c, "hopper"), d)
    assert (simulated(kind, a, b, c, "ordered") != d).any()  # else the record would show nothing


def test_other_ways_to_add_are_refused():
    kind = tensor_sums.KINDS[0]
    with pytest.raises(LaunchError, match="ordered, hopper"):
        simulated(kind, *tensor_sums.inputs(kind, 8), "volta")
