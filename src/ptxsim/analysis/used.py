"""What a kernel uses of vectors that it loads: a compiler loads four numbers at once where a kernel wants three."""

from __future__ import annotations

from itertools import groupby

from ptxsim.syntax.program import Instruction, Kernel, Register, Vector, bytes_of

Pieces = tuple[tuple[int, int], ...]
"""(first byte, bytes) of each stretch of an access that counts."""


def partly_used(kernel: Kernel) -> dict[int, Pieces]:
    """Identities of vector loads of which some elements are never read, each with the stretches of those that are.

    Nobody can tell what the other bytes hold: reading them is no use of something uninitialised, and no race.
    """
    found: dict[int, Pieces] = {}
    for block in kernel.blocks:
        if not any(map(_loads_vector, block.instructions)):
            continue
        live = set(block.live_out)
        for i in reversed(block.executed):
            if _loads_vector(i) and (pieces := _pieces(i, live)):
                found[id(i)] = pieces
            if not i.guard:
                live.difference_update(i.written)
            live.update(i.read)
    return found


def _loads_vector(i: Instruction) -> bool:
    return i.opcode in ("ld", "ldu") and isinstance(i.operands[0], Vector)


def _pieces(i: Instruction, live: set[str]) -> Pieces:
    """Of a load, by what is live behind it; none where all of it is used, or nothing."""
    vector, size = i.operands[0], bytes_of(i.type)
    assert isinstance(vector, Vector)
    used = [isinstance(r, Register) and r.name in live for r in vector.elements]
    if all(used) or not any(used):
        return ()
    runs = [(wanted, len([*run])) for wanted, run in groupby(used)]
    starts = [sum(n for _, n in runs[:k]) for k in range(len(runs))]
    return tuple((size * start, size * n) for start, (wanted, n) in zip(starts, runs, strict=True) if wanted)
