"""Which loop of a nest does not come to its end: told from how often each block ran until the budget was spent.

And whether that is certain: a loop that nothing leads out of needs no second look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxsim.codegen.translator import last_line
from ptxsim.syntax.program import Block, Return


@dataclass(frozen=True)
class Loop:
    """The blocks `head` to `latch`, contiguous as `kernel.cfg` numbers them; `line` is where it goes back."""

    head: int
    latch: int
    line: int
    lines: frozenset[int]
    """source lines at which it goes back, those of loops inside it included"""

    def __contains__(self, other: Loop) -> bool:
        return self.head <= other.head and other.latch <= self.latch and other != self


def loops_of(blocks: Sequence[Block]) -> tuple[Loop, ...]:
    """The loops of a kernel, outer ones before those inside them."""
    back = [(s, b.index) for b in blocks for s in b.successors if s <= b.index]  # `Kernel.back_edges`, turned round
    latches = {head: max(latch for h, latch in back if h == head) for head, _ in back}
    return tuple(
        Loop(head, latch, _line(blocks[latch]), frozenset(_line(blocks[k]) for _, k in back if head <= k <= latch))
        for head, latch in sorted(latches.items(), key=lambda loop: (loop[0], -loop[1]))
    )


def endless_line(blocks: Sequence[Block], runs: Mapping[int, int], spent_at: int) -> int:
    """The line of the loop to blame when a budget was spent at the line `spent_at`, given each block's executions.

    Of the loops around that line it is the one with the most iterations for each iteration of the loop around it: one
    inside an endless loop is entered as often as that goes round, and comes to its end each time. Where nothing was
    counted it is `spent_at`.
    """
    around = [loop for loop in loops_of(blocks) if spent_at in loop.lines and runs.get(loop.head)]
    if not around:
        return spent_at

    def rounds(loop: Loop) -> float:
        outer = min((o for o in around if loop in o), key=lambda o: o.latch - o.head, default=None)
        return runs[loop.head] / max(1, runs.get(outer.head if outer else 0, 1))

    return max(around, key=rounds).line or spent_at


def never_ends(blocks: Sequence[Block], spent_at: int) -> bool:
    """Whether a warp that goes back at the line `spent_at` can come to no end of its kernel, whatever it computes."""
    heads = [s for b in blocks for s in b.successors if s <= b.index and _line(b) == spent_at]
    return bool(heads) and not any(_may_end(blocks, head) for head in heads)


def _may_end(blocks: Sequence[Block], start: int) -> bool:
    """Whether an end of the kernel, a trap among them, can be reached from a block."""
    seen, left = {start}, [start]
    while left:
        block = blocks[left.pop()]
        if isinstance(block.terminator, Return) or any(i.opcode == "trap" for i in block.executed):
            return True
        left += [s for s in block.successors if s not in seen]
        seen.update(block.successors)
    return False


def executions(counted: Iterable[tuple[Sequence[tuple[int, int]], np.ndarray]]) -> dict[int, int]:
    """Executions of each block, of what a plan's `executions` say of its counters, several plans added up."""
    runs: dict[int, int] = {}
    for places, cells in counted:
        for block, cell in places:
            runs[block] = runs.get(block, 0) + int(cells[cell])
    return runs


def calls_at(blocks: Sequence[Block], line: int) -> tuple[int, ...]:
    """The lines that called the helper in which a line stands; () where it stands in none, or in one called twice."""
    found = {i.source.calls for block in blocks for i in block.executed if i.source.line == line}
    return found.pop() if len(found) == 1 else ()


def _line(block: Block) -> int:
    """The line of the branch that ends a block."""
    instruction = getattr(block.terminator, "instruction", None)
    return instruction.source.line if instruction is not None else last_line(block)
