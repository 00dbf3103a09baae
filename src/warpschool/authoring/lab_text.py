"""A lab's text: Markdown in jupytext's format, from which the lab's notebook is built.

`labs/labNN_topic/labNN_topic.md` holds all that is written by hand. Each cell says its kind and its grade id:

    <!-- #region text="lab02-01-write" -->
    **Write** the inside of the loop.
    <!-- #endregion -->

    ```python fill="lab02-01-kernel"
    %%kernel lab02_tiling/01_tiled
    ```

    ```python check="lab02-01-correct" points=3
    # Right answers where the tiles fit.
    ws.check_cell("lab02_tiling/01_tiled", "Right answers", points=3)
    ```

`text` and `code` are locked, `fill` is the student's, `check` is graded by its value, `task` by people. What follows
from that is not in it: nbgrader's metadata, the starters of its kernels, the places for answers. Needs jupytext.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from warpschool.atomic import write_file
from warpschool.authoring.notebooks import (
    GRADE_ID,
    SCHEMA_VERSION,
    is_answer,
    kernel_step,
    notebook_text,
    read_notebook,
    refreshed,
)
from warpschool.errors import CourseError
from warpschool.suggest import did_you_mean

FORMAT = "md:markdown"
_LOCKED = {"grade": False, "locked": True, "schema_version": SCHEMA_VERSION, "solution": False, "task": False}
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("markdown", _LOCKED),
    "code": ("code", _LOCKED),
    "fill": ("code", _LOCKED | {"locked": False, "solution": True}),
    "check": ("code", _LOCKED | {"grade": True}),
    "task": ("markdown", _LOCKED | {"task": True}),
}
"""kind -> type of the cell, and what nbgrader is told about it"""
_SCORED = ("check", "task")
_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
_LAYOUT = {"lines_to_next_cell", "region_name"}
"""what jupytext notes about the text itself"""
_UNREADABLE = "incorrectly_encoded_metadata="
_CLOSINGS = ("```", "<!-- #endregion -->")
_NOT_CLOSED = "the cell is not closed before"
_CLOSE = f"Close it with {' or '.join(_CLOSINGS)}."
_MARKER = re.compile(r"<!--\s*#(end)?region\b|`{3,}\s*python\s+\w+=")


def stale_notebooks(labs: Path, solutions: Path) -> dict[Path, str]:
    """Return the notebooks below `labs` that are not what their texts give: path -> right content.

    Raises CourseError for a notebook without a text.
    """
    orphans = [path for path in _of_labs(labs, ".ipynb") if not path.with_suffix(".md").exists()]
    if orphans:
        raise CourseError(
            f"{orphans[0]} has no text {orphans[0].stem}.md beside it, from which it would be built",
            next_step="Make it: python -m warpschool.authoring text",
        )
    found = {path.with_suffix(".ipynb"): built(path, solutions) for path in _of_labs(labs, ".md")}
    return {path: content for path, content in found.items() if not path.exists() or path.read_text("utf-8") != content}


def write_notebooks(labs: Path, solutions: Path, *, force: bool = False) -> list[Path]:
    """Build the notebooks below `labs`; return the ones that were written.

    Raises CourseError, unless `force` is given, for one that somebody has edited after its text.
    """
    stale = stale_notebooks(labs, solutions)
    for path in () if force else stale:
        text = path.with_suffix(".md")
        if _is_newer(path, text) and _was_edited(path, _normal(text, solutions)):
            raise CourseError(
                f"{path} was edited after {text.name}, of which it is built",
                next_step="Take the edit over: python -m warpschool.authoring text; or drop it: add --force.",
            )
    return _write(stale)


def stale_texts(labs: Path, solutions: Path) -> dict[Path, str]:
    """Return the texts below `labs` that do not say what their notebooks say: path -> the notebook's text."""
    found = {path.with_suffix(".md"): text_of(path) for path in _of_labs(labs, ".ipynb")}
    return {path: text for path, text in found.items() if not path.exists() or _normal(path, solutions) != text}


