"""Whose multiply-adds a scheduler issues, and how long they take: the rows `scheduler/*` and `banks/*` of an H200."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from warpschool.clock.cubin import machine_code
from warpschool.clock.machine import find_machine
from warpschool.clock.predict import predict_launch
from warpschool.clock.program import encode
from warpschool.clock.sass import Function, Instruction, Operand
from warpschool.clock.trace import KernelLaunch

PLACE = 1 << 20
MULTIPLIES = """\
extern "C" __global__ void kernel(float* p, int n)
{
    float s[16];
    const float a = p[threadIdx.x], b = p[threadIdx.x + 1];
#pragma unroll
    for (int j = 0; j < 16; ++j) s[j] = p[threadIdx.x + j];
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
#pragma unroll
        for (int j = 0; j < 96; ++j) s[j % 16] = s[j % 16] * a + b;
    }
#pragma unroll
    for (int j = 1; j < 16; ++j) s[0] += s[j];
    p[threadIdx.x] = s[0];
}
"""
EACH = 96
"""multiply-adds of a turn"""


def _function(sources: Callable[[int], tuple[int, int, int]]) -> Function:
    """The kernel, where the nth multiply-add reads these three registers and the reuse cache keeps none."""
    function = machine_code(MULTIPLIES, name="registers.cu", arch="sm_90")["kernel"]
    code: list[Instruction] = []
    n = 0
    for i in function.code:
        if i.name == "FFMA":
            read = tuple(Operand("R", register) for register in sources(n))
            i, n = replace(i, operands=(i.operands[0], *read), reuse=0), n + 1
        code.append(i)
    assert n == EACH
    return replace(function, code=tuple(code))


def _cycles(function: Function, warps: int, turns: int) -> float:
    launch = KernelLaunch(
        (1, 1, 1), (32 * warps, 1, 1), [np.uint64(PLACE), np.int32(turns)],
        arrays=[(PLACE, np.zeros(1 << 14, np.uint8))],
    )  # fmt: skip
    return predict_launch(encode(function), launch, find_machine("h200"), warm=True).cycles


@pytest.mark.parametrize("of_a_sub_core", [1, 2, 4])
@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(lambda n: (32, 32, 32), 1.0, id="one register"),
        pytest.param(lambda n: (32, 34, 36), 3.0, id="three of one bank"),
        pytest.param(lambda n: (32, 34, 37), 2.0, id="two of one bank"),
        pytest.param(lambda n: (32 + n % 2, 34 + n % 2, 36 + n % 2), 1.5, id="three of one bank, then of the other"),
        pytest.param(lambda n: (32 + n % 2, 34 + n % 2, 37 - n % 2), 1.5, id="two of one bank, then of the other"),
        pytest.param(
            lambda n: (32 + n // 2 % 2, 34 + n // 2 % 2, 36 + n // 2 % 2), 2.0, id="twice one bank, then the other"
        ),
    ],
)
def test_banks_serve_one_register_a_cycle_and_hold_up_all_warps(sources, expected, of_a_sub_core):
    """No other warp of a sub-core fills the cycles in which one's registers cannot be read."""
    function, warps = _function(sources), 4 * of_a_sub_core
    took = _cycles(function, warps, 120) - _cycles(function, warps, 40)
    per = took / (80 * EACH * of_a_sub_core)
    loop = 20 / EACH / of_a_sub_core  # the branch, behind which a warp alone waits
    assert expected * 0.98 < per < expected * 1.03 + loop


def _last_issues(*, stays: bool) -> list[int]:
    """When each of four warps of a sub-core issues its last instruction."""
    function = _function(lambda n: (32, 32, 32))
    code = tuple(replace(i, stays=stays and i.stays) for i in function.code)
    launch = KernelLaunch(
        (1, 1, 1), (512, 1, 1), [np.uint64(PLACE), np.int32(160)], arrays=[(PLACE, np.zeros(1 << 14, np.uint8))]
    )
    program = encode(replace(function, code=code))
    issues = predict_launch(program, launch, find_machine("h200"), warm=True, watched=(0, 1 << 20)).issues
    return sorted(int(issues[issues[:, 1] == warp, 0].max()) for warp in range(0, 16, 4))


def test_a_scheduler_stays_with_a_warp_unless_the_compiler_says_no():
    """Two warps go first where it stays: `scheduler/stays_4_per_sub_core` 0.50, `scheduler/gives_way_4_…` 0.92."""
    staying, giving_way = _last_issues(stays=True), _last_issues(stays=False)
    assert staying[0] < 0.65 * staying[-1]
    assert giving_way[0] > 0.9 * giving_way[-1]
