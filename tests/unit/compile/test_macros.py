"""How many tokens a source gets by its macros, counted before a compiler expands them."""

from __future__ import annotations

import pytest

from warpschool.compile import compile_cuda
from warpschool.compile.macros import MOST_TOKENS, added_tokens
from warpschool.errors import CompileLimitError

TWICE = "#define TWICE(x) x x\n"


def added(source):
    return added_tokens(source.split("\n"))


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("int a = 1;", 0),
        ("#define A 1 + 2\nA A", 4),
        ("#define A 1 + 2\n#define B A * A\nB", 6),
        ("#define B A * A\n#define A 1 + 2\nB", 6),
        (TWICE + "TWICE(TWICE(TWICE(a)))", 8 - 10),
        (TWICE + "#define FOUR(x) TWICE(TWICE(x)) y\nFOUR(FOUR(1))", 4 * (4 + 1) + 1 - 7),
        (TWICE + "int TWICE;", 0),
        (TWICE + "TWICE(f(a, b))\nTWICE(\n(c, d))", 6 + 5 - 3 - 3),
        ("#define ALL(...) f(__VA_ARGS__)\nALL(1, 2, 3)", 0),
        ("#define A B B\n#define B A\nA", 1),
        ("#define A 1 + 2\n#define A 1 + 2 + 3\nA", 4),
        ("#define A 1 + 2\n#if A == A\n#pragma unroll A\n#endif", 4),
        ("#define A 1 + 2\nprintf(\"A A A\", 'A');", 0),
    ],
)
def test_tokens_that_macros_add(source, tokens):
    assert added(source) == tokens


@pytest.mark.parametrize("upwards", [True, False])
def test_chains_of_any_length_and_order_are_counted_at_once(upwards):
    chain = [f"#define A{k + 1} A{k} A{k}" for k in range(2000)]
    assert added("\n".join([*(chain if upwards else chain[::-1]), "#define A0 1 1", "A1500"])) > MOST_TOKENS
    assert added(TWICE + "TWICE(" * 3000 + "1" + ")" * 3000) > MOST_TOKENS


def test_what_macros_would_fill_the_compilers_memory_with_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr("warpschool.compile.compiler._Job._answer", lambda *_: pytest.fail("the compiler was called"))
    bomb = "\n".join(["#define A0 n+n", *(f"#define A{k + 1} A{k}+A{k}" for k in range(30))])
    with pytest.raises(CompileLimitError, match=r"k\.cu: its macros make more than 100,000 tokens of it"):
        compile_cuda(bomb + "\n__global__ void f(int* z, int n) { z[0] = A30; }\n", name="k.cu")
