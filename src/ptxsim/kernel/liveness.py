"""Which registers are live at the ends of each basic block."""

from __future__ import annotations

from ptxsim.isa import INSTRUCTIONS
from ptxsim.syntax.program import (
    Address,
    Barrier,
    Block,
    Branch,
    Instruction,
    Operand,
    Pair,
    Register,
    Return,
    Switch,
    Vector,
    WarpBarrier,
)

MAX_BITS = 2_000_000_000
"""Most (blocks x registers): bounds memory at a quarter of a gigabyte."""
MAX_LIVE = 20_000_000
"""Most names in all live sets together."""


class TooManyLive(Exception):
    """The kernel's live sets would not fit in memory."""


class _Numbering:
    """Registers as bits of one integer, operands as masks of registers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bit_of: dict[str, int] = {}
        self.masks: dict[int, int] = {}

    def bit(self, name: str) -> int:
        bit = self.bit_of.get(name)
        if bit is None:
            bit = self.bit_of[name] = 1 << len(self.names)
            self.names.append(name)
        return bit

    def mask(self, operand: Operand) -> int:
        """The registers an operand mentions; operands outlive this object, so their identity is a safe key."""
        found = self.masks.get(id(operand))
        if found is not None:
            return found
        if type(operand) is Register:
            found = self.bit(operand.name)
        elif type(operand) is Address:
            found = self.mask(operand.base)
        elif type(operand) is Vector:
            found = 0
            for element in operand.elements:
                found |= self.mask(element)
        elif type(operand) is Pair:
            found = self.mask(operand.first) | self.mask(operand.second)
        else:
            found = 0
        self.masks[id(operand)] = found
        return found

    def set_of(self, mask: int) -> frozenset[str]:
        names, found = self.names, []
        while mask:
            low = mask & -mask
            found.append(names[low.bit_length() - 1])
            mask ^= low
        return frozenset(found)


def find_live(blocks: list[Block], *, to_the_end: frozenset[str] = frozenset()) -> None:
    """Sets `live_in` and `live_out` of every block. A write kills; `to_the_end` are registers that a thread keeps as
    long as it lives. Raises TooManyLive."""
    numbering = _Numbering()
    kept = sum(numbering.bit(name) for name in to_the_end)
    effects = [_effect(block, numbering, kept) for block in blocks]
    if len(blocks) * len(numbering.names) > MAX_BITS:
        raise TooManyLive
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for s in block.successors:
            predecessors[s].append(block.index)
    live_in = [use for use, _ in effects]
    live_out = [0] * len(blocks)
    waiting = list(range(len(blocks)))
    is_waiting = [True] * len(blocks)
    while waiting:
        k = waiting.pop()
        is_waiting[k] = False
        out = 0
        for s in blocks[k].successors:
            out |= live_in[s]
        live_out[k] = out
        use, kill = effects[k]
        new = use | (out & ~kill)
        if new != live_in[k]:
            live_in[k] = new
            for p in predecessors[k]:
                if not is_waiting[p]:
                    is_waiting[p] = True
                    waiting.append(p)
    if sum(mask.bit_count() for mask in live_in) + sum(mask.bit_count() for mask in live_out) > MAX_LIVE:
        raise TooManyLive
    sets: dict[int, frozenset[str]] = {}
    for block, before, after in zip(blocks, live_in, live_out, strict=True):
        for mask in (before, after):
            if mask not in sets:
                sets[mask] = numbering.set_of(mask)
        block.live_in, block.live_out = sets[before], sets[after]


def _effect(block: Block, numbering: _Numbering, kept: int) -> tuple[int, int]:
    """Registers that a block reads before it writes them, and registers that it writes."""
    use = kill = 0
    mask = numbering.mask
    for i in block.instructions:
        row = INSTRUCTIONS[i.opcode]
        operands = i.operands
        if operands and row.writes(i) and type(operands[0]) is not Address:
            for operand in operands[1:]:
                use |= mask(operand) & ~kill
            kill |= mask(operands[0])
        else:
            for operand in operands:
                use |= mask(operand) & ~kill
    terminator = block.terminator
    if isinstance(terminator, Branch):
        use |= numbering.bit(terminator.guard.register) & ~kill
    elif isinstance(terminator, Switch):
        use |= mask(terminator.index) & ~kill
    elif isinstance(terminator, Barrier | WarpBarrier):
        read, written = _terminator(terminator.instruction, numbering)
        use |= read & ~kill
        kill |= written
    elif isinstance(terminator, Return):
        use |= kept & ~kill
    return use, kill


def _terminator(i: Instruction, numbering: _Numbering) -> tuple[int, int]:
    operands = i.operands
    if operands and INSTRUCTIONS[i.opcode].writes(i):
        return sum(numbering.mask(o) for o in set(operands[1:])), numbering.mask(operands[0])
    read = 0
    for operand in operands:
        read |= numbering.mask(operand)
    return read, 0