def write_texts(labs: Path, solutions: Path, *, force: bool = False) -> list[Path]:
    """Take what was edited in notebooks over into their texts; return the ones that were written.

    Raises CourseError, unless `force` is given, for a text that was edited after its notebook.
    """
    stale = stale_texts(labs, solutions)
    for path in () if force else stale:
        if _is_newer(path, path.with_suffix(".ipynb")):
            raise CourseError(
                f"{path} was edited after {path.stem}.ipynb",
                next_step="Build the notebook: python -m warpschool.authoring; or drop the text: add --force.",
            )
    return _write(stale)


def built(path: Path, solutions: Path) -> str:
    """Return the content of the notebook that a text gives; raises CourseError with the place of what is wrong."""
    return notebook_text(refreshed(read_text(path, solutions), solutions))


def read_text(path: Path, solutions: Path) -> NotebookNode:
    """Return a text as a notebook, its kernels named but empty; raises CourseError with the place of what is wrong."""
    cells: dict[str, NotebookNode] = {}
    for line, cell in _placed_cells(path):
        try:
            made = _built_cell(cell, solutions)
            if made.id in cells:
                raise CourseError(f"the grade id {made.id} is taken", next_step="Each cell needs one of its own.")
        except CourseError as error:
            raise CourseError(f"{path}:{line}: {error.message}", next_step=error.next_step) from None
        cells[made.id] = made
    return new_notebook(cells=list(cells.values()), metadata=_METADATA)


def text_of(path: Path) -> str:
    """Return a notebook's text: without bodies of kernels, places for answers, outputs, and other metadata.

    Raises CourseError for a cell that no kind describes.
    """
    return _text(read_notebook(path), path)


def _of_labs(labs: Path, suffix: str) -> list[Path]:
    return [path for path in sorted(labs.glob(f"lab*/lab*{suffix}")) if path.stem == path.parent.name]


def _write(contents: dict[Path, str]) -> list[Path]:
    for path, content in contents.items():
        write_file(path, content)
    return list(contents)


def _is_newer(path: Path, other: Path) -> bool:
    return path.exists() and path.stat().st_mtime > other.stat().st_mtime


def _normal(path: Path, solutions: Path) -> str:
    """A text as `text_of` writes it: without the author's own blank lines."""
    return _text(read_text(path, solutions), path)


def _was_edited(notebook: Path, text: str) -> bool:
    """Whether more than generated parts differ; a file that is no notebook, as after a merge, says nothing."""
    try:
        found = read_notebook(notebook)
    except CourseError:
        return False
    try:
        return _text(found, notebook) != text
    except CourseError:  # a cell that Jupyter added
        return True


def _text(notebook: NotebookNode, path: Path) -> str:
    cells = []
    for number, cell in enumerate(notebook.cells, start=1):
        if is_answer(cell):
            continue
        try:
            cells.append(_told_cell(cell))
        except CourseError as error:
            place = f"{path}: cell {number} ('{cell.source[:40].split(chr(10))[0]}')"
            raise CourseError(f"{place}: {error.message}", next_step=error.next_step) from None
    without_header = {"jupytext": {"notebook_metadata_filter": "-all"}}
    return jupytext.writes(new_notebook(cells=cells, metadata=without_header), fmt=FORMAT)


