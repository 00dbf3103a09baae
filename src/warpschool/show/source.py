"""CUDA C++ as it is shown: in colour, with marks under words and notes below lines, or with counters beside them.

Terminal and HTML show the same pieces, the same marks and the same notes.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from warpschool.counters import Counters
from warpschool.show.columns import LineColumn, percent, shares, used_columns
from warpschool.show.page import definitions, details, escape, scrolling
from warpschool.show.theme import TERMINAL

if TYPE_CHECKING:
    from rich.text import Text

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<directive>^[ \t]*\#[^\n]*)
    |(?P<number>(?<![\w.])(?:0[xX][\da-fA-F']+|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?|\.\d+)[fFuUlL]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<plain>\s+|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NAMES = dict.fromkeys((
    "alignas", "asm", "auto", "break", "case", "const", "constexpr", "continue", "default", "do", "else", "enum",
    "extern", "for", "goto", "if", "inline", "namespace", "operator", "register", "restrict", "return", "sizeof",
    "static", "static_assert", "struct", "switch", "template", "typedef", "typename", "union", "using", "volatile",
    "while", "__restrict__",
), "keyword") | dict.fromkeys((
    "bool", "char", "double", "float", "half", "int", "long", "short", "signed", "size_t", "unsigned", "void",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "half2", "float2",
    "float3", "float4", "int2", "int4", "double2", "uint2", "uint4", "__half", "__half2", "dim3",
), "type") | dict.fromkeys((
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__global__", "__device__", "__host__", "__shared__",
    "__constant__", "__launch_bounds__", "__forceinline__", "__noinline__", "__syncthreads", "__syncwarp",
), "cuda")  # fmt: skip
_CUDA_CALL = re.compile(r"__(?:shfl|any|all|ballot|match|reduce)\w*_sync|atomic[A-Z]\w*|__\w+_rn|__dp[24]a|__ldg|cuda")

KINDS = ("plain", "comment", "string", "directive", "number", "keyword", "type", "cuda")
Piece = tuple[str, str]
"""(kind, text); the kind is one of `KINDS`"""


def coloured_lines(source: str) -> list[list[Piece]]:
    """Split a source into lines of pieces; the texts of a line joined are the line, without its line break."""
    lines: list[list[Piece]] = [[]]
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "plain"
        if kind == "name":
            kind = _NAMES.get(match[0]) or ("cuda" if _CUDA_CALL.fullmatch(match[0]) else "plain")
        first, *others = match[0].split("\n")
        lines[-1].append((kind, first))
        lines += [[(kind, part)] for part in others]
    if source.endswith("\n"):
        lines.pop()
    return [_joined(line) for line in lines]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces with neighbours of one kind as one, without empty ones."""
    runs = ((kind, "".join(text for _, text in run)) for kind, run in itertools.groupby(pieces, key=itemgetter(0)))
    return [(kind, text) for kind, text in runs if text]


def coloured_html(line: str) -> str:
    """One line of CUDA C++ as HTML in colour."""
    return pieces_html(coloured_lines(line)[0]) if line else ""


def pieces_html(pieces: Sequence[Piece]) -> str:
    """A line of pieces as HTML in colour."""
    return "".join(escape(t) if kind == "plain" else f'<span class="t-{kind}">{escape(t)}</span>' for kind, t in pieces)


def coloured_text(line: str) -> Text:
    """One line of CUDA C++ in a terminal's colours."""
    return _coloured(coloured_lines(line)[0] if line else ())


def _coloured(pieces: Sequence[Piece]) -> Text:
    from rich.text import Text

    return Text.assemble(*((text, TERMINAL[kind]) for kind, text in pieces))


# ---------------------------------------------------------------- lines with notes


@dataclass(frozen=True)
class Note:
    """What is to be said below a line; `start` and `width` mark characters of it, `is_second` the other thread."""

    line: int
    text: str
    start: int = 0
    width: int = 0
    is_second: bool = False


