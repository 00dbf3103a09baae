"""Declarations and source lines in PTX: variables, parameters, launch bounds, `.loc` and inlined code."""

from __future__ import annotations

import struct

import pytest

from ptxsim.errors import PtxSyntaxError
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import SourceLine

from .oracle_launch import HEAD, entry
from .test_parse import body


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


@pytest.mark.parametrize("declared", [
    ".b8 v[4]", ".s16 v[4]", ".u32 v[6]", ".b64 v[4]", ".f32 v[4]", ".u32 v[2][2]", ".u8 v[]", ".b128 v[4]",
])  # fmt: skip
def test_a_plain_list_is_read_as_any_other(declared):
    plain, other = (
        variable(f".global {declared} = {{ 0,7,\n 300 , {last}}};")
        for last in ("9223372036854775807", "0x7fffffffffffffff")
    )
    assert plain.initial == other.initial and len(plain.initial) in (4, 8, 16, 32, 64)
    assert (plain.size_bytes, plain.align) == (other.size_bytes, other.align)


@pytest.mark.parametrize("values", ["{1, 2, 3, 4, 5}", "{1 2}", "{08}", "{1, 2"])
def test_a_list_that_does_not_fit_or_is_none(values):
    with pytest.raises(PtxSyntaxError):
        variable(f".global .u32 v[4] = {values};")


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


def test_inlined_code_names_the_calls_around_it():
    text = """.loc 1 10 0
    I; .loc 1 8 5, function_name $x, inlined_at 1 17 5
    I; .loc 1 4 5, function_name $y, inlined_at 1 8 5
    I; .loc 2 60 1, function_name $z, inlined_at 1 4 5
    I; .loc 1 18 1
    I;"""
    registers = ".reg .b32 %r1; "
    found = [i.source.calls for i in body(registers + text.replace("I;", "mov.u32 %r1, 0;"))]
    assert found == [(), (17,), (8, 17), (8, 17), ()]


def test_circular_inlining_ends():
    text = """.loc 1 1 1
    I; .loc 2 5 5, function_name a, inlined_at 3 6 6
    I; .loc 3 6 6, function_name a, inlined_at 2 5 5
    I;"""
    assert len(lines(text)) == 3


def test_source_of_instructions_before_any_location():
    assert body("ret;")[0].source == SourceLine()
