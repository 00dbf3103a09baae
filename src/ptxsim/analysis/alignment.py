"""Which power of two divides an address register, as far as address arithmetic shows it.

The analysis ignores control flow: a register has the least alignment of its definitions. It knows nothing of the block
shape, as ptxas knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptxsim.analysis.lanes import EXACT, trailing_zeros
from ptxsim.syntax.program import Immediate, Instruction, Kernel, Operand, Register, Symbol, registers_in

Definitions = dict[str, list[Instruction]]
"""register -> the instructions that write it"""


def definitions_of(kernel: Kernel) -> Definitions:
    """Who writes each register of a kernel."""
    found: Definitions = {}
    for block in kernel.blocks:
        for i in block.executed:
            for name in i.written:
                found.setdefault(name, []).append(i)
    return found


def alignments(kernel: Kernel, registers: Iterable[str], definitions: Definitions) -> dict[str, int]:
    """register -> exponent of the largest power of two known to divide it, for `registers` and what they come from.

    Addresses of shared variables count from the start of the block's shared memory.
    """
    known: dict[str, int] = {}
    arithmetic: list[tuple[str, Instruction]] = []
    pending = list(registers)
    while pending:
        name = pending.pop()
        if name in known:
            continue
        known[name] = EXACT if name in definitions else 0
        for i in definitions.get(name, ()):
            if _rule(i) is None:
                known[name] = 0
                break
        else:
            arithmetic += [(name, i) for i in definitions.get(name, ())]
            pending += [n for i in definitions.get(name, ()) for o in i.operands[1:] for n in registers_in(o)]
    changed = True
    while changed:
        changed = False
        for name, i in arithmetic:
            rule = _rule(i)
            assert rule is not None
            found = rule([_operand(kernel, o, known) for o in i.operands[1:]], i)
            if found < known[name]:
                known[name], changed = found, True
    return known


def _operand(kernel: Kernel, operand: Operand, known: dict[str, int]) -> int:
    match operand:
        case Register(name):
            return known.get(name, 0)
        case Immediate(bits):
            return trailing_zeros(bits)
        case Symbol(name, offset):
            variable = kernel.variables.get(name)
            return 0 if variable is None or variable.space != "shared" else trailing_zeros(variable.offset + offset)
        case _:
            return 0


Rule = Callable[[list[int], Instruction], int]


def _least(s: list[int], i: Instruction) -> int:
    return min(s[:2])


def _sum(s: list[int], i: Instruction) -> int:
    return min(EXACT, s[0] + s[1])


def _shifted(s: list[int], i: Instruction) -> int:
    """shl and shr by a constant; shl by a register can only add zeros."""
    by = i.operands[2].bits if isinstance(i.operands[2], Immediate) else None
    if i.opcode == "shl":
        return min(EXACT, s[0] + max(0, by or 0))
    return 0 if by is None or by < 0 else s[0] if s[0] == EXACT else max(0, s[0] - by)


RULES: dict[str, Rule] = {
    "add": _least, "sub": _least, "or": _least, "xor": _least, "selp": _least,
    "and": lambda s, i: max(s),
    "mul": _sum, "mul24": _sum, "mad": lambda s, i: min(_sum(s, i), s[2]),
    "shl": _shifted, "shr": _shifted,
    "mov": lambda s, i: s[0], "cvt": lambda s, i: s[0], "cvta": lambda s, i: s[0], "neg": lambda s, i: s[0],
}  # fmt: skip


def _rule(i: Instruction) -> Rule | None:
    """The rule of an integer instruction with one register as its result."""
    integers = bool(i.types) and all(t[0] in "usb" and t[1:].isdigit() and t != "b128" for t in i.types)
    if not integers or not isinstance(i.operands[0], Register) or not {"hi", "sat", "cc"}.isdisjoint(i.modifiers):
        return None
    return RULES.get(i.opcode)
