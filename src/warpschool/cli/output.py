"""How commands talk: a terminal gets colour and redraws, everything else linear text; `--json` gets one JSON document.

Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from warpschool.show.progress import Bar, progress
from warpschool.show.table import Table

PLAIN_WIDTH = 120
Part = str | Text | tuple[str, str]
"""text, or text and its style"""


class Output:
    """Where one command writes. `plain` is also chosen by NO_COLOR, TERM=dumb, and an output that is no terminal."""

    def __init__(self, *, as_json: bool = False, plain: bool = False) -> None:
        self.as_json = as_json
        self.plain = plain or must_be_plain(sys.stdout)
        self.console = make_console(sys.stdout, plain=self.plain)
        self.is_live = not plain and not must_be_plain(sys.stderr)
        self.errors = make_console(sys.stderr, plain=not self.is_live)

    def show(self, *parts: Part, style: str = "") -> None:
        """Print one line or block of text; nothing with --json."""
        if not self.as_json:
            self.console.print(Text.assemble(*parts, style=style), soft_wrap=self.plain)

    def heading(self, text: str) -> None:
        """Print a heading with an empty line above."""
        self.show()
        self.show(text, style="bold")

    def table(self, table: Table) -> None:
        """Print a table."""
        if not self.as_json and self.plain:
            self.console.print(table.text(), soft_wrap=True, markup=False)
        elif not self.as_json:
            self.console.print(table.rich(gap=2 if self.console.width >= 100 else 1))

    def data(self, value: Any) -> None:
        """Print the JSON document of a command, if it was asked for; text is printed as it is."""
        if self.as_json:
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()

    def progress(self, total: int, what: str = "", *, transient: bool = True) -> AbstractContextManager[Bar]:
        """Show how far a long command is, on stderr."""
        return progress(
            total, what, shown=not self.as_json, live=self.is_live, console=self.errors, transient=transient
        )


def make_console(stream: TextIO, *, plain: bool) -> Console:
    """A console for a stream; a plain one neither colours nor redraws nor guesses what numbers mean."""
    if plain:
        return Console(
            file=stream, force_terminal=False, color_system=None, no_color=True, highlight=False, width=PLAIN_WIDTH
        )
    return Console(file=stream, highlight=False)


def must_be_plain(stream: TextIO) -> bool:
    """Whether a stream takes no colour and no redraws."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not stream.isatty()
