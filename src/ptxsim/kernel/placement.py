"""Where a kernel's shared and local variables lie."""

from __future__ import annotations

from dataclasses import replace

from ptxsim.syntax.declarations import align_up
from ptxsim.syntax.program import Variable

MIN_DYNAMIC_ALIGN = 16
"""Dynamic shared memory starts at a multiple of at least this many bytes."""


def place(variables: dict[str, Variable]) -> tuple[dict[str, Variable], int, int]:
    """Gives shared and local variables their offsets; bytes of static shared memory and of local memory per thread.

    Variables keep their order of declaration. Every `.extern .shared` array starts where static shared memory ends,
    rounded up to the array's alignment (at least 16 bytes).
    """
    ends = {"shared": 0, "local": 0}
    placed: dict[str, Variable] = {}
    for v in variables.values():
        if v.space in ends and not v.external:
            offset = align_up(ends[v.space], v.align)
            ends[v.space] = offset + v.size_bytes
            v = replace(v, offset=offset)
        placed[v.name] = v
    for v in variables.values():
        if v.space == "shared" and v.external:
            placed[v.name] = replace(v, offset=align_up(ends["shared"], max(MIN_DYNAMIC_ALIGN, v.align)))
    return placed, ends["shared"], ends["local"]
