"""A student's own copy of the course: made once, brought up to date without ever touching what the student wrote.

The file `.warpschool` at its root marks a copy and says how each file was delivered. A file that is still so is
replaced by a newer one. A file that the student has edited stays as it is; where the course has changed it too, the new
version is put beside it (`01_tiled.new.cu`). Of a notebook only the cells' sources count: running it is no edit; and an
edited one gets the course's changes in all cells that the student left alone.

Cells are told apart by their grade ids, else by their cell ids; of what was delivered a hash of each cell is known. A
cell that the student left alone follows the course, and keeps its output while its source stays the same. A cell that
the student edited stays as it is. The student's own cells stay behind the cell that they stand behind, cells that the
student removed stay away, and the course's order holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from warpschool.atomic import output_error, write_file
from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError, OutputError
from warpschool.harness.source import PERSONAL_COPY_MARKER, personal_copy
from warpschool.version import __version__

DEFAULT_FOLDER = Path("my-warpschool")
Cell = dict[str, Any]

_VSCODE = Path(__file__).with_name("vscode")
"""Tasks for Visual Studio Code; their pattern reads what `check --watch` prints."""
_CHAPTER = re.compile(r"gpu|measuring|lab\d\d")
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")

_LEAST_KNOWN = 0.5  # of the delivered cells, on both sides: who renames cells must not look like one who removes them
_FIRST_MINOR_WITH_IDS = 5


class Fate(StrEnum):
    """What an update does with a file."""

    added = "added"
    updated = "updated"
    current = "as delivered"
    kept = "yours, kept"
    merged = "yours, with what the course has changed in other cells"
    beside = "yours, kept; new version beside it"


@dataclass(frozen=True)
class CopyFile:
    """A file of the copy, by its path in it; `beside` is where a new version was put, "" where none was."""

    path: str
    fate: Fate
    beside: str = ""


@dataclass(frozen=True)
class CopyReport:
    """What an update did. `is_new`: the copy was made by it."""

    folder: Path
    is_new: bool
    files: tuple[CopyFile, ...]

    def of(self, *fates: Fate) -> list[str]:
        """The paths of the files with one of these fates."""
        return [file.path for file in self.files if file.fate in fates]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "folder": str(self.folder.resolve()), "added": self.of(Fate.added), "updated": self.of(Fate.updated),
            "merged": self.of(Fate.merged), "kept": self.of(Fate.kept, Fate.beside, Fate.current),
            "beside": {file.path: file.beside for file in self.files if file.beside},
        }  # fmt: skip


@dataclass
class _Record:
    """What the marker file holds: fingerprints of the files that were delivered, hashes of the notebooks' cells."""

    files: dict[str, str]
    cells: dict[str, dict[str, str]]

    @classmethod
    def read(cls, marker: Path) -> _Record:
        """Empty for a new copy; without cells for one of an older version."""
        try:
            found = json.loads(marker.read_text("utf-8"))
            files, cells = found.get("files", {}), found.get("cells", {})
            return cls(
                {str(path): str(mark) for path, mark in files.items()},
                {str(path): {str(k): str(v) for k, v in marks.items()} for path, marks in cells.items()},
            )
        except (OSError, ValueError, AttributeError):
            return cls({}, {})

    def note(self, file: CopyFile, content: bytes) -> None:
        """Remember what was delivered as this file."""
        for name in filter(None, (file.path, file.beside)):
            self.files[name] = fingerprint(file.path, content)
        if file.path.endswith(".ipynb"):
            self.cells[file.path] = cell_hashes(content)

    def write(self, marker: Path) -> None:
        document = {"warpschool": __version__, "files": self.files, "cells": self.cells}
        _write(marker, (json.dumps(document, indent=1) + "\n").encode())


