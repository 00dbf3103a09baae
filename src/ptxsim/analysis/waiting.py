"""Loops in which a thread does nothing but look at memory: it stays for as long as nothing changes there.

It may count its turns and read clocks, to pause longer and longer, as long as that does not decide when it leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ptxsim.analysis.effects import branched_on, computed, loops, memory_spins, order_of, uses_of
from ptxsim.isa import Order
from ptxsim.syntax.program import (
    Block,
    Branch,
    Immediate,
    Instruction,
    Jump,
    Kernel,
    Operand,
    Special,
    reached,
    registers_in,
)

_TELLS_TIME = ("clock", "globaltimer")
_HARMLESS = frozenset({"nanosleep", "membar", "fence"})


def pure_waits(kernel: Kernel) -> dict[int, frozenset[int]]:
    """Head -> blocks of the loops that are left only when memory changes, and that change nothing themselves."""
    return {head: body for head, body in memory_spins(kernel).items() if _is_pure(kernel.blocks, head, body)}


def drawing(kernel: Kernel) -> frozenset[int]:
    """Heads of loops whose turns are drawn: what a global counter gives decides whether there is another one.

    Blocks share work so. The first one would draw all of it, and nobody would see what several do at the same time.
    """
    draws = [i for block in kernel.blocks for i in block.instructions if _draws(i)]
    if not draws:
        return frozenset()
    uses, found = uses_of(kernel), set[int]()
    for head, body in loops(kernel):
        inside = [i for k in body for i in kernel.blocks[k].instructions]
        drawn = {*reached((n for i in inside if _draws(i) for n in i.written), lambda name: computed(uses[name]))}
        told = {i.operands[0] for i in inside if _is_shared(i, "st") and not drawn.isdisjoint(i.read)}
        heard = (n for i in inside if _is_shared(i, "ld") and i.operands[1] in told for n in i.written)
        drawn.update(reached(heard, lambda name: computed(uses[name])))
        if any(branched_on(kernel, k) in drawn for k in body if not body.issuperset(kernel.blocks[k].successors)):
            found.add(head)
    return frozenset(found)


def _draws(i: Instruction) -> bool:
    """Whether an atomic takes a number that nobody else gets. One that adds nothing only looks."""
    if i.opcode != "atom" or i.space == "shared" or not i.written or not any(map(i.has, ("add", "inc", "dec"))):
        return False
    return not (i.has("add") and isinstance(i.operands[-1], Immediate) and not i.operands[-1].bits)


def _is_shared(i: Instruction, opcode: str) -> bool:
    return i.opcode == opcode and i.space == "shared"


def left_to(kernel: Kernel, loops: Mapping[int, Collection[int]]) -> frozenset[int]:
    """The blocks to which these loops lead."""
    return frozenset(s for body in loops.values() for k in body for s in kernel.blocks[k].successors if s not in body)


def _is_pure(blocks: list[Block], head: int, body: frozenset[int]) -> bool:
    inside = [i for k in body for i in blocks[k].instructions]
    if not all(_only_looks(i) for i in inside):
        return False
    ends = [blocks[k].terminator for k in body]
    if not all(isinstance(end, Jump | Branch) for end in ends):
        return False
    exits = [k for k in body if not body.issuperset(blocks[k].successors)]
    return bool(exits) and all(
        _every_turn(blocks, head, body, k) and _follows_from_memory(blocks, head, inside, k) for k in exits
    )


def _only_looks(i: Instruction) -> bool:
    if i.opcode in _HARMLESS:
        return True
    if i.row.accesses is None or any(a.writes for a in i.row.accesses):
        return False
    return i.opcode == "ld" or order_of(i) is Order.NOBODY


def _every_turn(blocks: list[Block], head: int, body: frozenset[int], number: int) -> bool:
    """Whether no turn of a loop passes a block by."""
    if number == head:
        return True
    others = reached([head], lambda k: [s for s in blocks[k].successors if s in body and s not in (head, number)])
    return not any(head in blocks[k].successors for k in others)


def _follows_from_memory(blocks: list[Block], head: int, inside: list[Instruction], number: int) -> bool:
    """Whether memory alone, and what stays the same in a loop, decides where a block leads."""
    end = blocks[number].terminator
    assert isinstance(end, Branch)
    makers: dict[str, list[Instruction]] = {}
    for i in inside:
        for name in i.written:
            makers.setdefault(name, []).append(i)
    for name in reached([end.guard.register], lambda name: [n for i in makers.get(name, ()) for n in _sources(i)]):
        made = makers.get(name, [])
        if not made:  # it was there before the loop
            continue
        if len(made) > 1 or name in blocks[head].live_in or made[0].guard is not None:
            return False
        if any(tells_time(o) for o in made[0].operands):
            return False
    return True


def _sources(i: Instruction) -> list[str]:
    return [n for o in i.sources for n in registers_in(o)]


def tells_time(operand: Operand) -> bool:
    """Whether it is a clock."""
    return isinstance(operand, Special) and operand.name.startswith(_TELLS_TIME)
