"""wgmma in every kind of shape, type, layout and source: engine and oracle agree bit for bit, and with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from ptxsim import oracle
from ptxsim.codegen.translation import translate
from ptxsim.codegen.unit import Options
from ptxsim.fragments import fragment

from .warpgroup_cases import CASES, Arguments, Case, arguments, program


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.thinned(10)
def test_engine_oracle_and_numpy_agree(case: Case):
    given = arguments(case)
    shared, registers, words = given.shared, given.sums, given.held
    held_d = fragment("wgmma", f"m16n{case.n}k{case.k}", case.d, "d")
    kernel = ptxsim.parse(program(case)).kernel("k")
    found = []
    for how in ("full", "masked", "oracle"):
        memory = ptxsim.Memory()
        arrays = [memory.allocate(x.nbytes, "x") for x in (shared, registers, words)]
        for array, x in zip(arrays, (shared, registers, words), strict=True):
            array.view()[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        params = (*arrays, np.uint64(given.describe_a), np.uint64(given.describe_b), np.uint32(case.adds))
        if how == "oracle":
            counters = oracle.run(kernel, 1, 128, params, memory, shared_bytes=65536).counters
        else:
            record = kernel.launch(1, 128, params, memory, shared_bytes=65536, parted=how == "masked")
            assert not record.hazards
            counters = record.counters
        found.append((arrays[1].view().copy(), {n: v for n, v in counters.items() if n.startswith("tensor")}))
    assert found[0][1] == found[1][1] == found[2][1] and found[0][1]["tensor_instructions"] == 4
    assert (found[0][0] == found[1][0]).all() and (found[0][0] == found[2][0]).all()
    wanted = (given.a * case.signs[0]) @ (given.b * case.signs[1]).T + (given.start if case.adds else 0)
    words_d = found[0][0].view(np.uint32).reshape(4, 32, -1)
    element = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[case.d]
    result = np.zeros((64, case.n))
    for w in range(4):
        values = words_d[w].reshape(32, -1, 1).view(element)[..., : held_d.elements]
        result[held_d.positions[..., 0] + 16 * w, held_d.positions[..., 1]] = values
    tolerance = {"f32": 1e-5, "f16": 2e-3, "s32": 0}[case.d] * max(1.0, np.abs(wanted).max())
    assert np.abs(result - wanted).max() <= tolerance


def _sums(kernel: ptxsim.SimKernel, given: Arguments, *, by_oracle: bool, tier: str = "compiled") -> np.ndarray:
    """The registers of D when a case's kernel has run."""
    memory = ptxsim.Memory()
    arrays = [memory.allocate(x.nbytes, "x") for x in (given.shared, given.sums, given.held)]
    for array, x in zip(arrays, (given.shared, given.sums, given.held), strict=True):
        array.view()[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    params = (*arrays, np.uint64(given.describe_a), np.uint64(given.describe_b), np.uint32(1))
    if by_oracle:
        oracle.run(kernel, 1, 128, params, memory, shared_bytes=65536)
    else:
        kernel.launch(1, 128, params, memory, shared_bytes=65536, tier=tier)
    return arrays[1].view().copy()


@pytest.mark.parametrize("between", [0, 2])
def test_a_chain_keeps_each_products_registers(between: int):
    """However many instructions stand between two products on the same sums, each has its own left side."""
    case = Case(64, "f32", "f16", "f16", in_registers=True)
    text = program(case)
    product = next(part for part in text.split(";") if "mma_async" in part)
    second = product.replace("%a0, %a1, %a2, %a3", "%r5, %r5, %r5, %r5")
    assert second != product
    text = text.replace(product + ";", f"{product};{'mov.b32 %r5, 0;' * (between + 1)}{second};")
    kernel = ptxsim.parse(text).kernel("k")
    given = arguments(case)
    assert (_sums(kernel, given, by_oracle=False) == _sums(kernel, given, by_oracle=True)).all()


@pytest.mark.parametrize("tier", ["stencils", "compiled"])
def test_more_products_than_are_kept_ready(tier: str):
    case = Case(8, "f32", "f16", "f16")
    text = program(case)
    product = next(part for part in text.split(";") if "mma_async" in part)
    kernel = ptxsim.parse(text.replace(product + ";", (product + ";") * 40)).kernel("k")
    given = arguments(case)
    assert (_sums(kernel, given, by_oracle=False, tier=tier) == _sums(kernel, given, by_oracle=True)).all()


def test_each_block_with_a_few_products_keeps_few_ready():
    """Room for all that a kernel has would not stay in the host's caches."""
    text = program(Case(256, "f32", "f16", "f16"))
    assert translate(ptxsim.parse(text).kernel("k").body, (128, 1, 1), Options()).unit.wide_entries == 4
