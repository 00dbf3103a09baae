"""The PTX parser: both dialects as NVRTC writes them, every form of operand and declaration, and hostile text."""

from __future__ import annotations

import contextlib
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpschool.errors import MemoryLimitExceeded, PtxSyntaxError, UnsupportedInstruction
from warpschool.ptx.cfg import build_kernel
from warpschool.ptx.parse import parse
from warpschool.ptx.program import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Pair,
    Register,
    Sink,
    SourceLine,
    Special,
    Symbol,
    Vector,
)

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
    with pytest.raises(PtxSyntaxError):
        operands("mov.b32 %r1, 1.5;")


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
    assert operands("shfl.sync.up.b32 %r1|%p2, %r3, 1, 0, -1;")[0] == Pair(Register("%r1"), Register("%p2"))
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


# ---------------------------------------------------------------- declarations


def variable(declaration: str, name: str = "v"):
    return parse(HEAD + ".global .u32 other; .global .b8 text[4];" + declaration).globals[name]


@pytest.mark.parametrize(
    ("declaration", "type_name", "size", "align", "initial"),
    [
        (".global .align 4 .u32 v = 7;", "u32", 4, 4, b"\7\0\0\0"),
        (".const .f32 v[3] = {0f3F800000, 2.5};", "f32", 12, 4, struct.pack("<2f", 1, 2.5)),
        (".global .f64 v = 0d3FF0000000000000;", "f64", 8, 8, struct.pack("<d", 1)),
        (".global .align 16 .b8 v[5] = {1, 2, 255};", "b8", 5, 16, b"\1\2\xff"),
        (".visible .global .s16 v[2][3] = {{1, -2}, {3}};", "s16", 12, 2, struct.pack("<6h", 1, -2, 0, 3, 0, 0)),
        (".global .u8 v[] = {1, 2, 3};", "u8", 3, 1, b"\1\2\3"),
        (".global .v4 .f32 v;", "f32", 16, 16, b""),
        (".global .attribute(.managed) .b32 v;", "b32", 4, 4, b""),
        (".shared .align 8 .b8 v[1 ];", "b8", 1, 8, b""),
        (".global .texref v;", "b64", 8, 8, b""),
    ],
)
def test_variables(declaration, type_name, size, align, initial):
    v = variable(declaration)
    assert (v.type, v.size_bytes, v.align, v.initial, v.external) == (type_name, size, align, initial, False)


def test_relocations():
    pointers = variable(".global .u64 v[3] = {generic(text), other, generic(text)+2};")
    assert pointers.relocations == ((0, "text", 0), (8, "other", 0), (16, "text", 2))
    masked = ", ".join(f"{0xFF << 8 * k:#X}(generic(other)+4)".replace("X", "x") for k in range(8))
    bytes_ = variable(f".global .b8 v[12] = {{1, 2, 3, 4, {masked}}};")
    assert bytes_.relocations == ((4, "other", 4),)
    assert bytes_.initial[:4] == b"\1\2\3\4"


def test_external_and_function_variables():
    module = parse(
        HEAD + ".extern .shared .align 16 .b8 dyn[];"
        ".entry k() { .shared .b32 s[4]; .local .align 16 .b8 depot[40]; .const .b32 c = 5; { .shared .f64 s; } ret; }"
    )
    assert module.globals["dyn"].external and module.globals["dyn"].size_bytes == 0
    assert module.globals["k.c"].initial == b"\5\0\0\0"
    own = module.functions["k"].variables
    assert [(v.name, v.space, v.size_bytes) for v in own.values()] == [
        ("s", "shared", 16), ("depot", "local", 40), ("s.1", "shared", 8),
    ]  # fmt: skip


def test_parameters():
    params = """.param .u64 .ptr .global .align 16 a, .param .align 16 .b8 b[20], .param .u8 c, .param .v2 .f32 d,
        .param .f64 out"""
    found = parse(entry("ret;", params=params)).functions["k"].params
    assert [(p.name, p.size_bytes, p.align, p.offset) for p in found] == [
        ("a", 8, 8, 0), ("b", 20, 16, 16), ("c", 1, 1, 36), ("d", 8, 8, 40), ("out", 8, 8, 48),
    ]  # fmt: skip


def test_launch_bounds_and_skipped_directives():
    text = f"""{HEAD}
    // a comment with .entry and ; in it
    /* another /* one */ .pragma "nounroll";
    .weak .entry k(.param .u32 n) .maxntid 16, 4, 2 .minnctapersm 2 .maxnreg 64 {{ .pragma "used_bytes; }}"; ret; }}
    .entry bare .reqntid 32 {{ ret; }}
    .extern .func vprintf(.param .b64 a, .param .b64 b) ;
    .file 3 "dir with spaces; and //.cu", 1234, 99
    .section .debug_str {{ $info: .b8 1, 2
       .b32 label
    }}"""
    module = parse(text)
    assert module.functions["k"].max_threads == 128
    assert module.functions["bare"].max_threads == 32
    assert module.entries == ("k", "bare")
    assert module.files == {3: "dir with spaces; and //.cu"}


