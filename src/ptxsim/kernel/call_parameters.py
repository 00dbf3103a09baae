"""Parameters of calls: blocks of bytes that become registers once their calls are inlined.

A block (`.param .b8 param0[24]`) is cut into the pieces in which caller and callee access it, and every piece becomes a
register. Where pieces overlap in ways that a `mov` cannot join, or where an address is taken, the block becomes a local
variable instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Instruction,
    Operand,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
    bytes_of,
)


@dataclass
class _Block:
    """`size` bytes, accessed as (offset, width) pairs."""

    size: int
    align: int
    accesses: set[tuple[int, int]] = field(default_factory=set)
    resized: set[tuple[int, int]] = field(default_factory=set)
    """accesses from or to a register of another width"""
    addressed: bool = False
    pieces: dict[int, int] = field(default_factory=dict)
    """offset -> width of the registers it became; empty where it became a local variable"""


class CallParameters:
    """All parameter blocks of a kernel's calls. New registers and variables go to the two dictionaries given."""

    def __init__(self, registers: dict[str, str], variables: dict[str, Variable]) -> None:
        self.registers = registers
        self.variables = variables
        self.blocks: dict[str, _Block] = {}
        self.accesses: list[tuple[int, str, int]] = []

    def declare(self, v: Variable, name: str) -> None:
        self.blocks[name] = _Block(v.size_bytes, v.align)

    def size(self, name: str) -> int:
        return self.blocks[name].size

    def grow(self, name: str, size: int) -> None:
        self.blocks[name].size = max(self.blocks[name].size, size)

    def note(self, i: Instruction, place: int) -> None:
        """Notes which bytes of which block the instruction at `place` of the code accesses."""
        if i.opcode in ("ld", "st") and i.has("param"):
            memory, value = i.operands if i.opcode == "st" else i.operands[::-1]
            if isinstance(memory, Address) and isinstance(memory.base, Symbol) and memory.base.name in self.blocks:
                self.note_access(i, place, memory.base.name, memory.base.offset + memory.offset, value)
                return
        for operand in i.operands:
            base = operand.base if isinstance(operand, Address) else operand
            if isinstance(base, Symbol) and base.name in self.blocks:
                self.blocks[base.name].addressed = True

    def note_access(self, i: Instruction, place: int, name: str, offset: int, value: Operand) -> None:
        block, width = self.blocks[name], bytes_of(i.type)
        for k, element in enumerate(_elements(value)):
            access = (offset + k * width, width)
            block.accesses.add(access)
            if isinstance(element, Register) and WIDTH_BITS[self.registers[element.name]] != 8 * width:
                block.resized.add(access)
        self.accesses.append((place, name, offset))

    def lowered(self, code: list[Instruction | str]) -> list[Instruction | str]:
        """The code with accesses to blocks turned into moves, or into local accesses where moves do not do."""
        for name, block in self.blocks.items():
            block.pieces = {} if block.addressed else _pieces(block)
            for offset, width in block.pieces.items():
                self.registers[_piece(name, offset)] = f"b{max(16, 8 * width)}"
            if not block.pieces and (block.accesses or block.addressed):
                self.variables[name] = Variable(name, "local", "b8", block.size, max(block.align, 8))
        result: list[Instruction | str] = []
        done = 0
        for place, name, offset in self.accesses:
            result.extend(code[done:place])
            i = code[place]
            assert isinstance(i, Instruction)
            result.extend(self.moves(i, name, offset) if self.blocks[name].pieces else [in_local_memory(i)])
            done = place + 1
        return [*result, *code[done:]]

    def moves(self, i: Instruction, name: str, offset: int) -> list[Instruction]:
        """The moves that stand for one `ld.param` or `st.param`."""
        width = bytes_of(i.type)
        pieces = self.blocks[name].pieces
        moves: list[Instruction] = []
        for k, element in enumerate(_elements(i.operands[0 if i.opcode == "ld" else 1])):
            at, parts = offset + k * width, []
            while at < offset + (k + 1) * width:
                parts.append(Register(_piece(name, at)))
                at += pieces[at]
            whole: Operand = parts[0] if len(parts) == 1 else Vector(tuple(parts))
            if not isinstance(element, Sink):
                bits = WIDTH_BITS[self.registers[element.name]] if isinstance(element, Register) else 8 * width
                modifiers = _load_move(bits, i.type) if i.opcode == "ld" else _store_move(bits, 8 * width)
                opcode = "mov" if len(modifiers) == 1 else "cvt"
                operands = (element, whole) if i.opcode == "ld" else (whole, element)
                moves.append(Instruction(opcode, modifiers, operands, i.guard, i.source, i.ptx_line))
        return moves


def in_local_memory(i: Instruction) -> Instruction:
    """An access to a parameter as one to local memory."""
    return replace(i, modifiers=tuple(["local" if m == "param" else m for m in i.modifiers]))


def _load_move(register_bits: int, type_name: str) -> tuple[str, ...]:
    """Modifiers of the move from a parameter's register: (type) for mov, (to, from) for cvt."""
    bits = WIDTH_BITS[type_name]
    sign = "s" if type_name[0] == "s" else "u"
    return (f"b{bits}",) if register_bits == bits else (f"{sign}{register_bits}", f"{sign}{bits}")


def _store_move(register_bits: int, bits: int) -> tuple[str, ...]:
    bits = max(16, bits)
    return (f"b{bits}",) if register_bits <= bits else (f"u{bits}", f"u{register_bits}")


def _elements(value: Operand) -> tuple[Operand, ...]:
    return value.elements if isinstance(value, Vector) else (value,)


def _piece(block: str, offset: int) -> str:
    return f"%{block}+{offset}"


def _pieces(block: _Block) -> dict[int, int]:
    """Cuts a block at the ends of all its accesses; empty if some access is then no sum of 1, 2 or 4 equal pieces."""
    cuts = sorted({offset for offset, _ in block.accesses} | {offset + width for offset, width in block.accesses})
    pieces = {start: end - start for start, end in pairwise(cuts)}
    for offset, width in block.accesses:
        first = pieces[offset]
        count, rest = divmod(width, first)
        whole = rest == 0 and all(pieces.get(offset + k * first) == first for k in range(count))
        if offset < 0 or not whole or count not in (1, 2, 4):
            return {}
        if count > 1 and (first < 2 or (offset, width) in block.resized):
            return {}
    return pieces
