"""The stencils that most kernels use, made before anybody waits for them: by processes of which many others come.

Arithmetic of whole numbers, addresses, predicates and f32; loads and stores; copies by cp.async. A stencil that is
missing here is made when a kernel first needs it.
"""

from __future__ import annotations

import functools

from ptxsim.codegen.translation import translate
from ptxsim.codegen.unit import Options
from ptxsim.kernel.cfg import build_kernel
from ptxsim.syntax.parse import parse

# %f: numbers that are loaded; %g: numbers that are computed, whose NaNs are put right where they are looked at
_REGISTERS = """
    .reg .pred %p<4>; .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<5>, %g<5>;
    mul.f32 %g1, %f1, %f2; mul.f32 %g2, %f1, %f2; mul.f32 %g3, %f1, %f2; mul.f32 %g4, %f1, %f2;
"""
_COMPUTING = """
    mov.u32 %r1, 7; mov.u32 %r1, %r2; not.b32 %r1, %r2;
    add.s32 %r1, %r2, %r3; add.s32 %r1, %r2, 7; add.s32 %r1, %r1, 7; add.s32 %r1, %r1, %r2; sub.s32 %r1, %r2, %r3;
    mul.lo.s32 %r1, %r2, %r3; mul.lo.s32 %r1, %r2, 7; mul.hi.s32 %r1, %r2, 7;
    mad.lo.s32 %r1, %r2, 7, %r3; mad.lo.s32 %r1, %r2, %r3, %r4;
    div.s32 %r1, %r2, %r3; rem.s32 %r1, %r2, %r3; div.u32 %r1, %r2, %r3;
    min.s32 %r1, %r2, %r3; min.s32 %r1, %r2, 7; max.s32 %r1, %r2, 7;
    shl.b32 %r1, %r2, 7; shr.s32 %r1, %r2, 7; shr.u32 %r1, %r2, 7;
    and.b32 %r1, %r2, 7; or.b32 %r1, %r2, 7; or.b32 %r1, %r2, %r3; xor.b32 %r1, %r2, %r3;
    selp.b32 %r1, %r2, %r3, %p1; selp.b32 %r1, %r2, 7, %p1; selp.b32 %r1, 7, %r2, %p1; selp.u32 %r1, 1, 0, %p1;

    setp.lt.s32 %p1, %r1, %r2; setp.le.s32 %p1, %r1, %r2; setp.gt.s32 %p1, %r1, %r2; setp.ge.s32 %p1, %r1, %r2;
    setp.eq.s32 %p1, %r1, %r2; setp.ne.s32 %p1, %r1, %r2; setp.lt.u32 %p1, %r1, 7; setp.eq.b32 %p1, %r1, 7;
    setp.lt.s32 %p1, %r1, 7; setp.gt.s32 %p1, %r1, 7; setp.eq.s32 %p1, %r1, 7; setp.ne.s32 %p1, %r1, 7;
    and.pred %p1, %p2, %p3; or.pred %p1, %p2, %p3; xor.pred %p1, %p2, %p3; not.pred %p1, %p2; mov.pred %p1, 0;

    mov.u64 %rd1, %rd2; cvta.to.global.u64 %rd1, %rd2; selp.b64 %rd1, %rd2, %rd3, %p1;
    add.s64 %rd1, %rd2, %rd3; add.s64 %rd1, %rd1, %rd2; add.s64 %rd1, %rd2, 7; add.s64 %rd1, %rd1, 7;
    mul.lo.s64 %rd1, %rd2, %rd3; shl.b64 %rd1, %rd2, 7;
    mul.wide.s32 %rd1, %r1, 7; mul.wide.s32 %rd1, %r1, %r2; mul.wide.u32 %rd1, %r1, 7;
    cvt.s64.s32 %rd1, %r1; cvt.u64.u32 %rd1, %r1; cvt.u32.u64 %r1, %rd1;

    mov.f32 %f1, 0f00000000; mov.f32 %g1, 0f00000000; mov.f32 %f1, %f2; mov.f32 %g1, %g2;
    mov.b32 %f1, %r1; mov.b32 %r1, %g1; neg.f32 %g1, %g2; ex2.approx.ftz.f32 %g1, %g2; max.f32 %g1, %g2, %f1;
    add.f32 %g1, %g2, %f1; add.f32 %g1, %g2, %g3; add.f32 %g1, %f1, %f2;
    add.f32 %g1, %f1, 0f3F800000; add.f32 %g1, %g2, 0f3F800000;
    sub.f32 %g1, %g2, %g3; sub.f32 %g1, %f1, %f2; sub.f32 %g1, %f1, %g2;
    mul.f32 %g1, %g2, %f1; mul.f32 %g1, %g2, %g3; mul.f32 %g1, %g2, 0f3F800000;
    fma.rn.f32 %g1, %f1, %f2, %g2; fma.rn.f32 %g1, %f1, %f2, %g1; fma.rn.f32 %g1, %g2, %f1, %g3;
    fma.rn.f32 %g1, %f1, %g2, %g3; fma.rn.f32 %g1, %g2, %f1, %f2;
"""
_MEMORY = """
    ld.global.nc.f32 %f1, [%rd1]; ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    st.global.f32 [%rd1], %f1; st.global.f32 [%rd1], %g1; st.global.v4.f32 [%rd1], {%g1, %g2, %g3, %g4};
    ld.shared.f32 %f1, [%r1]; ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1];
    st.shared.f32 [%r1], %f1; st.shared.f32 [%r1], %g1; st.shared.v4.f32 [%r1], {%f1, %f2, %f3, %f4};
"""
_COPIES = """
    cp.async.ca.shared.global [%r1], [%rd1], 4, 4; cp.async.ca.shared.global [%r1], [%rd1], 4, 0;
    cp.async.cg.shared.global [%r1], [%rd1], 16, 16; cp.async.cg.shared.global [%r1], [%rd1], 16, 0;
    cp.async.wait_all;
"""
_TEXTS = (_COMPUTING + _MEMORY, _MEMORY + _COPIES)


@functools.cache
def usual_stencils(*, wide_vectors: bool) -> dict[str, str]:
    """IR text of functions by name, with counters and checks; this process need not write them again."""
    found: dict[str, str] = {}
    for text in _TEXTS:
        head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{"
        kernel = build_kernel(parse(f"{head}{_REGISTERS}{text}ret;\n}}"), "k")
        made = translate(kernel, (32, 1, 1), Options(parted=True, outlined=True), wide_vectors=wide_vectors)
        found |= made.unit.library
    return found
