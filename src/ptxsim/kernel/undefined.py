"""Registers that some path reads before anything has written them: `float sum;` and then `sum += ...`.

On a GPU they hold what another kernel has left there. Here they begin with large numbers whose sign differs from lane
to lane, so that no sum, smallest or largest value that one of them takes part in can come out right by luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxsim.syntax.program import (
    WIDTH_BITS,
    Block,
    Immediate,
    Instruction,
    InstructionOrigin,
    Operand,
    Register,
    SourceLine,
    Special,
    Vector,
)

_LARGE = 0x7F7FDEAD
"""3.4e38 as a float, beyond any array as an index."""
_LANE, _SIGN = "%undefined lane", "%undefined"
_UNTOUCHED = ("wgmma",)
"""Instructions that name registers which they need not read: sums that they are told to begin at zero."""


def undefined_reads(blocks: Sequence[Block], names: frozenset[str]) -> dict[str, SourceLine]:
    """For each of these registers, live where the kernel begins, the line of a read that nothing has written before."""
    found = {name: _first_read(blocks, name) for name in sorted(names)}
    return {name: i.source for name, i in found.items() if i is not None and i.opcode not in _UNTOUCHED}


def _first_read(blocks: Sequence[Block], name: str) -> Instruction | None:
    """The first read in the order of blocks on a path from the entry on which nothing writes the register."""
    reached, open_ = {0}, [0]
    reads: dict[int, Instruction] = {}
    while open_:
        block = blocks[open_.pop()]
        first = next((i for i in block.executed if name in i.read or name in i.written), None)
        if first is not None:
            if name in first.read:
                reads[block.index] = first
            continue
        following = {s for s in block.successors if name in blocks[s].live_in} - reached
        reached |= following
        open_ += following
    return reads[min(reads)] if reads else None


def filled(names: Sequence[str], registers: Mapping[str, str]) -> tuple[list[Instruction], dict[str, str]]:
    """What gives these registers their first values, uncounted, and the registers that it needs for that."""
    wanted = [name for name in names if registers.get(name) != "pred" and _bits(registers, name) in (16, 32, 64)]
    if not wanted:
        return [], {}
    lane, sign = Register(_LANE), Register(_SIGN)
    code = [
        _added("mov", ("u32",), lane, Special("laneid")),
        _added("shl", ("b32",), lane, lane, Immediate(31)),
        _added("xor", ("b32",), sign, lane, Immediate(_LARGE)),
    ]
    for name in wanted:
        match _bits(registers, name):
            case 16:
                code.append(_added("cvt", ("u16", "u32"), Register(name), sign))
            case 32:
                code.append(_added("mov", ("b32",), Register(name), sign))
            case _:
                code.append(_added("mov", ("b64",), Register(name), Vector((sign, sign))))
    return code, {_LANE: "b32", _SIGN: "b32"}


def _bits(registers: Mapping[str, str], name: str) -> int:
    return WIDTH_BITS.get(registers.get(name, ""), 0)


def _added(opcode: str, modifiers: tuple[str, ...], *operands: Operand) -> Instruction:
    return Instruction(opcode, modifiers, operands, origin=InstructionOrigin.ADDED)
