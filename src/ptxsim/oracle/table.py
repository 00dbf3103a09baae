"""The oracle's handlers: one small function per opcode, found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ptxsim.errors import UnsupportedInstruction
from ptxsim.syntax.program import Instruction, Pair, Vector

if TYPE_CHECKING:
    from ptxsim.oracle.lanes import Lanes

Handler = Callable[["Lanes", Instruction], None]
ValueFunction = TypeVar("ValueFunction", bound=Callable[..., Any])
Types = Callable[[Instruction], tuple[str, ...]]

HANDLERS: dict[str, Handler] = {}


def handler(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers a function of (lanes, instruction) for `opcodes`."""

    def register(function: Handler) -> Handler:
        for opcode in opcodes:
            HANDLERS[opcode] = function
        return function

    return register


def value(
    *opcodes: str, sources: Types | None = None, result: Callable[[Instruction], str] | None = None
) -> Callable[[ValueFunction], ValueFunction]:
    """Registers a function of (instruction, typed sources...) that gives the typed result.

    `sources` and `result` name the PTX types of the operands; by default the instruction's last type is that of all.
    A result for two destinations (a pair or a vector) is a tuple.
    """

    def register(function: ValueFunction) -> ValueFunction:
        def execute(lanes: Lanes, i: Instruction) -> None:
            types = sources(i) if sources else (i.type,) * (len(i.operands) - 1)
            arguments = [lanes.read(o, t) for o, t in zip(i.operands[1:], types, strict=True)]
            results = function(i, *arguments)
            type_name = result(i) if result else i.type
            destination = i.operands[0]
            if isinstance(results, tuple):
                assert isinstance(destination, Pair | Vector)
                targets = (
                    destination.elements if isinstance(destination, Vector) else (destination.first, destination.second)
                )
                for target, one in zip(targets, results, strict=True):
                    lanes.write(target, one, type_name)
            else:
                lanes.write(destination, results, type_name)

        for opcode in opcodes:
            HANDLERS[opcode] = execute
        return function

    return register


def unsupported(i: Instruction, why: str = "") -> UnsupportedInstruction:
    return UnsupportedInstruction(
        f"the oracle does not execute '{i.full_name}'{': ' + why if why else ''}", line=i.source.line
    )


def first_of(i: Instruction, *modifiers: str) -> str | None:
    """The first of `modifiers` that the instruction has."""
    return next((m for m in modifiers if m in i.modifiers), None)
