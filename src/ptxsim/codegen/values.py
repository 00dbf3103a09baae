"""The lane-by-lane instructions: how each computes its result, for a scalar and for a warp of lanes alike.

A handler gets the builder, the instruction and its sources as typed values (all scalar or all vectors) and returns the
result. `@value(opcode, operands)` registers it; `operands` gives the PTX type of every source, by default the
instruction's type for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ptxsim.codegen.emit import Builder, IRValue
from ptxsim.errors import UnsupportedInstruction
from ptxsim.syntax.program import FLOAT8_TYPES, WIDTH_BITS, Instruction

Handler = Callable[..., "IRValue | tuple[IRValue, ...]"]
H = TypeVar("H", bound=Handler)

LLVM_TYPE = {"pred": "i1", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "tf32": "float"} | {
    f"{kind}{bits}": f"i{bits}" for kind in "bus" for bits in (8, 16, 32, 64)
} | {"b128": "i128"} | dict.fromkeys(FLOAT8_TYPES, "i16")  # fmt: skip
LLVM_TYPE |= dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2"), "i32")

NEXT_STEP = "See the page of supported PTX; on a GPU the kernel runs with --device gpu."


@dataclass(frozen=True)
class ValueRow:
    handler: Handler
    operands: Callable[[Instruction], tuple[str, ...]] | None = None


VALUES: dict[str, ValueRow] = {}
Translation = Callable[[Any, Instruction], None]
HANDLERS: dict[str, Translation] = {}
"""How the other instructions are translated: functions of the Translator and the instruction. `add.cc` is an add that
writes the condition code."""


def value(*opcodes: str, operands: Callable[[Instruction], tuple[str, ...]] | None = None) -> Callable[[H], H]:
    """Registers a handler for the instructions `opcodes`."""

    def register(handler: H) -> H:
        VALUES.update(dict.fromkeys(opcodes, ValueRow(handler, operands)))
        return handler

    return register


def handles(*opcodes: str) -> Callable[[Translation], Translation]:
    """Registers what translates the instructions `opcodes`."""

    def register(handler: Translation) -> Translation:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def source_types(i: Instruction) -> tuple[str, ...]:
    """PTX type of each source operand of a VALUE instruction."""
    row = VALUES[i.opcode]
    return row.operands(i) if row.operands else (i.type,) * (len(i.operands) - 1)


def unsupported(i: Instruction, why: str = "") -> UnsupportedInstruction:
    """The error for a form that a handler does not execute; the translator adds the place."""
    return UnsupportedInstruction(
        f"the simulator does not execute '{i.full_name[:60]}'{': ' + why if why else ''}", next_step=NEXT_STEP
    )


def signed(i: Instruction) -> bool:
    return i.type[0] == "s"


def is_float(type_: str) -> bool:
    return type_ in ("f16", "bf16", "f32", "f64")


def bits_of(b: Builder, x: IRValue) -> IRValue:
    """A floating-point value's raw bits."""
    return b.bitcast(x, {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}[x.type])


def clamp_shift(b: Builder, x: IRValue, amount: IRValue, op: str) -> IRValue:
    """PTX shifts: amounts of the width or more shift everything out."""
    width = WIDTH_BITS["b" + x.type[1:]]
    big = b.icmp("uge", amount, b.like(amount, width))
    shifted = b.binary(op, x, b.and_const(amount, width - 1))
    out = b.binary(op, x, b.like(x, width - 1)) if op == "ashr" else b.like(x, 0)
    return b.select(big, out, shifted)