# ---------------------------------------------------------------- source lines


def lines(text: str) -> list[tuple[int, int]]:
    registers = ".reg .b32 %r1; "
    return [(i.source.file, i.source.line) for i in body(registers + text.replace("I;", "mov.u32 %r1, 0;"))]


def test_source_lines():
    assert lines(".loc 1 5 0\n I; .loc 1 6 3\n I; .loc 1 0 3\n I; .loc\t1 7 1\n I;") == [(1, 5), (1, 6), (1, 6), (1, 7)]


def test_inlined_code_of_a_header_has_the_line_of_its_call():
    text = """.loc 1 10 0
    I; .loc 1 21 3
    .loc 2 500 3, function_name $x, inlined_at 1 21 3
    I; .loc 3 60 1, function_name $y+8, inlined_at 2 500 3
    I; .loc 1 22 1
    I;"""
    assert lines(text) == [(1, 10), (1, 21), (1, 21), (1, 22)]


def test_inlined_code_of_the_same_file_keeps_its_line():
    text = """.loc 1 10 0
    I; .loc 1 4 3, function_name $x, inlined_at 1 21 3
    I; .loc 2 8 3, function_name $y, inlined_at 1 4 3
    I;"""
    assert lines(text) == [(1, 10), (1, 4), (1, 4)]


def test_circular_inlining_ends():
    text = """.loc 1 1 1
    I; .loc 2 5 5, function_name a, inlined_at 3 6 6
    I; .loc 3 6 6, function_name a, inlined_at 2 5 5
    I;"""
    assert len(lines(text)) == 3


def test_source_of_instructions_before_any_location():
    assert body("ret;")[0].source == SourceLine()


# ---------------------------------------------------------------- errors

BROKEN = [
    ".entry k(.param .u32 a, .param .u32 a) { ret; }",
    "garbage",
    ".entry",
    ".entry k(",
    ".entry k() {",
    ".entry k() { ret }",
    ".entry k() { ret; ",
    ".func f() }",
    ".entry k() { } }",
    ".entry k() { mov.u32 %r1, 0; }",
    ".entry k() { .reg .b32 %r1, %r1; ret; }",
    ".entry k() { bra nowhere; }",
    ".entry k() { .reg .b32 %r<5>; mov.u32 %r7, 0; }",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1 %r1; }",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1, 12x; }",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1, [ ; }",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1, {1; }",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1,, 1; }",
    ".entry k() { .reg .b8 %r1; ret; }",
    ".entry k() { .reg .nonsense %r1; }",
    ".entry k() { .reg }",
    ".entry k() { .loc x y z\n ret; }",
    ".entry k() { .what 1; }",
    ".entry k() { @%p1 ret; }",
    ".entry k() { .reg .b32 %p1; @%p1 ret; }",
    ".entry k() { a: a: ret; }",
    ".entry k() { .reg .b32 %r1; brx.idx %r1, t; }",
    ".entry k() { call f; }",
    ".entry k() { call; }",
    ".entry k(.param .u99 x) { }",
    ".entry k(.param .b8 x[-1]) { }",
    ".entry k(.reg .b32 x) { }",
    ".entry k() {} .entry k() {}",
    ".global .u32 v = ;",
    ".global .u32 v = {1;",
    ".global .u32 v[2] = {1, 2, 3};",
    ".global .u32 v = nothing;",
    ".global .u32 v[x];",
    ".global v;",
    ".global .u32 v; .global .u32 v;",
    ".global .align 3 .u32 v;",
    ".global .u32 v[99999999999999999999];",
    ".global .u8 v[2] = {0xFF00(v), 1};",
    ".address_size 32",
    ".section .debug {",
    '.pragma "open',
    ".file x",
    "/* never closed",
    ".entry k() { .reg .b32 %r<99999999999>; }",
    "\x00",
    "é",
    ".entry k() { .reg .b32 %r1; mov.u32 %r1, " + "9" * 500 + "; }",
    ".global .u64 v = generic(v;",
    ".entry k() { .reg .pred %p1; not.pred %p1, !5; }",
]


@pytest.mark.parametrize("text", BROKEN, ids=lambda t: t[:40].replace("\n", " "))
def test_broken_text_is_refused(text):
    with pytest.raises(PtxSyntaxError, match=r"PTX line \d+: "):
        parse(HEAD + text)


def test_error_names_ptx_line_and_source_line():
    text = (
        entry(".reg .b32 %r<3>;\n.loc 1 17 3\n mov.u32 %r1, 1; /* a\n b */ // c\n mov.u32 %r9, 1;")
        + '.file 1 "my.cu"\n'
    )
    with pytest.raises(PtxSyntaxError, match="PTX line 11: '%r9' is not declared") as caught:
        parse(text)
    assert (caught.value.file, caught.value.line) == ("my.cu", 17)
    assert str(caught.value).startswith("my.cu:17: ")


