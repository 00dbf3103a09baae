"""What a trace's stream says, for tests."""

from __future__ import annotations

from warpschool.clock.interpreter import layout as it
from warpschool.clock.program import Program
from warpschool.clock.trace import BlockTrace


def issued(program: Program, trace: BlockTrace) -> dict[str, int]:
    """How often each opcode was issued."""
    found: dict[str, int] = {}
    chunks = trace.stream.reshape(-1, it.CHUNK_WORDS)
    for first in trace.first:
        chunk, at = int(first), 0
        while (word := int(chunks[chunk, at])) != -2:
            if word == -1:
                chunk, at = int(chunks[chunk, -1]), 0
                continue
            start, count = word & 0xFFFFFF, word >> 24 & 0xFFFFFF
            for k in range(start, start + count):
                name = program.function.code[k].name
                found[name] = found.get(name, 0) + 1
            at += 1
            if trace.events[start + count - 1]:
                at += 1 + int(chunks[chunk, at] & 0xFFFF)
    return found
