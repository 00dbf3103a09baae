"""Source code as HTML tables: with the counters of each line beside it, or with findings drawn into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from warpschool.counters import Counters
from warpschool.show.columns import LineColumn, percent, shares, used_columns
from warpschool.show.frame import Frame
from warpschool.show.highlight import Piece, coloured_lines
from warpschool.show.notes import Note, by_line
from warpschool.show.page import definitions, escape, scrolling

_HOT = 0.05
"""Lines with at least this share of the instructions are shaded."""


def annotated_source(source: str, lines: Mapping[int, Counters], *, name: str, notes: Iterable[Note] = ()) -> str:
    """Return the source with counters per line; hot lines are shaded and say their share.

    `notes` are drawn below their lines: hazards with the threads that meet.
    """
    columns, share, noted = used_columns(lines.values()), shares(lines), by_line(notes)
    heads = "".join(f'<th scope="col">{escape(column.head)}</th>' for column in columns)
    rows = []
    for number, pieces in enumerate(coloured_lines(source), start=1):
        here = noted.get(number, ())
        rows.append(_row(number, pieces, lines.get(number), share.get(number, 0.0), columns, here))
        rows += _note_rows(here, len(columns) + 2)
    table = (
        f'<table class="code"><caption>{escape(_caption(name, share))}</caption><thead><tr><th scope="col">line</th>'
        f'<th scope="col" class="src">source</th><th scope="col">share</th>{heads}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table>"
    )
    return scrolling(f"{name} with counters per line", table) + _legend(columns)


def marked_source(source: str, notes: Iterable[Note], *, name: str, around: int | None = None) -> str:
    """Return the source with notes below the lines that they speak about.

    With `around`, only so many lines before and after each of them; a row of dots stands for what is left out.
    """
    noted = by_line(notes)
    rows, last = [], 0
    for number, pieces in enumerate(coloured_lines(source.expandtabs(4)), start=1):
        if around is not None and not any(abs(number - line) <= around for line in noted):
            continue
        if number > last + 1 and (last or around is not None):
            rows.append('<tr class="gap"><td></td><td class="src">⋯</td></tr>')
        last = number
        here = noted.get(number, ())
        rows.append(_plain_row(number, _spans(pieces, here), here))
        rows += _note_rows(here, 1)
    return _source_table("\n".join(rows), name, f"{name} with marks")


def frame_table(frame: Frame, *, label: str) -> str:
    """A few lines of source with the message under the line in question."""
    rows = []
    for line in frame.lines:
        pieces = coloured_lines(line.text)[0] if line.text else []
        note = Note(line.number, frame.message, frame.start, frame.width)
        here = [note] if line.is_hit else []
        rows.append(_plain_row(line.number, _spans(pieces, here), here))
        rows += _note_rows(here, 1)
    return _source_table("\n".join(rows), label, label)


def coloured_html(line: str) -> str:
    """One line of CUDA C++ as HTML in colour."""
    return _code(coloured_lines(line)[0]) if line else ""


def _source_table(rows: str, caption: str, label: str) -> str:
    head = '<thead class="hidden"><tr><th scope="col">line</th><th scope="col" class="src">source</th></tr></thead>'
    table = f'<table class="code"><caption>{escape(caption)}</caption>{head}<tbody>\n{rows}\n</tbody></table>'
    return scrolling(label, table)


def _plain_row(number: int, code: str, notes: Sequence[Note]) -> str:
    return f'<tr{_hit(notes)}>{_number(number, notes)}<td class="src"><code>{code}</code></td></tr>'


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


def _code(pieces: Sequence[Piece]) -> str:
    return "".join(escape(t) if kind == "plain" else f'<span class="t-{kind}">{escape(t)}</span>' for kind, t in pieces)


def _spans(pieces: Sequence[Piece], notes: Sequence[Note]) -> str:
    """The line in colour, with the marks of its notes."""
    marked = {place for note in notes for place in range(note.start, note.start + note.width)}
    if not marked:
        return _code(pieces)
    found, place = [], 0
    is_open = False
    for kind, text in pieces:
        start = 0
        for end in range(1, len(text) + 1):
            if end == len(text) or (place + end in marked) != (place + start in marked):
                inside = place + start in marked
                if inside != is_open:
                    found.append("<mark>" if inside else "</mark>")
                    is_open = inside
                found.append(_code([(kind, text[start:end])]))
                start = end
        place += len(text)
    return "".join(found) + ("</mark>" if is_open else "")


def _caption(name: str, share: Mapping[int, float]) -> str:
    """What the table shows, said first to those who do not see the shading."""
    hottest = sorted(share, key=lambda line: -share[line])[:3]
    said = ", ".join(f"line {line} ({percent(share[line])})" for line in hottest if share[line] >= _HOT)
    return f"{name}. Where the instructions go: {said}." if said else f"{name}."


def _legend(columns: Sequence[LineColumn]) -> str:
    meanings = {"share": "part of all instructions that the line executes; shaded from 5 % on"}
    meanings |= {column.head: column.meaning for column in columns}
    return f"<details><summary>What the columns count</summary>{definitions(meanings)}</details>"
