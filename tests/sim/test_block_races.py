"""Accesses of several blocks to one place: every unordered pair that is not both reads or both atomics is a race,
whichever block runs first and whatever its block does there before and behind its barriers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ptxsim
from ptxsim.run import engine
from warpschool.compile import compile_cuda

from .engine_launch import launch

GRID = 3
DOES = {"read": "sink += *p;", "write": "if (t == 0) *p = 5;", "atomic": "atomicAdd(p, 1);"}
HEAD = """extern "C" __global__ void k(int* p)
{
    const int t = threadIdx.x;
    int sink = 0;
"""


def kernel(one: tuple[str, ...], others: tuple[str, ...], which: int) -> str:
    """Block `which` accesses the place in one way, the others in another, with a barrier between any two accesses."""
    parts = ["\n        __syncthreads();\n        ".join(DOES[a] for a in accesses) for accesses in (one, others)]
    body = f"    if (blockIdx.x == {which}) {{\n        {parts[0]}\n    }} else {{\n        {parts[1]}\n    }}\n"
    return HEAD + body + "    if (sink == 12345) p[1 + t] = 1;\n}\n"


WAYS = [("read",), ("write",), ("atomic",), *itertools.permutations(("read", "write", "atomic"), 2)]


def agree(one: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether no access of one block conflicts with one of another."""
    pairs = [*itertools.product(one, others), *itertools.product(others, others)]
    return all(a == b != "write" for a, b in pairs)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("which", range(GRID))
@pytest.mark.thinned(6)
def test_every_unordered_pair_of_blocks_is_found(which, exact, monkeypatch):
    if not exact:  # what the first run alone says
        monkeypatch.setattr(engine, "_SHADOW_LIMIT", 0)
    wrong = []
    for one, others in itertools.product(WAYS, [("read",), ("atomic",), ("atomic", "read")]):
        ptx = compile_cuda(kernel(one, others, which)).ptx
        found = launch(ptx, "k", (GRID,), (64,), np.zeros(80, np.int32), count=False).record.hazards
        assert {h.kind for h in found} <= {"race"}
        if bool(found) == agree(one, others):
            wrong.append((one, others, [h.message for h in found]))
        if found and exact:
            assert all(h.other_block != h.block and h.line and h.other_line for h in found)
    assert not wrong


HANDS_ON = """extern "C" __global__ void k(int* count, int* parts, int races)
{
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x + 1;
        if (!races) __threadfence();
        if (atomicAdd(count, 1) == gridDim.x - 1) {
            __threadfence();
            int sum = 0;
            for (int b = 0; b < gridDim.x; b++) sum += parts[b];
            parts[gridDim.x] = sum, *count = 0;
        }
    }
}
"""


def test_looks_are_spared_only_where_somebody_says_after_how_many(monkeypatch):
    looks = []
    find = engine.Launching.find_races
    monkeypatch.setattr(engine.Launching, "find_races", lambda *given: looks.append(1) or find(*given))
    module = ptxsim.parse(compile_cuda(HANDS_ON).ptx)
    for races, most, spent in ((0, 2, 2), (0, None, 5), (1, 2, 5), (1, None, 5)):
        kernel = module.kernel("k")
        memory = ptxsim.Memory()
        count, parts = memory.allocate(4), memory.allocate(4 * 9)
        count.view()[:] = 0
        looks.clear()
        arguments = count, parts, np.int32(races)
        records = [kernel.launch((8,), (32,), arguments, memory, most_looks=most) for _ in range(5)]
        assert [bool(record.hazards) for record in records] == [bool(races)] * 5
        assert len(looks) == spent
        assert parts.view().view(np.int32)[8] == 36


def test_a_race_behind_launches_without_one_is_told():
    kernel = ptxsim.parse(compile_cuda(HANDS_ON).ptx).kernel("k")
    memory = ptxsim.Memory()
    count, parts = memory.allocate(4), memory.allocate(4 * 9)
    count.view()[:] = 0
    for races in (0, 0, 0, 1):
        record = kernel.launch((8,), (32,), (count, parts, np.int32(races)), memory)
        assert bool(record.hazards) == bool(races)


@pytest.mark.parametrize("taken", ["*q = *p;", "*q = atomicAdd(p, 0);"])
def test_what_one_block_wrote_and_another_read_counts_as_written(taken):
    source = (
        'extern "C" __global__ void k(int* p, int* q, volatile int* flag) {\n'
        "    if (threadIdx.x) return;\n"
        "    if (blockIdx.x == 1) { *p = 42; __threadfence(); *flag = 1; return; }\n"
        f"    while (!*flag); __threadfence(); {taken}\n"
        "}\n"
    )
    kernel = ptxsim.parse(compile_cuda(source).ptx).kernel("k")
    memory = ptxsim.Memory()
    p, q, flag = (memory.allocate(4) for _ in range(3))
    flag.view()[:] = 0
    record = kernel.launch((2,), (32,), (p, q, flag), memory, watch=[p])
    assert not record.hazards
    (touched,) = record.touched
    assert touched.stored[0]
    assert not touched.read_first[0]
