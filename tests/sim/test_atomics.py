"""Atomics on floating-point numbers: who flushes, vectors, minima and maxima."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction

from . import engine_launch, oracle_launch

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
TINY = 0x00000003
"""Bits of a subnormal f32."""


def entry(body: str) -> str:
    registers = ".reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 16 .b8 s[256];"
    return f"{HEAD}.visible .entry k(.param .u64 out)\n{{\n{registers} ld.param.u64 %d1, [out];\n{body}\nret;\n}}\n"


def both(body: str, out: np.ndarray, threads: int = 1) -> np.ndarray:
    """What a kernel leaves in its array, which machine code (whole and parted) and the oracle agree on."""
    found = [
        engine_launch.launch(entry(body), "k", (1,), (threads,), out).arrays[0],
        engine_launch.launch(entry(body), "k", (1,), (threads,), out, parted=True).arrays[0],
        oracle_launch.launch(entry(body), "k", (1,), (threads,), out).arrays[0],
    ]
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    return found[0]


def test_sums_in_global_memory_flush_and_those_in_shared_memory_do_not():
    """In one kernel, in either order, and by generic addresses, which may lead to both."""
    shared = f"mov.u32 %r1, s; mov.u32 %r2, {TINY}; st.shared.u32 [%r1], 0; {{}} ld.shared.u32 %r3, [%r1];"
    add_shared, add_global = "red.shared.add.f32 [%r1], %r2;", "red.global.add.f32 [%d1], %r2;"
    keep = "st.global.u32 [%d1+4], %r3;"
    for body in (
        shared.format(add_shared) + keep + add_global, add_global + shared.format(add_shared) + keep,
        shared.format("cvta.shared.u64 %d2, s; red.add.f32 [%d2], %r2;") + keep + "red.add.f32 [%d1], %r2;",
    ):  # fmt: skip
        body = body.replace("cvta.shared.u64 %d2, s;", "mov.u64 %d2, s; cvta.shared.u64 %d2, %d2;")
        body = f"mov.u32 %r2, {TINY};{body}"
        assert both(body, np.zeros(2, np.uint32)).tolist() == [0, TINY]


def _halves(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float16).view(np.uint16)


@pytest.mark.parametrize("operation, wanted", [
    ("min", [-2.0, -0.0, 1.0, 3.0]), ("max", [1.0, 0.0, 1.0, 5.0]), ("add", [-1.0, 0.0, np.nan, 8.0]),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["v4.f16", "v2.f16x2"])
def test_vectors_of_halves(operation, wanted, kind):
    """A NaN loses against a number, and -0 is below +0."""
    before, own = _halves(1.0, 0.0, np.nan, 3.0), _halves(-2.0, -0.0, 1.0, 5.0)
    out = np.concatenate([before, own, np.zeros(4, np.uint16)])
    load, width = "ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%d1+8];", "v4.u16"
    store, vector = "{%h5, %h6, %h7, %h8}", "{%h1, %h2, %h3, %h4}"
    if kind == "v2.f16x2":
        load, store, vector, width = "ld.global.v2.u32 {%r1, %r2}, [%d1+8];", "{%r5, %r6}", "{%r1, %r2}", "v2.u32"
    body = f"{load} atom.global.{operation}.noftz.{kind} {store}, [%d1], {vector}; st.global.{width} [%d1+16], {store};"
    found = both(body, out)
    expected = np.array(wanted, np.float16).view(np.uint16)
    expected = np.where(np.isnan(np.array(wanted)), 0x7FFF, expected)
    assert found[:4].tolist() == expected.tolist()
    assert found[8:].tolist() == before.tolist()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_eight_halves_of_many_threads(kind):
    names = "{" + ", ".join(f"%h{k}" for k in range(8)) + "}"
    one = "0x3C00" if kind == "f16" else "0x3F80"
    sets = "".join(f"mov.b16 %h{k}, {one if k % 2 else 0};" for k in range(8))
    found = both(f"{sets} red.global.add.noftz.v8.{kind} [%d1], {names};", np.zeros(8, np.uint16), 32)
    assert found.tolist() == [0, 0x5000 if kind == "f16" else 0x4200] * 4


def test_vectors_of_f32():
    numbers = "3F800000", "40000000", "40400000", "00000003"
    moves = "".join(f"mov.f32 %r{k}, 0f{bits};" for k, bits in enumerate(numbers, 1))
    body = f"{moves} red.global.add.v4.f32 [%d1], {{%r1, %r2, %r3, %r4}};"
    assert both(body, np.zeros(4, np.float32), 32).tolist() == [32.0, 64.0, 96.0, 0.0]


@pytest.mark.parametrize(
    "line",
    [
        "atom.shared.add.noftz.v2.f16 {%h1, %h2}, [%r1], {%h3, %h4};", "red.global.min.noftz.f16x2 [%d1], %r1;",
        "atom.global.add.v2.u32 {%r1, %r2}, [%d1], {%r3, %r4};", "red.global.min.v2.f32 [%d1], {%r1, %r2};",
        "red.global.add.noftz.v8.f16x2 [%d1], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};",
        "red.global.add.v2.f64 [%d1], {%d2, %d3};",
    ],
)  # fmt: skip
def test_what_ptxas_refuses_is_refused(line):
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction)):
        engine_launch.launch(entry(line), "k", (1,), (1,), np.zeros(8, np.uint32))


def test_a_register_that_holds_sums_and_then_words_keeps_both():
    """Arithmetic gives one NaN; bits that look like another one are no number."""
    body = """ld.global.f32 %r2, [%d1]; add.f32 %r1, %r2, %r2; st.global.u32 [%d1+4], %r1;
      ld.global.u32 %r1, [%d1+8]; st.global.u32 [%d1+12], %r1; mov.u32 %r1, 0xFFFF0001; st.global.u32 [%d1+16], %r1;"""
    found = both(body, np.array([0x7F800001, 0, 0xFFFFFFFF, 0, 0], np.uint32))
    assert found.tolist() == [0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF0001]


def test_a_shape_has_no_fourth_side():
    names = ("tid.w", "ntid.w", "ctaid.w", "nctaid.w")
    body = "".join(f"mov.u32 %r1, %{name}; st.global.u32 [%d1+{4 * k}], %r1;" for k, name in enumerate(names))
    assert both(body, np.full(4, 9, np.uint32)).tolist() == [0, 1, 0, 1]
