"""Extended-precision arithmetic: a carry passes from one instruction to the next (PTX ISA 9.7.2).

The condition code lives within a basic block; NVRTC writes such chains in one piece.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen.emit import BITS, WARP, Value
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Instruction

OPCODES = frozenset({"addc", "subc", "madc"})


def uses_carry(i: Instruction) -> bool:
    """Whether an instruction reads or writes the condition code."""
    return i.opcode in OPCODES or (i.has("cc") and i.opcode in ("add", "sub", "mad"))


def translate(t: Translator, i: Instruction) -> None:
    """add, sub and mad, with carry in (addc, subc, madc) or out (.cc), lane by lane."""
    b = t.b
    sources = [t.source(o, i.type, WARP) for o in i.operands[1:]]
    if len(sources) == 3:
        x, y = _product(t, i, sources[0], sources[1]), sources[2]
    else:
        x, y = sources
    width = BITS[x.type]
    wide = f"i{2 * width}"
    subtracts = i.opcode.startswith("sub")
    if subtracts:  # x + ~y + 1: the flag after a subtraction means "no borrow", as NVIDIA GPUs have it
        y = b.not_(y)
    total = b.add(b.resize(x, wide), b.resize(y, wide))
    if i.opcode in OPCODES:
        if t.carry is None:
            raise unsupported(i, "a carry from another basic block")
        total = b.add(total, b.resize(t.carry, wide))
    elif subtracts:
        total = b.add_const(total, 1)
    if i.has("cc"):
        t.carry = b.icmp("ne", b.and_const(b.lshr(total, width), 1), b.like(total, 0))
    t.write(i.operands[0], b.resize(total, x.type), Lanes())


def _product(t: Translator, i: Instruction, x: Value, y: Value) -> Value:
    if not i.has("hi"):
        return t.b.mul(x, y)
    signed, width = i.type[0] == "s", BITS[x.type]
    wide = f"i{2 * width}"
    product = t.b.mul(t.b.resize(x, wide, signed), t.b.resize(y, wide, signed))
    return t.b.resize(t.b.lshr(product, width), x.type)
