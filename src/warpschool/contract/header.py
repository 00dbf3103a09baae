"""The header of a kernel file: its first block of `//` lines, cut into entries by keyword."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpschool.contract.tokens import Piece
from warpschool.errors import ContractError
from warpschool.suggest import closest

PROSE = ("Idea", "From", "Limits")
FORMAL = ("Target", "Entry", "Sizes", "Needs", "Launch", "Scratch", "Zeroed", "Constant")
KEYWORDS = PROSE + FORMAL

_TITLE = re.compile(r"^\s*([\w.-]+\.cuh?):\s*(.*)$")
_KEYWORD = re.compile(r"^\s*([A-Za-z]+):(?!:)")
_PROSE_WITHIN = re.compile(rf"\s{{2,}}(?=(?:{'|'.join(PROSE)}):)")
_COMMENT = re.compile(r"^\s*//")


@dataclass(frozen=True)
class HeaderEntry:
    """One entry: its keyword, its text as pieces of lines, and the line where it starts."""

    keyword: str
    pieces: tuple[Piece, ...]
    line: int

    @property
    def text(self) -> str:
        return " ".join(piece.text.strip() for piece in self.pieces).strip()


@dataclass(frozen=True)
class Header:
    """The title behind `NAME.cu:` and the entries, in the file's order; `last_line` is 0 when there is no header."""

    title: str
    entries: tuple[HeaderEntry, ...]
    last_line: int

    def text_of(self, keyword: str) -> str:
        """Return the text of a prose entry, or ""."""
        return " ".join(entry.text for entry in self.entries if entry.keyword == keyword)


def read_header(source: str, *, file: str) -> Header:
    """Cut the header into entries; raises ContractError at an unknown or misspelt keyword."""
    title = ""
    entries: list[tuple[str, list[Piece], int]] = []
    is_open = False  # an empty comment line closes the entry: prose may follow
    last_line = 0
    for piece in _comment_pieces(source):
        last_line = piece.line
        match = _TITLE.match(piece.text)
        if match and not title and not entries:
            title = match[2].strip()
            continue
        if not piece.text.strip():
            is_open = False
            continue
        current = entries[-1][0] if entries and is_open else ""
        for part in _parts(piece, current):
            keyword = _keyword_of(part, current, file)
            if keyword:
                start = part.text.index(":") + 1
                entries.append((keyword, [Piece(part.text[start:], part.line, part.column + start)], part.line))
                current, is_open = keyword, True
            elif current:
                entries[-1][1].append(part)
    made = tuple(HeaderEntry(keyword, tuple(pieces), line) for keyword, pieces, line in entries)
    return Header(title, made, last_line)


def _comment_pieces(source: str) -> list[Piece]:
    """Return the text behind `//` of each line of the first comment block."""
    pieces: list[Piece] = []
    for number, line in enumerate(source.split("\n"), start=1):
        match = _COMMENT.match(line)
        if match:
            pieces.append(Piece(line[match.end() :].rstrip(), number, match.end() + 1))
        elif pieces or line.strip():
            break
    return pieces


def _parts(piece: Piece, current: str) -> list[Piece]:
    """Cut a line of prose where a second prose keyword stands behind two or more spaces."""
    match = _KEYWORD.match(piece.text)
    if (match[1] if match else current) not in PROSE:
        return [piece]
    parts, start = [], 0
    for cut in _PROSE_WITHIN.finditer(piece.text):
        parts.append(Piece(piece.text[start : cut.start()], piece.line, piece.column + start))
        start = cut.end()
    parts.append(Piece(piece.text[start:], piece.line, piece.column + start))
    return [part for part in parts if part.text.strip()]


def _keyword_of(piece: Piece, current: str, file: str) -> str:
    """Return the keyword that the line starts with, or "" where it continues an entry or is plain prose."""
    match = _KEYWORD.match(piece.text)
    if match is None:
        return ""
    word = match[1]
    if word in KEYWORDS:
        return word
    meant = closest(word, KEYWORDS, cutoff=0.75)
    if meant or current in FORMAL:
        advice = f"Did you mean '{meant}:'? " if meant else ""
        raise ContractError(
            f"'{word}:' is no keyword of the header", file=file, line=piece.line,
            next_step=f"{advice}The keywords are {', '.join(KEYWORDS)}.",
        )  # fmt: skip
    return ""


def line_of_keyword(source: str, keyword: str, *, after_line: int) -> int:
    """Return the first line behind the header that looks like this entry, or 0."""
    for number, line in enumerate(source.split("\n"), start=1):
        if number > after_line and re.match(rf"^\s*//\s*{keyword}:", line):
            return number
    return 0
