"""Where a whole warp may enter `full`, and the functions that `full` is made of for that."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.codegen.emit import WARP
from ptxsim.codegen.translator import lanes_of
from ptxsim.codegen.unit import Unit
from ptxsim.syntax.program import Barrier, Block, Branch, Register, Switch, WarpBarrier


@dataclass(frozen=True)
class Part:
    """A function of `full`: the blocks that its entries reach without crossing a barrier."""

    name: str
    entries: tuple[int, ...]
    blocks: tuple[int, ...]


_MOST_SPLIT = 800
"""Instructions of a kernel up to which each entry gets a function of its own, which loads and saves only what it
needs."""


def parts_of(unit: Unit) -> list[Part]:
    """`full` as one function per entry, or as a single one where that would repeat much code."""
    blocks, entries = unit.kernel.blocks, entries_of(unit)
    whole = Part("full", tuple(entries), tuple(range(len(blocks))))
    split = [Part(f"full_{e}", (e,), tuple(_reached(blocks, e))) for e in entries]
    size = [len(b.instructions) + 1 for b in blocks]
    repeated = sum(size[k] for part in split for k in part.blocks)
    return split if sum(size) <= _MOST_SPLIT and repeated <= 2 * sum(size) else [whole]


def _reached(blocks: list[Block], entry: int) -> list[int]:
    """Blocks that a warp may run between entering at `entry` and its next barrier, in order."""
    found, pending = {entry}, [entry]
    while pending:
        k = pending.pop()
        if not isinstance(blocks[k].terminator, Barrier):
            fresh = set(blocks[k].successors) - found
            found |= fresh
            pending += fresh
    return sorted(found)


_MOST_ENTRY_VECTORS = 128
"""Vectors that the optional entries of `full` may load in all: each entry makes every register that lives there
merge."""


def entries_of(unit: Unit) -> list[int]:
    """Blocks at which a whole warp may enter `full`: the start, behind barriers, and where parted lanes meet again.

    A meeting point costs code for each register that is live there, so those with few come first and the rest do
    without: their warps stay in `masked` until the next entry.
    """
    blocks = unit.kernel.blocks
    entries = {0}
    meetings: set[int] = set()
    meeting = _immediate_post_dominators(blocks)
    for block in blocks:
        t = block.terminator
        if isinstance(t, Barrier | WarpBarrier):
            entries.add(t.target)
        parts = isinstance(t, Branch) and not unit.analysis.of(t.guard.register).uniform
        parts = parts or (isinstance(t, Switch) and isinstance(t.index, Register))
        if parts and (meet := meeting[block.index]) is not None:
            meetings.add(meet)

    def vectors(k: int) -> int:
        return sum(lanes_of(unit.analysis.of(name)) == WARP for name in blocks[k].live_in)

    spent = 0
    for k in sorted(meetings - entries, key=lambda k: (vectors(k), k)):
        spent += vectors(k)
        if spent <= _MOST_ENTRY_VECTORS:
            entries.add(k)
    return sorted(entries)


def _immediate_post_dominators(blocks: list[Block]) -> list[int | None]:
    """For every block the nearest block that all its paths pass (None: only the exit). Sets are bit masks."""
    count = len(blocks)
    exit_ = count
    everything = (1 << (count + 1)) - 1
    after = [everything] * count + [1 << exit_]
    changed = True
    while changed:
        changed = False
        for k in range(count - 1, -1, -1):
            common = everything
            for s in blocks[k].successors or (exit_,):
                common &= after[s]
            common |= 1 << k
            if common != after[k]:
                after[k], changed = common, True
    nearest: list[int | None] = []
    for k in range(count):
        candidates = after[k] & ~(1 << k)
        best = None
        rest = candidates
        while rest:
            low = rest & -rest
            c = low.bit_length() - 1
            if after[c] & candidates == candidates:  # c is passed before all the others
                best = c
                break
            rest ^= low
        nearest.append(best if best != exit_ else None)
    return nearest
