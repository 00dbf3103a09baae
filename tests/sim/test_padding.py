"""Copies of structures bring along padding that nobody has written; what is computed with has to be."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from .engine_launch import launch

KERNEL = """
struct {align} P {{ {members} }};
extern "C" __global__ void k(const int* g, char* o)
{{
    __shared__ P s[32], q[32];
    const int t = threadIdx.x, other = 31 - t;
    {body}
}}
"""
STRUCTURES = {
    "behind a byte": ("", "char a; int b;"), "behind a byte, long": ("", "char a; long long b;"),
    "behind a half": ("", "short a; int b;"), "at the end": ("", "double b; int a;"),
    "at the end, bytes": ("", "float b; char a;"), "three of four": ("alignas(16)", "float a, b, c;"),
    "one of four": ("alignas(16)", "int a;"), "two ends": ("alignas(16)", "double b; short a;"),
    "three bytes": ("", "long long b; char a, c[2];"),
}  # fmt: skip
WRITES = "s[t].a = g[t];\n"
COPIES = "__syncthreads(); q[t] = s[other]; __syncthreads(); ((P*)o)[t] = q[other];"
HOWS = [{}, {"parted": True}, {"tier": "stencils"}]
RACES = "if (t % 32 == 1) ((int*)o)[1000] = t; else if (t == 2) ((int*)o)[1000] = 5;"
"""With a race, the launch runs again with the exact shadow."""


def hazards(structure: str, body: str, how: dict) -> set[tuple[str, str]]:
    align, members = STRUCTURES[structure]
    ptx = compile_cuda(KERNEL.format(align=align, members=members, body=body)).ptx
    record = launch(ptx, "k", 1, 32, np.arange(32, dtype=np.int32), np.zeros(8192, np.uint8), **how).record
    return {(h.kind, h.array) for h in record.hazards}


def written(structure: str) -> str:
    rest = {
        "one of four": "", "three bytes": "s[t].b = s[t].c[0] = s[t].c[1] = t;",
        "three of four": "s[t].b = s[t].c = t;",
    }.get(structure, "s[t].b = t;")  # fmt: skip
    return WRITES + rest


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.thinned(3)
def test_padding_may_be_copied(structure, how):
    assert not hazards(structure, written(structure) + COPIES, how)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.thinned(3)
def test_padding_may_be_copied_where_something_else_races(structure):
    assert {kind for kind, _ in hazards(structure, written(structure) + COPIES + RACES, {})} == {"race"}


def test_members_without_a_value_may_be_copied():
    body = "s[t].a = g[t] & 1; if (g[t] & 1) s[t].b = t;" + COPIES
    assert not hazards("behind a byte", body, {})
    assert not hazards("three bytes", "s[t].b = t; s[t].a = 1; s[t].c[0] = s[t].c[1] = 2;" + COPIES, {})


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("structure", ["behind a byte", "three of four", "at the end, bytes"])
def test_a_structure_that_nobody_has_written_may_not(structure, how):
    body = f"if (t < 31) {{ {written(structure)} }}" + COPIES
    assert hazards(structure, body, how) == {("uninitialized", "shared s")}


@pytest.mark.parametrize("more", ["", RACES], ids=["", "exact"])
def test_nor_be_computed_with(more):
    body = WRITES + "__syncthreads(); ((int*)o)[t] = (int)(*(long long*)&s[other] >> 8);" + more
    assert ("uninitialized", "shared s") in hazards("behind a byte", body, {})


def test_a_member_that_nobody_has_written_is_found():
    body = WRITES + "__syncthreads(); ((double*)o)[t] = s[other].b;"
    assert hazards("at the end", body, {}) == {("uninitialized", "shared s")}
    assert not hazards("at the end", WRITES + "s[t].b = t;" + COPIES, {})
