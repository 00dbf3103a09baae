"""`constants=`: other values for a source's top-level `constexpr int`s."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping

from warpschool.compile.lexing import blank
from warpschool.errors import CompileError

_DECLARATION = re.compile(
    r"\b(?:(?:static|inline|__device__|const)\s+)*constexpr\s+(?:(?:static|inline|const)\s+)*"
    r"(?:unsigned\s+int|int|unsigned|size_t)\s+(?P<name>[A-Za-z_]\w*)\s*(?P<equals>=|\{)"
)
_INT_RANGE = (-(2**31), 2**31 - 1)


def find_constants(source: str) -> dict[str, tuple[int, int]]:
    """Name -> (start, end) of the initialiser of every top-level `constexpr int NAME = expression;`."""
    code = blank(source, strings=True)
    depth = _depths(code)
    found: dict[str, tuple[int, int]] = {}
    for match in _DECLARATION.finditer(code):
        if depth(match.start()) or match["name"] in found:
            continue
        start = match.end()
        end = _end_of_initialiser(code, start, closing="}" if match["equals"] == "{" else ";")
        if end > start:
            found[match["name"]] = (start, end)
    return found


def override_constants(source: str, constants: Mapping[str, int] | None, *, name: str = "kernel.cu") -> str:
    """Put new values into top-level `constexpr int`s; line numbers stay.

    Raises CompileError for a name that the source does not declare and for a value that is no 32-bit integer.
    """
    if not constants:
        return source
    places = find_constants(source)
    for key, value in constants.items():
        _check(name, key, value, places)
    text = source
    for key in sorted(constants, key=lambda k: places[k][0], reverse=True):
        start, end = places[key]
        lines = "\n" * source.count("\n", start, end)
        text = f"{text[:start]} {int(constants[key])}{lines}{text[end:]}"
    return text


def _check(name: str, key: str, value: int, places: Mapping[str, object]) -> None:
    if key not in places:
        known = ", ".join(places) or "none"
        near = difflib.get_close_matches(key, list(places), n=1)
        raise CompileError(
            f"{name} declares no top-level `constexpr int {key}`; it declares: {known}",
            next_step=f"Did you mean {near[0]}?" if near else "Only top-level `constexpr int`s can be given a value.",
        )
    try:
        number = value.__index__()
    except AttributeError:
        raise CompileError(f"{name}: the value of constant {key} must be an integer, not {value!r}") from None
    if not _INT_RANGE[0] <= number <= _INT_RANGE[1]:
        raise CompileError(f"{name}: {key} = {number} does not fit into a 32-bit int")


def _depths(code: str) -> Callable[[int], int]:
    """A function that gives the number of open brackets at an offset; strings and comments are blank already."""
    offsets, levels = [-1], [0]
    for match in re.finditer(r"[][{}()]", code):
        offsets.append(match.start())
        levels.append(levels[-1] + (1 if match[0] in "{([" else -1))
    return lambda offset: levels[bisect_left(offsets, offset) - 1]


def _end_of_initialiser(code: str, start: int, *, closing: str) -> int:
    """Offset of the `;` (or of a lone `,`: two declarators in one line) that ends an initialiser; -1 if none does."""
    level = 0
    for offset in range(start, len(code)):
        char = code[offset]
        if level == 0 and char == closing:
            return offset
        if level == 0 and char in ",;":
            return -1
        level += (char in "([{") - (char in ")]}")
    return -1
