"""Blocks that are alike come and go in sets: what is left out between sets that are followed, and who gets the last."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.clock import predict
from warpschool.clock.cubin import machine_code
from warpschool.clock.machine import find_machine
from warpschool.clock.program import Program, encode
from warpschool.clock.trace import KernelLaunch

SMS, PLACE = 132, 1 << 20
SHARED = 50 << 10
"""of which four blocks find room on a multiprocessor"""
MULTIPLIES = """\
extern "C" __global__ void kernel(float* p, int n)
{
    float s[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) s[j] = p[threadIdx.x + j];
#pragma unroll 8
    for (int k = 0; k < n; ++k) {
#pragma unroll
        for (int j = 0; j < 8; ++j) s[j] = s[j] * 0.5f + 1.0f;
    }
    p[threadIdx.x] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}
"""
LOADS = """\
extern "C" __global__ void kernel(float* p, int n)
{
    float s = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        s += __ldcg(p + (blockIdx.x * n + k) % 4096 * 32 + threadIdx.x % 32 + (int)(s * 0.0f));
        __syncthreads();
    }
    p[threadIdx.x] = s;
}
"""


def _program(source: str) -> Program:
    return encode(machine_code(source, name="sets.cu", arch="sm_90")["kernel"])


def _cycles(program: Program, n: int, blocks: int) -> tuple[float, predict.Followed]:
    array = np.zeros(1 << 19, np.uint8)
    launch = KernelLaunch(
        (blocks, 1, 1), (128, 1, 1), [np.uint64(PLACE), np.int32(n)], shared_bytes=SHARED, arrays=[(PLACE, array)]
    )
    machine = find_machine("h200")
    found = predict.follow(program, launch, machine)
    return predict.time_of(found, machine, warm=True).cycles, found


@pytest.mark.parametrize("source", [MULTIPLIES, LOADS])
@pytest.mark.parametrize("each", [9, 27])
def test_what_is_left_out_is_whole_sets(source: str, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as if all blocks were followed, where a multiprocessor's are two sets and a rest, or many sets."""
    program = _program(source)
    all_cycles, everything = _cycles(program, 300, each * SMS)
    assert len(everything.order) == each
    monkeypatch.setattr(predict, "_MOST_TRACED", 5 * everything.instructions / (each * SMS))
    cycles, found = _cycles(program, 300, each * SMS)
    assert found.resident == 4 and (len(found.order) < each or each == 9)
    of_a_block = everything.instructions / (each * SMS)
    assert len(found.order) + found.left / of_a_block == pytest.approx(each)
    assert cycles == pytest.approx(all_cycles, rel=0.04)


def test_the_last_blocks_follow_the_others_where_sets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "_MOST_TRACED", 120_000)
    _, found = _cycles(_program(MULTIPLIES), 100, 27 * SMS)
    assert len(found.order) % found.resident == found.rest == 3
    assert max(found.order) == len(set(found.order)) - 1


def test_who_waits_for_memory_gets_full_sets() -> None:
    """`sets/*`: a sixteenth of a set more costs a quarter of its time where nothing brings multiprocessors apart, and
    most of it where blocks wait for L2: some multiprocessors get four blocks then, most of them none."""
    for source, n, least, most in ((MULTIPLIES, 500, 0.0, 0.5), (LOADS, 500, 0.6, 1.1)):
        program = _program(source)
        one, two, more = (
            _cycles(program, n, blocks)[0] for blocks in (4 * SMS, 8 * SMS, 4 * SMS + SMS // 4)
        )  # fmt: skip
        assert least <= (more - one) / (two - one) <= most


def test_the_part_that_comes_again() -> None:
    """Of one multiprocessor all places where it is far ahead; as many as of all others where they go together."""
    assert predict._share_of_first(0.1, 100.0, 0.0) == pytest.approx(0.1)
    assert predict._share_of_first(0.1, 100.0, 1e6) == 1.0
    assert 0.1 < predict._share_of_first(0.1, 100.0, 50.0) < 0.5
    assert predict._share_of_first(0.1, 0.0, 0.0) == 0.1
