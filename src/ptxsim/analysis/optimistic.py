"""Loads that guess a value for a compare-and-swap.

`old = *p; do { assumed = old; old = atomicCAS(p, assumed, f(assumed)); } while (old != assumed);` reads without care
and is right all the same: a wrong guess only costs a turn of the loop. Such a load counts as an atomic access.
"""

from __future__ import annotations

from ptxsim.syntax.program import Address, Immediate, Instruction, Kernel, Operand, Register, Symbol, registers_in

_PASSES_ON = frozenset({"mov", "selp", "cvt"})
_SAME_PLACE = frozenset({"mov", "cvta"})


def optimistic_loads(kernel: Kernel) -> frozenset[int]:
    """Identities of the load instructions whose value is what a compare-and-swap at the same address expects."""
    instructions = [i for block in kernel.blocks for i in block.instructions]
    swaps = [i for i in instructions if i.opcode == "atom" and i.has("cas")]
    if not swaps:
        return frozenset()
    places = _places(instructions)
    sources: dict[str, set[str]] = {}
    for i in instructions:
        if i.opcode in _PASSES_ON:
            for name in i.written:
                sources.setdefault(name, set()).update(n for o in i.operands[1:] for n in registers_in(o))
    found: set[int] = set()
    for swap in swaps:
        place = _place(swap.operands[1], places)
        expected = _closure(set(registers_in(swap.operands[2])), sources)
        for i in instructions:
            if i.opcode == "ld" and not expected.isdisjoint(i.written) and _place(i.operands[1], places) == place:
                found.add(id(i))
    return frozenset(found)


def _closure(names: set[str], sources: dict[str, set[str]]) -> set[str]:
    pending = list(names)
    while pending:
        for source in sources.get(pending.pop(), ()):
            if source not in names:
                names.add(source)
                pending.append(source)
    return names


def _places(instructions: list[Instruction]) -> dict[str, tuple[Operand, int]]:
    """register -> (what it is a copy of, plus how much), for registers that are written once."""
    copies: dict[str, tuple[Operand, int]] = {}
    several: set[str] = set()
    for i in instructions:
        for name in i.written:
            if name in copies or name in several:
                several.add(name)
                copies.pop(name, None)
            elif i.opcode in _SAME_PLACE and isinstance(i.operands[0], Register):
                copies[name] = (i.operands[1], 0)
            elif i.opcode == "add" and isinstance(i.operands[2], Immediate):
                copies[name] = (i.operands[1], i.operands[2].bits)
            else:
                several.add(name)
    return copies


def _place(operand: Operand, copies: dict[str, tuple[Operand, int]]) -> tuple[Operand, int] | None:
    """Where an address leads: the first copy of its base, and the offset."""
    if not isinstance(operand, Address):
        return None
    base: Operand = operand.base
    offset = operand.offset
    while isinstance(base, Register) and base.name in copies:
        base, more = copies[base.name]
        offset += more
    return (Symbol(base.name), base.offset + offset) if isinstance(base, Symbol) else (base, offset)
