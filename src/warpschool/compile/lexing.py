"""The little lexer behind constants and the include rules: where comments and strings are, line splices undone."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<raw>     (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z) )
    | (?P<string>  "(?:\\.|[^"\\\n])*"? )
    | (?P<number>  \.?\d(?:'[\w]|[eEpP][+-]|[\w.])* )
    | (?P<word>    \w+ )
    | (?P<char>    '(?:\\.|[^'\\\n])*'? )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Spliced:
    """A source after line splicing: `text` holds no backslash-newline; `place` maps an offset back to the source."""

    text: str
    _starts: tuple[int, ...]
    _shifts: tuple[int, ...]

    def place(self, offset: int) -> int:
        """The offset in the unspliced source of the character at `offset`."""
        return offset + self._shifts[bisect_right(self._starts, offset) - 1]


def normalise(source: str) -> str:
    """One kind of line end, no byte order mark, no form feeds: what is scanned is then what is compiled."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\f", " ").replace("\v", " ")


def splice(source: str) -> Spliced:
    """Join lines that end in a backslash."""
    pieces = source.split("\\\n")
    starts, shifts, offset = [], [], 0
    for index, piece in enumerate(pieces):
        starts.append(offset)
        shifts.append(2 * index)
        offset += len(piece)
    return Spliced("".join(pieces), tuple(starts), tuple(shifts))


def blank(source: str, *, strings: bool = False) -> str:
    """Replace comments, and with `strings` what stands in quotes too, by blanks; lines and columns stay.

    Comments that a line splice continues are followed; a splice outside of them stays as it is.
    """
    spliced = splice(source)
    chars = list(source)
    for match in _TOKEN.finditer(spliced.text):
        kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
        if kind == "comment" or (strings and kind in ("raw", "string", "char")):
            start, end = spliced.place(match.start()), spliced.place(match.end() - 1) + 1
            chars[start:end] = ["\n" if c == "\n" else " " for c in chars[start:end]]
    return "".join(chars)


def line_of(text: str, offset: int) -> int:
    """The line, from 1, on which the character at `offset` stands."""
    return text.count("\n", 0, offset) + 1