def update_copy(folder: Path, course: Course | None = None) -> CopyReport:
    """Make a personal copy, or bring one up to date; where it is interrupted, the next call does the rest.

    Raises ArgumentError where `folder` is a file, OutputError where it cannot be written, CourseError without starters.
    """
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file", next_step="Name a folder.")
    marker = folder / PERSONAL_COPY_MARKER
    is_new = not marker.exists()
    record = _Record.read(marker)
    files = []
    try:
        for path, content in course_files(course or Course.find()).items():
            found = _update(folder, path, content, record)
            files.append(found)
            record.note(found, content)
    except BaseException:
        if files:  # what is done is remembered: else a later version would take it for the student's
            with contextlib.suppress(OutputError):
                record.write(marker)
        raise
    record.write(marker)
    return CopyReport(folder, is_new, tuple(files))


def own_copy(folder: Path | None = None) -> Path:
    """The copy that is meant: the named folder, else the one around the working directory, else a new one there."""
    if folder is not None:
        return personal_copy(folder.resolve()) or folder
    return personal_copy(Path.cwd()) or DEFAULT_FOLDER


def course_files(course: Course) -> dict[str, bytes]:
    """Everything that a personal copy holds: path in it -> content."""
    files: dict[str, bytes] = {}
    for lab in course.labs():
        if lab.notebook is not None:
            files[f"labs/{lab.name}/{lab.notebook.name}"] = lab.notebook.read_bytes()
        for step in lab.steps:
            if step.starter is not None:
                files[f"kernels/{step.lab}/{step.file_name}"] = step.starter.read_bytes()
    if not files:
        raise CourseError("the course has no starters", next_step="Reinstall warpschool.")
    files |= {f".vscode/{path.name}": path.read_bytes() for path in sorted(_VSCODE.glob("*.json"))}
    return files | _chapters(course, set(files))


def _chapters(course: Course, others: set[str]) -> dict[str, bytes]:
    """The book's chapters that notebooks lead to, and their pictures; a link to what no copy has becomes its words."""
    book = course.root / "docs"
    pictures = {f"docs/{p.relative_to(book).as_posix()}": p for p in sorted((book / "images" / "learn").glob("*.svg"))}
    pages = {f"docs/learn/{p.name}": p for p in sorted((book / "learn").glob("*.md")) if _CHAPTER.fullmatch(p.stem)}
    there = {*others, *pages, *pictures}

    def kept(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs/learn", link[2].partition("#")[0]))
        return link[0] if path in there or "://" in link[2] or link[2].startswith("#") else link[1]

    files = {name: path.read_bytes() for name, path in pictures.items()}
    return files | {name: _LINK.sub(kept, path.read_text("utf-8")).encode() for name, path in pages.items()}


def fingerprint(path: str, content: bytes) -> str:
    """A hash of what counts in a file: of a notebook the kinds and sources of its cells, else every byte."""
    if path.endswith(".ipynb"):
        try:
            cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(content)["cells"]]
            content = json.dumps(cells).encode()
        except (ValueError, KeyError, TypeError):
            pass  # damaged: it is whatever it is
    return hashlib.sha256(content).hexdigest()[:32]


def _update(folder: Path, path: str, content: bytes, record: _Record) -> CopyFile:
    target, delivered = folder / path, record.files
    if not target.exists():
        _write(target, content)
        return CopyFile(path, Fate.added)
    mine = _read(target)
    now, new = fingerprint(path, mine), fingerprint(path, content)
    if now == new:
        return CopyFile(path, Fate.current)
    if new == delivered.get(path):
        return CopyFile(path, Fate.kept)
    merged = merge(mine, content, record.cells.get(path, {})) if path.endswith(".ipynb") else None
    if now == delivered.get(path):
        _write(target, merged.content if merged is not None else content)
        return CopyFile(path, Fate.updated)
    if merged is not None:
        _write(target, merged.content)
        if not merged.both:
            return CopyFile(path, Fate.merged)
    names = (target.with_name(f"{target.stem}.new{n or ''}{target.suffix}") for n in (0, *range(2, 100)))
    beside = next(name for name in names if not _is_theirs(folder, name, delivered))
    _write(beside, content)
    return CopyFile(path, Fate.beside, beside.relative_to(folder).as_posix())


