"""What a launch has printed, from the records that generated code leaves (`layout.PRINT_HEADER`)."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from ptxsim.codegen import layout as L
from ptxsim.memory import Memory
from ptxsim.printf import formatted


def printed_text(buffers: list[bytes], memory: Memory) -> str:
    """Text of all records that generated code left, in the order of blocks; within one in the order of printing."""
    texts: list[tuple[int, str]] = []
    for data in buffers:
        at = 0
        while at < len(data):
            address, index, _, size, _, _ = L.PRINT_HEADER.unpack_from(data, at)
            at += L.PRINT_HEADER.size + size
            arguments = partial(_cut, data[at - size : at])
            texts.append((index, formatted(string_at(memory, address), arguments, partial(string_at, memory))))
    return "".join(text for _, text in sorted(texts, key=itemgetter(0)))


def _cut(payload: bytes, offset: int, size: int) -> bytes:
    return payload[offset : offset + size].ljust(size, b"\0")


def string_at(memory: Memory, address: int) -> bytes:
    """The zero-terminated string at a global address."""
    allocation = memory.find(address)
    if allocation is None:
        return b"(bad string)"
    return allocation.view()[address - allocation.address :].tobytes().split(b"\0", 1)[0]
