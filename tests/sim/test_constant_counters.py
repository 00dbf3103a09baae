"""Constant memory: requests and passes, on the translated simulator and on the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

N, BLOCK = 100, 64
SOURCE = """
__constant__ float table[64] = {1.0f, 2.0f, 3.0f};
extern "C" __global__ void k(const int* index, float* y, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        float sum = table[index[i]];
        sum += table[blockIdx.x];
        if (threadIdx.x % 32 < 7) {
            sum += table[threadIdx.x % 3];
        }
        y[i] = sum + table[threadIdx.x];
    }
}
"""


@pytest.mark.parametrize("run", [engine_launch.launch, oracle_launch.launch], ids=["engine", "oracle"])
def test_a_pass_for_each_distinct_word(run):
    index = np.random.default_rng(1).integers(0, 64, N).astype(np.int32)
    y = np.zeros(N, np.float32)
    ptx = compile_cuda(SOURCE).ptx
    counters = run(ptx, "k", (2, 1, 1), (BLOCK, 1, 1), index, y, np.int32(N)).counters
    warps = [range(first, min(first + 32, N)) for first in range(0, N, 32)]
    own = sum(len(set(index[list(lanes)])) for lanes in warps)
    by_block, in_branch, by_thread = len(warps), 3 * len(warps), N
    assert counters["constant_load_requests"] == 4 * len(warps)
    assert counters["constant_load_passes"] == own + by_block + in_branch + by_thread
