"""What a source may include: every known way to a foreign file is closed, and closed twice."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from warpschool.compile import CompileLimits, compile_cuda, compiler_report, find_toolchain
from warpschool.compile.pool import pool
from warpschool.compile.processes import Request
from warpschool.compile.source import check_options, cleared_source, foreign_file, normalise
from warpschool.errors import CompileError, PolicyError

KERNEL = 'extern "C" __global__ void k(int* x) { x[0] = 1; }\n'
SECRET = "root:x:0:0"  # the first line of /etc/passwd; NVRTC would quote it
PASSWD = '"/etc/passwd"'

ATTEMPTS = {
    "plain": f"#include {PASSWD}",
    "angled": "#include </etc/passwd>",
    "digraph": f"%:include {PASSWD}",
    "blanks": f"  \t#\t include\t{PASSWD}",
    "no blank": f"#include{PASSWD}",
    "comment before": f"/* a */ # /* b */ include /* c */ {PASSWD}",
    "comment over lines": f"/* a\n b */ # /* c\n d */ include /* e\n */ {PASSWD}",
    "comment behind": f"#include {PASSWD} // ok",
    "line splice": f"#inc\\\nlude {PASSWD}",
    "splices everywhere": '\\\n#\\\ni\\\nn\\\nclude \\\n"\\\n/etc/\\\npasswd"',
    "splice with carriage return": f"#inc\\\r\nlude {PASSWD}",
    "carriage return as line end": f"int a;\r#include {PASSWD}\r",
    "splice and blanks": f"#inc\\ \nlude {PASSWD}",
    "spliced comment": f"// hidden \\\nstill\n#include {PASSWD}",
    "splice inside a comment mark": f"/\\\n* a *\\\n/ #include {PASSWD}",
    "vertical tab": f"#\vinclude {PASSWD}",
    "form feed": f"\f#\finclude {PASSWD}",
    "relative": '#include "../../../../../../etc/passwd"',
    "relative behind a folder": '#include "crt/../../../../../../../../etc/passwd"',
    "dot": '#include "./../etc/passwd"',
    "working folder": '#include "etc/passwd"',
    "two slashes": '#include "//etc/passwd"',
    "proc": '#include "/proc/self/environ"',
    "macro": f"#define F {PASSWD}\n#include F",
    "macro with arguments": "#define S(x) #x\n#include S(/etc/passwd)",
    "macro from an option": "#include SECRET_FILE",
    "include_next": f"#include_next {PASSWD}",
    "import": f"#import {PASSWD}",
    "embed": f"const char a[] = {{\n#embed {PASSWD}\n}};",
    "digraph embed": f"%:embed {PASSWD}",
    "trigraph": f"??=include {PASSWD}",
    "trigraph splice": f"#inc??/\nlude {PASSWD}",
    "in a skipped group that is not skipped": f"#if 0\n'\n#else\n#include {PASSWD}\n#endif",
    "behind an apostrophe": f"#error don't\n#include {PASSWD}\n#error isn't",
    "behind a digit separator": f"int a = 1'000;\n#include {PASSWD}\n//'",
    "behind a raw string": f'const char* s = R"(")";\n#include {PASSWD}\n//"',
    "inside what looks like a raw string": f'#define R\nconst char* s = R"(\n#include {PASSWD}\n)";',
    "raw string with a splice": f'const char* s = R"a(\n)\\\na"\n#include {PASSWD}\n)a";',
    "string with a comment mark": f'const char* s = "/*";\n#include {PASSWD}\nconst char* t = "*/";',
    "character with a quote": f"char c = '\"'; /*\"*/\n#include {PASSWD}\n",
    "unended string": f'#define Q "\n#include {PASSWD}\n',
    "has_include": f"#if __has_include({PASSWD})\n#error yes\n#endif",
    "has_include behind a macro": f"#define H __has_include\n#if H({PASSWD})\n#error yes\n#endif",
    "has_embed": f"#if __has_embed({PASSWD})\n#error yes\n#endif",
    "line": f"#line 1 {PASSWD}\nfoo;",
    "line digraph": f"%: line 1 {PASSWD}",
    "line splice forged": f"#li\\\nne 1 {PASSWD}",
    "line number alone": "#line 99",
    "line marker": f"# 1 {PASSWD}\nfoo;",
    "line marker behind a comment": f"/* */ # /* */ 1 {PASSWD}\nfoo;",
    "module import": f"#include <cuda_fp16.h>\n#import <{PASSWD[1:-1]}>",
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_no_foreign_file_is_read(attempt):
    with pytest.raises(CompileError) as caught:
        compile_cuda(ATTEMPTS[attempt] + "\n" + KERNEL)
    shown = f"{caught.value} {caught.value.log} {caught.value.diagnostics}"
    assert SECRET not in shown and "daemon" not in shown
    if "error yes" in ATTEMPTS[attempt]:
        assert "directive: yes" not in shown


@pytest.mark.parametrize("attempt", [name for name in ATTEMPTS if name != "splice and blanks"])  # no splice in NVRTC
def test_the_rules_alone_refuse_it_before_anything_is_compiled(attempt):
    with pytest.raises(CompileError):
        cleared_source(normalise(ATTEMPTS[attempt] + "\n" + KERNEL), name="k.cu", folders=find_toolchain().includes)


@pytest.mark.parametrize("attempt", ["plain", "macro", "line", "relative", "embed", "has_include", "proc"])
def test_the_refusal_is_a_policy_error_at_its_line(attempt):
    with pytest.raises(PolicyError) as caught:
        compile_cuda("\n\n" + ATTEMPTS[attempt] + "\n" + KERNEL, name="k.cu")
    (found,) = caught.value.diagnostics
    expected = next(
        index for index, row in enumerate(("\n\n" + ATTEMPTS[attempt]).split("\n"), 1)
        if any(word in row for word in ("#include", "#line", "#embed", "__has_include"))
    )  # fmt: skip
    assert found.line == expected and found.column > 0
    assert f"k.cu:{expected}: error: not allowed" in str(caught.value) and caught.value.next_step


def test_harmless_text_is_allowed():
    source = r"""
