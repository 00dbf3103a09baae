"""Products that the simulator computes together: which ones, and that nothing of it shows."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.codegen.tensor_frames import product_groups
from ptxsim.codegen.tensor_products import NARROW, WIDE, Arrangement
from ptxsim.kernel.cfg import build_kernel
from ptxsim.limits import WARP
from ptxsim.syntax.parse import parse

from . import engine_launch, oracle_launch, tensor_cases

CASES = {c.name: c for c in tensor_cases.products()}
HALF = "wmma.row.row.m16n16k16.f32.f32"

BODIES = {
    "side by side": ["d0 = a0 b0 c0", "d1 = a0 b1 c1", "d2 = a1 b0 c2", "d3 = a1 b1 c3"],
    "one sum": ["t0 = a0 b0 c0", "d1 = a1 b1 t0", "d1 = a0 b1 d1", "d1 = a1 b0 d1", "t1 = a0 b0 d1", "d0 = a0 b1 t1"],
    "two steps": [
        "t0 = a0 b0 c0", "t1 = a0 b1 c1", "d0 = a1 b0 t0", "d1 = a1 b1 t1", "t2 < d0", "d0 = a0 b0 t2", "d1 = a0 b1 d1",
    ],
    "looked at": ["d0 = a0 b0 c0", "t1 < d0", "c1 < t1", "d1 = a0 b1 c1", "d1 = a1 b1 d1"],
    "overwritten": ["d0 = a0 b0 c0", "c0 < d1", "d1 = a0 b1 c0", "d0 = a1 b0 d0", "c2 < d3", "d3 = a1 b0 c2"],
    "crossed": ["d0 = a0 b0 d1", "d1 = a0 b1 d0", "d2 = a0 b0 d3", "d3 = a0 b1 d2", "d3 = a1 b1 d2"],
    "kept": ["d0 = a0 b0 c0", "d1 = a1 b1 d0"],
}  # fmt: skip

ORDINARY = [HALF]
SLOW = [
    "wmma.row.row.m16n16k16.f16.f16", "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
    "wmma.row.row.m32n8k16.f32.f32", "wmma.row.col.m8n8k4.f64.f64.f64.f64",
    "wmma.row.col.m16n16k16.s32.s8.u8.s32.satfinite", "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
]  # fmt: skip
KINDS = [*ORDINARY, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def inputs(case, special: bool) -> list[np.ndarray]:
    rng = np.random.default_rng([len(case.name), special])
    held = {x: case.product.fragment(x) for x in "abcd"}
    return [
        np.concatenate([tensor_cases.words(rng, held[x], special) for _ in range(count)])
        for x, count in zip("abcd", (2, 2, 4, 4), strict=True)
    ]


@pytest.mark.parametrize("name", KINDS)
def test_results_are_the_oracle_s(name):
    case = CASES[name]
    for body in BODIES.values():
        ptx = tensor_cases.grouped_kernel(case, body)
        for special in (False, True):
            arguments = inputs(case, special)
            expected = oracle_launch.launch(ptx, "k", (1,), (WARP,), *arguments)
            found = engine_launch.launch(ptx, "k", (1,), (WARP,), *arguments)
            np.testing.assert_array_equal(found.arrays[3], expected.arrays[3], err_msg=str(body))
            assert found.counters["tensor_operations"] == expected.counters["tensor_operations"]


def arrangements(body: list[str], name: str = HALF, registers=WIDE) -> list[tuple[Arrangement, int]]:
    """The groups of a body: how they lie and at which of its products they are computed."""
    (block,) = build_kernel(parse(tensor_cases.grouped_kernel(CASES[name], body)), "k").blocks
    products = [k for k, i in enumerate(block.instructions) if i.opcode in ("mma", "wmma")]
    groups = product_groups(block, registers, lambda operand, form: True)
    unlike = {id(g): g for g in groups.values()}.values()
    return sorted(((g.arrangement, products.index(g.last)) for g in unlike), key=lambda found: found[1])


@pytest.mark.parametrize(
    "body, expected",
    [
        ("side by side", [(Arrangement(side=2), 1), (Arrangement(side=2), 3)]),
        ("one sum", [(Arrangement(deep=2), 1), (Arrangement(deep=2), 3), (Arrangement(deep=2), 5)]),
        ("two steps", [(Arrangement(side=2, deep=2), 3), (Arrangement(side=2), 5)]),
        ("looked at", [(Arrangement(deep=2), 2)]),
        ("overwritten", [(Arrangement(side=2), 3)]),
        ("kept", []),
    ],
)
def test_what_is_computed_together(body, expected):
    assert arrangements(BODIES[body]) == expected


def test_narrow_products_lie_one_above_the_other():
    assert arrangements(["d0 = a0 b0 c0", "d1 = a0 b1 c1"], "mma.m16n8k16.row.col.f32.f16.f16.f32") == [
        (Arrangement(stacked=2), 1)
    ]
    assert arrangements(BODIES["side by side"], registers=NARROW) == []


def test_sums_that_are_rounded_each_time_stay_single():
    assert arrangements(BODIES["one sum"], "wmma.row.row.m16n16k16.f16.f16") == []
    assert arrangements(BODIES["one sum"], "wmma.row.col.m16n16k16.s32.s8.u8.s32.satfinite") == []
