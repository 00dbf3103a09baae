"""What warps wait for is called what Nsight Compute calls it, and costs what microbenchmarks say."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.clock import core
from warpschool.clock.blocks import blocks_of_one, work_of
from warpschool.clock.cubin import machine_code
from warpschool.clock.machine import find_machine
from warpschool.clock.predict import LaunchTime, follow, time_of
from warpschool.clock.program import Program, encode
from warpschool.clock.trace import KernelLaunch, Tracer

PLACE, BYTES = 1 << 20, 1 << 24
STRIDED = """\
extern "C" __global__ void kernel(float* p, int step)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x);
    p[(long long)i * step % (1 << 22)] = 1.0f;
}
"""
LOADS = """\
extern "C" __global__ void kernel(const float* p, float* out, int from, int step, int loops)
{
    float s = 0.0f;
    const float* mine = p + from + threadIdx.x % 32 * step;
#pragma unroll 1
    for (int k = 0; k < loops; ++k) {
        float x[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) x[j] = __ldg(mine + ((k & 1) * 8 + j) * 2048);
#pragma unroll
        for (int j = 0; j < 8; ++j) s += x[j];
    }
    if (s == 1.5f) *out = s;
}
"""
TOGETHER = """\
extern "C" __global__ void kernel(const float* p, float* out)
{
    float s = p[threadIdx.x % 32 * 32];
    if (s == 1.5f) *out = s;
}
"""
READERS = """\
extern "C" __global__ void kernel(float* out, int n)
{
    __shared__ float tile[4096];
    for (int k = threadIdx.x; k < 4096; k += blockDim.x) tile[k] = 0.0f;
    __syncthreads();
    float s = 0.0f;
    int at = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < n; ++k) { s += tile[at & 4095]; at += 32 + k; }
    if (s == 1.5f) *out = s;
}
"""
NEAR = 'asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"({}) : "r"(near + {}) : "memory");'
FAR = 'asm volatile("ld.global.f32 %0, [%1];" : "=f"({}) : "l"(p + far + {}) : "memory");'
BEHIND = """\
extern "C" __global__ void kernel(const float* p, float* out, int at, int step)
{
    __shared__ float tile[8192];
    for (int k = threadIdx.x; k < 8192; k += blockDim.x) tile[k] = 0.0f;
    __syncthreads();
    const unsigned near = (unsigned)__cvta_generic_to_shared(tile) + threadIdx.x % 32 * step * 4;
    const unsigned far = threadIdx.x % 32 * step;
    float x[17] = {};
    if (ALL || threadIdx.x < 32) { FIRST }
    if (threadIdx.x >= blockDim.x - 32) { THEN }
    if (x[16] == 1.5f) out[at] = 1.0f;
    float s = 0.0f;
    for (int k = 0; k < 16; ++k) s += x[k];
    if (s == 1.5f) *out = s;
}
"""
CAUSAL = """\
extern "C" __global__ void kernel(float* p, int n)
{
    float s = 0.0f;
#pragma unroll 1
    for (int k = 0; k < (int)(blockIdx.x + 1) * n; ++k) s = s * 0.5f + 1.0f;
    p[threadIdx.x] = s;
}
"""
FACTOR = """\
extern "C" __global__ void kernel(const float* p, float* out, float limit)
{
    float above;
    asm volatile("set.gt.f32.f32 %0, %1, %2;" : "=f"(above) : "f"(p[threadIdx.x]), "f"(limit));
    for (int k = 0; k < (int)(above * 7.0f); ++k) out[threadIdx.x] += 1.0f;
}
"""


def _program(source: str) -> Program:
    return encode(machine_code(source, name="states.cu", arch="sm_90")["kernel"])


def _launch(*numbers: int, arrays: int = 1, blocks: int = 1, threads: int = 32) -> KernelLaunch:
    held = [(PLACE + k * BYTES, np.zeros(BYTES, np.uint8)) for k in range(arrays)]
    arguments = [*(np.uint64(address) for address, _ in held), *(np.int32(n) for n in numbers)]
    return KernelLaunch((blocks, 1, 1), (threads, 1, 1), arguments, arrays=held)


def _timed(source: str, launch: KernelLaunch, *, warm: bool = True) -> LaunchTime:
    machine = find_machine("h200")
    return time_of(follow(_program(source), launch, machine), machine, warm=warm)


def _share(found: LaunchTime, state: int) -> float:
    return float(found.stalls[:, state].sum() / found.stalls.sum())


def test_a_warp_that_has_ended_drains_its_stores() -> None:
    """Scattered stores take L2 long; those of neighbours are gone at once."""
    together, scattered = (_timed(STRIDED, _launch(step, blocks=1056, threads=256)) for step in (1, 64))
    assert _share(scattered, core.R_DRAIN) > 0.4
    assert _share(together, core.R_DRAIN) < 0.5 * _share(scattered, core.R_DRAIN)


@pytest.mark.parametrize(
    ("start", "step", "cycles"), [(0, 1, 1), (1, 1, 1), (0, 8, 8), (0, 5, 2), (0, 9, 3), (0, 33, 9), (0, 32, 32)]
)
def test_loads_cost_banks_and_tags(start: int, step: int, cycles: int) -> None:
    """As the microbenchmarks' `l1_32/stride_*` and `from_4`: conflicts of banks, or four lines looked up in a cycle."""
    few, many = (
        _timed(LOADS, _launch(start, step, loops, arrays=2, threads=1024)).used[core.U_CYCLES] for loops in (20, 40)
    )
    assert (many - few) / (20 * 8 * 32) == pytest.approx(cycles, rel=0.2)


