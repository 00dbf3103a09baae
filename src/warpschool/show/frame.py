"""A source line with a finding drawn on it: the lines around, a mark under the words in question, the message below."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHARED_NAME = re.compile(r"\bshared (\w+)\b")
_ARRAY_NAME = re.compile(r"\b(?:reads|writes|updates) (?:outside )?(\w+)")
_CASE = re.compile(r"at ((?:\w+ = \S+?(?:, )?)+): ")
_PLACE = re.compile(r"^[^\s:]+\.cuh?:\d+: ")
_THREAD = re.compile(r"\b(?:thread|block) \(\d+, \d+, \d+\)|\bseveral threads\b|\bthreads of several blocks\b")


@dataclass(frozen=True)
class FrameLine:
    number: int
    text: str
    is_hit: bool


@dataclass(frozen=True)
class Frame:
    """Lines around a place; the mark covers `width` characters of the hit line from `start` on."""

    lines: tuple[FrameLine, ...]
    start: int
    width: int
    message: str

    @property
    def hit(self) -> int:
        return next(line.number for line in self.lines if line.is_hit)

    def text(self, *, gutter: int = 5) -> str:
        """Plain text, the message below the mark."""
        rows = []
        for line in self.lines:
            rows.append(f"{'>' if line.is_hit else ' '} {line.number:{gutter}} | {line.text}".rstrip())
            if line.is_hit:
                margin = f"  {'':{gutter}} | {' ' * self.start}"
                rows.append(f"{margin}{'^' * self.width}")
                rows += [f"{margin}{row}" for row in self.message.splitlines()]
        return "\n".join(rows)


def frame(source: str, line: int, message: str, *, array: str = "", around: int = 2) -> Frame | None:
    """Return the frame of a line; None for a line that the source does not have.

    The mark is put under `array`, or the array that the message names, where the line mentions it; else under the line.
    """
    rows = [row.expandtabs(4).rstrip() for row in source.split("\n")]
    if not 1 <= line <= len(rows):
        return None
    first, last = max(1, line - around), min(len(rows), line + around)
    hit = rows[line - 1]
    start, width = _mark(hit, array or array_in(message))
    lines = tuple(FrameLine(number, rows[number - 1], number == line) for number in range(first, last + 1))
    return Frame(lines, start, width, message)


def array_in(message: str) -> str:
    """The array that a hazard's message speaks of, or ""."""
    match = _SHARED_NAME.search(message) or _ARRAY_NAME.search(message)
    return match[1] if match and match[1] not in ("shared", "global", "local", "outside") else ""


def split_case(message: str) -> tuple[str, str]:
    """Split "at M = 31, N = 33: k.cu:7: what was seen" into its sizes and what was seen; the place is left out."""
    match = _CASE.match(message)
    case, rest = (match[1], message[match.end() :]) if match else ("", message)
    return case, _PLACE.sub("", rest)


def places_in(message: str) -> list[tuple[int, int]]:
    """Where a message names threads and blocks: (start, end) of each, for emphasis."""
    return [match.span() for match in _THREAD.finditer(message)]


def _mark(text: str, array: str) -> tuple[int, int]:
    """Start and width of the mark: the array with its brackets, else the whole statement."""
    match = re.search(rf"\b{re.escape(array)}\b", text) if array else None
    if match:
        return match.start(), _with_brackets(text, match.end()) - match.start()
    code = text.split("//")[0].rstrip() or text
    start = len(code) - len(code.lstrip())
    return start, max(1, len(code) - start)


def _with_brackets(text: str, end: int) -> int:
    """The end of `name[...][...]`, given the end of its name."""
    while end < len(text) and text[end] == "[":
        depth, place = 0, end
        while place < len(text):
            depth += {"[": 1, "]": -1}.get(text[place], 0)
            place += 1
            if not depth:
                break
        end = place
    return end
