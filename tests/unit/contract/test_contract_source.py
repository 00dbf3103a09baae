"""The light scanner of CUDA C++: what it finds, and what it is not misled by."""

from __future__ import annotations

import pytest

from warpschool.contract.expressions import EvaluationError, Piece, TokenReader, evaluate, parse_expression, tokenize
from warpschool.contract.source import find_type, scan_source


def value(text: str, **names: int) -> int:
    reader = TokenReader(tokenize([Piece(text, 1, 1)], file="k.cu"), file="k.cu")
    tree = parse_expression(reader)
    reader.finish(write="")
    return evaluate(tree, names)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("7 - 2 - 1", 4), ("-7 / 2", -3), ("-7 % 2", -1), ("7 / -2", -3),
        ("cdiv(7, 2)", 4), ("cdiv(-7, 2)", -3), ("max(1, 5, 3)", 5), ("min(4, n)", 4), ("n % 4 == 1", 1),
        ("n != 9", 0), ("(n > 3) * 10", 10), ("2 * -n", -18), ("n <= 8", 0), ("+n", 9),
    ],
)  # fmt: skip
def test_expressions_compute_as_c_does(text, wanted):
    assert value(text, n=9) == wanted


@pytest.mark.parametrize("text", ["1 / 0", "1 % 0", "cdiv(1, 0)", "cdiv(1, -2)", "m", "n" + "*n" * 30])
def test_expressions_without_a_value(text):
    with pytest.raises(EvaluationError):
        value(text, n=9)


def test_constexprs():
    found = scan_source("""
        constexpr int A = 4, B = A * 2;       // constexpr int HIDDEN = 1;
        static constexpr unsigned C{B + 1};
        inline constexpr size_t BIG = 1;
        constexpr float F = 1.5f;
        constexpr int LIST[] = {1, 2};
        constexpr int shift = 1 << 4;
        constexpr int f(int x) { constexpr int INNER = 3; return x; }
        #define MACRO 12
        #if 0
        constexpr int DEAD = 1;
        #else
        constexpr int ALIVE = 1;
        #endif
        /* constexpr int COMMENT = 1; */
        namespace inner { constexpr int N = 2; }
        const char* text = "constexpr int STRING = 1;";
    """, name="k.cu")  # fmt: skip
    assert found.constexpr_values({}) == {"A": 4, "B": 8, "C": 9, "BIG": 1, "ALIVE": 1}
    assert found.constexpr_values({"A": 1})["C"] == 3
    assert found.constexprs["shift"].tree is None
    assert found.constexprs["A"].line == 2
    assert found.macros == {"MACRO": "12"}


def test_signatures():
    found = scan_source("""
        template <typename T> __global__ void generic(T* x) { }
        __device__ float helper(float x) { return x; }
        extern "C" __global__ void forward(const float*, int);
        extern "C" __global__ void __launch_bounds__(256, 2) first(
            const float* __restrict__ A,   // the input
            __half* const B, unsigned int n, const int4* __restrict__ v, float t[], long long *q) { /* } */ }
        extern "C" {
            __global__ __launch_bounds__(64) void second(void) { const char c = '}'; }
        }
        __global__ void plain(int n) { }
        namespace a { __global__ void mangled(int n) { } }
    """, name="k.cu")  # fmt: skip
    first = found.kernels["first"]
    assert first.is_extern_c
    assert first.line == 5
    assert [(p.name, p.ctype.name, p.is_pointer) for p in first.parameters] == [
        ("A", "float", True), ("B", "half", True), ("n", "unsigned", False), ("v", "int4", True),
        ("t", "float", True), ("q", "long long", True),
    ]  # fmt: skip
    assert found.kernels["second"].parameters == ()
    assert found.kernels["second"].is_extern_c
    assert found.kernels["plain"].is_extern_c  # as the compiler is given it
    assert "mangled" not in found.kernels
    assert "helper" not in found.kernels
    assert [p.name for p in found.kernels["forward"].parameters] == ["", ""]


def test_constant_symbols():
    found = scan_source("__constant__ float w[4];\nstatic __constant__ half2 t[2] = {};\n__constant__ S s;", name="k")
    assert {name: symbol.ctype and symbol.ctype.name for name, symbol in found.constants.items()} == {
        "w": "float", "t": "half2", "s": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("const unsigned int", "unsigned"), ("int unsigned", "unsigned"), ("long unsigned int", "unsigned long long"),
        ("__half", "half"), ("std::uint8_t", "unsigned char"), ("int8_t", "signed char"), ("char", "signed char"),
    ],
)  # fmt: skip
def test_spellings_of_types(words, name):
    assert find_type(words.replace("::", " :: ").split()).name == name


@pytest.mark.parametrize("part", ['R"(', "/*", "'", '"', "{", "}", "#if 0\n", "constexpr int a = ", "__global__ ("])
def test_hostile_text_takes_little_time(part, takes_little):
    with takes_little():
        scan_source(part * (200_000 // len(part)), name="k.cu")
