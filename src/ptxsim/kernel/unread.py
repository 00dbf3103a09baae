"""What a kernel never reads of vectors that it loads: a compiler loads four numbers at once where three are wanted.

Such elements become `_`, PTX's sink. Nobody can tell what was there: loading it is no use of something uninitialised,
and no race with who writes it. So does the result of an exchange that nobody reads: it is a store.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from ptxsim.syntax.program import Block, Instruction, Operand, Register, Sink, Vector

Pieces = tuple[tuple[int, int], ...]
"""(first, count) of stretches of a vector."""


def without_unread(blocks: list[Block]) -> list[Block]:
    """Blocks whose liveness is known, with sinks for the elements of loads that nobody reads."""
    return [_with_sinks(block) if any(map(_may_be_unread, block.instructions)) else block for block in blocks]


def pieces_read(elements: tuple[Operand, ...]) -> Pieces:
    """The stretches of a loaded vector that are no sinks; none where all of it is read, or nothing."""
    read = [not isinstance(element, Sink) for element in elements]
    if all(read) or not any(read):
        return ()
    runs = [(wanted, len([*run])) for wanted, run in groupby(read)]
    starts = [sum(n for _, n in runs[:k]) for k in range(len(runs))]
    return tuple((start, n) for start, (wanted, n) in zip(starts, runs, strict=True) if wanted)


def _with_sinks(block: Block) -> Block:
    live, found = set(block.live_out), list(block.instructions)
    for i in block.executed[len(found) :]:
        live.update(i.read)
    for k in range(len(found) - 1, -1, -1):
        i = found[k]
        if _may_be_unread(i):
            found[k] = _of_live(i, live)
        if not i.guard:
            live.difference_update(i.written)
        live.update(i.read)
    return replace(block, instructions=found)


def _may_be_unread(i: Instruction) -> bool:
    return (i.opcode in ("ld", "ldu") and isinstance(i.operands[0], Vector)) or _exchanges(i)


def _exchanges(i: Instruction) -> bool:
    return i.opcode == "atom" and i.has("exch") and isinstance(i.operands[0], Register)


def _of_live(i: Instruction, live: set[str]) -> Instruction:
    """The instruction without what is not live behind it; a load as it is where nothing is."""
    if _exchanges(i):
        return i if live.intersection(i.written) else i.with_(operands=(Sink(), *i.operands[1:]))
    vector = i.operands[0]
    assert isinstance(vector, Vector)
    elements = tuple(e if isinstance(e, Register) and e.name in live else Sink() for e in vector.elements)
    if elements == vector.elements or all(isinstance(e, Sink) for e in elements):
        return i
    return i.with_(operands=(replace(vector, elements=elements), *i.operands[1:]))
