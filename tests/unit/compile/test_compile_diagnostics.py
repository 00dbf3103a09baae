"""NVRTC's messages, on the student's own lines."""

from __future__ import annotations

import pytest

from warpschool.compile import compile_cuda, resource_usage
from warpschool.compile.result import parse_log, render
from warpschool.errors import CompileError, PolicyError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


def errors_of(source, **options):
    with pytest.raises(CompileError) as caught:
        compile_cuda(source, **options)
    return caught.value


def test_the_line_and_the_caret_are_the_students():
    source = 'extern "C" __global__ void f(float* x) {\n\tint y = missing + 1;  // a comment, ünïcode\n}\n'
    error = errors_of(source, name="01_naive.cu")
    assert str(error) == (
        '01_naive.cu:2: error: identifier "missing" is undefined\n'
        "    2 |     int y = missing + 1;  // a comment, ünïcode\n"
        "      |             ^~~~~~~"
    )
    (found,) = error.diagnostics
    assert (found.file, found.line, found.column, found.severity) == ("01_naive.cu", 2, 10, "error")


def test_text_behind_other_alphabets_is_still_underlined():
    error = errors_of('__global__ void f(int* x) { /* größe */ const char* s = "äöü"; x[0] = nope + s[0]; }\n')
    row, mark = str(error).split("\n")[1:3]
    assert row[mark.index("^") :].startswith("nope") and mark.count("~") == 3


def test_several_messages_each_with_its_place():
    error = errors_of("void helper() {}\nint counter;\n__global__ void f(int* x) { x[0] = 1 }\n")
    assert [d.line for d in error.diagnostics] == [1, 2, 3]
    assert "needs __device__ (a helper) or __global__ (a kernel)" in error.diagnostics[0].message
    assert "needs constexpr, __constant__ or __device__" in error.diagnostics[1].message
    assert error.diagnostics[2].message == 'expected a ";"'


def test_lines_do_not_move_behind_spliced_macros_and_long_comments():
    source = "#define M(x) \\\n  ((x) + \\\n   1)\n/* a\n b */ // c \\\n d\n"
    source += "__global__ void f(int* x) { x[0] = M(gone); }\n"
    (found,) = errors_of(source).diagnostics
    assert found.line == 7 and found.text.startswith("__global__")
    error = errors_of(source.replace("gone", "1").replace("((x)", "((gone)"))
    assert error.diagnostics[0].line == 7


def test_notes_say_where_a_template_was_used_and_overloads_do_not_fill_the_screen():
    source = "template <class T> __device__ T g(T x) { return x.y; }\n__global__ void f(float* a) { a[0] = g(a[1]); }\n"
    (found,) = errors_of(source).diagnostics
    assert found.line == 1 and any("at line 2" in note for note in found.notes)
    source = '#include <mma.h>\n__global__ void f(float* a) {\n    atomicAdd("x", 1, 2, 3);\n}\n'
    assert len(str(errors_of(source)).split("\n")) < 8


def test_an_error_inside_a_header_names_the_header():
    """Here because the file gives one of its names another meaning."""
    error = errors_of('#define matrix_a 1\n#include <mma.h>\nextern "C" __global__ void f() {}\n')
    assert {d.file for d in error.diagnostics} & {"<crt/mma.h>", "<mma.h>"}, "NVIDIA's, and ours, which clang reads"
    assert "/site-packages/" not in str(error)


def test_a_header_that_is_not_for_the_device_is_told_at_the_line_that_includes_it():
    """Its own messages, lines of a file that nobody has written here, stand behind."""
    error = errors_of("// first\n#include <thrust/device_vector.h>\n__global__ void f() {}\n", name="mine.cu")
    first, second, *_ = error.diagnostics
    assert (first.file, first.line) == ("mine.cu", 2) and "<thrust/device_vector.h>" in first.message
    assert second.file.startswith("<thrust/")


@pytest.mark.parametrize("name", ["min", "max"])
def test_the_smaller_of_two_needs_no_standard_library(name):
    source = f"__global__ void f(float* x) {{ x[0] = std::{name}(x[1], x[2]); }}\n"
    assert "need neither std:: nor a header" in errors_of(source).diagnostics[0].message


def test_many_errors_are_cut():
    error = errors_of("__global__ void f() {\n" + "".join(f"    a{i};\n" for i in range(60)) + "}\n")
    text = str(error)
    assert len(error.diagnostics) > 40 and "more messages" in text and len(text.split("\n")) < 70


def test_failures_of_ptxas_are_told():
    with pytest.raises(CompileError, match="uses too much shared data"):
        resource_usage("__global__ void f(float* a) { __shared__ float s[60000]; s[threadIdx.x] = a[0]; a[1] = s[5]; }")
    with pytest.raises(CompileError, match="Not a name of any known instruction: 'frobnicate'"):
        resource_usage('__global__ void f(float* a) { asm("frobnicate;"); }')


def test_parsing_alone():
    log = """\
nvrtc: warning: something odd
k.cu(2): warning #177-D: variable "x" was declared but never referenced
      int x;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

k.cu(9): error: no line nine
k.cu(1): error: expected a declaration
k.cu(1): error: expected a declaration
<a/b.h>(7): catastrophic error: cannot open source file "z.h"
  #include <z.h>
                ^

2 errors detected in the compilation of "k.cu".
Compilation terminated.
"""
    found = parse_log(log, name="k.cu", source="void f() {\n    int x;\n}\n")
    assert [(d.file, d.line, d.column, d.severity) for d in found] == [
        ("", 0, 0, "warning"),
        ("k.cu", 2, 9, "warning"),
        ("k.cu", 9, 0, "error"),
        ("k.cu", 1, 0, "error"),
        ("<a/b.h>", 7, 11, "error"),
    ]
    text = render(found)
    assert text.index("no line nine") < text.index("never referenced")
    assert text.endswith("    2 |     int x;\n      |         ^")


def test_parsing_never_fails():
    for log in ("", "\n\n", "k.cu(): error: x", "k.cu(99999999999999999999): error: x\n  y\n  ^\n", "  ^\n" * 5):
        render(parse_log(log, name="k.cu", source="a\nb"))


def test_a_missing_brace_is_told_where_its_partner_stands():
    with pytest.raises(CompileError) as caught:
        compile_cuda('extern "C" __global__ void k(float* x) {\n    if (x[0] > 1) {\n x[1] = 2;\n}\n', name="k.cu")
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == (1, 40)
    assert found.message == 'expected a "}" to match this "{", and the file ends without one'
    assert "NVRTC_ERROR" not in str(caught.value)


@pytest.mark.parametrize("call", ["__shfl_sync(x[0], 1)", "tex2D<float3>(0, 1.0f)", "__ldg(3)", "__syncwarp(1, 2, 3)"])
def test_a_wrong_call_of_what_the_compiler_has_built_in_is_a_compile_error(call):
    with pytest.raises(CompileError) as caught:
        compile_cuda(f'extern "C" __global__ void k(float* x) {{\n    x[1] = {call};\n}}\n', name="k.cu")
    assert not isinstance(caught.value, PolicyError)
    assert any(d.line == 2 for d in caught.value.diagnostics)
