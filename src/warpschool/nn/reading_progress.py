"""A progress bar for a network that reads images: kernels compiled, images read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """What a run says of itself; without a `Progress` it says nothing."""

    def __init__(self, shown: Progress | None = None, images: TaskID | None = None) -> None:
        self._shown, self._images = shown, images
        self._kernels: TaskID | None = None

    def prepared(self, done: int, total: int) -> None:
        """So many kernels are compiled and translated, of so many; may be called from any thread."""
        if self._shown is None:
            return
        if self._kernels is None:
            self._kernels = self._shown.add_task("compiling", total=total, unit="kernels")
        self._shown.update(self._kernels, completed=done, total=total, visible=done < total)

    def read(self, images: int) -> None:
        """So many more images are read."""
        if self._shown is not None and self._images is not None:
            self._shown.advance(self._images, images)


@contextmanager
def progress_of(images: int, *, shown: bool) -> Iterator[Bar]:
    """Show a bar while a network reads."""
    if not shown:
        yield Bar()
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, transient=True) as progress:
        yield Bar(progress, progress.add_task("reading", total=images, unit="images"))
