"""Requests of a program, as `shim/wire.h` lists them: this module reads that list."""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from pathlib import Path

NON_BLOCKING = 1 << 40
"""In a stream's number: it does not wait for the default stream, nor that for it."""
_TEXT = Path(__file__).with_name("shim").joinpath("wire.h").read_text("utf-8")


def _names(of: str) -> list[str]:
    body = re.search(rf"enum {of} : uint64_t \{{(.*?)\}};", _TEXT, re.DOTALL)
    assert body is not None, of
    return re.findall(r"\w+", re.sub(r"//.*", "", body[1]))


REQUESTS = tuple(name.lower() for name in _names("Request")[:-1])
"""By number, in lower case."""
_KINDS = {name.removesuffix("_MEMORY"): k for k, name in enumerate(_names("MemoryKind"))}


class MemoryKind(IntEnum):
    """Where memory came from."""

    UNKNOWN = _KINDS["UNKNOWN"]
    DEVICE = _KINDS["DEVICE"]
    MANAGED = _KINDS["MANAGED"]
    PINNED = _KINDS["PINNED"]
    POOL = _KINDS["POOL"]
    SYMBOL = _KINDS["SYMBOL"]
    ARRAY = _KINDS["ARRAY"]
    REGISTERED = _KINDS["REGISTERED"]


DEVICE_PROPERTIES = tuple(re.findall(r"\bfield\(([\w\[\]]+)\)", _TEXT.partition("#define DEVICE_PROPERTIES")[2]))
HEAD = struct.Struct("<QQ")
"""Of a request: its size with this, and which."""
_ANSWER, _FIELD = struct.Struct("<QqQ"), struct.Struct("<Q")


class Fields:
    """Reads the fields of a request one after the other."""

    def __init__(self, data: bytes | bytearray | memoryview, at: int = 0) -> None:
        self.data, self.at = data, at

    def u64(self) -> int:
        value = _FIELD.unpack_from(self.data, self.at)[0]
        self.at += 8
        return int(value)

    def many(self, count: int) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{count}Q", self.data, self.at)
        self.at += 8 * count
        return values

    def bytes(self) -> bytes:
        size = self.u64()
        found = bytes(self.data[self.at : self.at + size])
        self.at += -(-size // 8) * 8
        return found

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace")

    def callers(self) -> tuple[int, ...]:
        """Return addresses of the host's stack, innermost first."""
        return self.many(self.u64())


def answer(error: int, fields: tuple[int, ...] = (), printed: bytes = b"", tail: bytes = b"") -> bytes:
    """The bytes of an answer; `tail` is text behind its fields, with its length before it."""
    body = printed + bytes(-len(printed) % 8) + struct.pack(f"<{len(fields)}Q", *(f & (1 << 64) - 1 for f in fields))
    if tail:
        body += _FIELD.pack(len(tail)) + tail + bytes(-len(tail) % 8)
    return _ANSWER.pack(_ANSWER.size + len(body), error, len(printed)) + body
