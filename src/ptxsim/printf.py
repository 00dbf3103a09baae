"""printf: the format string and its arguments as text, as C prints them. Tests hold it to the host's C library.

What the function returns in a kernel, and that it copies strings when it is called, is the CUDA C++ Programming Guide's
("Formatted Output") and was seen on an H100.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

StringAt = Callable[[int, int | None], bytes]
_DIRECTIVE = re.compile(
    rb"%(?:(%)|([-+ #0]{0,8})(\*|[0-9]{0,4})(?:\.(\*|[0-9]{0,4}))?(hh|h|ll|l|j|z|t|L)?([diouxXfFeEgGaAcsp]))"
)
_WIDEST = 9999
_STEP = 64
"""Bytes in which a string is looked for at first."""
_EIGHT_BYTES = (b"l", b"ll", b"j", b"z", b"t")
NO_FORMAT, NO_TEXT = -1, -2
"""What printf returns for a null pointer in place of its format, and for a format that cannot be read."""
BAD_STRING, NULL_STRING = b"(bad string)", b"(null)"
"""What stands in place of a string that cannot be read, and of a null pointer."""


@dataclass(frozen=True)
class Printed:
    """The text that printf writes, and how many arguments its format asked for: what it returns in a kernel."""

    text: str
    arguments: int


def zero_ended(view: np.ndarray, at: int, most: int) -> tuple[bytes, bool]:
    """The string that begins at byte `at` of some memory, at most so many bytes; False where that memory ends first."""
    if not 0 <= at < len(view):
        return BAD_STRING, False
    step, found = _STEP, b""
    while len(found) < most and at + len(found) < len(view):
        start = at + len(found)
        piece = view[start : min(start + step, at + most)].tobytes()
        text, zero, _ = piece.partition(b"\0")
        found += text
        if zero:
            return found, True
        step *= 2
    return found, len(found) >= most


def formatted(text: bytes, arguments: Callable[[int, int], bytes], string_at: StringAt) -> Printed:
    """What printf makes of a format.

    `arguments(offset, size)` reads the argument buffer, in which every argument lies at a multiple of its size;
    `string_at(address, most)` reads a string, up to so many bytes or, for None, to its end. Text that is no directive
    stays as it is.
    """
    offset = taken = 0

    def take(size: int) -> bytes:
        nonlocal offset, taken
        taken += 1
        offset = -(-offset // size) * size
        offset += size
        return arguments(offset - size, size)

    def star(field: bytes | None) -> str:
        return str(struct.unpack("<i", take(4))[0]) if field == b"*" else (field or b"").decode()

    def directive(match: re.Match[bytes]) -> bytes:
        percent, flags, width, precision, length, kind = match.groups()
        if percent:
            return b"%"
        spec = _Spec.read(flags.decode(), star(width), None if precision is None else star(precision))
        return _one(spec, kind.decode(), length, take, string_at)

    written = _DIRECTIVE.sub(directive, text).decode("utf-8", "replace")
    return Printed(written, taken)


@dataclass(frozen=True)
class _Spec:
    """Flags, field width and precision of a directive; both numbers are at most 9999."""

    flags: str
    width: int
    precision: int | None

    @staticmethod
    def read(flags: str, width: str, precision: str | None) -> _Spec:
        """A negative width means the flag `-`, a negative precision none."""
        columns, digits = int(width or 0), None if precision is None else int(precision or 0)
        if digits is not None:
            digits = min(digits, _WIDEST) if digits >= 0 else None
        return _Spec(flags + "-" if columns < 0 else flags, min(abs(columns), _WIDEST), digits)

    def padded(self, text: bytes) -> bytes:
        return text.ljust(self.width) if "-" in self.flags else text.rjust(self.width)

    def number(self, sign: str, prefix: str, digits: str, *, zeros: bool) -> bytes:
        """A number in its field; `zeros` lets the flag 0 fill it."""
        if zeros and "0" in self.flags and "-" not in self.flags:
            digits = digits.rjust(self.width - len(sign) - len(prefix), "0")
        return self.padded((sign + prefix + digits).encode())

    def sign(self, *, negative: bool) -> str:
        return "-" if negative else "+" if "+" in self.flags else " " if " " in self.flags else ""


def _one(
    spec: _Spec,
    kind: str,
    length: bytes | None,
    take: Callable[[int], bytes],
    string_at: StringAt,
) -> bytes:
    if kind in "fFeEgGaA":
        return _float(spec, kind, struct.unpack("<d", take(8))[0])
    if kind == "s":
        address = struct.unpack("<Q", take(8))[0]
        found = string_at(address, spec.precision) if address else NULL_STRING
        return spec.padded(found[: spec.precision])
    if kind == "c":
        return spec.padded(take(4)[:1])
    if kind == "p":
        return spec.padded(f"{struct.unpack('<Q', take(8))[0]:#x}".encode())
    data = take(8 if length in _EIGHT_BYTES else 4)
    if length in (b"h", b"hh"):
        data = data[: 2 if length == b"h" else 1]
    return _integer(spec, kind, int.from_bytes(data, "little", signed=kind in "di"))


def _integer(spec: _Spec, kind: str, value: int) -> bytes:
    digits = format(abs(value), {"x": "x", "X": "X", "o": "o"}.get(kind, "d"))
    if spec.precision is not None:
        digits = "" if value == 0 and spec.precision == 0 else digits.rjust(spec.precision, "0")
    prefix = ""
    if "#" in spec.flags and kind in "xX" and value:
        prefix = "0" + kind
    elif "#" in spec.flags and kind == "o" and digits[:1] != "0":
        digits = "0" + digits
    sign = spec.sign(negative=value < 0) if kind in "di" else ""
    return spec.number(sign, prefix, digits, zeros=spec.precision is None)


def _float(spec: _Spec, kind: str, value: float) -> bytes:
    sign = spec.sign(negative=math.copysign(1, value) < 0)
    magnitude = abs(value)
    if not math.isfinite(value):
        name = "nan" if math.isnan(value) else "inf"
        return spec.number(sign, "", name.upper() if kind.isupper() else name, zeros=False)
    if kind in "aA":
        prefix, digits = _hexadecimal(magnitude, spec.precision, point="#" in spec.flags)
        prefix, digits = (prefix.upper(), digits.upper()) if kind == "A" else (prefix, digits)
    else:
        alternative = "#" if "#" in spec.flags else ""
        prefix, digits = "", f"%{alternative}.{6 if spec.precision is None else spec.precision}{kind}" % magnitude
    return spec.number(sign, prefix, digits, zeros=True)


def _hexadecimal(x: float, precision: int | None, *, point: bool) -> tuple[str, str]:
    """C's %a as (prefix, digits): the fewest digits that are exact, or as many as `precision` says."""
    fraction, exponent = math.frexp(x)
    bits = int(fraction * (1 << 53)) if x else 0  # one hexadecimal digit before the point, thirteen behind it
    exponent = exponent - 1 if x else 0
    if x and exponent < -1022:  # C shows subnormal numbers with a leading zero
        bits, exponent = bits >> (-1022 - exponent), -1022
    if precision is not None and precision < 13:
        unit = 1 << 4 * (13 - precision)
        quotient, rest = divmod(bits, unit)
        quotient += rest > unit // 2 or (rest == unit // 2 and quotient % 2)
        bits = quotient * unit
    digits = f"{bits & (1 << 52) - 1:013x}"
    digits = digits.rstrip("0") if precision is None else digits[:precision].ljust(precision, "0")
    return "0x", f"{bits >> 52}{'.' if digits or point else ''}{digits}p{exponent:+d}"