def _placed_cells(path: Path) -> Iterator[tuple[int, NotebookNode]]:
    """What jupytext reads, each cell with the line at which it begins.

    jupytext drops what it does not expect, such as the second of two fences: raises CourseError for a line that would
    not come back if the cells were written. Empty lines do not count.
    """
    text = path.read_text("utf-8")
    found = jupytext.reads(text, fmt=FORMAT)
    given = [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    given.append((0, "the end"))
    for cell in found.cells:
        written = jupytext.writes(new_notebook(cells=[cell], metadata=found.metadata), fmt=FORMAT)
        expected = [line.rstrip() for line in written.splitlines() if line.strip()]
        start = given[0][0]
        for (number, line), wanted in zip(given, expected, strict=False):
            if line != wanted and wanted in _CLOSINGS:
                raise CourseError(f"{path}:{start}: {_NOT_CLOSED} {line}", next_step=_CLOSE)
            if line != wanted:
                raise CourseError(f"{path}:{number}: {line} is read as {wanted}", next_step="Write it as it is read.")
        yield start, cell
        given = given[len(expected) :]


def _built_cell(cell: NotebookNode, solutions: Path) -> NotebookNode:
    kind, name = _kind(cell)
    swallowed = next((line for line in cell.source.splitlines() if _MARKER.match(line)), None)
    if swallowed:
        raise CourseError(f"{_NOT_CLOSED} {swallowed}", next_step=_CLOSE)
    make = new_code_cell if cell.cell_type == "code" else new_markdown_cell
    data = {**_KINDS[kind][1], "grade_id": name, **_points(cell, kind)}
    result = make(cell.source, id=name, metadata={"nbgrader": data})
    _require_empty_kernel(result, kind, solutions)
    return result


def _kind(cell: NotebookNode) -> tuple[str, str]:
    """The kind of a cell and its grade id."""
    said = {key: value for key, value in cell.metadata.items() if key not in _LAYOUT and key != "points"}
    kinds = [key for key in said if key in _KINDS]
    if not said:
        raise CourseError(
            "this is in no cell with a grade id",
            next_step='Put text between <!-- #region text="lab02-01-write" --> and <!-- #endregion -->, code between '
            '```python code="lab02-01-draw" and ```; is the cell before it closed?',
        )
    if len(said) > 1 or not kinds:
        wrong = next((key for key in said if key not in _KINDS), "")
        advice = did_you_mean(wrong, [*_KINDS, "points"]) if wrong else ""
        raise CourseError(
            "the cell says " + ", ".join(f"{key}={value!r}".removeprefix(_UNREADABLE) for key, value in said.items()),
            next_step=f'{advice} Say one kind and a grade id in quotes, such as check="lab02-01-correct".'.strip(),
        )
    ((kind, name),) = said.items()
    if not isinstance(name, str) or not GRADE_ID.fullmatch(name):
        raise CourseError(f"{name!r} is no grade id", next_step='It looks like "lab02-01-correct".')
    if cell.cell_type != _KINDS[kind][0]:
        right = "between <!-- #region ... -->" if _KINDS[kind][0] == "markdown" else "a ```python cell"
        raise CourseError(f"a {kind} cell is {_KINDS[kind][0]}", next_step=f"Make it {right}, or say another kind.")
    return kind, name


def _points(cell: NotebookNode, kind: str) -> dict[str, float]:
    points = cell.metadata.get("points")
    is_number = isinstance(points, int | float) and not isinstance(points, bool) and points > 0
    if kind in _SCORED and not is_number:
        raise CourseError(f"a {kind} cell needs its points", next_step=f'{kind}="{cell.metadata[kind]}" points=2')
    if kind not in _SCORED and "points" in cell.metadata:
        raise CourseError(f"a {kind} cell has no points", next_step=f"Only {' and '.join(_SCORED)} cells are graded.")
    return {"points": points} if is_number else {}


def _require_empty_kernel(cell: NotebookNode, kind: str, solutions: Path) -> None:
    if not cell.source.startswith("%%kernel"):
        return
    step = kernel_step(cell)
    if step is None or not (solutions / f"{step}.cu").is_file():
        raise CourseError(
            f"there is no solution {solutions / f'{step}.cu'}" if step else "%%kernel names no step",
            next_step="Name a step of solutions/, such as %%kernel lab02_tiling/01_tiled.",
        )
    if kind != "fill":
        raise CourseError("a kernel is the student's to write", next_step=f'Make it fill="{cell.id}".')
    if cell.source.partition("\n")[2].strip():
        raise CourseError(
            "a kernel cell is its first line alone", next_step=f"Its starter comes from solutions/{step}.cu: edit that."
        )


def _told_cell(cell: NotebookNode) -> NotebookNode:
    data = dict(cell.metadata.get("nbgrader", {}))
    points = {"points": data.pop("points")} if "points" in data else {}
    name = data.pop("grade_id", None)
    kind = next((kind for kind, facts in _KINDS.items() if facts == (cell.cell_type, data)), None)
    if kind is None or name is None:
        raise CourseError(
            "its nbgrader metadata are of no kind that a text has" if data else "it has no nbgrader metadata",
            next_step="Write the cell into the text, with its kind and a grade id.",
        )
    if cell.get("attachments"):
        raise CourseError("it has an attached picture", next_step="Draw it in a code cell instead.")
    make = new_code_cell if cell.cell_type == "code" else new_markdown_cell
    source = cell.source.split("\n", 1)[0] if kernel_step(cell) is not None else cell.source.strip("\n")
    return make(source, metadata={kind: name, **points})
