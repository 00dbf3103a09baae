"""Which registers are live where: at the ends of basic blocks, in a flat list of code, within a block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxsim.isa import Flow
from ptxsim.syntax.program import Block, Instruction, Operand, Register, Return, registers_in

MAX_BITS = 2_000_000_000
"""Most (blocks x registers): bounds memory at a quarter of a gigabyte."""
MAX_LIVE = 20_000_000
"""Most names in all live sets together."""


class TooManyLive(Exception):
    """The kernel's live sets would not fit in memory."""


def live_before(instructions: Sequence[Instruction], live: frozenset[str]) -> frozenset[str]:
    """Registers that are live in front of `instructions`, behind which those of `live` are."""
    for i in reversed(instructions):
        live = (live if i.guard else live - frozenset(i.written)) | frozenset(i.read)
    return live


def find_live(blocks: list[Block], *, to_the_end: frozenset[str] = frozenset()) -> None:
    """Sets `live_in` and `live_out` of every block. A write kills; `to_the_end` are registers that a thread keeps as
    long as it lives. Raises TooManyLive."""
    numbering = _Numbering()
    kept = sum(numbering.bit(name) for name in to_the_end)
    effects = []
    for block in blocks:
        use, kill = numbering.effect(block.executed)
        effects.append((use | (kept & ~kill if isinstance(block.terminator, Return) else 0), kill))
    if len(blocks) * len(numbering.names) > MAX_BITS:
        raise TooManyLive
    live_in, live_out = _solve(effects, [block.successors for block in blocks])
    if sum(mask.bit_count() for mask in live_in) + sum(mask.bit_count() for mask in live_out) > MAX_LIVE:
        raise TooManyLive
    sets = {mask: numbering.set_of(mask) for mask in {*live_in, *live_out}}
    for block, before, after in zip(blocks, live_in, live_out, strict=True):
        block.live_in, block.live_out = sets[before], sets[after]


def live_behind(code: Sequence[Instruction | str], places: Iterable[int]) -> dict[int, frozenset[str]]:
    """Registers that are live behind each of the instructions at `places` of code with labels."""
    ends = {*places}
    stretches: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    behind: dict[int, int] = {}
    for k, i in enumerate(code):
        if isinstance(i, str):
            labels[i] = len(stretches)
            stretches.append([])
            continue
        stretches[-1].append(i)
        if k in ends or i.row.flow is not Flow.NEXT:
            behind[k] = len(stretches) - 1
            stretches.append([])
    following: list[tuple[int, ...]] = []
    for number, stretch in enumerate(stretches, start=1):
        last = stretch[-1] if stretch else None
        targets = tuple([labels[t] for t in last.targets if t in labels]) if last else ()
        stays = last and not last.guard and last.row.flow in (Flow.BRANCH, Flow.END, Flow.TRAP)
        following.append(targets if stays or number == len(stretches) else (*targets, number))
    numbering = _Numbering()
    _, live_out = _solve([numbering.effect(stretch) for stretch in stretches], following)
    return {k: numbering.set_of(live_out[behind[k]]) for k in ends}


def _solve(effects: Sequence[tuple[int, int]], following: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Masks of what is live in front of each node and behind it; an effect is what a node reads and what it writes."""
    preceding: list[list[int]] = [[] for _ in following]
    for k, targets in enumerate(following):
        for s in targets:
            preceding[s].append(k)
    live_in = [use for use, _ in effects]
    live_out = [0] * len(effects)
    waiting = list(range(len(effects)))
    is_waiting = [True] * len(effects)
    while waiting:
        k = waiting.pop()
        is_waiting[k] = False
        for s in following[k]:
            live_out[k] |= live_in[s]
        use, kill = effects[k]
        new = use | (live_out[k] & ~kill)
        if new != live_in[k]:
            live_in[k] = new
            for p in preceding[k]:
                if not is_waiting[p]:
                    is_waiting[p] = True
                    waiting.append(p)
    return live_in, live_out


class _Numbering:
    """Registers as bits of one integer, operands as masks of registers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bit_of: dict[str, int] = {}
        self.masks: dict[int, int] = {}
        self.sets: dict[int, frozenset[str]] = {}

    def bit(self, name: str) -> int:
        bit = self.bit_of.get(name)
        if bit is None:
            bit = self.bit_of[name] = 1 << len(self.names)
            self.names.append(name)
        return bit

    def mask(self, operand: Operand) -> int:
        """The registers an operand mentions; operands outlive this object, so their identity is a safe key."""
        found = self.masks.get(id(operand))
        if found is None:
            if type(operand) is Register:
                found = self.bit(operand.name)
            else:
                found = 0
                for name in registers_in(operand):
                    found |= self.bit(name)
            self.masks[id(operand)] = found
        return found

    def effect(self, instructions: Iterable[Instruction]) -> tuple[int, int]:
        """Registers that a stretch of code reads before it writes them, and those that it surely writes."""
        use = kill = 0
        for i in instructions:
            result, guard = i.result, i.guard
            for operand in i.inputs:
                use |= self.mask(operand) & ~kill
            if guard:
                use |= self.bit(guard.register) & ~kill
            elif result is not None:
                kill |= self.mask(result)
        return use, kill

    def set_of(self, mask: int) -> frozenset[str]:
        """The names of a mask's registers; what is live behind one block is mostly what is live in front of another."""
        if mask not in self.sets:
            names, found, left = self.names, [], mask
            while left:
                low = left & -left
                found.append(names[low.bit_length() - 1])
                left ^= low
            self.sets[mask] = frozenset(found)
        return self.sets[mask]
