"""Budgets that several grader files share."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.grading import Verdict
from warpschool.grading.budgets import barriers_per_block, require_registers, require_wide, shared_bytes_of_blocks
from warpschool.grading.submission import load_submission
from warpschool.grading.verdicts import Judgement

SOURCE = """// k.cu: y = x by WIDTH floats at a time.
// Entry:   k(const float x[n] in, float y[n] out, int n)
// Launch:  k block=(64) grid=(cdiv(n, 256)) shared=128
extern "C" __global__ void BOUNDS k(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float4 tile[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = reinterpret_cast<const float4*>(x)[i];
    __syncthreads();
    const float4 quad = tile[63 - threadIdx.x];
    __syncthreads();
    STORE
}
"""
WIDE = "reinterpret_cast<float4*>(y)[i] = quad;"
NARROW = "y[4 * i] = quad.x; y[4 * i + 1] = quad.y; y[4 * i + 2] = quad.z; y[4 * i + 3] = quad.w;"


def ran(store: str = WIDE, bounds: str = ""):
    source = SOURCE.replace("STORE", store).replace("BOUNDS", bounds)
    kernel = load_submission(source, name="k.cu")
    return kernel, kernel.run({"n": 1024}, kernel.inputs({"n": 1024}, np.random.default_rng(0)))


def test_shared_memory_of_all_blocks_is_static_and_dynamic():
    kernel, run = ran()
    assert shared_bytes_of_blocks(kernel, run) == 4 * (64 * 16 + 128)


def test_barriers_of_a_block():
    assert barriers_per_block(ran()[1]) == 2


def test_wide_accesses_pass_and_narrow_ones_name_their_line():
    kernel, run = ran()
    require_wide(kernel, run, "global_load", "global_store", "shared_load")
    # `volatile` keeps the compiler from making one store of four
    kernel, run = ran(f"volatile float* z = y; {NARROW.replace('y[', 'z[')}")
    require_wide(kernel, run, "global_load", "shared_load")
    with pytest.raises(Judgement, match="128; at least 384") as caught:
        require_wide(kernel, run, "global_store")
    assert (caught.value.verdict, caught.value.line) == (Verdict.PERF, 12)


def test_registers_that_do_not_fit_are_spilled():
    kernel, run = ran()
    require_registers(kernel, run)
    many = "float s[64]; for (int j = 0; j < 64; ++j) s[j] = x[j] * n;\n"
    many += "for (int j = 0; j < 64; ++j) for (int l = 0; l < 64; ++l) s[l] = s[l] * s[(l * 7 + 1) % 64] + n;\n"
    many += "float t = 0; for (int j = 0; j < 64; ++j) t += s[j]; y[i] = t;"
    kernel, run = ran(many, "__launch_bounds__(1024, 2)")
    with pytest.raises(Judgement, match="spills to local memory"):
        require_registers(kernel, run)
