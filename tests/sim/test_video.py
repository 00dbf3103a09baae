"""Video instructions and packed conversions: an H200's results, values by hand, and machine code against the oracle.

Scalar video instructions are not on record: ptxas makes a series of others of them for sm_90, which gives other numbers
than the PTX ISA where words saturate, parts are merged into `.h1`, or products are scaled. They follow the ISA here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction

from .test_forms import SECTIONS

RECORD = Path(__file__).parent / "data" / "silicon_forms.npz"
HOW = pytest.mark.parametrize("how", ["whole", "parted", "oracle"])
_AT_ONCE = 40
"""Lines in a kernel."""


def kernel(lines: list[str], threads: int) -> str:
    """Every thread loads %r2, %r3 and %r4, and stores the %r1 of every line; %p1 is bit 8 of %r4."""
    made = ".reg .pred %p<4>; .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %d<4>;"
    made += "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r5, %tid.x; mul.wide.u32 %d3, %r5, 4;"
    made += "add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;"
    made += "".join(f"ld.global.u32 %r{k + 2}, [%d1+{4 * threads * k}];" for k in range(3))
    made += "and.b32 %r6, %r4, 256; setp.ne.u32 %p1, %r6, 0;\n"
    made += "\n".join(
        f"mov.u32 %r1, 0; {line} st.global.u32 [%d2+{4 * threads * k}], %r1;" for k, line in enumerate(lines)
    )
    head = ".version 8.4\n.target sm_90a\n.address_size 64\n"
    return f"{head}.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n{made}\nret;\n}}\n"


def results(lines: list[str], inputs: np.ndarray, how: str) -> np.ndarray:
    """What each line gives in every thread: shape (lines, threads)."""
    found = []
    for first in range(0, len(lines), _AT_ONCE):
        part, threads = lines[first : first + _AT_ONCE], inputs.shape[1]
        made, memory = parse(kernel(part, threads)).kernel("k"), Memory()
        given, out = memory.allocate(inputs.nbytes), memory.allocate(4 * threads * len(part))
        given.view()[:] = np.ascontiguousarray(inputs).view(np.uint8).reshape(-1)
        if how == "oracle":
            with np.errstate(all="ignore"):
                oracle.run(made, 1, threads, [given, out], memory)
        else:
            assert not made.launch(1, threads, [given, out], memory, parted=how == "parted").hazards
        found.append(out.view().view(np.uint32).reshape(-1, threads).copy())
    return np.concatenate(found)


@pytest.fixture(scope="module")
def recorded():
    with np.load(RECORD) as data:
        return dict(data)


@HOW
@pytest.mark.thinned(2)
def test_results_are_those_of_an_h200(recorded, how):
    lines, wanted = [str(line) for line in recorded["lines"]], recorded["results"]
    found = results(lines, recorded["inputs"], how)
    for line, own, other in zip(lines, found, wanted, strict=True):
        if line.startswith(("sin", "cos")):  # approximations: 2^-20.5 for small angles, and no bound for large ones
            x, y = (v.view(np.float32).astype(np.float64) for v in (own, other))
            assert (np.isnan(x) == np.isnan(y)).all(), line
            assert np.nanmax(np.abs(x - y)) < 1e-6, line
        else:
            assert (own == other).all(), line


def test_a_zero_has_the_sine_of_its_sign():
    for how in ("whole", "parted", "oracle"):
        inputs = np.array([[0x80000000, 0, 0x80000001, 0x00000001]] * 3, np.uint32)
        (found,) = results(["sin.approx.f32 %r1, %r2;"], inputs, how)
        assert found.tolist() == [0x80000000, 0, 0x80000000, 0]


BY_HAND = {
    "vadd.u32.u32.u32 %r1, %r2.b1, %r3.h1;": 0x80 + 0xFFF0,
    "vadd.s32.s32.s32 %r1, %r2.b1, %r3.h1;": -0x80 - 0x10,
    "vadd.u32.s32.s32.sat %r1, %r2.b1, %r3.h1;": 0,
    "vadd.s32.s32.u32.sat %r1.b2, %r2.h0, %r3.b0, %r4;": 0x01807F05,  # -32767 + 0x12 ends at -128
    "vsub.u32.u32.u32 %r1.h1, %r2.b0, %r3.b0, %r4;": 0xFFEF7F05,  # 1 - 0x12, in the upper half
    "vsub.s32.u32.u32.add %r1, %r2.b0, %r3.b0, %r4;": 0x01117F05 - 0x11,
    "vabsdiff.u32.s32.u32 %r1, %r2.b1, %r3.b0;": 0x80 + 0x12,
    "vmin.s32.s32.s32.max %r1, %r2.h0, %r3.h1, %r4;": 0x01117F05,
    "vmax.u32.u32.u32 %r1.b0, %r2.b1, %r3.b0, %r4;": 0x01117F80,
    "vshl.u32.u32.u32.sat.clamp %r1, %r2.b1, %r4.b1;": 0xFFFFFFFF,  # 0x80 by 32 at most
    "vshl.u32.u32.u32.wrap %r1, %r2.b1, %r4.b0;": 0x80 << 5,
    "vshr.s32.s32.u32.clamp %r1, %r2.b1, %r4.b0;": -0x80 >> 5,
    "vmad.u32.u32.u32 %r1, %r2.b1, %r3.b0, %r4;": 0x80 * 0x12 + 0x01117F05,
    "vmad.s32.s32.u32 %r1, %r2.b1, %r3.b0, %r4;": -0x80 * 0x12 + 0x01117F05,
    "vmad.s32.u32.u32 %r1, -%r2.b1, %r3.b0, %r4;": -0x80 * 0x12 + 0x01117F05,
    "vmad.s32.u32.u32 %r1, %r2.b1, %r3.b0, -%r4;": 0x80 * 0x12 - 0x01117F05,
    "vmad.u32.u32.u32.po %r1, %r2.b1, %r3.b0, %r4;": 0x80 * 0x12 + 0x01117F06,
    "vmad.u32.u32.u32.sat.shr7 %r1, %r2, %r3, %r4;": 0xFFFFFFFF,
    "vmad.u32.u32.u32.shr15 %r1, %r2.h0, %r3.h1, %r4;": 0x8001 * 0xFFF0 + 0x01117F05 >> 15,
    "vset.s32.u32.lt %r1, %r2.b1, %r3.b0;": 1,
    "vset.u32.u32.lt.add %r1, %r2.b1, %r3.b0, %r4;": 0x01117F05,
    "vset.u32.u32.ge %r1.b3, %r2.b1, %r3.b0, %r4;": 0x01117F05,
    "vadd2.u32.u32.u32 %r1.h1, %r2.h10, %r3.h32, %r4;": 0xFFF87F05,
    "vadd4.u32.u32.u32.add %r1, %r2, %r3, %r4;": 0x01117F05 + 0x80 + 0x1 + 0x8 + 0xFF + 0xF0 + 0x34 + 0x12,
    "vset4.u32.u32.gt %r1.b10, %r2, %r3, %r4;": 0x01110100,
    "cvt.pack.sat.u8.s32.b32 %r1, %r2, %r3, %r4;": 0x7F05FF00,
    "cvt.pack.sat.s16.s32 %r1, %r2, %r3;": 0x7FFF8000,
}
"""Of 0x00088001, 0xFFF03412 and 0x01117F05."""


@HOW
def test_values_by_hand(how):
    inputs = np.array([[0x00088001], [0xFFF03412], [0x01117F05]], np.uint32).repeat(32, axis=1)
    found = results(list(BY_HAND), inputs, how)
    for (line, wanted), own in zip(BY_HAND.items(), found, strict=True):
        assert set(own.tolist()) == {wanted % (1 << 32)}, f"{line} {own[0]:#x}, not {wanted % (1 << 32):#x}"


@pytest.mark.parametrize("how", ["whole", "parted"])
@pytest.mark.slow
def test_machine_code_gives_what_the_oracle_gives(recorded, how):
    lines = [line for line in SECTIONS["Video (9.7.17)"] if "." in line]
    assert (results(lines, recorded["inputs"], how) == results(lines, recorded["inputs"], "oracle")).all()


def test_parts_are_taken_in_a_function_that_is_inlined():
    function = """.func (.param .b32 r) upper(.param .b32 a)
    { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; vadd.u32.u32.u32 %r2, %r1.h1, 0; st.param.b32 [r], %r2; ret; }"""
    call = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call (y), upper, (x); ld.param.b32 %r1, [y]; }"
    text = kernel([call], 32).replace(".visible", f"{function}\n.visible")
    made, memory = parse(text).kernel("k"), Memory()
    given, out = memory.allocate(4 * 96), memory.allocate(4 * 32)
    given.view().view(np.uint32)[:] = 0x12345678
    made.launch(1, 32, [given, out], memory)
    assert set(out.view().view(np.uint32).tolist()) == {0x1234}


@pytest.mark.parametrize(
    "line",
    [
        "vadd.u32.u32.u32 %r1, %r2.b4, %r3;", "vadd.u32.u32.u32 %r1, %r2.h2, %r3;",
        "vadd.u32.u32.u32 %r1.b0, %r2, %r3;",
        "vadd.u32.u32.u32.add %r1, %r2, %r3;", "vadd.u32.u32.u32.add.min %r1, %r2, %r3, %r4;",
        "vadd.u32.u32.u32.add %r1.b0, %r2, %r3, %r4;", "vadd.u32.u32.u32 %r1, -%r2, %r3;",
        "vadd.u16.u32.u32 %r1, %r2, %r3;", "vadd2.u32.u32.u32.sat.add %r1, %r2, %r3, %r4;",
        "vadd2.u32.u32.u32 %r1.h01, %r2, %r3, %r4;", "vadd2.u32.u32.u32 %r1, %r2, %r3;",
        "vadd4.u32.u32.u32 %r1, %r2.b10, %r3, %r4;", "vadd4.u32.u32.u32 %r1, %r2, %r3, %r4.b0;",
        "vmad.u32.u32.u32.po %r1, -%r2, %r3, %r4;", "vmad.u32.u32.u32 %r1, -%r2, %r3, -%r4;",
        "vmad.u32.u32.u32 %r1.b0, %r2, %r3, %r4;", "vset.u32.u32 %r1, %r2, %r3;", "vshl.u32.u32.u32 %r1, %r2, %r3;",
        "vshl.u32.u32.s32.clamp %r1, %r2, %r3;", "cvt.pack.sat.u8.s32 %r1, %r2, %r3;",
        "cvt.pack.u16.s32 %r1, %r2, %r3;",
        "add.u32 %r1, %r2.b0, %r3;",
    ],
)  # fmt: skip
def test_what_ptxas_refuses_is_refused(line):
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction)):
        parse(kernel([line], 32)).kernel("k")
