"""A small table that can be HTML, text, or a table of rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpschool.show.page import escape, scrolling


@dataclass(frozen=True)
class Sheet:
    """A table; its first column names the rows. `wide` columns are text that may wrap, flush left."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wide: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, caption: str, head: Sequence[str], rows: Sequence[Sequence[object]], *, wide: Sequence[str] = ()
    ) -> Sheet:
        """Make a table of anything that has a text."""
        return cls(caption, tuple(head), tuple(tuple(map(str, row)) for row in rows), tuple(wide))

    def html(self) -> str:
        """The table in a box that scrolls sideways where it must."""
        head = "".join(f'<th scope="col"{self._side(name)}>{escape(name)}</th>' for name in self.head)
        rows = []
        for first, *others in self.rows:
            cells = (f"<td{self._side(n)}>{escape(c)}</td>" for n, c in zip(self.head[1:], others, strict=True))
            rows.append(f'<tr><th scope="row">{escape(first)}</th>{"".join(cells)}</tr>')
        body = "\n".join(rows)
        caption = f"<caption>{escape(self.caption)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        return scrolling(self.caption, table)

    def text(self) -> str:
        """The table in plain text, its caption above."""
        from warpschool.show.message import table_text

        return f"{self.caption}\n{table_text(list(self.head), [list(row) for row in self.rows])}"

    def rich(self) -> Any:
        """The table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.caption, title_justify="left", title_style="dim", box=None, header_style="bold")
        for place, name in enumerate(self.head):
            table.add_column(name, justify="left" if not place or name in self.wide else "right")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _side(self, name: str) -> str:
        return ' class="text"' if name in self.wide else ""
