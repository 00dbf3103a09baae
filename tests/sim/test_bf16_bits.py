"""Signs of bf16 go by bits: some LLVMs would round the result again, by a routine that is in no process."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptxsim

from .engine_launch import launch

PTX = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to) {
    .reg .b16 %h<7>; .reg .b32 %r<5>; .reg .f32 %f<2>; .reg .b64 %rd<2>;
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
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    ld.global.f32 %f1, [%rd1+8];
    cvt.rn.bf16.f32 %h5, %f1;
    abs.bf16 %h6, %h5;
    st.global.b16 [%rd1+8], %h6;
    ret;
}
"""


def test_no_instruction_of_llvm_computes_with_bf16():
    ir = ptxsim.parse(PTX).kernel("k").listing("ir", 32)
    computing = re.findall(r"\b(?:fabs|fneg|fadd|fsub|fmul|fptrunc|fma)\b[^\n]*bfloat", ir)
    assert "bfloat" in ir and not computing


def test_bits_of_bf16_stay_bits():
    """Of an `and` or `xor` of a bfloat's bits that is a bfloat again LLVM makes fabs and fneg."""
    found = 0
    for function in ptxsim.parse(PTX).kernel("k").listing("ir", 32).split("define ")[1:]:
        made_of_bits = set(re.findall(r"(%\S+) = bitcast [^\n]* to (?:<\d+ x )?bfloat", function))
        bits_again = set(re.findall(r"bitcast (?:<\d+ x )?bfloat>? (%\S+) to", function))
        assert not made_of_bits & bits_again
        found += len(made_of_bits)
    assert found


@pytest.mark.parametrize("options", [{}, {"check": False, "count": False}])
def test_signs_of_rounded_numbers(options):
    numbers = np.linspace(-2, 2, 34, dtype=np.float32)
    left = launch(PTX, "k", (1,), (32,), numbers, tier="compiled", **options).arrays[0][2:]
    rounded = (numbers[2:].view(np.uint32) + 0x7FFF + (numbers[2:].view(np.uint32) >> 16 & 1)) >> 16
    assert (left.view(np.uint16)[::2] == rounded & 0x7FFF).all()
