"""The kernel cells of this session: step -> source of its last-run `%%kernel` cell, which the personal copy keeps.

So the notebook and the terminal know one state of a step: a cell that is run becomes the copy's file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from warpschool.atomic import write_file
from warpschool.course import Course, Step
from warpschool.errors import CourseError

_MAGIC = "%%kernel"


@dataclass(frozen=True)
class _Cell:
    """A cell's source and when it was run, in the file system's seconds."""

    source: str
    at: float


_cells: dict[str, _Cell] = {}


def remember(step: str, source: str) -> None:
    """Record a step's cell; a later one replaces it."""
    _cells[step] = _Cell(source, time.time())


def last_cell(step: str) -> str | None:
    """Return the source of the step's last-run cell, or None."""
    return _cells[step].source if step in _cells else None


def is_outdated(step: Step, own: Path) -> bool:
    """Whether the copy's file says more than the last-run cell: it was saved later, or the cell is the mere starter."""
    cell = _cells.get(step.name)
    text = _text(own)
    if cell is None or text in (cell.source, "", _text(step.starter)):
        return False
    return cell.source == _text(step.starter) or own.stat().st_mtime > cell.at


def keep(step: Step, own: Path) -> bool:
    """Write the last-run cell into the copy's file; whether that was done. The starter is never written over work.

    What stood there and was neither the starter nor a cell of this session stays beside it, as `01_saxpy.previous.cu`.
    Raises OutputError.
    """
    cell, text = _cells[step.name], _text(own)
    if not own.parent.is_dir() or cell.source in (text, _text(step.starter)):
        return False
    if text not in ("", _text(step.starter), _kept.get(step.name)):
        write_file(own.with_suffix(".previous.cu"), text)
    write_file(own, cell.source)
    _kept[step.name] = cell.source
    _cells[step.name] = _Cell(cell.source, own.stat().st_mtime)
    return True


_kept: dict[str, str] = {}
"""Step -> what a cell of this session wrote into the copy last."""


def require_run(step: Step, own: Path | None) -> None:
    """Raise CourseError where the notebook, as saved, has a cell of the step that was edited and not run since."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    if not notebook.is_file():  # some servers name it from their own root
        notebook = Path.cwd() / notebook.name
    saved = _saved_cells(notebook, step) - {_text(step.starter)}
    cell = _cells.get(step.name)
    known = {cell.source if cell else "", _text(own)}
    if not saved or saved & known:
        return
    since = cell.at if cell else own.stat().st_mtime if own is not None and own.is_file() else 0.0
    if notebook.stat().st_mtime > since:
        raise CourseError(
            f"the cell %%kernel {step} was edited, but not run since",
            next_step="Run it (Shift+Enter), then run this again.",
        )


def _saved_cells(notebook: Path, step: Step) -> set[str]:
    """What the kernel cells of a step hold in the notebook's file; nothing where it cannot be read."""
    found: set[str] = set()
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        if notebook.suffix != ".ipynb":
            return found
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            head, _, source = "".join(cell["source"]).partition("\n")
            words = head.split()
            if cell["cell_type"] == "code" and words[:1] == [_MAGIC] and source.strip() and _names(words[1:], step):
                found.add(normalised(source))
    return found


def _names(words: list[str], step: Step) -> bool:
    with contextlib.suppress(CourseError):
        return any(Course.find().step(word).name == step.name for word in words if not word.startswith("-"))
    return False


def normalised(source: str) -> str:
    """A cell's text as a file has it: with one line end at its end."""
    return source.rstrip() + "\n"


def _text(path: Path | None) -> str:
    if path is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return normalised(path.read_text("utf-8"))
    return ""


def forget_all() -> None:
    """Forget every cell, as a fresh session does."""
    _cells.clear()
    _kept.clear()
