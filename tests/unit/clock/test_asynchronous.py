"""Hopper's asynchronous engines, warpgroups' products and clusters: followed as their machine code says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.clock.streams import issued

from warpschool.clock import core
from warpschool.clock.cubin import machine_code
from warpschool.clock.footprint import entries
from warpschool.clock.machine import find_machine
from warpschool.clock.predict import LaunchTime, predict_launch
from warpschool.clock.program import Program, encode
from warpschool.clock.subject import subject
from warpschool.clock.trace import KernelLaunch, PathUnknown, Tracer

REFERENCE = Path(__file__).parents[3] / "solutions" / "lab07_tensor_cores" / "06_wgmma.cu"
PLACE = 1 << 40
BULK = """\
extern "C" __global__ void bulk(float* g, int n, int bytes)
{
    __shared__ __align__(8) unsigned long long bar;
    __shared__ __align__(128) float tile[4096];
    const unsigned b = __cvta_generic_to_shared(&bar), t = __cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(t), "l"(g + i * 4096), "r"(bytes), "r"(b) : "memory");
        }
        asm volatile("{ .reg .pred p; a: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra a; }"
                     :: "r"(b), "r"(i & 1) : "memory");
    }
}
extern "C" __global__ void decides(int* g, int n)
{
    __shared__ __align__(8) unsigned long long bar;
    __shared__ __align__(128) int tile[32];
    const unsigned b = __cvta_generic_to_shared(&bar), t = __cvta_generic_to_shared(tile);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(b) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                 :: "r"(t), "l"(g), "r"(b) : "memory");
    asm volatile("{ .reg .pred p; a: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra a; }"
                 :: "r"(b) : "memory");
    volatile int* seen = tile;
    for (int i = 0; i < seen[3]; ++i) g[i + 64] = i;
}
"""
NAMED = """\
extern "C" __global__ void halves(float* p, int n)
{
    float x = p[threadIdx.x];
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x < 64) asm volatile("barrier.sync.aligned 1, 64;" ::: "memory");
        else x = x * x + 1.0f;
        asm volatile("" : "+f"(x));
    }
    if (threadIdx.x < 64) asm volatile("barrier.sync.aligned 2, 128;" ::: "memory");
    else asm volatile("barrier.arrive.aligned 2, 128;" ::: "memory");
    p[threadIdx.x] = x;
}
"""
LOOP = """\
constexpr int COUNT = 1;
extern "C" __global__ void loop(float* p, int n)
{
    float x = p[threadIdx.x], y = p[threadIdx.x + 32], z = p[threadIdx.x + 64], w = p[threadIdx.x + 96];
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) { x = x * x + y; y = y * y + z; z = z * z + w; w = w * w + x; }
    }
    p[threadIdx.x] = x + y + z + w;
}
"""


def _programs(source: str, **constants: int) -> dict[str, Program]:
    functions = machine_code(source, name="asynchronous.cu", arch="sm_90", constants=constants or None)
    return {name: encode(function) for name, function in functions.items()}


def _launch(*numbers: int, threads: int = 32) -> KernelLaunch:
    arguments = [np.uint64(PLACE), *(np.int32(n) for n in numbers)]
    return KernelLaunch((1, 1, 1), (threads, 1, 1), arguments, arrays=[(PLACE, np.zeros(1 << 20, np.uint8))])


def _predicted(program: Program, launch: KernelLaunch) -> LaunchTime:
    return predict_launch(program, launch, find_machine("h200"), warm=True)


def test_a_bulk_copy_is_waited_for_and_touches_its_lines() -> None:
    program = _programs(BULK)["bulk"]
    trace = Tracer(program, _launch(8, 2048)).run((0, 0, 0))
    assert issued(program, trace)["UBLKCP"] == 8
    assert np.bitwise_count(entries(trace) & 15).sum() * 32 == 8 * 2048
    one, two = (_predicted(program, _launch(n, 2048)).cycles for n in (8, 16))
    latency = find_machine("h200")["latency"]["l2"]
    assert latency < (two - one) / 8 < 2 * latency  # nothing hides the latency of one copy at a time
    large, small = (_predicted(program, _launch(16, size)).cycles for size in (16384, 2048))
    assert large - small > 16 * (16384 - 2048) / 128  # a line takes a cycle at least


def test_what_a_copy_brings_decides_nothing() -> None:
    with pytest.raises(PathUnknown, match="depends on computed data"):
        Tracer(_programs(BULK)["decides"], _launch(0, threads=1)).run((0, 0, 0))


def test_barriers_with_names_are_waited_for_by_those_whom_they_concern() -> None:
    program = _programs(NAMED)["halves"]
    few, many = (_predicted(program, _launch(n, threads=128)).cycles for n in (10, 110))
    barrier = find_machine("h200")["issue"]["barrier"]
    assert 100 * barrier < many - few < 100 * (barrier + 60)


def test_a_loop_that_the_first_cache_of_code_does_not_hold_takes_longer() -> None:
    rates = []
    for count in (256, 700):
        program = _programs(LOOP, COUNT=count)["loop"]
        few, many = (_predicted(program, _launch(n)).cycles for n in (4, 8))
        rates.append((many - few) / (4 * 4 * count))
    code = find_machine("h200")["code"]
    assert rates[0] < 0.7 * rates[1]
    assert rates[1] == pytest.approx(code["near_line"] / 8, rel=0.2)


def test_products_of_warpgroups_keep_the_tensor_cores_busy() -> None:
    sizes = {"M": 256, "N": 256, "K": 512}
    (part,) = subject(str(REFERENCE), sizes, find_machine("h200")).parts
    assert part.program is not None
    program, launch = part.program, part.launch
    assert program.function.cluster == (2, 1, 1)
    trace = Tracer(program, launch).run((0, 0, 0))
    count = issued(program, trace)
    assert count["HGMMA"] == 8 * 4 * (512 // 64)  # eight warps, four of 16 steps a tile
    assert count["UTMALDG"] == 3 * 512 // 64 and count["UTMASTG"] == 2 * 4
    found = _predicted(program, launch)
    assert found.used[core.U_TENSOR] == 128 * count["HGMMA"]
    assert found.cycles > 2 * 4 * (512 // 64) * 128
