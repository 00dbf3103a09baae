"""Products of register blocking: found in what PTX writes out, and the same to the last bit, wherever factors lie."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from ptxsim import parse
from ptxsim.codegen.translation import Options, translate
from ptxsim.run import engine
from warpschool.compile import compile_cuda

from .engine_launch import launch
from .oracle_launch import launch as oracle

KERNEL = """extern "C" __global__ void k(const float* a, const float* b, float* c, int turns)
{{
    __shared__ __align__(16) float left[{K}][{ROWS}], right[{K}][{COLUMNS}];
    const int t = threadIdx.x, r = {r}, q = {q};
    float sums[{M}][{N}] = {{}};
    for (int turn = 0; turn < turns; ++turn) {{
        for (int n = t; n < {K} * {ROWS}; n += blockDim.x) left[n / {ROWS}][n % {ROWS}] = a[n + turn * {K} * {ROWS}];
        for (int n = t; n < {K} * {COLUMNS}; n += blockDim.x) right[n / {COLUMNS}][n % {COLUMNS}] = b[n + turn];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < {K}; ++k) {{
            {between}
#pragma unroll
            for (int m = 0; m < {M}; ++m)
#pragma unroll
                for (int n = 0; n < {N}; ++n) sums[m][n] += {x} * {y};
        }}
        __syncthreads();
        if (turn == 1) for (int m = 0; m < {M}; ++m) sums[m][0] += 1;
    }}
    for (int m = 0; m < {M}; ++m)
        for (int n = 0; n < {N}; ++n) c[(t * {M} + m) * {N} + n] = sums[m][n];
}}
"""
X, Y = "left[k][r + m]", "right[k][q + n]"
PLAIN = {"K": 4, "ROWS": 32, "COLUMNS": 32, "M": 4, "N": 4, "r": "t / 8 * 4", "q": "t % 8 * 4",
         "between": "", "x": X, "y": Y}  # fmt: skip
KINDS = {
    "words of a thread side by side": {},
    "columns of a warp side by side": {"COLUMNS": 64, "q": "t % 16", "y": "right[k][q + n * 16]", "N": 3},
    "one row for a warp": {"r": "t / 32 * 4", "q": "t % 32", "y": "right[k][q + n * 32]", "COLUMNS": 64, "N": 2},
    "odd steps, odd rows": {"K": 5, "ROWS": 37, "M": 3, "r": "t / 8 * 3"},
    "lanes that share nothing": {"ROWS": 132, "r": "t % 33 * 3", "q": "(t * 5) % 28"},
    "read backwards": {"x": "left[k][31 - r - m]", "y": "right[3 - k][q + 3 - n]"},
    "a store in between": {"between": "if (k == 2) left[3][t / 32 * 16 + t % 16] = t % 16;"},
    "quads": {"x": "(&u.x)[m]", "y": "(&v.x)[n]", "between": """
            const float4 u = *(const float4*)&left[k][r], v = *(const float4*)&right[k][q];"""},
}  # fmt: skip


@functools.cache
def _ptx(kind: str) -> str:
    return compile_cuda(KERNEL.format(**(PLAIN | KINDS[kind])), name="k.cu").ptx


def _given(kind: str, threads: int) -> tuple:
    sizes, rng, turns = PLAIN | KINDS[kind], np.random.default_rng(2), 3
    a, b = (
        (rng.standard_normal(n) * 10.0 ** rng.integers(-25, 19, n)).astype(np.float32)
        for n in (turns * sizes["K"] * sizes["ROWS"], sizes["K"] * sizes["COLUMNS"] + turns)
    )
    return a, b, np.full(threads * sizes["M"] * sizes["N"], np.nan, np.float32), np.int32(turns)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.thinned(5)
def test_no_bit_changes(kind, wide: bool, monkeypatch):
    monkeypatch.setattr(engine, "wide_vectors", lambda: wide)
    given = _given(kind, 64)
    theirs = oracle(_ptx(kind), "k", (1,), (64,), *given)
    for options in ({}, {"check": False, "count": False}):
        ours = launch(_ptx(kind), "k", (1,), (64,), *given, tier="compiled", **options)
        assert (ours.arrays[2].view(np.uint32) == theirs.arrays[2].view(np.uint32)).all()
        if not options:
            assert ours.counters == {n: v for n, v in theirs.counters.items() if v} | {"blocks": 1}


@pytest.mark.parametrize("tier", ["compiled", "stencils", "auto"])
@pytest.mark.parametrize("kind", ["words of a thread side by side", "quads"])
def test_its_products_count_twice(kind, tier):
    """What is added by itself, 1 to the first column, does not."""
    rng, (a, b, c, turns) = np.random.default_rng(3), _given(kind, 64)
    given = (*(rng.integers(-4, 5, x.size).astype(np.float32) for x in (a, b)), c, turns)
    once, twice = (
        launch(_ptx(kind), "k", (1,), (64,), *given, tier=tier, doubled=doubled).arrays[2].reshape(-1, 4)
        for doubled in ("", "products")
    )
    added = np.array([1, 0, 0, 0], np.float32)
    assert (twice - added == 2 * (once - added)).all() and once.any()


def _translated(kind: str, wide: bool):
    body = parse(_ptx(kind)).kernel("k").engine.kernel
    return translate(body, (64, 1, 1), Options(check=False, count=False), wide_vectors=wide)


@pytest.mark.parametrize("wide", [False, True])
def test_a_product_takes_little_code(wide: bool):
    translated = _translated("words of a thread side by side", wide)
    (product,) = translated.unit.grids.values()
    assert (len(product.sums), len(product.sums[0]), len(product.rows.names)) == (4, 4, 4)
    assert translated.ir.count("@llvm.fma") < 4 * 4 * 4 * 32 / (16 if wide else 8) + 4


def test_races_are_found_beside_a_product():
    """Without the second barrier: then a launch runs again, lane by lane."""
    text = compile_cuda(KERNEL.format(**PLAIN).replace("__syncthreads();\n        if", "if"), name="k.cu").ptx
    given = _given("words of a thread side by side", 64)
    found = launch(text, "k", (1,), (64,), *given, tier="compiled").record.hazards
    assert {h.kind for h in found} == {"race"}
