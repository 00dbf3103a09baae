"""Broken and hostile PTX text: refused with its line, in linear time, and never anything else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ptxsim.kernel.cfg import build_kernel
from ptxsim.syntax.parse import parse
from warpschool.errors import MemoryLimitExceeded, PtxSyntaxError, UnsupportedInstruction

from .oracle_launch import HEAD, entry

DATA = Path(__file__).parent / "data"
GOLDEN = sorted(DATA.glob("*.ptx"))


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
      tcgen05.mma.cta_group::1.kind::f16 [%rd1, {%r5, %r6}], [%rd2];
      multimem.red.relaxed.gpu.global.add.u32 [%q1], %q2; ret; }"""
    )
    module = parse(text)
    assert [i.opcode for i in module.functions["bad"].body] == ["tcgen05", "multimem", "ret"]
    build_kernel(module, "good")
    with pytest.raises(UnsupportedInstruction, match=r"tcgen05"):
        build_kernel(module, "bad")


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
@pytest.mark.thinned(3)
def test_hostile_text_takes_linear_time(name, takes_little):
    with takes_little():
        try:
            module = parse(HEAD + HOSTILE[name])
            for entry_name in module.entries:
                build_kernel(module, entry_name)
        except (PtxSyntaxError, UnsupportedInstruction, MemoryLimitExceeded) as e:
            assert len(str(e)) < 500


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


def test_speed(lines_run):
    """About 93 lines of Python for each line of PTX; benchmarks/simulator.py says how long that takes."""
    text = (DATA / "kernels.compute_80.ptx").read_text()
    assert lines_run(lambda: parse(text)) < 130 * text.count("\n")
