"""Loads by which a thread looks for what another one tells it, and does not take what it reads as data.

Volatile and relaxed loads order nothing, so a value that comes by one is `unordered` with its store: unless it only
decides where the kernel goes on, or tells by itself whether it is there already, as a state packed with a sum does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from ptxsim.analysis.effects import ACQUIRES, branched_on, computed, loops, may_wait, uses_of
from ptxsim.syntax.program import (
    Block,
    Branch,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    reached,
    registers_in,
)

_Uses = Mapping[str, list[Instruction]]


def waiting_loads(kernel: Kernel) -> frozenset[int]:
    """Identities of the volatile and relaxed loads whose value only decides where the kernel goes on, or for how long.

    Such a load looks for a signal: `while (flag == 0);`, or a state packed with a sum, where the state ends the loop or
    has the same place looked at again. Any other takes the value as data. The first look may stand before its loop: it
    asks the same place for the same. Nor is a value data that only those use whom an atomic before the load has told
    that it is theirs: the last to arrive at a barrier.
    """
    if not any(may_wait(i) for block in kernel.blocks for i in block.instructions):
        return frozenset()
    uses, found, every = uses_of(kernel), set[int](), [*loops(kernel)]
    looks: dict[tuple[tuple[str, ...], Operand], set[str]] = {}
    others: list[tuple[Instruction, set[str]]] = []
    for number, block in enumerate(kernel.blocks):
        for i in filter(may_wait, block.instructions):
            names = reached(i.written, lambda name: _derived(kernel, name, uses[name]))
            predicates = {n for n in names if kernel.registers[n] == "pred"}
            data = (i for n in names if n not in predicates for i in uses[n] if i.row.accesses or not i.written)
            around = [(head, body) for head, body in every if number in body]
            if not any(data) or _tells_by_itself(kernel, number, i, uses, around):
                found.add(id(i))
                looks.setdefault((i.modifiers, i.operands[-1]), set()).update(predicates)
            else:
                others.append((i, predicates))
    first = (i for i, predicates in others if predicates & looks.get((i.modifiers, i.operands[-1]), set()))
    return frozenset(found | {id(i) for i in first})


def _derived(kernel: Kernel, name: str, uses: list[Instruction], *, votes: bool = False) -> list[str]:
    """Registers computed from one; of a predicate only other predicates, and of `votes` of its lanes all."""
    if kernel.registers[name] != "pred":
        return computed(uses)
    told = computed([i for i in uses if i.opcode == "vote"]) if votes else []
    return told + [n for n in computed(uses) if kernel.registers[n] == "pred"]


def _tells_by_itself(
    kernel: Kernel, number: int, load: Instruction, uses: _Uses, around: list[tuple[int, set[int]]]
) -> bool:
    """Whether a value says that it may be used: threads look until it does, or an atomic has told whose it is."""
    names = reached(load.written, lambda name: _derived(kernel, name, uses[name], votes=True))
    deciding = frozenset(n for n in names if kernel.registers[n] == "pred")
    ends = any(_ends(kernel, body, deciding) for _, body in around)
    repeats = ends or any(_is_repeated(kernel, number, load, loop, deciding) for loop in around)
    return repeats or _for_who_acquired(kernel, kernel.blocks[number], load, uses)


def _ends(kernel: Kernel, body: Collection[int], deciding: frozenset[str]) -> bool:
    """Whether one of the predicates leads out of a loop."""
    leaving = (k for k in body if not all(following in body for following in kernel.blocks[k].successors))
    return any(branched_on(kernel, k) in deciding for k in leaving)


def _is_repeated(
    kernel: Kernel, number: int, load: Instruction, loop: tuple[int, set[int]], deciding: frozenset[str]
) -> bool:
    """Whether one of the predicates has a load in a loop look at the same place again.

    The address follows from registers that the loop changes from turn to turn. A branch on the predicate leads back to
    the load and changes none of them, or they are changed by what the predicate selects.
    """
    head, body = loop
    makers: defaultdict[str, list[Instruction]] = defaultdict(list)
    for i in (i for k in body for i in kernel.blocks[k].instructions):
        for name in i.written:
            makers[name].append(i)
    address = reached(registers_in(load.operands[-1]), lambda name: [n for i in makers[name] for n in i.read])
    carried = {n for n in address if makers[n] and n in kernel.blocks[head].live_in}
    if not carried or any(_keeps(i, deciding, carried) for name in address for i in makers[name]):
        return bool(carried)
    still = {k for k in body if all(carried.isdisjoint(i.written) for i in kernel.blocks[k].instructions)}

    def ahead(k: int) -> list[int]:
        return [following for following in kernel.blocks[k].successors if following in still]

    asked = [k for k in body if branched_on(kernel, k) in deciding]
    return number in reached([s for k in asked for s in ahead(k)], ahead)


def _keeps(i: Instruction, deciding: frozenset[str], carried: Collection[str]) -> bool:
    """Whether one of the predicates decides if a step changes anything: by its guard, or selecting zero or the old."""
    if i.guard is not None and i.guard.register in deciding:
        return True
    if i.opcode != "selp" or deciding.isdisjoint(registers_in(i.operands[3])):
        return False
    return any(
        o.bits == 0 if isinstance(o, Immediate) else isinstance(o, Register) and o.name in carried
        for o in i.operands[1:3]
    )


def _for_who_acquired(kernel: Kernel, block: Block, load: Instruction, uses: _Uses) -> bool:
    """Whether a value is wanted on one side of its block's end alone, and an acquiring atomic before it decides which.
    """
    end, instructions = block.terminator, block.instructions
    if not isinstance(end, Branch):
        return False
    at = next(k for k, i in enumerate(instructions) if i is load)
    acquires = (i for i in instructions[:at] if i.opcode == "atom" and not ACQUIRES.isdisjoint(i.modifiers))
    told = reached((n for i in acquires for n in i.written), lambda name: computed(uses[name]))
    wanted = [k for k in block.successors if not kernel.blocks[k].live_in.isdisjoint(load.written)]
    used_here = any(not set(load.written).isdisjoint(i.read) for i in instructions[at + 1 :])
    return len(wanted) == 1 and not used_here and end.guard.register in told
