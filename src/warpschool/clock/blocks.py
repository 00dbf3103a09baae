"""Which blocks of a launch one multiprocessor gets, and how many instructions all of them issue."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from warpschool.clock.trace import KernelLaunch, Tracer

_SAMPLED, _COUNTED, _MOST_COUNTED = 24, 2_500_000, 12_000_000
"""Of blocks whose instructions are counted: how many at least; how many instructions all may issue together for each to
be counted; and how many those may that are sampled, which are four at least."""
_UNEVEN = 1.25


@dataclass(frozen=True)
class Work:
    """Instructions that warps issue: of all blocks; and of each, where that is known."""

    total: float
    each: np.ndarray | None = None

    @property
    def is_even(self) -> bool:
        """Whether it matters not which blocks a multiprocessor gets."""
        return self.each is None or float(self.each.max()) <= _UNEVEN * float(self.each.mean())


def work_of(tracer: Tracer) -> Work:
    """Count all blocks where that is not too much; blocks that differ along one axis of the grid by a few of them; and
    others by some, evenly spread by a fixed draw."""
    launch = tracer.launch
    blocks = launch.blocks
    one = _issued(tracer, blocks // 2)
    most = min(blocks, max(_SAMPLED, _COUNTED // (one + 500)))
    if most == blocks:
        each = np.array([_issued(tracer, number) for number in range(blocks)], float)
        return Work(float(each.sum()), each)
    each_along = _along_one_axis(tracer)
    if each_along is not None:
        return Work(float(each_along.sum()), each_along)
    most = min(most, max(4, _MOST_COUNTED // (one + 500)))
    draw = np.random.default_rng(blocks)
    edges = np.linspace(0, blocks, most + 1).astype(int)
    chosen = [int(draw.integers(low, high)) for low, high in pairwise(edges)]
    return Work(float(np.mean([_issued(tracer, number) for number in chosen])) * blocks)


def blocks_of_one(work: Work, launch: KernelLaunch, sms: int, resident: int) -> list[int]:
    """The blocks that one multiprocessor gets: every `sms`th; where they differ, those of the one that ends last, if
    each block goes where room is first."""
    blocks = launch.blocks
    if work.is_even or work.each is None:
        numbers = list(range(0, blocks, sms))
        return numbers if len(numbers) == -(-blocks // sms) else [*numbers, blocks - 1]
    free = [(0.0, slot) for slot in range(sms * resident)]
    got: list[list[int]] = [[] for _ in range(sms)]
    ends = [0.0] * sms
    for number in range(blocks):
        when, slot = heapq.heappop(free)
        when += float(work.each[number])
        heapq.heappush(free, (when, slot))
        got[slot % sms].append(number)
        ends[slot % sms] = when
    return got[int(np.argmax(ends))]


def _issued(tracer: Tracer, number: int) -> int:
    return tracer.run(tracer.launch.block_at(number)).issued


def _along_one_axis(tracer: Tracer) -> np.ndarray | None:
    """What each block issues, where that changes along one axis alone: five blocks, and straight lines between them."""
    grid = tracer.launch.grid
    middle = [size // 2 for size in grid]

    def at(axis: int, place: int) -> int:
        x, y, z = (place if other == axis else middle[other] for other in range(3))
        return tracer.run((x, y, z)).issued

    long = [axis for axis in range(3) if grid[axis] >= 4]
    differ = []
    for axis in long:
        low, high = at(axis, grid[axis] // 4), at(axis, 3 * grid[axis] // 4)
        if max(low, high) > _UNEVEN * min(low, high):
            differ.append(axis)
    if len(differ) != 1:
        return None
    axis = differ[0]
    places = np.unique(np.linspace(0, grid[axis] - 1, 5).astype(int))
    along = np.interp(np.arange(grid[axis]), places, [at(axis, int(place)) for place in places])
    shape = [1, 1, 1]
    shape[2 - axis] = grid[axis]
    return np.broadcast_to(along.reshape(shape), grid[::-1]).reshape(-1)
