"""Sums of products in an order that suits the host.

A kernel with register blocking adds to all its sums in turn, for each step along k: 64 vectors of sums where the host
has 32 registers go to memory and back at every step. Here each sum gets all its products of a block of code one after
the other, a few sums at a time. Nothing else moves, no sum is added up in another order, and so no bit changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ptxsim.syntax.program import Block, Instruction, Register, registers_in


@dataclass(frozen=True)
class Room:
    """What the host's vector registers hold of the sums of a warp."""

    together: int
    """sums that are added to side by side: that hides how long a multiply-add takes, and leaves room for factors"""
    kept: int
    """sums that stay in registers without help"""


WIDE, NARROW = Room(together=8, kept=12), Room(together=2, kept=3)
"""32 registers of 64 bytes, two for a sum; 16 of 32 bytes, four for a sum."""


def in_chains(block: Block, room: Room) -> Sequence[Instruction]:
    """The instructions of a block, its multiply-adds sum by sum where it has many sums."""
    instructions = block.instructions
    chains, cut = sum_chains(instructions)
    moved = {k for chain in chains for k in chain}
    if len(chains) <= room.kept or len(moved) < 2 * len(chains):
        return instructions
    first = [i for k, i in enumerate(instructions[:cut]) if k not in moved]
    sums_in_turn = (instructions[k] for k in _side_by_side(chains, room.together))
    return [*first, *sums_in_turn, *(instructions[cut:] if cut is not None else ())]


def sum_chains(instructions: Sequence[Instruction]) -> tuple[list[list[int]], int | None]:
    """(positions of multiply-adds by the sum that they add to, where the first instruction stands that sees a sum)."""
    chains = _chains(instructions)
    moved = {k for chain in chains for k in chain}
    sums = {instructions[k].written[0] for k in moved}
    cut = next((k for k, i in enumerate(instructions) if k not in moved and not sums.isdisjoint(_read(i))), None)
    if cut is not None:  # what comes behind it stays there
        chains = [kept for chain in chains if (kept := [k for k in chain if k < cut])]
    return chains, cut


def _side_by_side(chains: list[list[int]], together: int) -> Iterator[int]:
    for start in range(0, len(chains), together):
        for step in zip_longest(*chains[start : start + together]):
            yield from (k for k in step if k is not None)


def _chains(instructions: Sequence[Instruction]) -> list[list[int]]:
    """Multiply-adds of which each adds to what the one before gave, and nobody else looks at that: positions.

    All that such a one reads has its value before it and keeps it to the block's end, but for the sum that a chain
    begins with: its last one may write that.
    """
    written = Counter(name for i in instructions for name in i.written)
    reads = Counter(name for i in instructions for name in _read(i))
    place = {name: k for k, i in enumerate(instructions) for name in i.written}
    ends: dict[str, list[int]] = {}
    chains: list[list[int]] = []
    for k, i in enumerate(instructions):
        if not _is_sum(i) or written[i.written[0]] > 1:
            continue
        *factors, before = _read(i)
        if any(written[name] > 1 or place.get(name, -1) > k for name in factors) or written[before] > 1:
            continue
        chain = ends.pop(before, None) if reads[before] == 1 else None
        if chain is None:
            chains.append(chain := [])
        chain.append(k)
        ends[i.written[0]] = chain
    return [chain for chain in chains if place.get(_read(instructions[chain[0]])[2], -1) in (-1, *chain)]


def _is_sum(i: Instruction) -> bool:
    plain = all(isinstance(o, Register) for o in i.operands)
    return i.opcode == "fma" and plain and i.guard is None and len(i.operands) == 4 and not i.added


def _read(i: Instruction) -> list[str]:
    names = [name for o in i.inputs for name in registers_in(o)]
    return [*names, i.guard.register] if i.guard is not None else names
