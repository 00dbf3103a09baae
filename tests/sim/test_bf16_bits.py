"""Signs of bf16 go by bits: some LLVMs would round the result again, by a routine that is in no process."""

from __future__ import annotations

import re

import ptxsim

PTX = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to) {
    .reg .b16 %h<5>; .reg .b32 %r<5>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    ld.global.b16 %h1, [%rd1];
    ld.global.b32 %r1, [%rd1+4];
    abs.bf16 %h2, %h1;
    neg.bf16 %h3, %h2;
    min.xorsign.abs.bf16 %h4, %h3, %h1;
    abs.bf16x2 %r2, %r1;
    neg.bf16x2 %r3, %r2;
    sub.rn.bf16x2 %r4, %r3, %r1;
    st.global.b16 [%rd1], %h4;
    st.global.b32 [%rd1+4], %r4;
    ret;
}
"""


def test_no_instruction_of_llvm_computes_with_bf16():
    ir = ptxsim.parse(PTX).kernel("k").listing("ir", 32)
    computing = re.findall(r"\b(?:fabs|fneg|fadd|fsub|fmul|fptrunc|fma)\b[^\n]*bfloat", ir)
    assert "bfloat" in ir and not computing
