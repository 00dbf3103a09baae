"""printf: the format string and its arguments as text, as C prints them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

_DIRECTIVE = re.compile(
    rb"%(?:(%)|([-+ #0]{0,8})(\*|[0-9]{0,4})(?:\.(\*|[0-9]{0,4}))?(hh|h|ll|l|j|z|t|L)?([diouxXfFeEgGaAcsp]))"
)
_EIGHT_BYTES = (b"l", b"ll", b"j", b"z", b"t")


def formatted(text: bytes, arguments: Callable[[int, int], bytes], string_at: Callable[[int], bytes]) -> str:
    """The text that printf writes.

    `arguments(offset, size)` reads the argument buffer, in which every argument lies at a multiple of its size;
    `string_at(address)` reads a string. Text that is no directive stays as it is.
    """
    offset = 0

    def take(size: int) -> bytes:
        nonlocal offset
        offset = -(-offset // size) * size
        offset += size
        return arguments(offset - size, size)

    def star(field: bytes | None) -> str:
        return str(struct.unpack("<i", take(4))[0]) if field == b"*" else (field or b"").decode()

    def directive(match: re.Match[bytes]) -> bytes:
        percent, flags, width, precision, length, kind = match.groups()
        if percent:
            return b"%"
        spec = f"%{flags.decode()}{_bounded(star(width))}"
        if precision is not None:
            spec += "." + _bounded(star(precision)).lstrip("-")
        return _one(spec, kind.decode(), length, take, string_at)

    return _DIRECTIVE.sub(directive, text).decode("utf-8", "replace")


def _bounded(number: str) -> str:
    """A field width, at most 9999."""
    return number if not number else str(max(-9999, min(9999, int(number))))


def _one(
    spec: str,
    kind: str,
    length: bytes | None,
    take: Callable[[int], bytes],
    string_at: Callable[[int], bytes],
) -> bytes:
    if kind in "fFeEgG":
        return (spec + kind).__mod__(struct.unpack("<d", take(8))[0]).encode()
    if kind in "aA":
        return _hexadecimal(struct.unpack("<d", take(8))[0], kind).encode()
    if kind == "s":
        return (spec.encode() + b"s") % string_at(struct.unpack("<Q", take(8))[0])
    if kind == "c":
        return (spec.encode() + b"c") % (struct.unpack("<i", take(4))[0] & 0xFF)
    if kind == "p":
        return f"{spec}s".__mod__(f"{struct.unpack('<Q', take(8))[0]:#x}").encode()
    size = 8 if length in _EIGHT_BYTES else 4
    data = take(size)
    if length in (b"h", b"hh"):
        data = data[: 2 if length == b"h" else 1]
    value = int.from_bytes(data, "little", signed=kind in "di")
    return (spec + ("d" if kind == "u" else kind)).__mod__(value).encode()


def _hexadecimal(x: float, kind: str) -> str:
    """C's %a, which drops trailing zeros of Python's float.hex."""
    text = x.hex()
    if "p" in text:
        digits, exponent = text.split("p")
        text = (digits.rstrip("0").rstrip(".") if "." in digits else digits) + "p" + exponent
    return text.upper() if kind == "A" else text
