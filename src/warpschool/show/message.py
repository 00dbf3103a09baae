"""Showing text in a notebook, or on a terminal; never on stderr, which nbgrader takes for a failure."""

from __future__ import annotations

import html
import sys
from typing import Any


class Shown:
    """Text with an HTML form."""

    def __init__(self, text: str, markup: str) -> None:
        self.text = text
        self.markup = markup

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


def show(text: str, markup: str) -> None:
    """Display `markup` in a notebook; print `text` elsewhere."""
    if "IPython" in sys.modules:
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:
            display(Shown(text, markup))
            return
    print(text)


def show_text(text: str, *, failed: bool = False) -> None:
    """Display preformatted text, with a red bar at its left if something failed and a green one if not."""
    colour = "#c0392b" if failed else "#2e8b57"
    show(text, f'<pre style="border-left: 4px solid {colour}; padding-left: 0.8em">{html.escape(text)}</pre>')


def table_markup(header: list[str], rows: list[list[Any]]) -> str:
    """HTML of a small table; every cell is escaped."""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_text(header: list[str], rows: list[list[Any]]) -> str:
    """The same table for a terminal: first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = []
    for first, *others in cells:
        padded = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)
