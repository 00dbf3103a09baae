"""Formatting of what kernels print: CUDA's printf, from the records that generated code leaves."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ptxsim.codegen.layout import PRINT_HEADER
from ptxsim.memory import Memory
from ptxsim.record import Triple

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t)?([diouxXcsfFeEgGaAp%])")


def format_records(buffers: list[bytes], memory: Memory, block: Triple, grid: Triple) -> str:
    """Text of all records, in the order of blocks; within a block in the order of printing."""
    records: list[tuple[int, int, str]] = []
    for data in buffers:
        for number, (address, index, payload) in enumerate(_records(data)):
            records.append((index, number, _format(_string(memory, address), payload, memory)))
    records.sort(key=lambda r: r[:2])
    return "".join(text for _, _, text in records)


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        address, index, _, size, _, _ = PRINT_HEADER.unpack_from(data, at)
        at += PRINT_HEADER.size
        yield address, index, data[at : at + size]
        at += size


def _string(memory: Memory, address: int) -> str:
    """The zero-terminated string at a global address."""
    allocation = memory.find(address)
    if allocation is None:
        return "(bad string)"
    text = allocation.view()[address - allocation.address :].tobytes()
    return text.split(b"\0", 1)[0].decode("utf-8", "replace")


class _Arguments:
    """C varargs as CUDA packs them: each at its natural alignment."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 0

    def take(self, code: str) -> int | float:
        size = struct.calcsize(code)
        self.at = -(-self.at // size) * size
        piece = self.payload[self.at : self.at + size].ljust(size, b"\0")
        self.at += size
        return struct.unpack("<" + code, piece)[0]


def _format(text: str, payload: bytes, memory: Memory) -> str:
    arguments = _Arguments(payload)

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        width = str(arguments.take("i")) if width == "*" else width or ""
        precision = str(arguments.take("i")) if precision == "*" else precision
        spec = "%" + flags + width + (f".{precision}" if precision is not None else "")
        if kind in "fFeEgGaA":
            value = arguments.take("d")
            return spec.replace("%", "", 1) + float(value).hex() if kind in "aA" else (spec + kind) % value
        if kind == "s":
            return (spec + "s") % _string(memory, int(arguments.take("Q")))
        if kind == "p":
            return f"0x{int(arguments.take('Q')):x}"
        wide = length in ("l", "ll", "z", "j", "t")
        if kind == "c":
            return (spec + "c") % chr(int(arguments.take("i")) & 255)
        if kind in "di":
            return (spec + "d") % arguments.take("q" if wide else "i")
        return (spec + ("d" if kind == "u" else kind)) % arguments.take("Q" if wide else "I")

    return _SPEC.sub(replace, text)
