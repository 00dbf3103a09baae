"""Bits that look like a NaN stay as they are wherever a GPU moves them; NaNs of f32 arithmetic are the GPU's one."""

from __future__ import annotations

import numpy as np
import pytest

from . import engine_launch, oracle_launch
from .oracle_launch import entry

ODD, OTHER, ONE = 0x7FFAB5D1, 0xFFF41550, 0x7FFFFFFF
"""Two NaNs that no arithmetic gives, and the one that a GPU's does."""
HEAD = """
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %d<9>;
ld.param.u64 %d0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %d1, %r0, 4;
add.u64 %d0, %d0, %d1;
ld.global.u32 %r1, [%d0];
ld.global.f32 %f1, [%d0];
mov.f32 %f2, 0f7F800000;
mul.f32 %f3, %f2, 0f00000000;
setp.gt.u32 %p0, %r0, 15;
"""
MOVED = {
    "copy of what is added too": ("mov.b32 %r2, %f3; selp.b32 %r2, %r2, 7, %p0; add.u32 %r2, %r1, 0; mov.b32 %r3, %r2;",
                                  "%r3", None),
    "copied on": ("@%p0 mov.b32 %r2, %f3; @!%p0 add.u32 %r2, %r1, 0; mov.b32 %r3, %r2; mov.b32 %r4, %r3;", "%r4", ONE),
    "selected": ("selp.f32 %f4, %f3, %f1, %p0; mov.b32 %r2, %f4;", "%r2", ONE),
    "selected by a number": ("mov.u32 %r3, 15; sub.s32 %r3, %r0, %r3; add.s32 %r3, %r3, -1;"
                             "slct.f32.s32 %f4, %f3, %f1, %r3; mov.b32 %r2, %f4;", "%r2", ONE),
    "moved and selected": ("mov.f32 %f4, %f1; @%p0 mov.f32 %f4, %f3; mov.b32 %r2, %f4;", "%r2", ONE),
    "a constant": ("mov.f32 %f4, %f3; @!%p0 mov.f32 %f4, 0f7FFAB5D1; mov.b32 %r2, %f4;", "%r2", ONE),
    "arithmetic beside a load": ("mov.f32 %f4, %f1; @%p0 add.f32 %f4, %f3, %f3; mov.b32 %r2, %f4;", "%r2", ONE),
    "a sign": ("copysign.f32 %f4, %f3, %f1; mov.b32 %r2, %f4;", "%r2", None),
}  # fmt: skip


@pytest.mark.parametrize("options", [{"tier": "stencils"}, {"tier": "compiled"}], ids=lambda o: o["tier"])
@pytest.mark.parametrize("how", MOVED)
def test_bits_are_moved_as_they_are(how, options):
    """Lanes 0 to 15 have what was loaded, the others a product of infinity and zero, or all what was loaded."""
    code, result, upper = MOVED[how]
    loaded = np.where(np.arange(32) % 2 == 0, ODD, ODD if how in ("a constant", "a sign") else OTHER).astype(np.uint32)
    ptx = entry(HEAD + code + f"st.global.u32 [%d0], {result}; ret;")
    [ours] = engine_launch.launch(ptx, "k", (1,), (32,), loaded.copy(), **options).arrays
    [oracle] = oracle_launch.launch(ptx, "k", (1,), (32,), loaded.copy()).arrays
    expected = loaded if upper is None else np.where(np.arange(32) > 15, upper, loaded).astype(np.uint32)
    assert [hex(x) for x in oracle] == [hex(x) for x in expected]
    assert [hex(x) for x in ours] == [hex(x) for x in expected]


def test_sums_of_a_loop_are_the_one_nan():
    """A maximum that begins with what was loaded, over numbers of which some are none."""
    code = """
    mov.f32 %f4, %f1;
    mov.u32 %r2, 0;
    AGAIN:
    add.f32 %f5, %f4, 0fFF800000;
    max.f32 %f4, %f4, %f5;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 3;
    @%p1 bra AGAIN;
    st.global.f32 [%d0], %f4; ret;
    """
    loaded = np.where(np.arange(32) % 2 == 0, ODD, 0x7F800000).astype(np.uint32)
    ptx = entry(HEAD + code)
    [ours] = engine_launch.launch(ptx, "k", (1,), (32,), loaded.copy()).arrays
    [oracle] = oracle_launch.launch(ptx, "k", (1,), (32,), loaded.copy()).arrays
    assert [hex(x) for x in ours] == [hex(x) for x in oracle]
    assert set(map(hex, ours[::2])) == {hex(ONE)}


@pytest.mark.parametrize("options", [{}, {"tier": "stencils"}, {"parted": True}])
def test_every_nan_is_widened_as_the_one(options):
    """Seen on an H100: loaded ones, of either sign, and those of arithmetic."""
    body = "ld.global.f32 %f1, [%d0]; cvt.f64.f32 %x1, %f1; st.global.f64 [%d2], %x1; ret;"
    ptx = entry(
        ".reg .f32 %f<2>; .reg .f64 %x<2>; .reg .b32 %r<2>; .reg .b64 %d<4>; mov.u32 %r1, %tid.x;"
        "ld.param.u64 %d0, [from]; mad.wide.u32 %d0, %r1, 4, %d0;"
        "ld.param.u64 %d1, [out]; mad.wide.u32 %d2, %r1, 8, %d1;" + body, params=".param .u64 from, .param .u64 out",
    )  # fmt: skip
    loaded = np.array([ODD, OTHER, ONE, 0xFFC00000, 0x7F800000, 0x3FC00000] + [0] * 26, np.uint32)
    expected = [0x7FFFFFFFE0000000] * 4 + [0x7FF0000000000000, 0x3FF8000000000000] + [0] * 26
    out = np.zeros(32, np.uint64)
    ours = engine_launch.launch(ptx, "k", (1,), (32,), loaded, out.copy(), **options).arrays[1]
    oracle = oracle_launch.launch(ptx, "k", (1,), (32,), loaded, out.copy()).arrays[1]
    assert [hex(x) for x in ours] == [hex(x) for x in expected] == [hex(x) for x in oracle]
