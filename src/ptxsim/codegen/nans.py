"""NaNs of f32 arithmetic: a GPU gives one, the host keeps payloads and sets signs; where registers are put right."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ptxsim.codegen.emit import Builder, IRValue
from ptxsim.codegen.floating import INFINITY, MAGNITUDE
from ptxsim.codegen.values import VALUES, bits_of
from ptxsim.syntax.program import Immediate, Instruction, Kernel, Operand, Register

CANONICAL_NAN, WIDE_NAN = 0x7FFFFFFF, 0x7FFFFFFFE0000000
"""Of f32, and the same as an f64: found on an H100."""
KEEPS_PAYLOADS = frozenset({"mov", "selp", "slct", "copysign"})
"""Operations that pass on a NaN as it is."""


def computed_floats(kernel: Kernel) -> frozenset[str]:
    """Registers that nothing but f32 arithmetic writes, or copies of such registers: they may hold its NaNs.

    A GPU gives one NaN, 0x7FFFFFFF; the host keeps payloads and sets signs. Nobody can tell while the value stays a
    number, so it is put right only where its bits are looked at: stored, shuffled, moved to an integer register. Not so
    in registers that something else writes, too, whose NaNs a GPU keeps as they are, or that copy one which may hold
    such: there a NaN of arithmetic is put right when it is written (`gives_nans`) or copied (`passed_on`).
    """
    found: set[str] = set()
    others: set[str] = set()
    copies: list[tuple[str, tuple[Operand, ...]]] = []
    for block in kernel.blocks:
        for i in block.instructions:
            if i.opcode not in VALUES or not i.types or i.types[0] != "f32":
                others.update(i.written)
            elif operands := passed_on(i):
                copies += [(name, operands) for name in i.written]
            else:
                found.update([name for name in i.written if kernel.registers[name] != "pred"])
    names = found.union(name for name, _ in copies) - others
    while mixed := names & {name for name, operands in copies if not all(_is_one(o, names) for o in operands)}:
        names -= mixed
    reached = found & names
    while fresh := {name for name, operands in copies if name in names - reached and _any_of(operands, reached)}:
        reached |= fresh
    return frozenset(reached)


def passed_on(i: Instruction) -> tuple[Operand, ...]:
    """The operands of which an instruction passes a NaN on as it is; none for arithmetic."""
    if i.opcode not in KEEPS_PAYLOADS:
        return ()
    return i.operands[1:2] if i.opcode == "mov" else i.operands[1:3]


def _is_one(operand: Operand, names: Collection[str]) -> bool:
    """Whether an operand is among these registers, or a constant that is a number."""
    if isinstance(operand, Immediate):
        return operand.bits & MAGNITUDE["float"] <= INFINITY["float"]
    return isinstance(operand, Register) and operand.name in names


def _any_of(operands: Iterable[Operand], names: Collection[str]) -> bool:
    return any(isinstance(o, Register) and o.name in names for o in operands)


def gives_nans(i: Instruction, computed: frozenset[str]) -> bool:
    """Whether f32 arithmetic may write a NaN to a register that is not among the computed ones."""
    return i.types[:1] == ("f32",) and i.opcode not in KEEPS_PAYLOADS and not computed.issuperset(i.written)


def copies_nans(i: Instruction, operand: Operand, computed: frozenset[str]) -> bool:
    """Whether an instruction copies a computed register to one that is not: its NaN is put right on the way."""
    if i.types[:1] != ("f32",) or computed.issuperset(i.written) or not _any_of([operand], computed):
        return False
    return operand in passed_on(i)


def canonical_bits(b: Builder, bits: IRValue) -> IRValue:
    """An f32's bits with every NaN as a GPU writes it."""
    magnitude = b.and_const(bits, CANONICAL_NAN)
    return b.select(b.icmp("ugt", magnitude, b.like(bits, INFINITY["float"])), b.like(bits, CANONICAL_NAN), bits)


def with_wide_nan(b: Builder, x: IRValue) -> IRValue:
    """A narrower number as f64: a GPU widens every NaN as the one of its f32 arithmetic, the host as it is."""
    bits = bits_of(b, x)
    return b.bitcast(b.select(b.fcmp("uno", x, x), b.like(bits, WIDE_NAN), bits), x.type)
