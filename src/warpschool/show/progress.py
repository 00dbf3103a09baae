"""How far a long piece of work is: a bar in a terminal, lines of text elsewhere, a notebook included.

    with progress(200, "reading", unit="images") as bar:
        bar.advance(10)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """What a piece of work says of itself: redrawn in `live`, else one line for each tenth of it and each outcome."""

    def __init__(self, total: int, what: str, unit: str, console: Console | None, live: Progress | None = None) -> None:
        self.total, self.what, self.unit, self.finished = total, what, unit, 0
        self._console, self._live, self._aside = console, live, Text()
        self._others: dict[str, Bar] = {}
        self._task = live.add_task(what, total=total, unit=unit, aside="") if live is not None else None

    def say(self, what: str) -> None:
        """What is being done now."""
        self._update(description=what)

    def aside(self, text: str | Text) -> None:
        """What has come out so far."""
        self._aside = Text.assemble(text)
        self._update(aside=self._aside.markup)
        if self.finished == self.total:
            self._line()

    def advance(self, count: int = 1) -> None:
        """So much more is done."""
        self.reach(self.finished + count)

    def reach(self, finished: int, total: int | None = None) -> None:
        """So much is done, of all that there is."""
        before, self.finished, self.total = self.finished, finished, total or self.total
        self._update(completed=finished, total=self.total)
        tenth = max(1, self.total // 10)
        if finished // tenth > before // tenth or finished == self.total:
            self._line()

    def done(self, outcome: str | Text) -> None:
        """One more is finished: its outcome stays as a line."""
        self.finished += 1
        self._print(Text.assemble(outcome))
        self._update(completed=self.finished)

    def beside(self, what: str, finished: int, total: int, *, unit: str = "") -> None:
        """How far another part of the work is, from any thread; its bar goes when it is complete."""
        other = self._others.get(what)
        if other is None:
            other = self._others[what] = Bar(total, what, unit, self._console, self._live)
        other.reach(finished, total)
        other._update(visible=finished < total)

    def _update(self, **fields: object) -> None:
        if self._live is not None and self._task is not None:
            self._live.update(self._task, **fields)  # type: ignore[arg-type] # rich takes each field by its own type

    def _line(self) -> None:
        """The state as a line, where no bar shows it."""
        if self._live is None:
            self._print(Text.assemble(" ".join(filter(None, (self.what, self.unit, ""))), self._aside))

    def _print(self, text: Text) -> None:
        if self._console is not None:
            self._console.print(Text.assemble(f"[{self.finished}/{self.total}] ", text), soft_wrap=True)


@contextmanager
def progress(
    total: int, what: str = "", *, unit: str = "", shown: bool = True, live: bool | None = None,
    console: Console | None = None, transient: bool = True,
) -> Iterator[Bar]:  # fmt: skip
    """Show how far a piece of work is; with `shown` false nothing is said. A `transient` bar is gone afterwards.

    `live` says whether the console may be redrawn, by default where it is a terminal.
    """
    console = console or Console()
    if not shown:
        yield Bar(total, what, unit, None)
        return
    if not (console.is_terminal and not console.is_jupyter if live is None else live):
        yield Bar(total, what, unit, console)
        return
    from rich import progress as rich

    columns = (
        rich.SpinnerColumn(), rich.TextColumn("{task.description}"), rich.BarColumn(24), rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[unit]}"), rich.TimeElapsedColumn(), rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[aside]}"),
    )  # fmt: skip
    with rich.Progress(*columns, console=console, transient=transient) as shown_live:
        yield Bar(total, what, unit, console, shown_live)