@dataclass(frozen=True)
class ExcerptLine:
    """A line of a source, by its number, and what is said below it."""

    number: int
    pieces: Sequence[Piece]
    notes: tuple[Note, ...] = ()

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.pieces)


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source that follow each other or not, with marks and notes."""

    lines: tuple[ExcerptLine, ...]

    def terminal(self, width: int = 120) -> Iterator[Text]:
        """The rows for a terminal of that width; threads and blocks stand out in the messages."""
        from rich.text import Text

        margin = ("         | ", "dim")
        for line in self.lines:
            arrow = (">", "bold red") if line.notes else " "
            yield Text.assemble("  ", arrow, (f" {line.number:4} | ", "dim"), _coloured(line.pieces))
            indent = len(line.text) - len(line.text.lstrip())
            for note in line.notes:
                yield Text.assemble(margin, " " * note.start, ("^" * note.width, "bold red"))
                for row in _wrapped(note.text, width - indent - 12):
                    said = Text(row, style="red")
                    said.highlight_regex(_PLACES, "bold")
                    yield Text.assemble(margin, " " * indent, said)

    def html(self, *, name: str, label: str = "", dots: bool = False) -> str:
        """A table; a row of dots stands for lines that are left out, with `dots` for those before the first, too."""
        rows: list[str] = []
        last = 0
        for line in self.lines:
            if line.number > last + 1 and (last or dots):
                rows.append(GAP)
            last = line.number
            code = f'<td class="src"><code>{_spans(line.pieces, line.notes)}</code></td>'
            rows.append(f"<tr{_hit(line.notes)}>{_number(line.number, line.notes)}{code}</tr>")
            rows += _note_rows(line.notes, 1)
        return code_table(rows, name, label=label or name)


_PLACES = r"\b(?:thread|block) \(\d+, \d+, \d+\)|\bseveral threads\b|\bthreads of several blocks\b"
_GLUE = "\N{NO-BREAK SPACE}"
GAP = '<tr class="gap"><td></td><td class="src">⋯</td></tr>'


def excerpt(source: str, notes: Iterable[Note], *, around: int | None = None) -> Excerpt:
    """The lines of a source with notes; with `around`, only so many before and after each line that has some."""
    noted = by_line(notes)
    return Excerpt(tuple(
        ExcerptLine(number, pieces, tuple(noted.get(number, ())))
        for number, pieces in enumerate(coloured_lines(source.expandtabs(4)), start=1)
        if around is None or any(abs(number - line) <= around for line in noted)
    ))  # fmt: skip


def marked_source(source: str, notes: Iterable[Note], *, name: str, around: int | None = None) -> str:
    """The source as HTML, with notes below the lines that they speak about; `around` as in `excerpt`."""
    label = f"{name} with marks"
    return excerpt(source, notes, around=around).html(name=name, label=label, dots=around is not None)


def by_line(notes: Iterable[Note]) -> Mapping[int, Sequence[Note]]:
    """Line -> its notes, in their order; equal ones once."""
    found: dict[int, list[Note]] = {}
    for note in dict.fromkeys(notes):
        found.setdefault(note.line, []).append(note)
    return found


def code_table(
    rows: Iterable[str], caption: str, *, label: str = "", heads: Sequence[str] = ("line", "source"),
    shows_heads: bool = False,
) -> str:  # fmt: skip
    """A table of source lines; its head is for those who hear it, unless it is shown."""
    first, second, *others = (escape(head) for head in heads)
    head = f'<th scope="col">{first}</th><th scope="col" class="src">{second}</th>'
    head += "".join(f'<th scope="col">{other}</th>' for other in others)
    hidden = "" if shows_heads else ' class="hidden"'
    body = "\n".join(rows)
    return scrolling(
        label or caption,
        f'<table class="code"><caption>{escape(caption)}</caption><thead{hidden}><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table>",
    )


def _wrapped(message: str, width: int) -> list[str]:
    """Lines of at most `width`; "thread (0, 1, 0)" stays in one piece."""
    glued = re.sub(r"\b(thread|block) \([^)]*\)", lambda match: match.group().replace(" ", _GLUE), message)
    rows = [part for row in glued.splitlines() for part in textwrap.wrap(row, max(40, min(width, 96)))]
    return [row.replace(_GLUE, " ") for row in rows]


# ---------------------------------------------------------------- lines with counters


_HOT = 0.05
"""Lines with at least this share of the instructions are shaded."""


def annotated_source(source: str, lines: Mapping[int, Counters], *, name: str, notes: Iterable[Note] = ()) -> str:
    """Return the source with counters per line; hot lines are shaded and say their share.

    `notes` are drawn below their lines: hazards with the threads that meet.
    """
    columns, share, noted = used_columns(lines.values()), shares(lines), by_line(notes)
    rows: list[str] = []
    for number, pieces in enumerate(coloured_lines(source), start=1):
        here = noted.get(number, ())
        rows.append(_row(number, pieces, lines.get(number), share.get(number, 0.0), columns, here))
        rows += _note_rows(here, len(columns) + 2)
    heads = ("line", "source", "share", *(column.head for column in columns))
    label = f"{name} with counters per line"
    return code_table(rows, _caption(name, share), label=label, heads=heads, shows_heads=True) + _legend(columns)


def _hit(notes: Sequence[Note]) -> str:
    if not notes:
        return ""
    return ' class="hit second"' if all(note.is_second for note in notes) else ' class="hit"'


def _number(number: int, notes: Sequence[Note]) -> str:
    return f'<th scope="row">{"▸ " if notes else ""}{number}</th>'


def _note_rows(notes: Sequence[Note], width: int) -> Iterator[str]:
    span = f' colspan="{width}"' if width > 1 else ""
    for note in notes:
        kind = "note second" if note.is_second else "note"
        yield f'<tr class="{kind}"><td></td><td{span}>{escape(note.text)}</td></tr>'


def _row(
    number: int, pieces: Sequence[Piece], counters: Counters | None, share: float, columns: Sequence[LineColumn],
    notes: Sequence[Note],
) -> str:  # fmt: skip
    is_hot = share >= _HOT
    opening = f'<tr class="hot" style="--heat: {min(1.0, share / 0.5):.2f}">' if is_hot else f"<tr{_hit(notes)}>"
    cells = "".join(f"<td>{_cell(column, counters)}</td>" for column in columns)
    said = percent(share) if share >= 0.005 else ""
    return (
        f'{opening}{_number(number, notes)}<td class="src"><code>{_spans(pieces, notes)}</code></td>'
        f"<td>{f'<b>{said}</b>' if is_hot else said}</td>{cells}</tr>"
    )


def _cell(column: LineColumn, counters: Counters | None) -> str:
    text = column.text(counters)
    if "(" not in text:
        return escape(text)
    value, waste = text.split(" (", 1)
    return f'{escape(value)} <span class="waste">({escape(waste)}</span>'


def _spans(pieces: Sequence[Piece], notes: Sequence[Note]) -> str:
    """The line in colour, with the marks of its notes."""
    marked = {place for note in notes for place in range(note.start, note.start + note.width)}
    letters = enumerate((kind, letter) for kind, text in pieces for letter in text)
    found = []
    for is_marked, run in itertools.groupby(letters, key=lambda placed: placed[0] in marked):
        html = pieces_html(_joined(piece for _, piece in run))
        found.append(f"<mark>{html}</mark>" if is_marked else html)
    return "".join(found)


def _caption(name: str, share: Mapping[int, float]) -> str:
    """What the table shows, said first to those who do not see the shading."""
    hottest = sorted(share, key=lambda line: -share[line])[:3]
    said = ", ".join(f"line {line} ({percent(share[line])})" for line in hottest if share[line] >= _HOT)
    return f"{name}. Where the instructions go: {said}." if said else f"{name}."


def _legend(columns: Sequence[LineColumn]) -> str:
    share = {"share": "part of all instructions that the line executes; shaded from 5 % on"}
    return details("What the columns count", definitions(share | {column.head: column.meaning for column in columns}))
