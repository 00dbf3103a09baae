"""What a kernel's source says of its parameters: names, pointers, element types.

PTX keeps none of that, so error messages and dtype checks read the declaration. It is a reading aid: where the
declaration cannot be understood (macros, templates, two kernels of one name), nothing is known and nothing is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from warpschool.compile.source import blank

_QUALIFIERS = re.compile(r"\b(?:const|volatile|restrict|__restrict__|__restrict|__grid_constant__|struct)\b")
_VECTOR = re.compile(r"(u?(?:char|short|int|longlong|long)|float|double)[1-4]")
_ELEMENTS = {
    "float": "f4", "double": "f8", "half": "f2", "__half": "f2", "half2": "f2", "__half2": "f2",
    "char": "i1", "signed char": "i1", "int8_t": "i1", "unsigned char": "u1", "uchar": "u1", "uint8_t": "u1",
    "bool": "?",
    "short": "i2", "int16_t": "i2", "unsigned short": "u2", "ushort": "u2", "uint16_t": "u2",
    "int": "i4", "signed": "i4", "signed int": "i4", "int32_t": "i4",
    "unsigned": "u4", "unsigned int": "u4", "uint": "u4", "uint32_t": "u4",
    "long": "i8", "long long": "i8", "longlong": "i8", "int64_t": "i8", "ptrdiff_t": "i8",
    "unsigned long": "u8", "unsigned long long": "u8", "ulonglong": "u8", "uint64_t": "u8", "size_t": "u8",
}  # fmt: skip
"""C++ type -> NumPy type of one element (Linux, 64 bits)."""


@dataclass(frozen=True)
class Declared:
    """One declared parameter; `element` is None where its type is not one of the plain ones."""

    name: str
    type: str
    pointer: bool
    element: np.dtype | None


def declared_parameters(source: str, entry: str) -> tuple[Declared, ...]:
    """The parameters of kernel `entry` as its source declares them; () where they cannot be read."""
    code = blank(source, strings=True)
    found = {_parameter_list(code, match.end()) for match in _heads(code, entry)}
    if len(found) != 1:
        return ()
    text = found.pop()
    if text.strip() in ("", "void"):
        return ()
    declared = [_declared(part) for part in _split(text)]
    return tuple(d for d in declared if d) if all(declared) else ()


def _heads(code: str, entry: str) -> list[re.Match[str]]:
    """Matches that end behind the opening parenthesis of a definition or declaration of `entry`."""
    pattern = rf"\b__global__\b[^;{{}}]*?\b{re.escape(entry)}\s*\("
    return list(re.finditer(pattern, code))


def _parameter_list(code: str, start: int) -> str:
    """The text up to the parenthesis that closes the one before `start`."""
    depth = 1
    for offset in range(start, len(code)):
        depth += (code[offset] == "(") - (code[offset] == ")")
        if not depth:
            return " ".join(code[start:offset].split())
    return ""


def _split(text: str) -> list[str]:
    """Pieces between the commas that are not inside brackets."""
    pieces, depth = [""], 0
    for char in text:
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += char
    return pieces


def _declared(text: str) -> Declared | None:
    """One parameter, `const float* __restrict__ A`; None where it is not of the simple form `type [*] name [[]]`."""
    plain = _QUALIFIERS.sub(" ", text)
    match = re.fullmatch(r"\s*([A-Za-z_][\w\s:]*?)\s*(\*[\s*]*|\s)\s*([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)", plain)
    if not match:
        return None
    base, stars, name, brackets = match.groups()
    base = " ".join(base.split())
    depth = stars.count("*") + bool(brackets)
    return Declared(name, base + "*" * depth, depth > 0, _element(base) if depth <= 1 else np.dtype("u8"))


def _element(base: str) -> np.dtype | None:
    vector = _VECTOR.fullmatch(base)
    kind = _ELEMENTS.get(vector[1] if vector else base)
    return np.dtype(kind) if kind else None
