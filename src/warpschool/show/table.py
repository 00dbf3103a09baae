"""A table, once: its rows as data, and what they look like as text, in a terminal, and as HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

from warpschool.show.columns import percent
from warpschool.show.page import escape, scrolling
from warpschool.show.theme import TERMINAL

_COMMANDS = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str) -> str:
    """A text without characters that command a terminal, turn the writing around or cannot be written at all."""
    return "".join(c if c in "\t\n" or unicodedata.category(c) not in _COMMANDS else "\ufffd" for c in text)


@dataclass(frozen=True)
class Cell:
    """A text; `kind` is a class of the style sheet and a style of the terminal.

    For HTML alone: `markup` instead of the text, small lines `below` it, a `hint` where the mouse rests, and a bar for
    a `part` from 0 to 1.
    """

    text: str
    kind: str = ""
    markup: str = ""
    below: tuple[str, ...] = ()
    hint: str = ""
    part: float | None = None

    def html(self) -> str:
        """What stands between the tags."""
        small = "".join(f'<span class="title">{escape(line)}</span>' for line in self.below)
        return (self.markup or escape(self.text)) + small

    def attributes(self) -> str:
        """Class, style and hint, as they follow the tag's name."""
        found = {
            "class": "bar" if self.part is not None else self.kind, "title": self.hint,
            "style": "" if self.part is None else f"--part: {min(1.0, max(0.0, self.part)):.3f}",
        }  # fmt: skip
        return "".join(f' {name}="{escape(value)}"' for name, value in found.items() if value)

    def __str__(self) -> str:
        return self.text


def share_cell(fraction: float) -> Cell:
    """A fraction as text over a bar of that length; "-" where there is nothing to measure."""
    text = percent(fraction)
    return Cell(text) if text == "-" else Cell(text, markup=f"<span>{text}</span>", part=fraction)


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under a header, whose first cell names them. Columns in `numbers` are set flush right, others left.

    A cell is a `Cell`, a `Text` of rich, or anything else that has a text. A line break in a heading
    counts in a terminal only.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    numbers: frozenset[str] = frozenset()
    note: str = ""
    """said below the table"""

    @classmethod
    def of(
        cls, caption: str, head: Sequence[str], rows: Sequence[Sequence[object]], *, wide: Collection[str] = (),
        note: str = "",
    ) -> Self:  # fmt: skip
        """Make a table of anything that has a text: all columns but the first and `wide` ones hold numbers."""
        return cls(caption, tuple(head), tuple(map(tuple, rows)), frozenset(head[1:]) - frozenset(wide), note)

    def html(self, *, label: str = "", kind: str = "") -> str:
        """The table in a box that scrolls sideways where it must; `label` names the box, `kind` is a class."""
        return scrolling(label or self.caption or "table", self.markup(kind=kind))

    def markup(self, *, kind: str = "") -> str:
        """The table alone."""
        heads = (f'<th scope="col"{self._side(place)}>{escape(name)}</th>' for place, name in enumerate(self.head))
        rows = (f"<tr>{''.join(self._cell(place, c) for place, c in enumerate(row))}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        opening = f'<table class="{kind}">' if kind else "<table>"
        body = "\n".join(rows)
        return f"{opening}{caption}<thead><tr>{''.join(heads)}</tr></thead><tbody>\n{body}\n</tbody></table>"

    def text(self) -> str:
        """The table in plain text, its caption above and its note below."""
        heads = [name.replace("-\n", "").replace("\n", " ") for name in self.head]
        cells = [heads, *([printable(str(cell)) for cell in row] for row in self.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
        lines = []
        for row in cells:
            pairs = zip(row, widths, self.head, strict=True)
            padded = (c.rjust(width) if name in self.numbers else c.ljust(width) for c, width, name in pairs)
            lines.append("  ".join(padded).rstrip())
        return "\n".join(filter(None, (self.caption, *lines, self.note)))

    def rich(self, *, gap: int = 2) -> Any:
        """The table for a terminal, `gap` characters between its columns."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=self.caption or None, title_justify="left", title_style="dim", box=None, header_style="bold",
            pad_edge=False, padding=(0, gap, 0, 0),
        )  # fmt: skip
        for name in self.head:
            table.add_column(
                name, justify="right" if name in self.numbers else "left", overflow="fold", vertical="bottom"
            )
        for row in self.rows:
            texts = (
                c if isinstance(c, Text) else Text(printable(str(c)), TERMINAL.get(getattr(c, "kind", ""), ""))
                for c in row
            )
            table.add_row(*texts)
        return table

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.markup() + (f"<p>{escape(self.note)}</p>" if self.note else "")

    def _side(self, place: int) -> str:
        return ' class="text"' if place and self.head[place] not in self.numbers else ""

    def _cell(self, place: int, cell: Any) -> str:
        found = cell if isinstance(cell, Cell) else Cell(str(cell))
        if not place:
            return f'<th scope="row"{found.attributes()}>{found.html()}</th>'
        return f"<td{found.attributes() or self._side(place)}>{found.html()}</td>"


def small_table(head: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> Table:
    """A table without a caption, for a lab's experiment."""
    return Table.of("", head, rows, note=note)
