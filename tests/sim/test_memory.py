"""Where the simulator's memory lays arrays: the first room there is, with gaps that nobody touches."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ptxsim import Memory

SMALLEST_GAP, LARGEST_GAP, ALIGNMENT = 4 << 10, 1 << 20, 256
CAPACITY = 64 << 20


def gap(nbytes: int) -> int:
    return min(max(nbytes, SMALLEST_GAP), LARGEST_GAP)


def first_room(taken: list[tuple[int, int]], nbytes: int, start: int, stop: int) -> int:
    """The first address with room, looked for from the start; 0 for none."""
    at = -(-start // ALIGNMENT) * ALIGNMENT
    for low, high in sorted(taken):
        between = max(gap(nbytes), gap(high - low))
        if at + nbytes + between <= low:
            return at
        at = max(at, -(-(high + between) // ALIGNMENT) * ALIGNMENT)
    return at if at + nbytes + gap(nbytes) <= stop else 0


@pytest.mark.parametrize("seed", range(4))
def test_the_first_room_is_found_whatever_was_freed(seed):
    rng = random.Random(seed)
    memory = Memory(capacity=CAPACITY)
    start, stop = memory.base + LARGEST_GAP, memory.base + CAPACITY
    live = []
    for _ in range(400):
        if live and rng.random() < 0.4:
            memory.free(live.pop(rng.randrange(len(live))))
            continue
        nbytes = rng.choice((1, 16, 4096, 5000, rng.randrange(1, 300_000)))
        expected = first_room([(a.address, a.end) for a in live], nbytes, start, stop)
        if expected:
            live.append(memory.allocate(nbytes))
            assert live[-1].address == expected
    assert len(live) > 20
    assert all(b.address - a.end >= max(gap(a.nbytes), gap(b.nbytes)) for a, b in pairwise(memory.allocations))


def test_many_variables_are_laid_out_in_few_steps(lines_run):
    memory = Memory()

    def lay(count: int) -> int:
        return lines_run(lambda: [memory.allocate(8) for _ in range(count)])

    first = lay(200)
    lay(2000)
    assert lay(200) < 1.5 * first


def test_what_is_not_allocated_is_not_freed():
    memory = Memory()
    array = memory.allocate(16)
    memory.free(array)
    with pytest.raises(ValueError, match="not allocated"):
        memory.free(array)
