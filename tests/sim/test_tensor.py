"""Matrix instructions on the translated simulator: against the oracle bit for bit, NumPy, and the H200's counts."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.fragments import MMA_SHAPES, WMMA_SHAPES, fragment, quarter_fragment
from ptxsim.limits import WARP

from . import engine_launch, oracle_launch, tensor_cases

CASES = tensor_cases.products()
BY_TYPES = {(c.product.instruction, c.product.shape, c.product.a): c for c in CASES}
"""One case per instruction, shape and type of A."""


def words_of(case, special: bool) -> list[np.ndarray]:
    rng = np.random.default_rng([CASES.index(case), special])
    inputs = [tensor_cases.words(rng, case.product.fragment(x), special) for x in "abc"]
    return [*inputs, np.zeros_like(tensor_cases.words(rng, case.product.fragment("d"), False))]


def compare(case, special: bool, **options) -> None:
    again = 2 if case.product.c == case.product.d else 1
    ptx, arguments = tensor_cases.register_kernel(case, repeat=again), words_of(case, special)
    expected = oracle_launch.launch(ptx, "k", (1,), (WARP,), *arguments)
    found = engine_launch.launch(ptx, "k", (1,), (WARP,), *arguments, **options)
    np.testing.assert_array_equal(found.arrays[3], expected.arrays[3])
    assert not found.record.hazards
    for name in ("tensor_instructions", "tensor_pipe_instructions", "tensor_operations"):
        assert found.counters.get(name, 0) == expected.counters.get(name, 0), name


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "any bits"])
@pytest.mark.parametrize("key", BY_TYPES, ids="-".join)
@pytest.mark.thinned(3)
def test_product_equals_the_oracle(key, special):
    compare(BY_TYPES[key], special)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"parted": True}], ids=["whole", "parted"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_product_equals_the_oracle(case, options):
    for special in (False, True):
        compare(case, special, **options)


@pytest.mark.parametrize("instruction, shapes", [("wmma", WMMA_SHAPES), ("mma", MMA_SHAPES)])
def test_fragments_hold_every_element_equally_often(instruction, shapes):
    for shape, types in shapes.items():
        for type_ in types.split():
            for operand in "ab":
                if (instruction, shape, type_) == ("mma", "m8n8k4", "f16"):
                    held = quarter_fragment(type_, operand, "row")
                else:
                    held = fragment(instruction, shape, type_, operand)
                places = held.positions.reshape(-1, 2)
                flat = places[:, 0] * held.columns + places[:, 1]
                assert (np.bincount(flat, minlength=held.rows * held.columns) == held.copies).all()
                lane, register, element = np.moveaxis(held.owners, -1, 0)
                grid = np.moveaxis(np.indices((held.rows, held.columns)), 0, -1)
                np.testing.assert_array_equal(held.positions[lane, register, element], grid)
