"""Where warps go: the interpreter against what a kernel obviously does, and against counts of an H200."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.clock.streams import issued

from warpschool.clock.cubin import machine_code
from warpschool.clock.footprint import PAIR, busiest_lines, entries, pairs_touched
from warpschool.clock.program import Program, encode
from warpschool.clock.trace import BlockTrace, KernelLaunch, PathUnknown, Tracer


def _program(body: str, *, parameters: str = "float* p, int n") -> Program:
    source = f'extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
    return encode(machine_code(source, name="kernel.cu", arch="sm_90")["kernel"])


def _launch(*arguments: np.generic, block: int = 64, **more: object) -> KernelLaunch:
    return replace(KernelLaunch((4, 1, 1), (block, 1, 1), arguments), **more)  # type: ignore[arg-type]


def _followed(program: Program, launch: KernelLaunch, block: int = 0) -> BlockTrace:
    return Tracer(program, launch).run((block, 0, 0))


def test_a_loop_runs_as_often_as_its_bound_says() -> None:
    program = _program(
        "float s = p[threadIdx.x];\n#pragma unroll 1\n"
        "for (int k = 0; k < n; ++k) s = s * s + 1.0f;\np[threadIdx.x] = s;"
    )
    for n in (1, 7, 100):
        trace = _followed(program, _launch(np.uint64(1 << 32), np.int32(n)))
        assert issued(program, trace)["FFMA"] == 2 * n


def test_lanes_that_part_issue_both_sides() -> None:
    text = """
    float s = p[threadIdx.x];
    if (threadIdx.x % 32 < n) {
#pragma unroll 1
        for (int k = 0; k < 50; ++k) s = s * s + 1.0f;
    } else {
#pragma unroll 1
        for (int k = 0; k < 20; ++k) s = sqrtf(s);
    }
    p[threadIdx.x] = s;"""
    program = _program(text)
    both = issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(16))))
    one = issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(32))))
    assert one["FFMA"] >= 100 and "MUFU" not in one
    assert both["FFMA"] >= 100 and both["MUFU"] >= 40


def test_warps_wait_for_each_other_at_a_barrier() -> None:
    text = """
    __shared__ float t[64];
    for (int k = 0; k < n; ++k) {
        t[threadIdx.x] = k;
        __syncthreads();
        p[threadIdx.x] += t[63 - threadIdx.x];
        __syncthreads();
    }"""
    program = _program(text)
    assert issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(3))))["BAR"] == 2 * 2 * 3


@pytest.mark.parametrize(("stride", "lines"), [(1, 1), (2, 2), (8, 8), (32, 32)])
def test_the_lines_of_a_load(stride: int, lines: int) -> None:
    program = _program("p[1 << 20] = p[threadIdx.x * n];")
    trace = _followed(program, _launch(np.uint64(1 << 32), np.int32(stride), block=32))
    found = entries(trace)
    assert len([entry for entry in found if entry >> 4 < (1 << 25) + (1 << 14)]) == lines


def test_ways_that_depend_on_data_follow_the_data() -> None:
    text = """
    float s = 0;
    #pragma unroll 1
    for (int k = 0; k < count[blockIdx.x]; ++k) s = s * s + 1.0f;
    p[threadIdx.x] = s;"""
    program = _program(text, parameters="float* p, const int* count")
    counts = np.array([3, 30, 300, 5], np.int32)
    launch = _launch(np.uint64(1 << 32), np.uint64(1 << 33), arrays=[(1 << 33, counts)])
    assert program.reads_memory
    for block, n in enumerate(counts):
        assert issued(program, _followed(program, launch, block))["FFMA"] == 2 * n


def test_a_way_that_tensor_cores_decide_is_unknown() -> None:
    text = """
    unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, threadIdx.x};
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
        "r"(b[1]));
    float s = d[0];
    #pragma unroll 1
    for (int k = 0; s > k && k < n; ++k) s = s * 0.5f;
    p[threadIdx.x] = s;"""
    program = _program(text)
    assert program.doubtful
    with pytest.raises(PathUnknown, match="HMMA"):
        _followed(program, _launch(np.uint64(1 << 32), np.int32(9)))


@pytest.mark.parametrize("value", ["d[0] / d[1]", "1.0f / d[0]", "sqrtf(d[0])"])
def test_a_division_of_what_tensor_cores_gave_is_an_ordinary_one(value: str) -> None:
    text = """
    unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, threadIdx.x};
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
        "r"(b[1]));
    p[threadIdx.x] = VALUE;"""
    program = _program(text.replace("VALUE", value))
    names = [i.name for i in program.function.code]
    assert program.doubtful and "CALL" in names
    counts = issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(9))))
    assert counts["HMMA"] == 2 and "CALL" not in counts


def test_what_an_earlier_launch_would_have_written_is_unknown() -> None:
    """A division by it is an ordinary one; a way that depends on it is not known, whatever the array holds here."""
    sums = np.zeros(64, np.float32)
    arrays = {"arrays": [(1 << 33, sums)]}
    pointers = np.uint64(1 << 32), np.uint64(1 << 33)
    divides = _program("p[threadIdx.x] = 1.5f / sums[threadIdx.x];", parameters="float* p, const float* sums")
    held = issued(divides, _followed(divides, _launch(*pointers, **arrays)))
    unknown = issued(divides, _followed(divides, _launch(*pointers, unknown=frozenset([1 << 33]), **arrays)))
    assert sum(held.values()) > sum(unknown.values())
    ways = _program("if (sums[0] == 0.0f) p[threadIdx.x] = 1.0f;", parameters="float* p, const float* sums")
    assert "STG" in issued(ways, _followed(ways, _launch(*pointers, **arrays)))
    with pytest.raises(PathUnknown):
        _followed(ways, _launch(*pointers, unknown=frozenset([1 << 33]), **arrays))


def test_a_block_may_leave_under_a_guard_and_a_condition() -> None:
    """ptxas puts two conditions into one instruction: `@P4 EXIT P0`."""
    program = _program(
        "if (n && blockIdx.x > blockDim.y) return;\nfloat s = p[threadIdx.x];\n#pragma unroll 1\n"
        "for (int k = 0; k < 50; ++k) s = s * s + 1.0f;\np[threadIdx.x] = s;"
    )
    assert any(i.name == "EXIT" and i.operands and i.guard for i in program.function.code)
    for n, block, stays in ((0, 0, True), (0, 3, True), (1, 1, True), (1, 2, False)):
        counts = issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(n)), block))
        assert ("FFMA" in counts) == stays


def test_ways_that_depend_on_halves_follow_them() -> None:
    """All kinds of them: ordinary ones, those below 2^-14, infinite ones, none."""
    program = _program(
        "float s = 0, a, limit = bound[blockIdx.x];\n"
        'asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(halves[n + blockIdx.x]));\n#pragma unroll 1\n'
        "for (int k = 0; a == limit && k < 30; ++k) s = s * s + 1.0f;\np[threadIdx.x] = s;",
        parameters="float* p, const unsigned short* halves, const float* bound, int n",
    )
    assert any(i.opcode == "HADD2.F32" for i in program.function.code) and not program.doubtful
    values = np.array([1.5, -0.333, 2.0**-24, 6.0e-5, np.inf, np.nan, 65504, -0.0], np.float16)
    arrays = [(1 << 33, values), (1 << 34, values.astype(np.float32))]
    launch = _launch(
        np.uint64(1 << 32), np.uint64(1 << 33), np.uint64(1 << 34), np.int32(0), arrays=arrays, grid=(len(values), 1, 1)
    )
    for block, value in enumerate(values):
        assert ("FFMA" in issued(program, _followed(program, launch, block))) == (value == value)


def test_a_line_counts_once_however_often_it_is_asked_for() -> None:
    asked = np.array([7 << 4 | 0b0001, 7 << 4 | 0b0010, 7 << 4 | 0b1111, 9 << 4 | 0b0100], np.int64)
    assert pairs_touched(asked).tolist() == [7 * 128, 7 * 128 + PAIR, 9 * 128 + PAIR]


def test_atomics_of_many_lanes_at_one_address_take_turns() -> None:
    program = _program("atomicAdd(p + threadIdx.x / n, 1.0f);")
    kinds = np.array([2 if i.name in ("RED", "REDG") else 0 for i in program.function.code])
    assert kinds.any()
    for lanes, turns in ((1, 1), (4, 2 * 4), (32, 2 * 32)):
        trace = _followed(program, _launch(np.uint64(1 << 32), np.int32(lanes)))
        assert busiest_lines([trace], kinds)[:, 2].max() == turns
    assert not len(busiest_lines([trace], 0 * kinds))


def test_integer_division_by_a_number_known_late() -> None:
    """Division is a loop-free sequence of conversions and corrections, which must come out exactly."""
    program = _program("#pragma unroll 1\nfor (int k = 0; k < 1000 / n; ++k) p[k * 64 + threadIdx.x] = k;")
    for n in (1, 3, 7, 999, 1000, 1001):
        counts = issued(program, _followed(program, _launch(np.uint64(1 << 32), np.int32(n))))
        assert counts.get("STG", 0) == 2 * (1000 // n)
