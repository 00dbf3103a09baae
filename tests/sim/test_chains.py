"""Register blocking: sums in an order that suits the host, and patterns picked out of whole lines, change no bit."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import parse
from ptxsim.codegen.chains import NARROW, WIDE, Room, in_chains
from warpschool.compile import compile_cuda

from .engine_launch import launch
from .oracle_launch import launch as oracle

BLOCKED = """extern "C" __global__ void k(const float* a, const float* b, float* c, int steps)
{
    __shared__ float tileA[8][65], tileB[8][64];
    const int t = threadIdx.x, row = t / 8 * 8, col = t % 8 * 8;
    float sums[8][8] = {};
    for (int s = 0; s < steps; ++s) {
        for (int k = 0; k < 8; ++k) {
            tileA[k][t] = a[(s * 8 + k) * 64 + t];
            tileB[k][t] = b[(s * 8 + k) * 64 + t];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k)
#pragma unroll
            for (int m = 0; m < 8; ++m)
#pragma unroll
                for (int n = 0; n < 8; ++n) sums[m][n] += tileA[k][row + m] * tileB[k][col + n];
        __syncthreads();
    }
    for (int m = 0; m < 8; ++m)
        for (int n = 0; n < 8; ++n) c[(row + m) * 64 + col + n] = sums[m][n];
}
"""


@pytest.fixture(scope="module")
def ptx():
    return compile_cuda(BLOCKED, name="blocked.cu").ptx


@pytest.mark.parametrize("room", [WIDE, NARROW])
def test_sums_stand_together(ptx, room: Room):
    (block,) = (b for b in parse(ptx).kernel("k").body.blocks if sum(i.opcode == "fma" for i in b.instructions) == 512)
    ordered = in_chains(block, room)
    assert sorted(map(id, ordered)) == sorted(map(id, block.instructions))
    sums = [i for i in ordered if i.opcode == "fma"]
    first = sums[: 8 * room.together]
    assert len({i.written for i in first} | {(i.operands[3].name,) for i in first}) <= 9 * room.together
    given: set[str] = set()
    writers = {name for i in block.instructions for name in i.written}
    for i in ordered:  # nothing is read before it is written, but what lives from one turn to the next
        late = {o.name for o in i.operands[1:] if hasattr(o, "name")} & writers - given
        assert all(name in block.live_in for name in late)
        given |= {*i.written}


@pytest.mark.parametrize(
    "options", [{"check": False, "count": False}, {}, {"parted": True}, {"tier": "stencils"}], ids=str
)
@pytest.mark.thinned(2)
def test_no_bit_changes(ptx, options):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((24, 64), np.float32) * np.float32(10) ** rng.integers(-20, 18, (24, 64)) for _ in "ab")
    given = a.astype(np.float32), b.astype(np.float32), np.zeros((64, 64), np.float32), np.int32(3)
    options = {"tier": "compiled"} | options
    ours, theirs = launch(ptx, "k", (1,), (64,), *given, **options), oracle(ptx, "k", (1,), (64,), *given)
    assert (ours.arrays[2].view(np.uint32) == theirs.arrays[2].view(np.uint32)).all()
    if options.get("count", True):
        assert ours.counters == {n: v for n, v in theirs.counters.items() if v} | {"blocks": 1}


STRIDES = """extern "C" __global__ void k(const float* a, float* c)
{{
    __shared__ {type} s[64];
    const int t = threadIdx.x;
    for (int k = t; k < 64; k += blockDim.x) reinterpret_cast<float*>(s)[k] = a[k];
    __syncthreads();
    {body}
}}
"""


@pytest.mark.parametrize(("type_", "body"), [
    ("float", "for (int k = 0; k < 4; ++k) c[t * 4 + k] = s[(t % 8) * 4 + k];"),
    ("float", "c[t] = s[(t % 4) * 9 + 1]; s[t % 32] = t; c[t] += s[(t % 4) * 9 + 1];"),
    ("float", "c[t] = s[63 - (t % 16) * 2];"),
    ("float2", "const float2 v = s[(t % 8) * 2 + 1]; c[t] = v.x - v.y;"),
    ("float4", "const float4 v = s[t % 4 * 3]; c[t] = v.x - v.y + v.z * v.w;"),
])  # fmt: skip
def test_scattered_words(type_, body):
    text = compile_cuda(STRIDES.format(type=type_, body=body), name="k.cu").ptx
    given = np.arange(64, dtype=np.float32) * 3 + 1, np.zeros(256, np.float32)
    ours, theirs = launch(text, "k", (1,), (32,), *given, check=False), oracle(text, "k", (1,), (32,), *given)
    assert (ours.arrays[1] == theirs.arrays[1]).all()
