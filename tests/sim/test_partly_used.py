"""Vector loads of which some elements are never read: what these hold, and who writes it meanwhile, does not matter."""

from __future__ import annotations

import numpy as np
import pytest

from .engine_launch import launch
from .oracle_launch import entry

SHARED = """
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<4>;
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.u32 %r2, s;
    shl.b32 %r3, %r1, 4;
    add.s32 %r4, %r2, %r3;
    st.shared.u32 [%r4+FIRST], 5;
    st.shared.u32 [%r4+SECOND], 6;
    xor.b32 %r3, %r3, 496;
    add.s32 %r4, %r2, %r3;
    bar.sync 0;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];
    add.s32 %r5, %rA, %rB;
    st.global.u32 [%rd1], %r5;
    ret;
"""
HOWS = [{}, {"parted": True}, {"tier": "stencils"}, {"order": 3}]


def shared(written: tuple[int, int], read: tuple[int, int]) -> str:
    text = SHARED.replace("FIRST", str(4 * written[0])).replace("SECOND", str(4 * written[1]))
    return entry(text.replace("%rA", f"%r{5 + read[0]}").replace("%rB", f"%r{5 + read[1]}"))


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("elements", [(0, 1), (1, 2), (0, 3)], ids=str)
def test_what_is_not_read_may_be_uninitialized(elements, how):
    outcome = launch(shared(elements, elements), "k", 1, 32, np.zeros(32, np.uint32), **how)
    assert not outcome.record.hazards
    assert (outcome.arrays[0] == 11).all()


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_what_is_read_may_not(how):
    (hazard,) = launch(shared((0, 2), (0, 1)), "k", 1, 32, np.zeros(32, np.uint32), **how).record.hazards
    assert (hazard.kind, hazard.access, hazard.space) == ("uninitialized", "read", "shared")


def test_counters_are_those_of_the_whole_load():
    ptx = shared((0, 1), (0, 1))
    counted = launch(ptx, "k", 1, 32, np.zeros(32, np.uint32)).counters
    whole = ptx.replace("add.s32 %r5, %r5, %r6", "add.s32 %r5, %r5, %r6; add.s32 %r7, %r7, %r8; xor.b32 %r5, %r5, %r7")
    of_all = launch(whole, "k", 1, 32, np.zeros(32, np.uint32)).counters
    for name in ("shared_load_requests", "shared_load_bytes", "shared_load_wavefronts"):
        assert counted[name] == of_all[name] > 0


GLOBAL = """
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 32;
    @%p1 st.global.u32 [%rd1+AT], 5;
    setp.eq.u32 %p2, %r1, 0;
    @!%p2 bra DONE;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];
    add.s32 %r4, %r4, %r5;
    add.s32 %r4, %r4, %r6;
    st.global.u32 [%rd1+16], %r4;
DONE:
    ret;
"""


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize(("at", "races"), [(12, False), (4, True)])
def test_who_writes_meanwhile_what_is_not_read(at, races, how):
    record = launch(entry(GLOBAL.replace("AT", str(at))), "k", 1, 64, np.arange(8, dtype=np.uint32), **how).record
    assert [h.kind for h in record.hazards] == ["race"] * races
