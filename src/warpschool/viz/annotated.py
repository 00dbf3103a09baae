"""Source code as HTML tables: with the counters of each line beside it, or with a finding drawn into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpschool.counters import Counters
from warpschool.viz.columns import LineColumn, percent, shares, used_columns
from warpschool.viz.frame import Frame
from warpschool.viz.highlight import Piece, coloured_lines
from warpschool.viz.page import definitions, escape, scrolling

_HOT = 0.05
"""Lines with at least this share of the instructions are shaded."""


def annotated_source(
    source: str, lines: Mapping[int, Counters], *, name: str, hits: Mapping[int, str] | None = None
) -> str:
    """Return the source with counters per line; hot lines are shaded and say their share.

    `hits`: line -> message, for hazards drawn below their lines.
    """
    columns, share = used_columns(lines.values()), shares(lines)
    heads = "".join(f'<th scope="col">{escape(column.head)}</th>' for column in columns)
    rows = []
    for number, pieces in enumerate(coloured_lines(source), start=1):
        rows.append(_row(number, pieces, lines.get(number), share.get(number, 0.0), columns))
        if hits and number in hits:
            rows.append(f'<tr class="note"><td></td><td colspan="{len(columns) + 2}">{escape(hits[number])}</td></tr>')
    table = (
        f'<table class="code"><caption>{escape(_caption(name, share))}</caption><thead><tr><th scope="col">line</th>'
        f'<th scope="col" class="src">source</th><th scope="col">share</th>{heads}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table>"
    )
    return scrolling(f"{name} with counters per line", table) + _legend(columns)


def marked_source(source: str, marks: Mapping[int, str], *, name: str) -> str:
    """Return the whole source with messages below the lines that they speak about: line -> message."""
    rows = []
    for number, pieces in enumerate(coloured_lines(source), start=1):
        hit = ' class="hit"' if number in marks else ""
        sign = "▸ " if hit else ""
        rows.append(
            f'<tr{hit}><th scope="row">{sign}{number}</th><td class="src"><code>{_code(pieces)}</code></td></tr>'
        )
        if hit:
            rows.append(f'<tr class="note"><td></td><td>{escape(marks[number])}</td></tr>')
    head = '<thead class="hidden"><tr><th scope="col">line</th><th scope="col" class="src">source</th></tr></thead>'
    body = "\n".join(rows)
    table = f'<table class="code"><caption>{escape(name)}</caption>{head}<tbody>\n{body}\n</tbody></table>'
    return scrolling(f"{name} with marks", table)


def frame_table(frame: Frame, *, label: str) -> str:
    """A few lines of source with the message under the line in question."""
    rows = []
    for line in frame.lines:
        pieces = coloured_lines(line.text)[0] if line.text else []
        if not line.is_hit:
            rows.append(f'<tr><th scope="row">{line.number}</th><td class="src"><code>{_code(pieces)}</code></td></tr>')
            continue
        marked = _marked(line.text, frame.start, frame.start + frame.width)
        rows.append(
            f'<tr class="hit"><th scope="row">▸ {line.number}</th><td class="src"><code>{marked}</code></td></tr>'
        )
        rows.append(f'<tr class="note"><td></td><td>{escape(frame.message)}</td></tr>')
    head = '<thead class="hidden"><tr><th scope="col">line</th><th scope="col" class="src">source</th></tr></thead>'
    table = (
        f'<table class="code"><caption>{escape(label)}</caption>{head}<tbody>\n{chr(10).join(rows)}\n</tbody></table>'
    )
    return scrolling(label, table)


def _row(
    number: int, pieces: Sequence[Piece], counters: Counters | None, share: float, columns: Sequence[LineColumn]
) -> str:
    is_hot = share >= _HOT
    opening = f'<tr class="hot" style="--heat: {min(1.0, share / 0.5):.2f}">' if is_hot else "<tr>"
    cells = "".join(f"<td>{_cell(column, counters)}</td>" for column in columns)
    said = percent(share) if share >= 0.005 else ""
    return (
        f'{opening}<th scope="row">{number}</th><td class="src"><code>{_code(pieces)}</code></td>'
        f"<td>{f'<b>{said}</b>' if is_hot else said}</td>{cells}</tr>"
    )


def _cell(column: LineColumn, counters: Counters | None) -> str:
    text = column.text(counters)
    if "(" not in text:
        return escape(text)
    value, waste = text.split(" (", 1)
    return f'{escape(value)} <span class="waste">({escape(waste)}</span>'


def coloured_html(line: str) -> str:
    """One line of CUDA C++ as HTML in colour."""
    return _code(coloured_lines(line)[0]) if line else ""


def _code(pieces: Sequence[Piece]) -> str:
    return "".join(escape(t) if kind == "plain" else f'<span class="t-{kind}">{escape(t)}</span>' for kind, t in pieces)


def _marked(text: str, start: int, end: int) -> str:
    return f"{escape(text[:start])}<mark>{escape(text[start:end])}</mark>{escape(text[end:])}"


def _caption(name: str, share: Mapping[int, float]) -> str:
    """What the table shows, said first to those who do not see the shading."""
    hottest = sorted(share, key=lambda line: -share[line])[:3]
    said = ", ".join(f"line {line} ({percent(share[line])})" for line in hottest if share[line] >= _HOT)
    return f"{name}. Where the instructions go: {said}." if said else f"{name}."


def _legend(columns: Sequence[LineColumn]) -> str:
    meanings = {"share": "part of all instructions that the line executes; shaded from 5 % on"}
    meanings |= {column.head: column.meaning for column in columns}
    return f"<details><summary>What the columns count</summary>{definitions(meanings)}</details>"