def test_unknown_instructions_are_kept_for_the_kernel_that_uses_them():
    text = (
        HEAD
        + """
    .entry good() { ret; }
    .entry bad() { .reg .b64 %rd<3>;
      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%rd1, {%r5, %r6}], [%rd2];
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1}, %rd1, p, 1, -1; ret; }"""
    )
    module = parse(text)
    assert [i.opcode for i in module.functions["bad"].body] == ["cp", "wgmma", "ret"]
    build_kernel(module, "good")
    with pytest.raises(UnsupportedInstruction, match=r"cp\.async\.bulk"):
        build_kernel(module, "bad")


# ---------------------------------------------------------------- hostile text

N = 200_000
HOSTILE = {
    "open comments": "/*" * N,
    "closed comments": "/**/" * N,
    "quotes": '"' * N,
    "braces": ".entry k() " + "{" * N,
    "flat blocks": ".entry k() {" + "{}" * N + "}",
    "parentheses": ".entry k" + "(" * N,
    "brackets": ".global .u8 v" + "[" * N,
    "dimensions": ".global .u8 v" + "[1]" * N + ";",
    "nested initialiser": ".global .u8 v[1] = " + "{" * N,
    "long name": ".global .u8 " + "v" * N + ";",
    "blanks": ".entry k() {" + " " * N + "ret" + "\n" * N + "}",
    "no semicolon": ".entry k() { .reg .b32 %r<3>; " + "mov.u32 %r1, %r2 " * N,
    "guards": ".entry k() {" + "@%p1 " * N + "}",
    "labels": ".entry k() {" + "".join(f"L{i}:" for i in range(N // 4)) + "ret; }",
    "many operands": ".entry k() { .reg .b32 %r<3>; mov.u32 " + "%r1," * N + "%r2; }",
    "wide vector": ".entry k() { .reg .b32 %r<3>; mov.u32 {" + "%r1," * N + "%r2}, 1; }",
    "pipes": ".entry k() { .reg .b32 %r<3>; mov.u32 %r1" + "|%r1" * N + ", 1; }",
    "registers": ".entry k() { .reg .b32 " + ",".join(f"r{i}" for i in range(N // 4)) + "; ret; }",
    "directives": ".visible " * N,
    "locations": ".entry k() {" + ".loc 2 1 1, function_name a, inlined_at 2 1 1\n" * (N // 8) + "ret; }",
    "modifiers": ".entry k() { mov" + ".x" * N + " 1; }",
    "parameters": ".entry k(" + ",".join(f".param .u32 p{i}" for i in range(N // 8)) + ") { ret; }",
    "dots": "." * N,
    "strings": ".pragma " + '"a"' * N + ";",
    "sections": ".section x {}" * (N // 4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name):
    start = time.perf_counter()
    try:
        module = parse(HEAD + HOSTILE[name])
        for entry_name in module.entries:
            build_kernel(module, entry_name)
    except (PtxSyntaxError, UnsupportedInstruction, MemoryLimitExceeded) as e:
        assert len(str(e)) < 500
    assert time.perf_counter() - start < 4  # a quadratic scan of these 200,000 pieces takes minutes


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_truncated_files_raise_nothing_else(path):
    text = path.read_text()
    for cut in range(len(text) // 20, len(text), len(text) // 20):
        with contextlib.suppress(PtxSyntaxError):
            parse(text[:cut])


def pieces() -> list[str]:
    text = (DATA / "kernels.compute_80.ptx").read_text()
    return text.split("\n")[20:2000]


PIECES = pieces()
TOKENS = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ":",
    "@%p1 ",
    "%r1",
    "%rd1",
    "%p1",
    "-1",
    "0x",
    ".b32",
    "ret;",
    "+",
    "|",
    "!",
    "_",
    "\n",
]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_kernels_raise_nothing_else(data):
    """Real PTX with lines dropped, swapped and tokens inserted: it parses and builds, or one of the two errors."""
    start = data.draw(st.integers(0, len(PIECES) - 60))
    chosen = PIECES[start : start + 60]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(chosen) - 1))
        line = chosen[at]
        cut = data.draw(st.integers(0, len(line)))
        token = data.draw(st.sampled_from([*TOKENS, ""]))
        chosen[at] = line[:cut] + token + line[cut + data.draw(st.integers(0, 3)) :]
    registers = "".join(
        f".reg .{t} {p}<999>;"
        for t, p in (("b32", "%r"), ("b64", "%rd"), ("b16", "%rs"), ("f32", "%f"), ("f64", "%fd"), ("pred", "%p"))
    )
    try:
        module = parse(entry(registers + "\n".join(chosen) + "\nret;"))
        for name in module.entries:
            build_kernel(module, name)
    except (PtxSyntaxError, UnsupportedInstruction):
        pass


def test_speed():
    """Ten thousand lines in well under 0.15 s on a quiet machine; the bound leaves room for a busy one."""
    text = (DATA / "kernels.compute_80.ptx").read_text()
    count = text.count("\n")
    best = min(_seconds(text) for _ in range(3))
    assert best / count * 10_000 < 0.5


def _seconds(text: str) -> float:
    start = time.perf_counter()
    parse(text)
    return time.perf_counter() - start
