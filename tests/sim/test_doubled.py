"""Launches with one kind of product doubled, and what a launch says that it has stored to."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import LaunchError
from ptxsim.kernel.doubled import KINDS

from . import engine_launch

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
KERNEL = HEAD + """
.visible .entry k(.param .u64 out)
{
    .reg .f32 %f<8>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    setp.lt.u32 %p0, %r0, 16;
    mov.f32 %f0, 0f40400000;
    mov.f32 %f1, 0f3F800000;
    BODY
    st.global.f32 [%rd2], %f1;
    ret;
}
"""
# %f0 is 3 and %f1 is 1 before; the results for lanes below 16, and for the others, as they are and doubled
CASES = {
    "fma": ("fma.rn.f32 %f1, %f0, %f0, %f1;", (10, 10), (19, 19)),
    "its own operand": ("fma.rn.f32 %f1, %f1, %f0, %f0;", (6, 6), (9, 9)),
    "mul": ("mul.f32 %f1, %f0, %f0;", (9, 9), (18, 18)),
    "guarded": ("@%p0 fma.rn.f32 %f1, %f0, %f0, %f1;", (10, 1), (19, 1)),
    "add": ("add.f32 %f1, %f0, %f0;", (6, 6), (6, 6)),
    "integer": ("mul.lo.u32 %r1, %r0, 0; cvt.rn.f32.u32 %f1, %r1;", (0, 0), (0, 0)),
    "doubles": (
        ".reg .f64 %d<2>; cvt.f64.f32 %d0, %f0; mul.f64 %d0, %d0, %d0; cvt.rn.f32.f64 %f1, %d0;", (9, 9), (9, 9)
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"parted": True}, {"tier": "stencils"}, {"tier": "compiled"}])
@pytest.mark.parametrize("name", CASES)
def test_products_of_single_precision_count_twice(name, options):
    body, plain, twice = CASES[name]
    ptx, out = KERNEL.replace("BODY", body), np.zeros(32, np.float32)
    for kind, wanted in (("", plain), ("products", twice), ("dots", plain)):
        got = engine_launch.launch(ptx, "k", 1, 32, out, doubled=kind, **options).arrays[0]
        assert got.tolist() == [wanted[0]] * 16 + [wanted[1]] * 16


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_runs_the_same_program(name):
    body, _, twice = CASES[name]
    program = parse(KERNEL.replace("BODY", body))
    memory = Memory()
    out = memory.allocate(128, "out")
    oracle.run(program.kernel("k").doubled("products"), 1, 32, [out], memory)
    assert out.view().view(np.float32).tolist() == [twice[0]] * 16 + [twice[1]] * 16


def test_four_bytes_at_a_time():
    body = "dp4a.u32.u32 %r2, %r0, %r0, %r0; cvt.rn.f32.u32 %f1, %r2;"
    ptx, out = KERNEL.replace("BODY", body), np.zeros(32, np.float32)
    lanes = np.arange(32)
    for kind, wanted in (("", lanes**2 + lanes), ("dots", 2 * lanes**2 + lanes), ("products", lanes**2 + lanes)):
        assert engine_launch.launch(ptx, "k", 1, 32, out, doubled=kind).arrays[0].tolist() == wanted.tolist()


PACKED = {
    "f16x2": ("fma.rn.f16x2 %r1, %r2, %r2, %r3;", 0x4200_4000, 0x3C00_3C00, (0x4900_4500, 0x4CC0_4880)),
    "bf16x2": ("fma.rn.bf16x2 %r1, %r2, %r2, %r3;", 0x4040_4000, 0x3F80_3F80, (0x4120_40A0, 0x4198_4110)),
    "a product alone": ("mul.rn.f16x2 %r1, %r2, %r3;", 0x4200_4000, 0x4000_4000, (0x4600_4400, 0x4A00_4800)),
}
"""3 and 2 in the two halves, squared, and 1 added; and each of them times 2."""


@pytest.mark.parametrize("tier", ["stencils", "compiled"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_products_count_twice(name, tier):
    body, factors, more, (once, twice) = PACKED[name]
    body = f"mov.b32 %r2, {factors}; mov.b32 %r3, {more}; {body} mov.b32 %f1, %r1;"
    ptx, out = KERNEL.replace("BODY", body).replace("sm_80", "sm_90"), np.zeros(32, np.float32)
    for kind, wanted in (("", once), ("packed products", twice), ("products", once)):
        got = engine_launch.launch(ptx, "k", 1, 32, out, doubled=kind, tier=tier).arrays[0]
        assert got.view(np.uint32).tolist() == [wanted] * 32
        memory = Memory()
        there = memory.allocate(128, "out")
        kernel = parse(ptx).kernel("k")
        oracle.run(kernel.doubled(kind) if kind else kernel, 1, 32, [there], memory)
        assert there.view().view(np.uint32).tolist() == [wanted] * 32


def test_a_copy_brings_zeros():
    body = """.shared .align 16 .b8 s[128]; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4;
    st.global.f32 [%rd2], %f0;
    cp.async.ca.shared.global [%r3], [%rd2], 4; cp.async.wait_all; ld.shared.f32 %f1, [%r3];"""
    ptx, out = KERNEL.replace("BODY", body), np.zeros(32, np.float32)
    assert engine_launch.launch(ptx, "k", 1, 32, out).arrays[0].tolist() == [3] * 32
    assert engine_launch.launch(ptx, "k", 1, 32, out, doubled="copies").arrays[0].tolist() == [0] * 32


def test_another_kind_is_refused():
    with pytest.raises(LaunchError, match="one of products, packed products, dots, tensor products, copies"):
        engine_launch.launch(KERNEL.replace("BODY", ""), "k", 1, 32, np.zeros(32, np.float32), doubled="sums")


def test_nothing_of_another_kind_changes():
    kernel = parse(KERNEL.replace("BODY", CASES["fma"][0])).kernel("k")
    for kind in KINDS:
        changed = [b.instructions for b in kernel.doubled(kind).blocks] != [b.instructions for b in kernel.blocks]
        assert changed is (kind == "products")


STORES = HEAD + """
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd0, [x];
    ld.param.u64 %rd1, [y];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4;
    add.s64 %rd3, %rd0, %rd2;
    add.s64 %rd4, %rd1, %rd2;
    ld.global.f32 %f0, [%rd3];
    BODY
    st.global.f32 [%rd4], %f0;
    ret;
}
"""


@pytest.mark.parametrize("tier", ["stencils", "compiled"])
@pytest.mark.parametrize(
    ("body", "stored_to"),
    [
        ("", ["argument 1"]),
        ("st.global.f32 [%rd3], %f0;", ["argument 0", "argument 1"]),
        (
            "st.volatile.global.f32 [%rd3], 0f3F800000; st.volatile.global.f32 [%rd3], %f0;",
            ["argument 0", "argument 1"],
        ),
        ("st.global.f32 [%rd3], %f0; bar.sync 0; ld.global.f32 %f1, [%rd3+0];", ["argument 0", "argument 1"]),
        ("atom.global.add.f32 %f1, [%rd3], 0f00000000;", ["argument 0", "argument 1"]),
    ],
)
def test_what_was_stored_to_is_told_whatever_it_holds_afterwards(body, stored_to, tier):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    found = engine_launch.launch(STORES.replace("BODY", body), "k", 1, 64, x, y, tier=tier)
    assert sorted(found.record.stored_to) == stored_to
    assert found.arrays[0].tolist() == x.tolist()
