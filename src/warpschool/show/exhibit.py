"""What `ws.show_access` and its relatives return: a finding, a picture or several that follow each other, and a table.

Nothing is said by a picture alone: each has its text, and the table holds the same numbers. Without scripts, in an
export or on paper, the first picture stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from warpschool.show import player
from warpschool.show.page import details, escape, notebook_box
from warpschool.show.source import coloured_html
from warpschool.show.svg import Svg, image
from warpschool.show.table import Table


@dataclass(frozen=True)
class View:
    """One picture: `label` is said below it, `alt` to those who do not see it."""

    svg: Svg
    label: str
    alt: str


@dataclass(frozen=True, repr=False)
class Exhibit:
    """A title, its finding in a sentence or two, pictures that can be stepped through, tables, further HTML."""

    title: str
    finding: str
    frames: tuple[View, ...] = ()
    sheets: tuple[Table, ...] = ()
    code: str = ""
    """the source line that it is about"""
    note: str = ""
    more: str = ""
    """HTML below the pictures"""
    more_text: str = ""
    """the same as text"""
    open_table: bool = False

    def html(self) -> str:
        """The display without the box and the styles of a notebook: for pages."""
        note = f'<p class="soft">{escape(self.note)}</p>' if self.note else ""
        code = f'<p class="quoted"><code>{coloured_html(self.code)}</code></p>' if self.code else ""
        sheets = "".join(sheet.html() for sheet in self.sheets)
        tables = details("The numbers in a table", sheets, is_open=self.open_table)
        return (
            f'<section class="exhibit" aria-label="{escape(self.title)}">'
            f'<p class="finding"><b>{escape(self.title)}.</b> {escape(self.finding)}</p>'
            f"{code}{_pictures(self.frames)}{self.more}{note}{tables}</section>"
        )

    def text(self) -> str:
        """Everything that the display says, as text."""
        tables = (sheet.text() for sheet in self.sheets)
        return "\n\n".join(
            filter(None, (f"{self.title}. {self.finding}", self.code, self.more_text, *tables, self.note))
        )

    def _repr_html_(self) -> str:
        return notebook_box(self.html())

    def __repr__(self) -> str:
        return self.text()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text.assemble((f"{self.title}. ", "bold"), self.finding)
        for text in filter(None, (self.code, self.more_text)):
            yield Text(text)
        for sheet in self.sheets:
            yield sheet.rich()
        if self.note:
            yield Text(self.note, style="dim")


def _pictures(frames: Sequence[View]) -> str:
    if not frames:
        return ""
    shown = "".join(
        f'<figure class="frame"{"" if not place else " hidden"}>{image(frame.svg, frame.alt)}'
        f"<figcaption>{escape(frame.label)}</figcaption></figure>"
        for place, frame in enumerate(frames)
    )
    if len(frames) == 1:
        return f'<div class="frames">{shown}</div>'
    return f'<div class="frames">{player.controls(len(frames), "pictures")}{shown}</div>{player.script()}'
