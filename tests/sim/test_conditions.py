"""Branches that the lowest and the highest lane decide: right at every edge, also where numbers wrap around."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch

CONDITIONS = {
    "x + a < b": lambda x, y, a, b: x + a < b,
    "x + a <= b": lambda x, y, a, b: x + a <= b,
    "b > 2 * x - a": lambda x, y, a, b: b > 2 * x - a,
    "a - 3 * x >= b": lambda x, y, a, b: a - 3 * x >= b,
    "y + a < b": lambda x, y, a, b: y + a < b,
    "x + a < b && y + b < a": lambda x, y, a, b: (x + a < b) & (y + b < a),
    "x + a < b || a - x > y": lambda x, y, a, b: (x + a < b) | (a - x > y),
    "!(x + a < b) && !(y + a >= b)": lambda x, y, a, b: ~(x + a < b) & ~(y + a >= b),
    "(unsigned)(x + a) < (unsigned)b": lambda x, y, a, b: (x + a).view(np.uint32) < b.view(np.uint32),
    "(unsigned)(a - x) >= (unsigned)b": lambda x, y, a, b: (a - x).view(np.uint32) >= b.view(np.uint32),
    "x + a < b && o[0] == 0": lambda x, y, a, b: x + a < b,
    "x < a || b < y": lambda x, y, a, b: (x < a) | (b < y),
}
"""condition in C++ -> the same in NumPy, whose integers wrap too"""
LIMITS = (0, 1, 5, 15, 16, 31, 40, -1, -7, (1 << 31) - 1, (1 << 31) - 20, -(1 << 31), 9 - (1 << 31))
BLOCKS = ((32, 2), (16, 4), (8, 8), (64, 1), (20, 3))


@cache
def _ptx() -> str:
    """Wrapping is what a GPU does; in C++ it is undefined, so sums go by unsigned numbers."""
    lines = "\n".join(f"    if ({text}) mark(o + {1 + n} + 32 * t);" for n, text in enumerate(CONDITIONS))
    return compile_cuda(f"""\
struct I {{ int v; }};
__device__ I operator+(I p, I q) {{ return {{int(unsigned(p.v) + unsigned(q.v))}}; }}
__device__ I operator-(I p, I q) {{ return {{int(unsigned(p.v) - unsigned(q.v))}}; }}
__device__ I operator*(int p, I q) {{ return {{int(unsigned(p) * unsigned(q.v))}}; }}
__device__ bool operator<(I p, I q) {{ return p.v < q.v; }}
__device__ bool operator>(I p, I q) {{ return p.v > q.v; }}
__device__ bool operator<=(I p, I q) {{ return p.v <= q.v; }}
__device__ bool operator>=(I p, I q) {{ return p.v >= q.v; }}
__device__ void mark(int* at) {{ asm volatile("st.global.b32 [%0], 1;" :: "l"(at) : "memory"); }}
extern "C" __global__ void k(int* o, int first, int second)
{{
    I x{{int(threadIdx.x)}}, y{{int(threadIdx.y)}}, a{{first}}, b{{second}};
    int t = threadIdx.x + blockDim.x * threadIdx.y;
{lines.replace("(unsigned)(x + a)", "unsigned((x + a).v)").replace("(unsigned)(a - x)", "unsigned((a - x).v)")
      .replace("(unsigned)b", "unsigned(b.v)")}
}}
""").ptx


def compare(block: tuple[int, int], pairs: list[tuple[int, int]], parted: bool) -> None:
    count = block[0] * block[1]
    t = np.arange(count, dtype=np.int32)
    x, y = t % block[0], t // block[0]
    with np.errstate(over="ignore"):
        for first, second in pairs:
            a, b = np.full(count, first, np.int32), np.full(count, second, np.int32)
            arguments = np.zeros((count, 32), np.int32), np.int32(first), np.int32(second)
            done = engine_launch.launch(_ptx(), "k", (1,), block, *arguments, parted=parted, check=False)
            for n, (text, condition) in enumerate(CONDITIONS.items()):
                expected = condition(x, y, a, b).astype(np.int32)
                assert np.array_equal(done.arrays[0][:, 1 + n], expected), (text, first, second)


PAIRS = [*product(LIMITS, LIMITS)]


def test_conditions_at_some_edges():
    compare((16, 4), PAIRS[::24], parted=False)


@pytest.mark.slow
@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_conditions_at_all_edges(block, parted):
    compare(block, PAIRS, parted)
