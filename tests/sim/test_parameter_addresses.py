"""Places among the parameters that lanes work out: `ld.param` through a register, generic pointers to parameters."""

from __future__ import annotations

import numpy as np
import pytest

from . import engine_launch, oracle_launch
from .oracle_launch import entry

BODY = """
    .reg .pred %p<2>; .reg .b16 %h<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.b64 %rd3, many;
    cvta.param.u64 %rd4, %rd3;
    add.s64 %rd5, %rd3, %rd2;
    add.s64 %rd6, %rd4, %rd2;
    ld.param.u32 %r2, [%rd5];                 // each lane its own
    ld.u32 %r3, [%rd6+4];                     // by a generic pointer
    and.b64 %rd7, %rd2, 64;
    add.s64 %rd7, %rd3, %rd7;
    ld.param.v2.u32 {%r4, %r5}, [%rd7];       // the same for half of them
    setp.lt.u32 %p1, %r1, 7;
    @%p1 ld.param.u16 %h1, [%rd5+6];          // some lanes alone
    @!%p1 mov.u16 %h1, 1;
    cvt.u32.u16 %r6, %h1;
    mad.lo.u32 %r7, %r2, 3, %r3;
    mad.lo.u32 %r7, %r4, %r5, %r7;
    mad.lo.u32 %r7, %r6, 100, %r7;
    st.global.u32 [%rd1], %r7;
    ret;
"""
PARAMS = ".param .u64 out, .param .align 4 .b8 many[136]"
MANY = np.arange(5, 39, dtype=np.uint32)


@pytest.mark.parametrize("how", [{}, {"tier": "stencils"}, {"parted": True}, {"check": False, "count": False}], ids=str)
def test_parameters_are_found_by_their_addresses(how):
    arguments = np.zeros(32, np.uint32), MANY.tobytes()
    text = entry(BODY, params=PARAMS)
    ours = engine_launch.launch(text, "k", 1, 32, *arguments, **how)
    theirs = oracle_launch.launch(text, "k", 1, 32, *arguments)
    lane = np.arange(32)
    half = np.where(lane < 16, 0, 16)
    low = np.where(lane < 7, MANY[lane + 1] >> 16, 1)
    wanted = MANY[lane] * 3 + MANY[lane + 1] + MANY[half] * MANY[half + 1] + low * 100
    assert ours.arrays[0].tolist() == theirs.arrays[0].tolist() == wanted.tolist()
    assert not ours.record.hazards


@pytest.mark.parametrize("access", ["ld.param.u32 %r2, [%rd5+8];", "ld.u32 %r2, [%rd6+8];"])
def test_a_place_behind_the_parameters_is_told(access):
    """The last lane's is 4 bytes behind them; it reads 0, and the others what is there."""
    body = BODY.replace("ld.param.u32 %r2, [%rd5];", access).replace("ld.u32 %r3, [%rd6+4];", "mov.u32 %r3, 0;")
    ours = engine_launch.launch(entry(body, params=PARAMS), "k", 1, 33, np.zeros(33, np.uint32), MANY.tobytes())
    (hazard,) = [h for h in ours.record.hazards if h.thread == (32, 0, 0)]
    assert hazard.kind == "out-of-bounds" and hazard.access == "read"
    if "param" in access:
        assert "the kernel's parameters: 0 bytes behind its 144" in hazard.message


def test_no_launch_sees_what_another_one_did_to_its_parameters():
    """A store through a pointer to a parameter has no meaning; what it does is over with the launch."""
    text = entry(
        """
        .reg .b32 %r<3>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [out];
        mov.b64 %rd2, many;
        cvta.param.u64 %rd3, %rd2;
        ld.u32 %r1, [%rd3];
        st.global.u32 [%rd1], %r1;
        st.u32 [%rd3], 99;
        ret;
        """,
        params=PARAMS,
    )
    from ptxsim import Memory, parse

    kernel, memory = parse(text).kernel("k"), Memory()
    out = memory.allocate(4, "out")
    for _ in range(2):
        kernel.launch(1, 1, (out, MANY.tobytes()), memory)
        assert out.view().view(np.uint32)[0] == MANY[0]
