"""Reading machine code: operands, control fields, places in the source."""

from __future__ import annotations

import pytest

from warpschool.clock.cubin import machine_code
from warpschool.clock.sass import Function

SOURCE = """\
__constant__ float factor[4];
__device__ __forceinline__ float doubled(float x) {
    return x * factor[1];
}
extern "C" __global__ void scale(const float* in, float* out, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tile[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n) out[i] = doubled(tile[threadIdx.x ^ 1]);
}
"""


@pytest.fixture(scope="module")
def scale() -> Function:
    return machine_code(SOURCE, name="scale.cu", arch="sm_90")["scale"]


def test_what_a_launch_needs(scale: Function) -> None:
    assert scale.shared_bytes == 256
    assert 8 <= scale.registers <= 32
    assert scale.parameters == (0, 8, 16)
    assert scale.constant_symbols == {"factor": (0, 16)}


def test_a_load_has_its_address_and_its_scoreboard(scale: Function) -> None:
    (load,) = [i for i in scale.code if i.name == "LDG"]
    address = next(o for o in load.operands if o.kind == "mem")
    assert address.wide and address.index >= 0
    assert load.write_barrier < 6
    users = [i for i in scale.code if i.wait >> load.write_barrier & 1]
    assert users, "somebody waits for the data"


def test_lines_are_the_sources_and_name_the_caller(scale: Function) -> None:
    (barrier,) = [i for i in scale.code if i.name == "BAR"]
    assert barrier.line == 9
    inlined = [i for i in scale.code if i.line == 3]
    assert inlined and all(10 in i.chain for i in inlined)


def test_branches_lead_into_the_code(scale: Function) -> None:
    branches = [i for i in scale.code if i.name in ("BRA", "BSSY")]
    assert all(0 <= i.target < len(scale.code) for i in branches)


def test_stall_counts_are_those_of_a_fixed_latency(scale: Function) -> None:
    assert all(0 <= i.stall <= 15 for i in scale.code)
    assert any(i.stall >= 4 for i in scale.code)
