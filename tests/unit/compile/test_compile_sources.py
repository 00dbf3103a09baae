"""The little lexer, and `constants=` which stands on it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from warpschool.compile import compile_cuda, find_constants, override_constants
from warpschool.compile.source import blank, normalise, splice
from warpschool.errors import CompileError

PIECES = ["/*", "*/", "//", '"', "'", "\\", "\n", "\\\n", 'R"(', ')"', 'R"x(', ')x"', "a", "1'0", " ", "#", "u8", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_blanking_keeps_every_place(source):
    for text in (blank(source), blank(source, strings=True)):
        assert len(text) == len(source)
        assert all(new == old or (new == " " and old != "\n") for new, old in zip(text, source, strict=True))


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_splicing_maps_every_character_back(source):
    spliced = splice(source)
    assert "\\\n" not in source or len(spliced.text) < len(source)
    assert all(source[spliced.place(index)] == char for index, char in enumerate(spliced.text))


@pytest.mark.parametrize(("source", "expected"), [
    ("a // b\nc", "a     \nc"),
    ("a /* b\nc */ d", "a     \n     d"),
    ('"// no" // yes', '"// no"       '),
    ("'\"' /* x */ '\"'", "'\"'         '\"'"),
    ('R"(/* kept */)" /* x */', 'R"(/* kept */)"        '),
    ('R"y()" /* kept */)y" // x', 'R"y()" /* kept */)y"     '),
    ("1'000 /* x */ + 'a'", "1'000         + 'a'"),
    ("// on \\\nand on\nx", "       \n      \nx"),
    ("/\\\n/ x\ny", "   \n   \ny".replace("   \n   ", "  \n   ")),
    ("x /* open", "x        "),
    ("#error don't\n// gone\n'", "#error don't\n       \n'"),
    ("a / b * c /= 2", "a / b * c /= 2"),
])  # fmt: skip
def test_comments_are_found(source, expected):
    assert blank(source) == expected


def test_normalise():
    assert normalise("\ufeffa\r\nb\rc\fd\ve\n") == "a\nb\nc d e\n"


SOURCE = """\
// constexpr int COMMENT = 1;
/* constexpr int ALSO = 2; */
constexpr int TILE = 16;  // the tile; "16"
constexpr   int
    WIDE = (TILE + 1) *
           2;
static constexpr unsigned int SEED = 7u; constexpr int SAME_LINE = 3;
constexpr int BRACED{5};
constexpr float SCALE = 1.5f;
constexpr int A = 1, B = 2;
const char* text = "constexpr int STRING = 9;";
const char* raw = R"(constexpr int RAW = 9;)";
namespace inner { constexpr int NESTED = 4; }
template <int N> struct S { static constexpr int MEMBER = N; };
constexpr int PICK[2] = {1, 2};
constexpr int MAX = (TILE > 8 ? TILE : 8);
__global__ void k(int* x) { constexpr int LOCAL = 6; x[0] = LOCAL; }
"""


def test_only_top_level_integers_are_constants():
    found = {name: SOURCE[start:end].strip() for name, (start, end) in find_constants(SOURCE).items()}
    assert found == {
        "TILE": "16",
        "WIDE": "(TILE + 1) *\n           2",
        "SEED": "7u",
        "SAME_LINE": "3",
        "BRACED": "5",
        "MAX": "(TILE > 8 ? TILE : 8)",
    }


def test_other_values_keep_all_lines():
    changed = override_constants(SOURCE, {"WIDE": -3, "TILE": 8, "BRACED": 6, "SAME_LINE": 0})
    assert changed.count("\n") == SOURCE.count("\n")
    assert "constexpr int TILE = 8;  // the tile" in changed
    assert "BRACED{ 6}" in changed and "SAME_LINE = 0;" in changed
    assert changed.split("\n")[6:8] == [
        "static constexpr unsigned int SEED = 7u; constexpr int SAME_LINE = 0;",
        "constexpr int BRACED{ 6};",
    ]
    assert override_constants(SOURCE, {}) == override_constants(SOURCE, None) == SOURCE


def test_the_compiler_agrees():
    source = SOURCE.replace("namespace", "//").replace("const char*", "__device__ const char*")
    source = source.replace("x[0] = LOCAL", "x[0] = WIDE * 1000 + BRACED")
    assert ", 34005" in compile_cuda(source).ptx
    assert ", 18007" in compile_cuda(source, constants={"TILE": 8, "BRACED": 7}).ptx
    assert ", -2147483641" in compile_cuda(
        source.replace("* 1000", ""), constants={"WIDE": -(2**31), "BRACED": 7}
    ).ptx


def test_wrong_constants_are_explained():
    with pytest.raises(CompileError, match=r"no top-level `constexpr int TYLE`; it declares: TILE, (.|\n)*mean TILE"):
        override_constants(SOURCE, {"TYLE": 8}, name="k.cu")
    with pytest.raises(CompileError, match="declares: none"):
        override_constants("int x;", {"TILE": 8})
    for name in ("COMMENT", "STRING", "RAW", "NESTED", "MEMBER", "LOCAL", "SCALE", "A"):
        with pytest.raises(CompileError, match=f"no top-level `constexpr int {name}`"):
            override_constants(SOURCE, {name: 1})
    for value in (1.5, "8", None):
        with pytest.raises(CompileError, match="must be an integer"):
            override_constants(SOURCE, {"TILE": value})
    with pytest.raises(CompileError, match="does not fit into a 32-bit int"):
        override_constants(SOURCE, {"TILE": 2**31})


def test_quick_on_hostile_text(takes_little):
    for text in ("constexpr int A = (" * 10_000, "constexpr int A = [" * 10_000, "{" * 200_000,
                 "constexpr int A = 1;" * 10_000, "constexpr static " * 10_000, "}constexpr int A=" * 10_000,
                 ):  # fmt: skip
        with takes_little(text[:20]):
            find_constants(text)
