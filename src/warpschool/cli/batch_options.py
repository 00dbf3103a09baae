"""Options of commands that grade many submissions, and the progress that they show."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from warpschool.cli.output import Output
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.grading.verdicts import Verdict

CLUSTER = "Many submissions"
Workers = Annotated[
    int,
    typer.Option(
        "--workers", min=1, metavar="N", rich_help_panel=CLUSTER,
        help="Check so many kernels at once: processes of this machine, or with --slurm Slurm jobs.",
    ),
]  # fmt: skip
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS", rich_help_panel=CLUSTER,
        help="Use the workers of a Dask scheduler that runs already, such as tcp://head:8786.",
    ),
]  # fmt: skip
Slurm = Annotated[
    bool,
    typer.Option("--slurm", rich_help_panel=CLUSTER, help="Start the workers as Slurm jobs: docs/teach/cluster.md."),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", rich_help_panel=CLUSTER,
        help="Keep finished results here; the same command takes them up again after any interruption.",
    ),
]  # fmt: skip
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-seed-file", metavar="FILE", rich_help_panel=CLUSTER,
        help="Draw further sizes, and all data, from this file's text; keep it from students.",
    ),
]  # fmt: skip


def require_one_place(*, scheduler: str | None, slurm: bool) -> None:
    """Raise ArgumentError for two places at once."""
    if scheduler and slurm:
        raise ArgumentError("--scheduler and --slurm exclude each other")


class BatchProgress:
    """How far a batch is, as lines of text: one for each tenth of it."""

    def __init__(self, output: Output, total: int) -> None:
        self.output, self.total, self.finished = output, total, 0
        self.counts: Counter[str] = Counter()

    def done(self, verdict: Verdict) -> None:
        """One more submission has its verdict."""
        self.finished += 1
        self.counts[str(verdict)] += 1
        self._show()

    def counted(self) -> Text:
        """How many there are of each verdict, the most frequent first."""
        text = Text()
        for verdict, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            style = {"AC": "bold green", "SE": "bold magenta"}.get(verdict, "red")
            text.append(f"{verdict} ", style=style).append(f"{count}  ")
        return text

    def _show(self) -> None:
        tenth = max(1, self.total // 10)
        if not self.output.as_json and (self.finished % tenth == 0 or self.finished == self.total):
            self.output.errors.print(
                Text.assemble(f"[{self.finished}/{self.total}] ", self.counted()), soft_wrap=True
            )


class _LiveProgress(BatchProgress):
    """The same as a bar that is redrawn."""

    def __init__(self, output: Output, total: int, bar: Progress) -> None:
        super().__init__(output, total)
        self.bar = bar
        self.task = bar.add_task("", total=total, counts="")

    def _show(self) -> None:
        self.bar.update(self.task, advance=1, counts=self.counted().markup)


@contextlib.contextmanager
def batch_progress(output: Output, total: int) -> Iterator[BatchProgress]:
    """Show on stderr how many submissions have which verdict, and how long the rest will take."""
    if not output.is_live or output.as_json:
        yield BatchProgress(output, total)
        return
    times = TimeElapsedColumn(), TimeRemainingColumn()
    columns = BarColumn(24), MofNCompleteColumn(), *times, TextColumn("{task.fields[counts]}")
    with Progress(*columns, console=output.errors) as bar:
        yield _LiveProgress(output, total, bar)
