"""A progress bar for training: steps, the last epoch's loss and accuracy, and the time that is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Bar:
    """What a run says of itself; without a `Progress` it says nothing."""

    def __init__(self, shown: Progress | None = None, task: TaskID | None = None) -> None:
        self._shown, self._task = shown, task

    def advance(self, steps: int) -> None:
        """So many steps are done in all."""
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, completed=steps)

    def said(self, loss: float, accuracy: float | None) -> None:
        """Say what the last epoch came to."""
        if self._shown is not None and self._task is not None:
            tested = "" if accuracy is None else f", accuracy {accuracy:.2%}"
            self._shown.update(self._task, seen=f"loss {loss:.4f}{tested}")


@contextmanager
def progress_of(steps: int, *, shown: bool) -> Iterator[Bar]:
    """Show a bar on stderr while training lasts."""
    if not shown:
        yield Bar()
        return
    columns = (
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps {task.fields[seen]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress, progress.add_task("training", total=steps, seen=""))
