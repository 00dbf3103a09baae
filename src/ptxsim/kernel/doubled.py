"""A kernel in which everything of one kind counts twice, to see whose results flow into what it stores.

Products (of single precision, of packed halves, of bytes, of tensor cores) are added twice: what is linear in them
doubles. Asynchronous copies bring zeros. Everything else, addresses among it, stays as it is. Every tier and the oracle
run what comes out like any other program; its counters mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptxsim.syntax.program import (
    TWICE,
    Function,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PtxFile,
    Register,
    Vector,
)

_PREFIX = "%doubled "
"""Of registers that no PTX text can name: it has a space."""


def doubled_program(program: PtxFile, kind: str) -> PtxFile:
    """The program with everything of a kind of `IN_PROGRAM` doubled."""
    change = IN_PROGRAM[kind]
    return replace(program, functions={name: _changed(f, change) for name, f in program.functions.items()})


def doubled_kernel(kernel: Kernel, kind: str) -> Kernel:
    """The kernel with everything of a kind of `IN_KERNEL` doubled; what is known of registers and addresses holds."""
    change = IN_KERNEL[kind]
    made = kernel.with_instructions(change)
    made.like = kernel, change
    return made


def _changed(function: Function, change: _Change) -> Function:
    registers = _Registers(function.registers)
    body: list[Instruction | str] = []
    for i in function.body:
        found = change(i, registers) if isinstance(i, Instruction) else None
        body += found if found is not None else [i]
    return replace(function, body=body, registers=function.registers | registers.new)


class _Registers:
    """New registers, each like one that a function has."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known
        self.new: dict[str, str] = {}

    def like(self, operand: Operand) -> Operand:
        """A new register of the same type, or as many as a vector has; other operands stay as they are."""
        match operand:
            case Register(name):
                register = Register(f"{_PREFIX}{len(self.new)}")
                self.new[register.name] = self._known[name]
                return register
            case Vector(elements):
                return Vector(tuple(self.like(element) for element in elements))
        return operand


_Change = Callable[[Instruction, _Registers], list[Instruction] | None]


def _again(i: Instruction, registers: _Registers) -> list[Instruction]:
    """d = a * b + c, and a * b once more: the first sum is the second one's c, so d may be any of the three."""
    result, a, b, _, *more = i.operands
    first = registers.like(result)
    return [
        i.with_(operands=(first, *i.operands[1:])),
        i.with_(operands=(result, a, b, first, *more)),
    ]


def _products(*types: str) -> Callable[[Instruction], Instruction]:
    """What multiplies numbers of these types takes its first factor twice."""

    def change(i: Instruction) -> Instruction:
        if i.opcode not in ("fma", "mad", "mul") or not i.types or i.type not in types:
            return i
        return i.with_(modifiers=(*i.modifiers, TWICE))

    return change


def _dots(i: Instruction, registers: _Registers) -> list[Instruction] | None:
    return _again(i, registers) if i.opcode in ("dp4a", "dp2a") else None


def _tensor(i: Instruction, registers: _Registers) -> list[Instruction] | None:
    """mma.sync and wmma.mma; not wgmma, which adds to registers later on."""
    return _again(i, registers) if i.counted == "tensor" and i.opcode in ("mma", "wmma") else None


def _copies(i: Instruction, registers: _Registers) -> list[Instruction] | None:
    """cp.async with no bytes to read: the target is filled with zeros."""
    is_copy = i.opcode == "cp" and i.has("async") and len(i.operands) >= 3
    if not is_copy or not {"ca", "cg"} & set(i.modifiers):
        return None
    return [i.with_(operands=(*i.operands[:3], Immediate(0), *i.operands[4:]))]


IN_KERNEL = {"products": _products("f32"), "packed products": _products("f16x2", "bf16x2")}
"""Kinds that put one instruction in the place of one, with the same registers."""
IN_PROGRAM: dict[str, _Change] = {"dots": _dots, "tensor products": _tensor, "copies": _copies}
KINDS = (*IN_KERNEL, *IN_PROGRAM)
