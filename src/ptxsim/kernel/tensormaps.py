"""Changes of tensor maps in memory (PTX ISA 9.7.9.28), written as the stores and copies that they are.

`tensormap.replace` stores a field where `ptxsim.tensormap` keeps it. `tensormap.cp_fenceproxy` copies a map from shared
to global memory, four bytes a lane, in front of a fence. They are counted as what stands in their place.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Register, Special, Symbol
from ptxsim.tensormap import FIELDS

_LANE_BYTES = 4


def lowered(code: list[Instruction | str], registers: dict[str, str]) -> list[Instruction | str]:
    """The code with such changes written out; `registers` gains what they need."""
    if not any(isinstance(i, Instruction) and i.opcode == "tensormap" for i in code):
        return code
    found: list[Instruction | str] = []
    for number, i in enumerate(code):
        if isinstance(i, str) or i.opcode != "tensormap":
            found.append(i)
        else:
            lower = _copied if i.has("cp_fenceproxy") else _replaced
            found += lower(i, f"@tensormap{number}", registers)
    return found


def _replaced(i: Instruction, suffix: str, registers: dict[str, str]) -> Iterator[Instruction]:
    """A store of one number of a field."""
    name = next(m for m in i.modifiers if m in FIELDS)
    at, *ordinal, value = i.operands
    assert isinstance(at, Address)
    field = FIELDS[name]
    if name == "rank":  # the instruction is given one less
        more = Register(f"%rank{suffix}")
        registers[more.name] = "b32"
        yield i.with_(opcode="add", modifiers=("u32",), operands=(more, value, Immediate(1)))
        value = more
    index = ordinal[0].bits if ordinal and isinstance(ordinal[0], Immediate) else 0
    place = Address(at.base, at.offset + field.offset + index * field.nbytes)
    space = ("shared",) if i.space == "shared" else ("global",) if i.has("global") else ()
    yield i.with_(opcode="st", modifiers=(*space, f"u{8 * field.nbytes}"), operands=(place, value))


def _copied(i: Instruction, suffix: str, registers: dict[str, str]) -> Iterator[Instruction]:
    """Every lane's part of the map, and the fence."""
    lane, value = Register(f"%lane{suffix}"), Register(f"%part{suffix}")
    registers[lane.name] = registers[value.name] = "b32"
    yield i.with_(opcode="mov", modifiers=("u32",), operands=(lane, Special("laneid")))
    places = []
    for name, operand, usual in (("to", i.operands[0], 64), ("from", i.operands[1], 32)):
        assert isinstance(operand, Address)
        base: Operand = operand.base
        bits = int(registers[base.name].lstrip("bufs")) if isinstance(base, Register) else usual
        own, start = Register(f"%{name}{suffix}"), Register(f"%{name}0{suffix}")
        registers[own.name] = registers[start.name] = f"b{bits}"
        if isinstance(base, Symbol):
            yield i.with_(opcode="mov", modifiers=(f"u{bits}",), operands=(start, base))
            base = start
        wide = ("wide", "u32") if bits == 64 else ("lo", "u32")
        yield i.with_(opcode="mul", modifiers=wide, operands=(own, lane, Immediate(_LANE_BYTES)))
        yield i.with_(opcode="add", modifiers=(f"u{bits}",), operands=(own, own, base))
        places.append(Address(own, operand.offset))
    yield i.with_(opcode="ld", modifiers=("shared", "b32"), operands=(value, places[1]))
    yield i.with_(opcode="st", modifiers=("global", "b32"), operands=(places[0], value))
    yield i.with_(opcode="fence", modifiers=("acq_rel", "gpu"), operands=())
