"""The header of a kernel file: its first block of `//` lines, cut into entries by keyword, and each entry read.

The grammar is in the package's docstring; there is a function for each rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpschool.contract.expressions import (
    Expression,
    Piece,
    PlacedToken,
    TokenReader,
    parse_expression,
    tokenize,
)
from warpschool.contract.model import DIRECTIONS, TARGETS, Condition, Entry, LaunchLine, Parameter, Size
from warpschool.contract.source import C_TYPES, CType, find_type
from warpschool.errors import ContractError, EntryError, LaunchLineError
from warpschool.suggest import closest, did_you_mean

PROSE = ("Idea", "From", "Limits", "Program")
FORMAL = ("Target", "Entry", "Sizes", "Needs", "Launch", "Scratch", "Zeroed", "Constant", "Usual")
KEYWORDS = PROSE + FORMAL

LAUNCHES = "\n//: launches\n"
"""Behind this line stands the header of a file that has none of its own: one made from a program's launches."""

_TITLE = re.compile(r"^\s*([\w.-]+\.cuh?):\s*(.*)$")
_KEYWORD = re.compile(r"^\s*([A-Za-z]+):(?!:)")
_PROSE_WITHIN = re.compile(rf"\s{{2,}}(?=(?:{'|'.join(PROSE)}):)")
_COMMENT = re.compile(r"^\s*//")


@dataclass(frozen=True)
class HeaderEntry:
    """One entry: its keyword, its text as pieces of lines, and the line where it starts."""

    keyword: str
    pieces: list[Piece]
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
    entries: list[HeaderEntry] = []
    is_open = False  # an empty comment line closes the entry: prose may follow
    pieces = _comment_pieces(source)
    for piece in pieces:
        match = _TITLE.match(piece.text)
        if match and not title and not entries:
            title = match[2].strip()
            continue
        if not piece.text.strip():
            is_open = False
            continue
        current = entries[-1].keyword if entries and is_open else ""
        for part in _parts(piece, current):
            if keyword := _keyword_of(part, current, file):
                start = part.text.index(":") + 1
                behind = Piece(part.text[start:], part.line, part.column + start)
                entries.append(HeaderEntry(keyword, [behind], part.line))
                current, is_open = keyword, True
            elif current:
                entries[-1].pieces.append(part)
    return Header(title, tuple(entries), pieces[-1].line if pieces else 0)


def _comment_pieces(source: str) -> list[Piece]:
    """Return the text behind `//` of each line of the first comment block, or of the one behind `LAUNCHES`."""
    pieces: list[Piece] = []
    first = source.count("\n", 0, source.rfind(LAUNCHES)) + 3 if LAUNCHES in source else 1
    for number, line in enumerate(source.split("\n")[first - 1 :], start=first):
        if match := _COMMENT.match(line):
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
    word = match[1] if match else ""
    if not word or word in KEYWORDS:
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
    lines = enumerate(source.split("\n"), start=1)
    return next((n for n, line in lines if n > after_line and re.match(rf"^\s*//\s*{keyword}:", line)), 0)


# ---------------------------------------------------------------- entries

_ENTRY_FORM = "Write: // Entry: name(const float A[M,K] in, float C[M,N] out, int M, int N, int K, float alpha)"
_LAUNCH_FORM = "Write: // Launch: name block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE)) shared=0"
_SIZES_FORM = "Write: // Sizes: OH = (H + 2*PAD - R) / STRIDE + 1"
_NEEDS_FORM = "Write: // Needs: H + 2*PAD >= R, C % 4 == 0"
_TARGET_FORM = "Write: // Target: sm_90a"
_MAP_FORM = "Write the rows and columns of a box: const half A[M,K] in map=(128, 64)"
_IM2COL_FORM = (
    "Write places and channels of a box, then the windows: const half x[BATCH,H,W,C] in map=im2col(128, 64, R, S, "
    "STRIDE, PAD)"
)
_USUAL_FORM = "Write: // Usual: n = 4096, alpha = 0.5"
_USUAL = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|-?inf|nan)\s*"
)
_CONSTANT_FORM = "Write: // Constant: filters <- w"
_SEVERAL = {
    "Sizes": f"Several sizes stand with a comma between them. {_SIZES_FORM}",
    "Needs": f"Several conditions stand with a comma between them. {_NEEDS_FORM}",
    "Launch": f"Several launches stand on lines of their own or with ';' between them. {_LAUNCH_FORM}",
    "Scratch": "Several arrays stand with a comma between them. Write: // Scratch: cols, tiles",
    "Zeroed": "Several arrays stand with a comma between them. Write: // Zeroed: y",
    "Constant": f"Several symbols stand with a comma between them. {_CONSTANT_FORM}",
}


