"""The PTX parser: both dialects as NVRTC writes them, every form of operand, names and scopes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Register,
    ResultPair,
    Sink,
    Special,
    Symbol,
    Vector,
)
from warpschool.errors import PtxSyntaxError

from .oracle_launch import HEAD, entry

DATA = Path(__file__).parent / "data"
GOLDEN = sorted(DATA.glob("*.ptx"))


def body(text: str, **more) -> list:
    """Instructions and labels of a one-kernel module."""
    return parse(entry(text, **more)).functions["k"].body


def operands(text: str, registers: str = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;") -> tuple:
    """Operands of the one instruction `text`."""
    (instruction,) = body(registers + text)
    return instruction.operands


# ---------------------------------------------------------------- golden files


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_golden_files(path):
    module = parse(path.read_text())
    assert module.target == "sm_" + path.name.split(".")[1].split("_")[1]
    assert module.version == "9.5"
    assert module.files[1] == path.name.split(".")[0] + ".cu"
    assert len(module.entries) == path.read_text().count(".entry")
    for name in module.entries:
        function = module.functions[name]
        instructions = [i for i in function.body if isinstance(i, Instruction)]
        assert instructions[-1].opcode in ("ret", "bra")
        assert all(i.source.file == 1 and i.source.line > 0 for i in instructions)
        assert [i.ptx_line for i in instructions] == sorted(i.ptx_line for i in instructions)


def test_dialects_agree_on_interfaces():
    old, new = (parse((DATA / f"kernels.{a}.ptx").read_text()) for a in ("compute_80", "compute_100"))
    assert old.entries == new.entries
    for name in old.entries:
        assert old.functions[name].params == new.functions[name].params
    assert {n: v for n, v in old.globals.items() if v.initial} == {n: v for n, v in new.globals.items() if v.initial}


def test_struct_parameter():
    params = parse((DATA / "kernels.compute_80.ptx").read_text()).functions["calls"].params
    assert [(p.type, p.size_bytes, p.align, p.offset) for p in params] == [
        ("u64", 8, 8, 0), ("u64", 8, 8, 8), ("u64", 8, 8, 16), ("u32", 4, 4, 24), ("b8", 24, 8, 32),
    ]  # fmt: skip


# ---------------------------------------------------------------- operands


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("7", 7), ("-7", -7), ("0x1F", 31), ("0X1f", 31), ("-0x10", -16), ("017", 15), ("0b101", 5),
        ("42U", 42),
        ("0xFFFFFFFFU", 0xFFFFFFFF), ("0f3F800000", 0x3F800000), ("0F3f800000", 0x3F800000), ("WARP_SZ", 32),
        ("0d3FF0000000000000", 0x3FF0000000000000), ("18446744073709551615", (1 << 64) - 1),
    ],
)  # fmt: skip
def test_literals(text, value):
    assert operands(f"mov.b64 %rd1, {text};")[1] == Immediate(value)


def test_decimal_floats_take_the_type_of_the_instruction():
    assert operands("mov.f32 %r1, 1.5;")[1] == Immediate(0x3FC00000)
    assert operands("mov.f64 %rd1, -2.5e-1;")[1] == Immediate(struct.unpack("<Q", struct.pack("<d", -0.25))[0])
    assert operands("mov.f32 %r1, 1e300;")[1] == Immediate(0x7F800000)
    stored = Vector((Immediate(0x3FC00000), Register("%r1"), Immediate(0), Immediate(0x42C80000)))
    assert operands("st.global.v4.f32 [%rd1], {1.5, %r1, 0., 1e2};")[1] == stored
    for wrong in ("mov.b32 %r1, 1.5;", "st.global.v2.f32 [%rd1], {1.5, {0.}};", "st.global.v2.b32 [%rd1], {1.5, %r1};"):
        with pytest.raises(PtxSyntaxError):
            operands(wrong)


def test_operand_forms():
    assert operands("mov.u32 %r1, %tid.x;") == (Register("%r1"), Special("tid.x"))
    assert operands("mov.u32 %r1, %clock;")[1] == Special("clock")
    assert operands("ld.global.u32 %r1, [%rd1];")[1] == Address(Register("%rd1"), 0)
    assert operands("ld.global.u32 %r1, [ %rd1 + 16 ];")[1] == Address(Register("%rd1"), 16)
    assert operands("ld.global.u32 %r1, [%rd1+-4];")[1] == Address(Register("%rd1"), -4)
    assert operands("ld.global.u32 %r1, [%rd1-0x10];")[1] == Address(Register("%rd1"), -16)
    assert operands("ld.shared.u32 %r1, [64];")[1] == Address(Immediate(64), 0)
    assert operands("ld.param.u64 %rd1, [out+4];")[1] == Address(Symbol("out"), 4)
    assert operands("mov.u64 %rd1, out+8;")[1] == Symbol("out", 8)
    assert operands("ld.global.v2.u32 {%r1, _}, [%rd1];")[0] == Vector((Register("%r1"), Sink()))
    assert operands("shfl.sync.up.b32 %r1|%p2, %r3, 1, 0, -1;")[0] == ResultPair(Register("%r1"), Register("%p2"))
    assert operands("add.u32 _, %r1, %r2;")[0] == Sink()
    assert operands("mov.b64 {%r1,%r2},%rd1;")[0] == Vector((Register("%r1"), Register("%r2")))


def test_guards_modifiers_and_lines():
    text = """.reg .pred %p<3>; .reg .b32 %r<3>; .reg .b64 %rd1;
    @%p1 mov.u32 %r1, 5;
    @!%p2 ld.global.L1::no_allocate.L2::128B.v2.b32 {%r1, %r2}, [%rd1];
    exit;"""
    first, second, third = body(text)
    assert first.guard == Guard("%p1") and second.guard == Guard("%p2", negated=True) and third.guard is None
    assert second.opcode == "ld"
    assert second.modifiers == ("global", "L1::no_allocate", "L2::128B", "v2", "b32")
    assert second.space == "global" and second.type == "b32"
    assert [i.ptx_line - first.ptx_line for i in (first, second, third)] == [0, 1, 2]


def test_negated_predicate_becomes_an_inserted_not():
    inserted, compare = body(".reg .pred %p<4>; .reg .b32 %r<3>; setp.lt.and.s32 %p1, %r1, %r2, !%p3;")
    assert (inserted.opcode, inserted.modifiers) == ("not", ("pred",))
    assert inserted.operands[1] == Register("%p3")
    assert compare.operands[3] == inserted.operands[0]


# ---------------------------------------------------------------- names and scopes


def test_registers_of_blocks_are_kept_apart():
    text = """.reg .b32 %r<3>; .reg .pred %p<2>;
    mov.u32 %r1, 1;
    { .reg .b32 t; .reg .b64 %r1; mov.u32 t, 2; mov.u64 %r1, 3; { .reg .f32 t; mov.f32 t, 0f00000000; } mov.u32 t, 4; }
    { .reg .b16 t; mov.u16 t, 5; }
    mov.u32 %r1, 6;"""
    function = parse(entry(text)).functions["k"]
    names = [i.operands[0].name for i in function.body]
    assert names[0] == names[6] and names[1] == names[4]
    assert len(set(names)) == 5
    assert [function.registers[name] for name in names] == ["b32", "b32", "b64", "f32", "b32", "b16", "b32"]


def test_only_mentioned_registers_of_a_range_exist():
    function = parse(entry(".reg .b32 %r<2147483648>; mov.u32 %r2147483647, 0;")).functions["k"]
    assert function.registers == {"%r2147483647": "b32"}
    for wrong in ("%r2147483648", "%r01", "%r"):
        with pytest.raises(PtxSyntaxError, match="not declared"):
            body(f".reg .b32 %r<2147483648>; mov.u32 {wrong}, 0;")


def test_labels_belong_to_their_block():
    text = """.reg .pred %p<2>;
    { loop: @%p1 bra loop; @%p1 bra done; }
    { loop: @%p1 bra loop; bra done; }
    done: ret;"""
    first, one, out, second, two, also_out, done, _ = body(text)
    assert one.targets == (first,) and two.targets == (second,) and first != second
    assert out.targets == also_out.targets == (done,)


def test_branch_tables():
    text = """.reg .b32 %r<2>; $tab: .branchtargets A, B,
      A;
    brx.idx %r1, $tab; A: ret; B: ret;"""
    switch, a, _, b, _ = body(text)
    assert switch.operands == (Register("%r1"),) and switch.targets == (a, b, a)


def test_calls():
    text = (
        HEAD
        + """.func (.param .b32 r) f(.param .b32 a) { ret; }
    .entry k() { .reg .b64 %rd<2>;
      { .param .b32 x; .param .b32 y; call.uni (y), f, (x); }
      { .param .b32 x; .param .b32 y; proto : .callprototype (.param .b32 _) _ (.param .b32 _);
        call (y), %rd1, (x), proto; } }"""
    )
    direct, indirect = parse(text).functions["k"].body
    assert direct.operands == (Vector((Symbol("y"),)), Symbol("f"), Vector((Symbol("x"),)))
    assert indirect.operands == (Vector((Symbol("y.1"),)), Register("%rd1"), Vector((Symbol("x.1"),)), Symbol("proto"))
