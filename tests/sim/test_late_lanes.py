"""Lanes that come later: a vote, a shuffle, a match or a sum across the warp waits for those that its mask names.

PTX ISA 9.7.9.6 and 9.7.13: the executing thread waits until all threads of its mask that have not exited execute the
same instruction. Two things let lanes run ahead: a `continue`, which takes some back to a loop's head, and a look at
memory until another lane changes it.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.kernel import cfg
from ptxsim.syntax.parse import parse
from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

LANE = np.arange(32)
TURNS = LANE % 4 + 1
"""Turns of a loop that each lane has to do."""

LOOP = """extern "C" __global__ void k(int* o)
{
    int t = threadIdx.x, n = t % 4 + 1, sum = 0;
    while (true) {
        BODY
        if (n <= 0) continue;
        o[32 + t] += n;
        __threadfence_block();
        --n;
        if (o[32 + t] > 1000) o[0] = 7;
    }
    o[t] = sum;
}
"""
AHEAD = {
    "vote": ("unsigned m = __ballot_sync(~0u, n > 0); if (!m) break; sum += __popc(m);", 32 + 24 + 16 + 8),
    "any": ("if (!__any_sync(~0u, n > 0)) break; ++sum;", 4),
    "shuffles": ("int m = n; for (int i = 16; i; i /= 2) m = max(m, __shfl_xor_sync(~0u, m, i)); if (m <= 0) break;"
                 " sum += m;", 4 + 3 + 2 + 1),
    "match": ("if (__match_any_sync(~0u, n) == ~0u && n <= 0) break; ++sum;", 4),
    "sum": ("int m = __reduce_add_sync(~0u, max(n, 0)); if (!m) break; sum += m;", 80 + 48 + 24 + 8),
}  # fmt: skip
"""what -> (how the loop begins, each lane's sum)"""

WAIT = """extern "C" __global__ void k(int* o)
{
    int t = threadIdx.x;
    if (t < 16) {
        while (atomicAdd(o, 0) < 16) { }
    } else {
        atomicAdd(o, 1);
    }
    BODY
}
"""
SPIN = {
    "vote": ("o[1 + t] = __ballot_sync(~0u, t & 1);", np.full(32, 0xAAAAAAAA - (1 << 32))),
    "shuffle": ("o[1 + t] = __shfl_xor_sync(~0u, t, 16);", LANE ^ 16),
    "match": ("o[1 + t] = __match_any_sync(~0u, t / 31);", np.where(LANE < 31, 0x7FFFFFFF, -(1 << 31))),
    "sum": ("o[1 + t] = __reduce_add_sync(~0u, t);", np.full(32, 496)),
    "half a warp": ("if (t & 1) o[1 + t] = __ballot_sync(0xaaaaaaaa, t > 16);", np.where(LANE & 1, -0x55560000, 0)),
    "behind a guard": ("unsigned m = 0; if (o[40] == 0) m = __ballot_sync(~0u, 1); o[1 + t] = m;", np.full(32, -1)),
    "lanes that have left": ("if (t == 20) return; o[1 + t] = __ballot_sync(~0u, 1);",
                             np.where(LANE == 20, 0, -1 - (1 << 20))),
}  # fmt: skip


def run(source: str, launch=engine_launch.launch, **options):
    done = launch(compile_cuda(source).ptx, "k", (1,), (32,), np.zeros(64, np.int32), **options)
    return done.arrays[0], done


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", AHEAD)
def test_lanes_that_go_on_with_the_loop_wait_for_the_others(name, parted):
    begin, expected = AHEAD[name]
    o, done = run(LOOP.replace("BODY", begin), parted=parted)
    assert o[:32].tolist() == [expected] * 32
    assert o[32:].tolist() == [n * (n + 1) // 2 for n in TURNS]
    assert not done.record.hazards
    if parted:
        other, _ = run(LOOP.replace("BODY", begin), oracle_launch.launch)
        assert np.array_equal(o, other)


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", SPIN)
def test_lanes_that_look_at_memory_are_waited_for(name, parted):
    body, expected = SPIN[name]
    o, done = run(WAIT.replace("BODY", body), parted=parted)
    assert o[1:33].tolist() == expected.tolist()
    assert not done.record.hazards


def test_a_lane_that_never_comes_is_told():
    body = "if (t < 16)\n        o[1 + t] = __ballot_sync(~0u, 1);\n    __syncthreads();"
    _, done = run(WAIT.replace("BODY", body))
    found = next(one for one in done.record.hazards if one.detail == "lanes")
    assert (found.kind, found.line, found.other_line) == ("divergent-barrier", 10, 11)
    assert "waits for the lanes of its member mask that do not all come" in found.message


def test_every_loop_has_one_way_back():
    for source in (LOOP.replace("BODY", AHEAD["vote"][0]), LOOP.replace("BODY", AHEAD["shuffles"][0])):
        edges = cfg.build_kernel(parse(compile_cuda(source).ptx), "k").back_edges
        assert edges and len({head for _, head in edges}) == len(edges)


RELEASED_LATE = """extern "C" __global__ void k(int* o, int rounds)
{
    const int t = threadIdx.x;
    if (RELEASER) {
        if (t % 32 == 0) {
            while (atomicAdd(o + 100, 1) < rounds) { }
            atomicExch(o, 1);
        }
        return;
    }
    if (t == 5) {
        while (atomicAdd(o, 0) == 0) { }
    }
    o[1 + t] = __ballot_sync(~0u, t & 1);
}
"""


@pytest.mark.parametrize(
    ("releaser", "grid", "block"), [("blockIdx.x == 1", 2, 32), ("blockIdx.x == 0", 2, 32), ("t >= 32", 1, 64)]
)
@pytest.mark.thinned(3)
def test_a_lane_that_is_released_late_accuses_nobody(releaser, grid, block):
    """The others wait for it through many more turns than a loop takes before it gives way."""
    ptx = compile_cuda(RELEASED_LATE.replace("RELEASER", releaser)).ptx
    out = engine_launch.launch(ptx, "k", (grid,), (block,), np.zeros(128, np.int32), np.int32(150_000))
    assert not out.record.hazards, out.record.hazards[0].message
    assert (out.arrays[0][1:33].view(np.uint32) == 0xAAAAAAAA).all()
