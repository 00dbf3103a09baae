"""Warps abreast: where several run through a part at once, and that no bit shows it."""

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

ROWS, COLUMNS, STEPS, TURNS = 16, 256, 16, 3
KERNEL = """extern "C" __global__ void k(const float* a, const float* b, float* c)
{{
    __shared__ float left[{ROWS}][{STEPS}], right[{STEPS}][{COLUMNS}];
    const int t = threadIdx.x, lane = t % {WIDTH}, row = t / {WIDTH};
    float sum = 0;
    for (int turn = 0; turn < {TURNS}; ++turn) {{
        for (int n = t; n < {ROWS} * {STEPS}; n += blockDim.x) left[n / {STEPS}][n % {STEPS}] = a[n + turn];
        for (int n = t; n < {STEPS} * {COLUMNS}; n += blockDim.x) (&right[0][0])[n] = b[n + turn];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < {STEPS}; ++k) {body}
        __syncthreads();
    }}
    c[t] = sum;
}}
"""
TILED = "sum += left[row][k] * right[k][lane];"
INTEGERS = "sum = __int_as_float(__float_as_int(sum) * 3 + __float_as_int(left[row][k] * right[k][lane]));"
KINDS = {
    "one row for a warp": (32, TILED),
    "two rows for a warp": (16, TILED),
    "addresses that differ": (32, "sum += left[row][k] * right[k][t];"),
    "the same for every second warp": (32, "sum += left[row][k] * right[k][lane + row / 2 % 2 * 32];"),
    "integers too": (32, INTEGERS),
}
ALONE = {
    "a store": "{ sum += left[row][k] * right[k][lane]; if (k == 7) left[row][3] = lane; }",
    "a branch": "{ sum += left[row][k] * right[k][lane]; if (sum > 1e30f) sum = 0; if (sum < left[0][0]) break; }",
    "no vectors": "sum += left[row][k] * right[k][0];",
    "an exchange": "sum += __shfl_xor_sync(~0u, right[k][lane], 1) + __popc(__match_any_sync(~0u, k & lane));",
}


@functools.cache
def _ptx(width: int, body: str) -> str:
    text = KERNEL.format(ROWS=ROWS, COLUMNS=COLUMNS, STEPS=STEPS, TURNS=TURNS, WIDTH=width, body=body)
    return compile_cuda(text, name="k.cu").ptx


def _functions(ptx: str, threads: int, *, wide: bool = False, **options: bool) -> str:
    chosen = Options(check=False, count=False) if not options else Options(**options)
    return translate(parse(ptx).kernel("k").body, (threads, 1, 1), chosen, wide_vectors=wide).ir


def _given(threads: int) -> tuple:
    rng = np.random.default_rng(3)
    a, b = (
        (rng.standard_normal(n) * 10.0 ** rng.integers(-25, 19, n)).astype(np.float32)
        for n in (ROWS * STEPS + TURNS, STEPS * COLUMNS + TURNS)
    )
    return a, b, np.full(threads, np.nan, np.float32)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("warps", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.thinned(14)
def test_no_bit_shows_it(kind, warps: int, wide: bool, monkeypatch):
    monkeypatch.setattr(engine, "wide_vectors", lambda: wide)
    ptx, given = _ptx(*KINDS[kind]), _given(32 * warps)
    at_once = warps >= (4 if wide else 2)
    assert ("_abreast(" in _functions(ptx, 32 * warps, wide=wide)) == at_once
    theirs = oracle(ptx, "k", (2,), (32 * warps,), *given)
    ours = launch(ptx, "k", (2,), (32 * warps,), *given, tier="compiled", check=False, count=False)
    assert ours.arrays[2].tobytes() == theirs.arrays[2].tobytes()


@pytest.mark.parametrize("kind", ALONE)
def test_a_part_that_others_could_see_runs_warp_by_warp(kind):
    assert "_abreast(" not in _functions(_ptx(32, ALONE[kind]), 256)


@pytest.mark.parametrize("watched", ["check", "count"])
def test_a_launch_that_is_watched_runs_warp_by_warp(watched):
    options = {"check": False, "count": False} | {watched: True}
    assert "_abreast(" not in _functions(_ptx(*KINDS["one row for a warp"]), 256, **options)
