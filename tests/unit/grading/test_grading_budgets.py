"""Budgets that several grader files share."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.grading import Verdict
from warpschool.grading.budgets import (
    barriers_per_block,
    require_barriers,
    require_lanes,
    require_products,
    require_read_once,
    require_registers,
    require_wide,
    shared_bytes_of_blocks,
)
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
    assert shared_bytes_of_blocks(ran()[1]) == 4 * (64 * 16 + 128)


def test_barriers_of_a_block():
    assert barriers_per_block(ran()[1]) == 2


def test_what_a_block_reads_again_is_told():
    sizes = {"n": 1024}
    for store, again in ((WIDE, 0), (f"{WIDE} if (n < 0 || x[4 * i] > 2) y[i] = 0;", 4 * 64)):
        kernel, _ = ran(store)
        arrays = kernel.inputs(sizes, np.random.default_rng(0))
        if not again:
            require_read_once(kernel, sizes, arrays, "x", block=3)
            continue
        with pytest.raises(Judgement, match=f"bytes of x that a block loads: {1024 + again:,} bytes; at most 1,024"):
            require_read_once(kernel, sizes, arrays, "x", block=3)


def test_a_block_that_cannot_be_followed_is_told():
    kernel, _ = ran(f"__threadfence(); {WIDE}")
    arrays = kernel.inputs({"n": 1024}, np.random.default_rng(0))
    with pytest.raises(Judgement, match="cannot be counted: k orders its warps") as caught:
        require_read_once(kernel, {"n": 1024}, arrays, "x", block=0)
    assert caught.value.verdict is Verdict.PERF


def test_one_lane_at_a_time_is_too_few():
    require_lanes(*ran())
    walk = "for (int k = 0; k < 128; ++k) z[4 * i + k] = tile[k / 4].x;"
    alone = f"volatile float* z = y; if (threadIdx.x % 32 == 0) {walk}"
    with pytest.raises(Judgement, match=r"lanes at work in each instruction of k: .*; at least 16") as caught:
        require_lanes(*ran(alone))
    assert caught.value.verdict is Verdict.PERF


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


IDLE = ("// Launch:", "// Entry:   idle(int n)\n// Launch:  idle block=(64) grid=(1000)\n// Launch:")


def test_a_launch_without_work_thins_out_no_barriers():
    source = SOURCE.replace("STORE", WIDE).replace("BOUNDS", "").replace(*IDLE, 1)
    kernel = load_submission(source + 'extern "C" __global__ void idle(int n) {}\n', name="k.cu")
    run = kernel.run({"n": 1024}, kernel.inputs({"n": 1024}, np.random.default_rng(0)))
    assert len(run.launches) == 2 and barriers_per_block(run) == 2
    require_barriers(kernel, run, 1, each=1)
    with pytest.raises(Judgement, match="barriers for each block: 2; at most 1"):
        kernel.within(barriers_per_block(run), 1, "barriers for each block")


DOT = """// dot.cu: y = 32 dot products of 64 numbers each.
// Entry:   dot(const float a[32,64] in, const float b[64] in, float y[32] out)
// Launch:  dot block=(32) grid=(1)
extern "C" __global__ void dot(const float* a, const float* b, float* y)
{
    float sum = 0.0f;
    float waste = 0.0f;
    double exact = 0.0;
    for (int k = 0; k < 64; ++k) { LOOP }
    y[threadIdx.x] = RESULT;
}
"""
ONE = "a[threadIdx.x * 64 + k]"
SUM = f"sum += {ONE} * b[k];"
EXACT = f"exact += (double){ONE} * b[k];"
SHOW = 'asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(waste) : "f"(b[k]));'


@pytest.mark.parametrize(
    ("loop", "result", "share", "seen"),
    [
        (SUM, "sum", 0.9, ""),
        (f"sum = __fadd_rn(sum, __fmul_rn({ONE}, b[k]));", "sum", 0.9, ""),
        (SUM, "fmaxf(sum, -100.0f) + 5.0f", 0, ""),
        (SUM, "sum + 5.0f", 0.9, "elements of y that do not come from products of single precision"),
        (EXACT, "(float)exact", 0.9, "products of single precision: 0; at least 2,048"),
        (EXACT + SHOW, "(float)exact", 0.9, "elements of y that do not come from products of single precision: 3"),
        (EXACT + SHOW, "(float)exact + 0.0f * waste", 0.9, "elements of y that do not come from products"),
        (f"if (k % 2) {{ {SUM} {SHOW} }} else {{ {EXACT} }}", "sum + (float)exact", 0.9, "elements of y that do not"),
    ],
)
def test_results_come_from_the_products_that_are_counted(loop, result, share, seen):
    kernel = load_submission(DOT.replace("LOOP", loop).replace("RESULT", result), name="dot.cu")
    run = kernel.run({}, kernel.inputs({}, np.random.default_rng(0)))
    if not seen:
        return require_products(kernel, run, 32 * 64, share=share)
    with pytest.raises(Judgement, match=seen) as caught:
        require_products(kernel, run, 32 * 64, share=share)
    assert caught.value.verdict is Verdict.PERF


def test_all_kinds_of_arithmetic_count():
    for loop, operations in ((SUM, 2), (f"sum = __fadd_rn(sum, __fmul_rn({ONE}, b[k]));", 2), (EXACT, 2)):
        kernel = load_submission(DOT.replace("LOOP", loop).replace("RESULT", "sum + (float)exact"), name="dot.cu")
        counters = kernel.run({}, kernel.inputs({}, np.random.default_rng(0))).counters
        assert counters.multiplications in range(2048, 2048 + 64 + 1)
        assert counters.operations in range(operations * 2048, operations * 2048 + 4 * 32 + 1)
