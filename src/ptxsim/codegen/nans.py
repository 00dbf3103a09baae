"""Which registers may hold a NaN that single-precision arithmetic made.

A GPU gives one NaN, 0x7FFFFFFF; the host keeps payloads and sets signs. Nobody can tell while the value stays a
number, so it is put right only where its bits are looked at: stored, shuffled, moved to an integer register.
"""

from __future__ import annotations

from ptxsim.codegen.emit import Builder, Value
from ptxsim.codegen.values import VALUES
from ptxsim.syntax.program import Instruction, Kernel, Operand, Register

NAN = 0x7FFFFFFF
KEEPS_PAYLOADS = frozenset({"mov", "selp", "slct", "copysign"})
"""Operations that pass on a NaN as it is."""


def computed_floats(kernel: Kernel) -> frozenset[str]:
    """Registers that f32 arithmetic writes, and those that such a register is copied to."""
    found: set[str] = set()
    copies: list[tuple[str, list[str]]] = []
    for block in kernel.blocks:
        for i in block.instructions:
            if i.opcode not in VALUES or not i.types or i.types[0] not in ("f32", "b32"):
                continue
            if i.opcode in KEEPS_PAYLOADS:
                copies += [(name, _registers(i.operands[1:])) for name in i.written]
            elif i.types[0] == "f32":
                found |= {name for name in i.written if kernel.registers[name] != "pred"}
    changed = True
    while changed:
        changed = False
        for name, sources in copies:
            if name not in found and not found.isdisjoint(sources):
                found.add(name)
                changed = True
    return frozenset(found)


def _registers(operands: tuple[Operand, ...]) -> list[str]:
    return [o.name for o in operands if isinstance(o, Register)]


def canonical_bits(b: Builder, bits: Value) -> Value:
    """An f32's bits with every NaN as a GPU writes it."""
    magnitude = b.and_const(bits, NAN)
    return b.select(b.icmp("ugt", magnitude, b.like(bits, 0x7F800000)), b.like(bits, NAN), bits)


def half_results(i: Instruction) -> bool:
    """Whether an instruction computes a half whose NaN must be put right at once."""
    return i.opcode not in KEEPS_PAYLOADS