def read_entries(header: Header, *, file: str) -> dict[str, list[Any]]:
    """Parse the formal entries: keyword -> what its entries say. Raises ContractError or one of its subclasses."""
    found: dict[str, list[Any]] = {keyword: [] for keyword in FORMAL}
    rules: dict[str, Callable[[TokenReader], Any]] = {
        "Target": _target, "Entry": lambda reader: _entry(reader, found["Entry"]), "Sizes": _size, "Needs": _condition,
        "Launch": _launch, "Scratch": lambda reader: _array(reader, "Scratch: cols, tiles"),
        "Zeroed": lambda reader: _array(reader, "Zeroed: y"), "Constant": _fill,
    }  # fmt: skip
    errors = {"Entry": EntryError, "Launch": LaunchLineError}
    for entry in header.entries:
        if entry.keyword in PROSE:
            continue
        if entry.keyword == "Usual":
            found["Usual"] += _usual(entry, file)
            continue
        reader = TokenReader(tokenize(entry.pieces, file=file), file, errors.get(entry.keyword, ContractError))
        read = functools.partial(rules[entry.keyword], reader)
        if entry.keyword not in _SEVERAL:
            found[entry.keyword].append(read())
        else:
            found[entry.keyword] += reader.several(read, between=";" if entry.keyword == "Launch" else ",")
            reader.finish(write=_SEVERAL[entry.keyword])
    return found


def _usual(entry: HeaderEntry, file: str) -> list[tuple[str, int | float, int]]:
    """Name, value and line of each scalar that the line gives a value."""
    found: list[tuple[str, int | float, int]] = []
    for piece in entry.pieces:
        for text in filter(str.strip, piece.text.split(",")):
            match = _USUAL.fullmatch(text)
            if match is None:
                raise ContractError(
                    f"cannot read {text.strip()!r}", file=file, line=piece.line, next_step=_USUAL_FORM
                )  # fmt: skip
            is_whole = re.fullmatch(r"[-+]?\d+", match["value"])
            found.append((match["name"], int(match["value"]) if is_whole else float(match["value"]), piece.line))
    return found


def _target(reader: TokenReader) -> str:
    name = reader.expect_name("an architecture", write=_TARGET_FORM)
    if name.text not in TARGETS:
        advice = f"{did_you_mean(name.text, TARGETS)} Files for any other GPU have no Target line.".strip()
        raise reader.fault(f"unknown target '{name.text}'", at=name, write=advice)
    reader.finish(write=_TARGET_FORM)
    return name.text


def _entry(reader: TokenReader, before: list[Entry]) -> Entry:
    name = reader.expect_name("the kernel's name", write=_ENTRY_FORM)
    reader.expect("(", write=_ENTRY_FORM)
    parameters: list[Parameter] = []
    while not reader.at(")"):
        parameters.append(_parameter(reader))
        if any(other.name == parameters[-1].name for other in parameters[:-1]):
            raise reader.fault(f"a second parameter '{parameters[-1].name}'", write=_ENTRY_FORM)
        if not reader.accept(","):
            break
    reader.expect(")", write=_ENTRY_FORM)
    reader.finish(write=f"One Entry line a kernel, and nothing behind it. {_ENTRY_FORM}")
    if any(entry.name == name.text for entry in before):
        raise reader.fault(f"a second Entry line for '{name.text}'", at=name, write="One Entry line a kernel.")
    return Entry(name.text, tuple(parameters), name.line)


def _parameter(reader: TokenReader) -> Parameter:
    words: list[PlacedToken] = []
    while reader.here.kind == "name" or reader.at("::"):
        words.append(reader.take())
    if reader.at("*", "&"):
        raise reader.fault(
            f"found {reader.here}: the header shows an array's shape, not a pointer",
            write="Write the shape in elements and what the kernel does with it: const float A[M,K] in",
        )
    if len(words) < 2:
        raise reader.fault("expected a type and a name, as in 'int M'", write=_ENTRY_FORM)
    if not reader.at("["):
        return _scalar(reader, words)
    ctype = _type(reader, words[:-1])
    reader.take()
    dims = _list(reader, "]", write="Write the shape between brackets: A[M,K]")
    direction = reader.here.text
    if direction not in DIRECTIONS:
        raise reader.fault(
            f"expected in, out or inout behind '{words[-1].text}[...]' but found {reader.here}",
            write=f"Say what the kernel does with it: {words[-1].text}[...] in",
        )
    reader.take()
    if direction != "in" and any(word.text == "const" for word in words):
        raise reader.fault(f"'{words[-1].text}' is const but marked {direction}", write="Drop const, or write in.")
    return Parameter(words[-1].text, ctype, words[-1].line, dims, direction, *_map(reader, len(dims)))


