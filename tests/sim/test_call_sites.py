"""A fault inside a helper names the helper's line and those that called it; registers that nothing has written."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import parse
from warpschool.compile import compile_cuda
from warpschool.errors import KernelTrap, StepLimitExceeded

from .engine_launch import Outcome, launch

HELPERS = """\
__device__ float at(const float* x, int i)
{
    return x[i];
}
__device__ float sum(const float* x, int i)
{
    return at(x, i) +
        at(x, i + 1);
}
__device__ __noinline__ void put(float* y, int i, float v)
{
    y[i] = v;
}
__device__ __noinline__ void meet()
{
    __syncthreads();
}
__device__ __noinline__ int last(int n)
{
    #pragma unroll 1
    while (n > 3) n = n / 2 + 4;
    return n;
}
__device__ void stop(int n)
{
    if (n > 3) __trap();
}
extern "C" __global__ void k(float* x, float* y, int n)
{
    int t = threadIdx.x;
    BODY
}
"""
LINE = HELPERS.split("\n").index("    BODY") + 1


def run(body: str, block: int = 64, **options) -> Outcome:
    x = np.arange(64, dtype=np.float32)
    arguments = x, np.zeros(64, np.float32), np.int32(64)
    return launch(compile_cuda(HELPERS.replace("BODY", body)).ptx, "k", (1,), (block,), *arguments, **options)


@pytest.mark.parametrize(
    ("body", "line", "calls"),
    [
        ("y[t] = at(x, t + 1);", 3, (LINE,)),
        ("y[t] = sum(x, t);", 3, (8, LINE)),
        ("put(y, t + 1, 2);", 12, (LINE,)),
        ("if (t < 32) meet(); y[t] = 1;", 16, (LINE,)),
        ("y[t] = x[t + 1];", LINE, ()),
    ],
)
def test_a_hazard_in_a_helper_names_its_callers(body, line, calls):
    found = run(body).record.hazards[0]
    assert (found.line, found.calls) == (line, calls)
    words = f" (called in line {', from line '.join(map(str, calls))})" if calls else ""
    assert found.message.endswith(words) and ("called" in found.message) == bool(calls)
    assert type(found).from_dict(found.to_dict()) == found


def test_both_sides_of_a_race_name_their_callers():
    body = "__shared__ float s[64]; put(s, t, x[t]);\n    y[t] = at(s, 63 - t);"
    found = next(h for h in run(body).record.hazards if h.kind == "race")
    sides = {(found.line, *found.calls), (found.other_line, *found.other_calls)}
    assert sides == {(12, LINE), (3, LINE + 1)}


@pytest.mark.parametrize(
    ("body", "error", "line"),
    [("y[t] = last(n);", StepLimitExceeded, 21), ("stop(n); y[t] = 1;", KernelTrap, 26)],
)
def test_an_end_inside_a_helper_names_its_caller(body, error, line):
    with pytest.raises(error, match=rf"\(called in line {LINE}\)") as found:
        run(body, step_limit=1000)
    assert (found.value.line, found.value.calls) == (line, (LINE,))


def kernel(body: str):
    return parse(compile_cuda(HELPERS.replace("BODY", body)).ptx).kernel("k")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("float s;\n    for (int i = 0; i < n; ++i) s += x[i];\n    y[t] = s;", (LINE + 1,)),
        ("float s = 0;\n    for (int i = 0; i < n; ++i) s += x[i];\n    y[t] = s;", ()),
        ("float m;\n    for (int i = 0; i < n; ++i) m = fmaxf(m, x[i]);\n    y[t] = m;", (LINE + 1,)),
        ("int c;\n    for (int i = 0; i < n; ++i) if (x[i] > t) c++;\n    y[t] = c;", (LINE + 1,)),
    ],
)
def test_what_nothing_has_written_is_known_and_large(body, expected):
    """Its values cannot make a sum, a largest value or a count come out right: they differ in sign between lanes."""
    assert kernel(body).body.undefined == expected
    made = run(body).arrays[1]
    assert (np.abs(made[::2]) > 1e8).all() == bool(expected)


def test_what_nothing_has_written_is_not_counted():
    """The values that stand for it cost no instruction, as on a GPU."""
    body = "float s;\n    for (int i = 0; i < n; ++i) s += x[i];\n    y[t] = s;"
    assert any(i.added for block in kernel(body).body.blocks for i in block.executed)
    assert 0 not in run(body).record.lines
