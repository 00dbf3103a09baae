"""Traces: what lanes touch, and that it adds up to what the simulator counts."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.contract import parse_contract
from warpschool.errors import ArgumentError, LaunchError
from warpschool.harness.launcher import Program
from warpschool.inspect.accesses import WarpRequest, trace

COPY = """// copy.cu: neighbours change places through shared memory, with lanes STEP floats apart.
// Entry:   copy(const float x[n] in, float y[n] out, int n)
// Launch:  copy block=(64) grid=(cdiv(n, 64))
constexpr int STEP = 1;
extern "C" __global__ void copy(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float unused[8];
    __shared__ float tile[64 * STEP];
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        tile[threadIdx.x * STEP] = x[i];
    }
    __syncthreads();
    if (i < n) {
        y[i] = tile[(threadIdx.x ^ 1) * STEP] + (n < 0 ? unused[0] : 0.0f);
    }
}
"""
WIDE = """// wide.cu: x from back to front, by float4.
// Entry:   wide(const float4 x[4*n] in, float4 y[4*n] out, int n)
// Launch:  wide block=(32) grid=(1)
extern "C" __global__ void wide(const float4* __restrict__ x, float4* __restrict__ y, int n)
{
    __shared__ float4 tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x];
}
"""
COUNT = """// count.cu: one atomic a thread.
// Entry:   count(const float x[n] in, float y[1] out, int n)
// Zeroed:  y
// Launch:  count block=(64) grid=(1)
extern "C" __global__ void count(const float* __restrict__ x, float* __restrict__ y, int n)
{
    atomicAdd(y, x[threadIdx.x]);
}
"""


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def access(space: str, offsets: list[int], *, nbytes: int = 4, start: int = 0) -> WarpRequest:
    lanes = np.full(32, -1, np.int64)
    lanes[: len(offsets)] = offsets
    return WarpRequest("k", 1, space, "load", "x", nbytes, 0, start, lanes)


@pytest.mark.parametrize("step", [1, 2, 3, 32])
def test_a_traced_block_adds_up_to_the_simulators_counts(step):
    contract = parse_contract(COPY, name="copy.cu")
    constants = {"STEP": step}
    seen = trace(contract, {"n": 64}, {"x": floats(64)}, constants=constants)
    counted = Program(contract, device="sim", constants=constants).run({"n": 64}, {"x": floats(64)}).counters
    loads, stores = seen.select("shared", "load"), seen.select("shared", "store")
    assert sum(a.wavefronts for a in loads) == counted.shared_load_wavefronts > 0
    assert sum(a.excess for a in stores) == counted.shared_store_bank_conflicts == 2 * (np.gcd(step, 32) - 1)
    assert sum(len(a.sectors) for a in seen.select("global", "load", "x")) == counted.global_load_sectors
    assert sum(a.fewest_sectors for a in seen.select("global", "store", "y")) == counted.global_store_sectors_ideal


def test_accesses_know_array_line_lanes_and_block():
    contract = parse_contract(COPY, name="copy.cu")
    seen = trace(contract, {"n": 100}, {"x": floats(100)}, block=1)
    first, second = seen.select("global", "load")
    assert (first.array, first.line, first.warp, second.warp) == ("x", 11, 0, 1)
    assert first.elements().tolist() == list(range(64, 96))
    assert second.lanes.tolist() == [0, 1, 2, 3], "threads past the end take no part"
    assert {a.array for a in seen.select("shared", "load")} == {"tile"}
    assert seen.select("global", "load", "y") == () and seen.worst("shared", "load", "none") is None
    assert "line 11: load of x, 4 sectors" in str(first)


def test_wide_accesses_take_a_quarter_of_the_lanes_at_a_time():
    contract = parse_contract(WIDE, name="wide.cu")
    seen = trace(contract, {"n": 32}, {"x": floats(128)})
    load = seen.worst("shared", "load")
    assert load is not None and (load.nbytes, load.wavefronts, load.excess) == (16, 4, 0)
    assert [word.turn for word in load.words() if word.lane in (0, 8, 31)] == [0] * 4 + [1] * 4 + [3] * 4
    assert "16 bytes a lane" in str(load)


def test_words_and_passes():
    column = access("shared", [128 * lane for lane in range(32)])
    assert {word.bank for word in column.words()} == {0}
    assert (column.wavefronts, column.excess) == (32, 31)
    assert access("shared", [0] * 32).wavefronts == 1, "one word serves all lanes at once"
    assert access("shared", [0, 4], start=64).words()[1].bank == 17
    pairs = access("shared", [136 * lane for lane in range(32)], nbytes=8)
    assert (pairs.wavefronts, pairs.excess) == (2, 0)


def test_sectors():
    assert access("global", [0, 4, 8]).sectors == (0,)
    rows = access("global", [256 * lane for lane in range(32)])
    assert (len(rows.sectors), rows.fewest_sectors, rows.excess) == (32, 4, 28)
    assert access("global", [28], nbytes=8).sectors == (0, 1)
    assert access("global", [0] * 32).fewest_sectors == 1
    assert access("global", []).fewest_sectors == 0


def test_kernels_that_order_their_warps_are_refused():
    with pytest.raises(ArgumentError, match="orders its warps"):
        trace(parse_contract(COUNT, name="count.cu"), {"n": 64}, {"x": floats(64)})


def test_impossible_launches_are_refused():
    contract = parse_contract(COPY.replace("block=(64)", "block=(2048)"), name="copy.cu")
    with pytest.raises(LaunchError):
        trace(contract, {"n": 64}, {"x": floats(64)})
