"""Accesses of several blocks to one place: every unordered pair that is not both reads or both atomics is a race,
whichever block runs first and whatever its block does there before and behind its barriers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

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
@pytest.mark.thinned(3)
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