def test_who_asks_for_what_is_on_its_way_waits_for_it() -> None:
    """Sixteen warps read the same lines: all of them wait for DRAM, not the first one alone."""
    found = _timed(TOGETHER, _launch(arrays=2, threads=512), warm=False)
    assert found.stalls[:, core.R_LONG].sum() > 16 * 600


def test_reads_of_shared_memory_are_a_short_scoreboard() -> None:
    found = _timed(READERS, _launch(500, threads=1024))
    assert found.stalls[:, core.R_LONG].sum() == 0
    assert _share(found, core.R_SHORT) > 0.2


def _behind(first: str, count: int, then: str, *, threads: int = 32) -> LaunchTime:
    """`count` times one load, whose lanes all want one bank, by the first warp, then another one by the last; without
    another one, all warps do the first."""
    ahead = " ".join(first.format(f"x[{k}]", 4 * k) for k in range(count))
    source = BEHIND.replace("FIRST", ahead).replace("THEN", then.format("x[16]", 64) if then else "")
    source = source.replace("ALL", "0" if then else "1")
    return _timed(source, _launch(0, 32, arrays=2, threads=threads))


def test_a_load_from_shared_memory_passes_loads_that_wait_for_l1() -> None:
    """`behind/ldg_32_lines_one_bank/lds`: 70 cycles behind none and behind eight, which take 256 cycles or more."""
    alone, behind = (_behind(FAR, count, NEAR).stalls[:, core.R_SHORT].sum() for count in (0, 8))
    assert behind < alone + 64


def test_a_load_from_global_memory_does_not_wait_for_all_from_shared_memory() -> None:
    """`behind/lds_one_bank/ldg`: as long behind eight as behind four, which take 256 cycles less."""
    none, four, eight = (_behind(NEAR, count, FAR, threads=64).stalls[:, core.R_LONG].sum() for count in (0, 4, 8))
    assert none < four <= eight < none + 200


def test_words_of_a_bank_take_one_sub_core_longer_than_four() -> None:
    """Thirty-two lanes want one bank: 64 cycles for a warp's loads alone, 32 where those of others overlap."""
    for threads, cycles in ((32, 64), (512, 32)):
        few, many = (_behind(NEAR, n, "", threads=threads).used[core.U_CYCLES] for n in (8, 16))
        assert (many - few) / (8 * threads / 32) == pytest.approx(cycles, rel=0.1)


def test_the_last_of_a_launch_is_followed_where_blocks_differ() -> None:
    """Blocks that do more and more: every 132nd would be told from the least ones."""
    tracer = Tracer(_program(CAUSAL), _launch(20, blocks=264))
    work = work_of(tracer)
    assert work.each is not None and not work.is_even
    numbers = blocks_of_one(work, tracer.launch, 132, 1)
    sums = np.array([work.each[k::132].sum() for k in range(132)])
    assert work.each[numbers].sum() > sums.min()
    assert max(numbers) == 263


def test_blocks_that_differ_along_an_axis_are_told_from_five() -> None:
    tracer = Tracer(_program(CAUSAL), _launch(1500, blocks=400))
    work = work_of(tracer)
    exact = tracer.run((321, 0, 0)).issued
    assert work.each is not None
    assert work.each[321] == pytest.approx(exact, rel=0.01)
    assert work.total == pytest.approx(sum(tracer.run((x, 0, 0)).issued for x in range(0, 400, 40)) * 40, rel=0.15)


def test_a_comparison_that_gives_a_number_is_followed() -> None:
    """FSET decides here how often a loop runs."""
    data = np.zeros(1 << 12, np.float32)
    data[:16] = 2.0
    low, high = (
        KernelLaunch(
            (1, 1, 1), (32, 1, 1), [np.uint64(PLACE), np.uint64(PLACE + BYTES), np.float32(limit)],
            arrays=[(PLACE, data), (PLACE + BYTES, np.zeros(BYTES, np.uint8))],
        ) for limit in (1.0, 3.0)
    )  # fmt: skip
    program = _program(FACTOR)
    assert any(i.name == "FSET" for i in program.function.code)
    assert Tracer(program, low).run((0, 0, 0)).issued > Tracer(program, high).run((0, 0, 0)).issued + 7