def _is_theirs(folder: Path, path: Path, delivered: Mapping[str, str]) -> bool:
    """Whether a file beside an edited one holds work: the student may have gone on in the new version."""
    name = path.relative_to(folder).as_posix()
    return path.exists() and fingerprint(name, _read(path)) != delivered.get(name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OutputError(
            f"cannot read {path}: {error.strerror}",
            next_step=f"Make it readable (chmod u+r {path}), or move it away.",
        ) from None


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(f"cannot make {path.parent}", error) from None
    write_file(path, content)


# ---------------------------------------------------------------- two notebooks in one


@dataclass(frozen=True)
class Merged:
    """The notebook in one; `both` names the cells that both sides have changed: the student's stand in it."""

    content: bytes
    both: tuple[str, ...]


def cell_hashes(content: bytes) -> dict[str, str]:
    """Cell name -> hash of its kind and source; empty where cells lack names or share them, and for no notebook."""
    notebook = _read_notebook(content)
    if notebook is None:
        return {}
    found = {_name(cell): _hash(cell) for cell in notebook["cells"]}
    return found if len(found) == len(notebook["cells"]) and "" not in found else {}


def merge(mine: bytes, theirs: bytes, delivered: Mapping[str, str]) -> Merged | None:
    """Return the student's notebook brought up to the course's, or None where the two do not fit together.

    `delivered` is `cell_hashes` of the version that the student was last given.
    """
    own, course = _read_notebook(mine), _read_notebook(theirs)
    if own is None or course is None or not delivered or not cell_hashes(theirs):
        return None
    offered = [_name(cell) for cell in course["cells"]]
    had, extras = _sorted_out(own["cells"], {*offered, *delivered}, offered, delivered)
    if min(len(delivered.keys() & had), len(delivered.keys() & set(offered))) < _LEAST_KNOWN * len(delivered):
        return None
    cells, both = list(extras.get("", ())), []
    for new in course["cells"]:
        name = _name(new)
        chosen, clash = _chosen(had.get(name), new, delivered.get(name))
        cells += [] if chosen is None else [chosen]
        cells += extras.get(name, ())
        both += [name] if clash else []
    if own.get("nbformat_minor", 0) < _FIRST_MINOR_WITH_IDS:
        cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
    text = json.dumps({**own, "cells": cells}, indent=1, sort_keys=True, ensure_ascii=False)
    return Merged(f"{text}\n".encode(), tuple(both))


def _sorted_out(
    cells: list[Cell], known: set[str], offered: list[str], delivered: Mapping[str, str]
) -> tuple[dict[str, Cell], dict[str, list[Cell]]]:
    """(the course's cells by name, the student's own ones by the name of the cell that they stand behind)."""
    had: dict[str, Cell] = {}
    extras: dict[str, list[Cell]] = {}
    behind = ""
    for cell in cells:
        name = _name(cell)
        is_own = name not in known or name in had  # a copied cell brings its grade id along
        if not is_own:
            had[name] = cell
        if not is_own and name in offered:
            behind = name
        elif is_own or _hash(cell) != delivered[name]:  # what the course has dropped stays where it holds work
            extras.setdefault(behind, []).append(cell)
    return had, extras


def _chosen(mine: Cell | None, new: Cell, delivered: str | None) -> tuple[Cell | None, bool]:
    """(the cell that the notebook gets, whether both sides have changed it)."""
    if mine is None:
        return (new, False) if delivered is None else (None, False)
    if _hash(mine) == delivered != _hash(new):
        return new, False
    return mine, _hash(new) not in (delivered, _hash(mine))


def _name(cell: Cell) -> str:
    grade_id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "")
    return str(grade_id or cell.get("id", ""))


def _hash(cell: Cell) -> str:
    text = json.dumps([cell["cell_type"], "".join(cell["source"])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_notebook(content: bytes) -> dict[str, Any] | None:
    """The notebook, or None for what cannot be read as one of version 4."""
    try:
        notebook = json.loads(content)
        for cell in notebook["cells"]:
            _name(cell), _hash(cell)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return notebook if notebook.get("nbformat") == 4 else None