// #include "/etc/passwd" in a comment, a \ line that goes on \
   #include "/etc/passwd" here, and isn't it fun?
/* #line 5 "/etc/passwd"
   %:include </etc/passwd> */
#include <cuda_fp16.h>  // half
#include "cuda_bf16.h" /* and bfloat */
#define STRING(x) #x
#define LONG(a, b) \
    ((a) + \
     (b))
constexpr int MANY = 1'000'000;
extern "C" __global__ void k(int* x, const char* s) {
    x[0] = LONG(1, 2) + MANY + sizeof("# 1 is not a marker") + sizeof("a \"quoted\" // word") + '"' + '\'';
    printf("item #%d of %s at #line\n", x[0], STRING(line /* no */));
    printf(R"(raw "text" // kept /* too */ \ )");
}
"""
    compiled = compile_cuda(source)
    assert ".entry k(" in compiled.ptx
    text = "".join(chr(int(code)) for code in re.findall(r"\b(\d{2,3})(?=[,}])", compiled.ptx))
    assert 'raw "text" // kept /* too */ \\ ' in text and "item #%d" in text


def test_headers_that_do_not_exist_are_told():
    with pytest.raises(CompileError, match="stands alone") as caught:
        compile_cuda(f"#include <helper.cuh>\n{KERNEL}")
    assert not isinstance(caught.value, PolicyError)
    (found,) = caught.value.diagnostics
    assert (found.line, found.column, found.width) == (1, 11, len("helper.cuh"))


@pytest.mark.parametrize(("header", "use", "advice"), [
    ("iostream", "std::cout << 1", "use printf"), ("vector", "std::vector<int> v(3)", "an array whose size is known"),
    ("algorithm", "std::sort(x, x + 3)", "min and max need no header"),
])  # fmt: skip
def test_headers_of_the_host_are_left_out_and_advice_comes_with_their_use(header, use, advice):
    """Nobody has to take out an include that does nothing; what a kernel uses of it is another matter."""
    assert compile_cuda(f"#include <{header}>\n{KERNEL}").ptx
    with pytest.raises(CompileError, match=advice) as caught:
        compile_cuda(f'#include <{header}>\nextern "C" __global__ void k(int* x)\n{{\n    {use};\n}}\n')
    assert {found.line for found in caught.value.diagnostics} == {4}


def test_the_compilers_process_cannot_open_foreign_files_even_if_the_rules_had_a_hole():
    if compiler_report()["isolation"] != "landlock":
        pytest.skip("this kernel has no Landlock")
    probe = "#define C(a, b) a##b\n#if C(__has_, include)({})\n#error it exists\n#endif\n"
    for text in (f"#include {PASSWD}\n", probe.format(PASSWD), '#include "/proc/self/maps"\n'):
        limits = CompileLimits()
        answer, worker = pool.compile(find_toolchain(), Request(text, "k.cu", ["-arch=compute_80"]), limits)
        assert worker.isolated
        assert SECRET not in answer.log and "it exists" not in answer.log and "nvrtc" not in answer.log


def test_a_log_about_a_foreign_file_is_noticed(tmp_path):
    assert foreign_file(f"/etc/passwd(1): error: x\n  {SECRET}\n", names=("k.cu",), folders=[tmp_path])
    assert foreign_file("k.cu(1): error: x\n\nother.h(3): warning: y\n", names=("k.cu",), folders=[tmp_path])
    good = f"k.cu(1): error: f(2): bad\n  f(1): x\n\n{tmp_path}/a.h(2): error: z\n"
    assert not foreign_file(good, names=("k.cu",), folders=[tmp_path])
    written = "warning: k.cu(1): Warning: Cannot store to pointer that points to constant memory space\n"
    assert not foreign_file(written, names=("k.cu",), folders=[tmp_path])
    assert foreign_file(written.replace("k.cu", "/etc/passwd"), names=("k.cu",), folders=[tmp_path])


HOURS = {
    "plain": "const char* s = __TIME__;",
    "the day": "const char* s = __DATE__;",
    "spliced": "const char* s = __TI\\\nME__;",
    "pasted": "#define P(a, b) a##b\n#define Q(a, b) P(a, b)\nconst char* s = Q(__TI, ME__);",
    "pasted of three": "#define P(a, b, c) a##b##c\nconst char* s = P(__, DATE, __);",
    "pasted by digraphs": "#define P(a, b) a%:%:b\nconst char* s = P(__DA, TE__);",
}


@pytest.mark.parametrize("attempt", HOURS)
def test_no_kernel_knows_when_it_was_compiled(attempt):
    with pytest.raises(PolicyError, match="when it was compiled"):
        cleared_source(HOURS[attempt], name="k.cu", folders=[])


def test_other_words_may_be_pasted():
    source = "#define SWAP(a, b) a##b\nint SWAP(x, _TIME); int __TIMES__ = 0;"
    assert cleared_source(source, name="k.cu", folders=[]) == source


def test_quick_on_hostile_text(takes_little):
    for text in ("#" * 200_000, "# " * 100_000, '"' * 200_000, "/*" * 100_000, "R\"(" * 60_000, "\\\n" * 100_000,
                 "#\n" * 100_000, "(" * 200_000, "#include " + " " * 200_000, "1'" * 100_000):  # fmt: skip
        with takes_little(text[:10]), suppress(CompileError):
            cleared_source(text, name="k.cu", folders=[])


def test_options_that_could_read_files_are_refused():
    good = ("-DN=4", "-D N=4", "--use_fast_math", "--maxrregcount=32", "-std=c++20", "--fmad=false", "-UNDEBUG")
    assert check_options(good) == good
    for bad in ("-I/etc", "--pre-include=/etc/passwd", "-include=/etc/passwd", "--pch-dir=/tmp", "-arch=sm_80",
                "--options-file=/etc/passwd", "-lineinfo", "--dlink-time-opt", "", "-DX\n#include"):  # fmt: skip
        with pytest.raises(PolicyError, match="not allowed"):
            check_options([bad])
    with pytest.raises(PolicyError, match="must be a list"):
        check_options("-DX")
    with pytest.raises(PolicyError):
        compile_cuda(KERNEL, options=["--pre-include=/etc/passwd"])


def test_a_nul_byte_is_named():
    with pytest.raises(CompileError, match=r"k\.cu:2: the file holds a NUL byte"):
        compile_cuda("//\n\0" + KERNEL, name="k.cu")