def _map(reader: TokenReader, rank: int) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The sides of the box behind `map=`, and the window of an im2col map; () where there is none."""
    word = reader.here
    if not reader.accept("map"):
        return (), ()
    reader.expect("=", write=_MAP_FORM)
    is_im2col = reader.accept("im2col")
    form = _IM2COL_FORM if is_im2col else _MAP_FORM
    reader.expect("(", write=form)
    numbers = _list(reader, ")", write=form)
    if is_im2col:
        if rank != 4 or len(numbers) != 6:
            raise reader.fault("an im2col map describes images in NHWC and their windows", at=word, write=form)
        return numbers[:2], numbers[2:]
    if not 2 <= len(numbers) <= min(rank, 5):
        raise reader.fault(
            "a tensor map describes a matrix in boxes of rows and columns, or more axes with one side for each, "
            "at most 5", at=word, write=form,
        )  # fmt: skip
    return numbers, ()


def _scalar(reader: TokenReader, words: list[PlacedToken]) -> Parameter:
    name = words[-1]
    if name.text in DIRECTIONS:
        raise reader.fault(
            f"'{name.text}' behind a parameter without a shape", at=name,
            write="Only arrays have a direction; give the shape: x[n] in. A scalar is just 'int n'.",
        )  # fmt: skip
    return Parameter(name.text, _type(reader, words[:-1]), name.line)


def _type(reader: TokenReader, words: list[PlacedToken]) -> CType:
    ctype = find_type([word.text for word in words])
    if ctype is None:
        spelt = " ".join(word.text for word in words if word.text != "const")
        raise reader.fault(f"unknown type '{spelt}'", at=words[0], write=did_you_mean(spelt, C_TYPES))
    return ctype


def _list(reader: TokenReader, close: str, *, write: str) -> tuple[Expression, ...]:
    trees = tuple(reader.several(lambda: parse_expression(reader)))
    reader.expect(close, write=write)
    return trees


def _launch(reader: TokenReader) -> LaunchLine:
    name = reader.expect_name("the name of the kernel to launch", write=_LAUNCH_FORM)
    shape: dict[str, tuple[Expression, ...]] = {}
    while reader.here.kind == "name":
        option = reader.take()
        if option.text not in ("block", "grid", "shared"):
            meant = did_you_mean(option.text, ("block", "grid", "shared"))
            raise reader.fault(f"unknown launch option '{option.text}'", at=option, write=f"{meant} {_LAUNCH_FORM}")
        if option.text in shape:
            raise reader.fault(f"a second '{option.text}'", at=option, write=_LAUNCH_FORM)
        reader.expect("=", write=_LAUNCH_FORM)
        shape[option.text] = _launch_value(reader, option)
    for option_name in ("block", "grid"):
        if option_name not in shape:
            raise reader.fault(f"the launch of '{name.text}' has no {option_name}=(...)", write=_LAUNCH_FORM)
    return LaunchLine(name.text, shape["block"], shape["grid"], shape.get("shared", (0,))[0], name.line)


def _launch_value(reader: TokenReader, option: PlacedToken) -> tuple[Expression, ...]:
    if option.text == "shared":
        return (parse_expression(reader),)
    reader.expect("(", write=f"Put parentheses around it: {option.text}=(256). {_LAUNCH_FORM}")
    trees = _list(reader, ")", write=_LAUNCH_FORM)
    if len(trees) > 3:
        raise reader.fault(f"{option.text} has {len(trees)} numbers", at=option, write="At most three: x, y, z.")
    return trees


def _size(reader: TokenReader) -> Size:
    name = reader.expect_name("a size's name", write=_SIZES_FORM)
    reader.expect("=", write=_SIZES_FORM)
    return Size(name.text, parse_expression(reader), name.line)


def _condition(reader: TokenReader) -> Condition:
    start, line = reader.index, reader.here.line
    tree = parse_expression(reader)
    return Condition(reader.text_since(start), tree, line)


def _array(reader: TokenReader, form: str) -> PlacedToken:
    return reader.expect_name("an array's name", write=f"Write: // {form}")


def _fill(reader: TokenReader) -> tuple[PlacedToken, PlacedToken]:
    symbol = reader.expect_name("a __constant__ symbol", write=_CONSTANT_FORM)
    reader.expect("<", write=_CONSTANT_FORM)
    reader.expect("-", write=_CONSTANT_FORM)
    return symbol, reader.expect_name("the array that fills it", write=_CONSTANT_FORM)
