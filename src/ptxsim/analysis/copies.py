"""Loads that only copy: what they give goes from memory to memory, and nobody computes with it.

A copy of a structure brings along its padding, and members that have no value yet: nobody has written them. A compiler
copies by integers, some of which hold such parts alone, behind what is copied before them.
"""

from __future__ import annotations

from ptxsim.syntax.program import Address, Block, Instruction, Kernel, bytes_of, elements_of, registers_in

_INTEGERS = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) | {"b128"}


def copied_loads(kernel: Kernel) -> dict[int, int]:
    """Identities of loads of integers whose values are only stored again -> bytes before each that belong to it."""
    every = [i for block in kernel.blocks for i in block.executed]
    if not any(_may_copy(i) and i.type in _INTEGERS for i in every):
        return {}
    looked_at = {name for i in every for name in _looked_at(i)}
    renamed = [(i.written[0], i.read[0]) for i in every if i.renames]
    while found := {origin for to, origin in renamed if to in looked_at and origin not in looked_at}:
        looked_at |= found
    copying = {id(i) for i in every if _may_copy(i) and looked_at.isdisjoint(i.written)}
    return {id(i): before for block in kernel.blocks for i, before in _with_before(block, copying)}


def _with_before(block: Block, copying: set[int]) -> list[tuple[Instruction, int]]:
    """A block's loads of integers that copy, with the bytes of the one that they follow."""
    loads = [(i, _place(i)) for i in block.instructions if id(i) in copying]
    lengths = {(base, end): end - start for _, (base, start, end) in loads}
    return [(i, lengths.get((base, start), 0)) for i, (base, start, _) in loads if i.type in _INTEGERS]


def _may_copy(i: Instruction) -> bool:
    return i.opcode == "ld" and i.space in ("shared", "generic") and isinstance(i.operands[1], Address)


def _place(i: Instruction) -> tuple[str, int, int]:
    """The register of a load's address, and from where to where it loads, as its offsets."""
    to, where = i.operands
    assert isinstance(where, Address)
    return str(where.base), where.offset, where.offset + len(elements_of(to)) * bytes_of(i.type)


def _looked_at(i: Instruction) -> tuple[str, ...]:
    """Registers whose values decide something: all that it reads, but what it stores or renames."""
    if i.renames:
        return ()
    if i.opcode != "st":
        return i.read
    guard = (i.guard.register,) if i.guard is not None else ()
    return (*guard, *(name for o in i.operands if isinstance(o, Address) for name in registers_in(o)))
