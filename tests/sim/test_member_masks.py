"""Member masks: a lane that executes an instruction of the warp must be named by the mask that it gives.

PTX ISA 9.7.9.6, 9.7.13.1, 9.7.13.9 and on: the behaviour is undefined if the executing thread is not in the mask. A
mask may name lanes that have exited or come later.
"""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from .engine_launch import launch

LINE = 4
WRONG = {
    "shfl": ("o[t] = __shfl_sync(0xff, t, 0);", 8),
    "vote": ("o[t] = __ballot_sync(0xff00, t & 1);", 0),
    "match": ("o[t] = __match_any_sync(0xffff, t & 1);", 16),
    "redux": ("o[t] = __reduce_add_sync(0x7fffffff, t);", 31),
    "syncwarp": ("__syncwarp(0xff); o[t] = 1;", 8),
    "mask that is a parameter": ("o[t] = __shfl_sync(mask, t, 4);", 0),
    "mask of each lane": ("o[t] = __ballot_sync(t < 20 ? 0xfffff : 0xfffff000 - 0x400000, t);", 22),
    "parted lanes": ("if (t < 8) o[t] = __shfl_sync(0xf, t, 0); else o[t] = 3;", 4),
    "syncwarp of parted lanes": ("if (t > 8) { __syncwarp(0xfff00000); o[t] = 1; }", 9),
}
RIGHT = {
    "tiles of 8": "o[t] = __shfl_sync(0xffu << (t & 24), t, 0, 8);",
    "groups of equal values": "o[t] = __reduce_add_sync(__match_any_sync(~0u, t / 3), 1);",
    "lanes that are here": "if (t & 1) o[t] = __ballot_sync(__activemask(), 1);",
    "a branch's lanes": "if (t < 8) { __syncwarp(0xff); o[t] = __shfl_sync(0xff, t, 0); }",
    "lanes that come later": "if (t < 8) o[t] = 1; o[t] += __ballot_sync(~0u, 1);",
    "lanes that have exited": "if (t >= 8) return; o[t] = __ballot_sync(~0u, 1);",
    "lanes that wait": "if (t < 8) __syncwarp(); else { o[t] = 1; __syncwarp(); }",
}

ELECT = """extern "C" __global__ void k(unsigned* o)
{
    unsigned leader;
    asm volatile("{ .reg .pred p; elect.sync %0|p, 0x0000ff00; }" : "=r"(leader));
    o[threadIdx.x] = leader;
}
"""


def hazards(body: str, **options):
    head = 'extern "C" __global__ void k(unsigned* o, unsigned mask)\n{\n    unsigned t = threadIdx.x;\n'
    source = f"{head}{body}\n}}\n"
    o = np.zeros(32, np.uint32)
    return launch(compile_cuda(source).ptx, "k", (1,), (32,), o, np.uint32(0xF0), **options).record.hazards


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_lane_that_its_mask_leaves_out_is_told(name, parted):
    body, lane = WRONG[name]
    (found,) = hazards(body, parted=parted)
    assert (found.kind, found.detail, found.line, found.thread) == ("warp-sync", "member", LINE, (lane, 0, 0))
    assert "member mask does not name it" in found.message


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_mask_that_names_its_lanes_is_left_alone(name, parted):
    assert not hazards(RIGHT[name], parted=parted)


@pytest.mark.parametrize("parted", [False, True])
def test_value_of_a_lane_outside_the_mask(parted):
    (found,) = hazards("o[t] = __shfl_sync(t < 16 ? 0xffff : 0xffff0000, t, 20);", parted=parted)
    assert (found.kind, found.detail, found.line, found.thread) == ("warp-sync", "", LINE, (0, 0, 0))


@pytest.mark.parametrize("parted", [False, True])
def test_elect_of_others(parted):
    ptx = compile_cuda(ELECT, arch="compute_90").ptx
    (found,) = launch(ptx, "k", (1,), (32,), np.zeros(32, np.uint32), parted=parted).record.hazards
    assert (found.kind, found.detail, found.line, found.thread) == ("warp-sync", "member", LINE, (0, 0, 0))
