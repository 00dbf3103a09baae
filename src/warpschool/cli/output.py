"""How commands talk: a terminal gets colour and redraws, everything else linear text; `--json` gets one JSON document.

Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 120
Cell = str | Text
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

    def table(self, head: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Collection[str] = ()) -> None:
        """Print a table; `numbers` are the columns set flush right. Line breaks in headings are for terminals."""
        if self.as_json:
            return
        if self.plain:
            self.console.print(_plain_table(head, rows, numbers), soft_wrap=True, markup=False)
            return
        gap = 2 if self.console.width >= 100 else 1
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        for name in head:
            table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", vertical="bottom")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        self.console.print(table)

    def data(self, value: Any) -> None:
        """Print the JSON document of a command, if it was asked for; text is printed as it is."""
        if self.as_json:
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()

    @contextmanager
    def progress(self, total: int) -> Iterator[Steps]:
        """Show how far a long command is, on stderr."""
        if not self.is_live:
            yield Steps(total, self.errors, quiet=self.as_json)
            return
        text = TextColumn("{task.description}")
        columns = SpinnerColumn(), text, BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self.errors, transient=True) as bar:
            yield LiveSteps(total, bar)


class Steps:
    """Progress as lines of text, one for each finished step."""

    def __init__(self, total: int, console: Console, *, quiet: bool = False) -> None:
        self.total = total
        self.finished = 0
        self.console = console
        self.quiet = quiet

    def start(self, name: str) -> None:
        """A step begins."""

    def say(self, what: str) -> None:
        """What the step is doing."""

    def done(self, text: Cell) -> None:
        """A step has ended, with this outcome."""
        self.finished += 1
        if not self.quiet:
            self.console.print(Text.assemble(f"[{self.finished}/{self.total}] ", text), soft_wrap=True)


class LiveSteps(Steps):
    """Progress as a bar that is redrawn; finished steps stay above it."""

    def __init__(self, total: int, bar: Progress) -> None:
        super().__init__(total, bar.console)
        self.bar = bar
        self.name = ""
        self.task: TaskID = bar.add_task("", total=total)

    def start(self, name: str) -> None:
        self.name = name
        self.say("")

    def say(self, what: str) -> None:
        self.bar.update(self.task, description=": ".join(filter(None, (self.name, what))))

    def done(self, text: Cell) -> None:
        super().done(text)
        self.bar.advance(self.task)


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


def _plain_table(head: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: Collection[str]) -> str:
    heads = [name.replace("-\n", "").replace("\n", " ") for name in head]
    cells = [heads, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        padded = [c.rjust(w) if name in numbers else c.ljust(w) for c, w, name in zip(row, widths, head, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
