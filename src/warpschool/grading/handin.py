"""A submitted notebook, read as data and without trust: the student's cells, and nothing else of it.

Metadata, points, check cells, outputs and cell types of a submission are never believed: `reassembled` puts the
student's own cells into the instructor's notebook. Only images that belong to answers for people are kept, as pixels
encoded anew.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import itertools
import json
import os
import re
import stat
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell
from PIL import Image

from ptxsim import system
from warpschool.grading.assignment import Assignment, grade_id, is_answer, is_free, is_manual, kernel_step, marks
from warpschool.harness.source import Source

MAX_NOTEBOOK_BYTES = 20 << 20
MAX_CELLS = 2000
MAX_IMAGES = 8
"""of one answer"""
MAX_DRAWN = 8
"""cells that are run for their pictures"""
MAX_NAMED = 6
"""cells named in a note"""
OWN = "own-"
"""begins the ids of cells that the student added"""
STUDENTS_IMAGE = "The image below is the student's own, from the submitted file; the grader did not make it.\n"
_TEACHERS = re.compile(r"^ *### BEGIN (MARK SCHEME|HIDDEN TESTS).*?^ *### END \1", re.DOTALL | re.MULTILINE)
"""what a release leaves out of a cell"""
_KINDS = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


@dataclass(frozen=True)
class OwnCell:
    """A cell that the student wrote: a cell added, or the content of one that is free; `images` are PNGs in base64."""

    kind: str
    source: str
    images: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.source.strip() and not self.images


@dataclass(frozen=True)
class HandIn:
    """What a student handed in for an assignment.

    `cells`: grade id (or cell id) of a free cell -> its content; `extras`: id of a cell of the instructor's -> cells
    that the student put after it; `problem`: why the file cannot be read, or ""; `notes`: what a grader should know.
    """

    name: str
    sha256: str
    cells: Mapping[str, OwnCell] = field(default_factory=dict)
    extras: Mapping[str, tuple[OwnCell, ...]] = field(default_factory=dict)
    kernels: Mapping[str, Source] = field(default_factory=dict)
    problem: str = ""
    notes: tuple[str, ...] = ()


def read_handin(path: Path, assignment: Assignment) -> HandIn:
    """Read a submitted notebook; a file that cannot be read gives a HandIn with a `problem`, never an exception."""
    data, problem = _bytes_of(path)
    nothing = HandIn(path.name, hashlib.sha256(data).hexdigest(), problem=problem)
    if problem:
        return nothing
    cells, problem = _cells_of(data)
    return replace(nothing, problem=problem) if problem else _sorted(cells, assignment, nothing)


def digest_of(path: Path) -> str:
    """Return the hash that `read_handin` gives a file, without reading what is in it."""
    return hashlib.sha256(_bytes_of(path)[0]).hexdigest()


def reassembled(handin: HandIn, assignment: Assignment) -> NotebookNode:
    """Return the instructor's notebook with the student's own cells in it, and no outputs but kept images."""
    notebook = copy.deepcopy(assignment.notebook)
    cells: list[NotebookNode] = [_node(extra) for extra in handin.extras.get("", ())]
    for cell in notebook.cells:
        name = _name(cell)
        own = handin.cells.get(name)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if own is not None and is_free(cell):
            cell.source = own.source
            if is_manual(cell) and cell.cell_type == "code":
                cell.outputs = image_outputs(own.images, STUDENTS_IMAGE)
        is_place = is_answer(cell) and is_free(cell)  # the empty cell that the instructor puts below a task
        if own is not None or not is_place or handin.problem:
            cells.append(cell)
        cells += [_node(extra) for extra in handin.extras.get(name, ())]
    known = {id(cell) for cell in notebook.cells}
    for place, cell in enumerate(cells):
        if id(cell) not in known:
            cell["id"] = f"{OWN}{place}"  # not a random one: equal submissions give equal notebooks
    notebook.cells = cells
    return notebook


def answers(handin: HandIn, assignment: Assignment) -> dict[str, tuple[OwnCell, ...]]:
    """Return grade id -> what the student wrote for each cell that people grade, without what is empty or untouched."""
    found: dict[str, tuple[OwnCell, ...]] = {}
    for task, cell in _for_people(assignment):
        own = handin.cells.get(_name(cell))
        written = [own] if own is not None and own.source.strip() != cell.source.strip() else []
        extras = [extra for extra in handin.extras.get(_name(cell), ()) if not extra.is_empty]
        found[task] = (*found.get(task, ()), *written, *extras)
    return found


def _for_people(assignment: Assignment) -> Iterator[tuple[str, NotebookNode]]:
    """(grade id of a cell that people grade, a cell of its answer): itself, and the nameless free cells behind it."""
    task = ""
    for cell in assignment.notebook.cells:
        if is_manual(cell):
            task = _name(cell)
        elif not is_free(cell) or grade_id(cell):
            task = ""
        if task:
            yield task, cell


def drawn_cells(handin: HandIn, assignment: Assignment) -> tuple[str, ...]:
    """Return the ids, in the reassembled notebook, of code cells that people grade: they are run for their pictures."""
    written = {own.source for group in answers(handin, assignment).values() for own in group if own.kind == "code"}
    places = {_name(cell) for _, cell in _for_people(assignment)}
    found: list[str] = []
    inside = False
    for cell in reassembled(handin, assignment).cells:
        inside = _name(cell) in places or (inside and str(cell["id"]).startswith(OWN))
        if inside and cell.cell_type == "code" and cell.source in written and cell.source.strip():
            found.append(str(cell["id"]))
    return tuple(found[:MAX_DRAWN])


def digest(cells: tuple[OwnCell, ...] | str) -> str:
    """Return a short hash of an answer, "" for no answer: equal hashes are the same answer."""
    if not cells:
        return ""
    text = cells if isinstance(cells, str) else json.dumps([[c.kind, c.source.strip(), *c.images] for c in cells])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# ---------------------------------------------------------------- the file


def _bytes_of(path: Path) -> tuple[bytes, str]:
    """The file's bytes, or why there are none; links and devices are not followed."""
    try:
        handle = system.open_plain(path)
    except OSError as error:
        linked = "it is a link" if path.is_symlink() else error.strerror or str(error)
        return b"", f"the file cannot be read: {linked}"
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return b"", "the file cannot be read: it is no regular file"
        if about.st_size > MAX_NOTEBOOK_BYTES:
            return b"", f"the file is too large: {about.st_size:,} bytes, at most {MAX_NOTEBOOK_BYTES:,}"
        return file.read(MAX_NOTEBOOK_BYTES), ""


@dataclass(frozen=True)
class _Raw:
    """A cell as the file has it, reduced to text."""

    kind: str
    name: str
    cell_id: str
    source: str
    outputs: tuple[Any, ...]


def _cells_of(data: bytes) -> tuple[list[_Raw], str]:
    if not data.strip():
        return [], "the file is empty"
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        document = json.loads(text)
    except UnicodeDecodeError as error:
        return [], f"the file is no UTF-8 text (byte {error.start:,})"
    except (ValueError, RecursionError) as error:
        return [], f"the file is no JSON: {str(error)[:200]}"
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return [], "the file is no notebook of format 4: it has no list of cells"
    if len(cells) > MAX_CELLS:
        return [], f"the notebook has {len(cells):,} cells; at most {MAX_CELLS:,}"
    return [_raw(cell) for cell in cells if isinstance(cell, dict)], ""


def _raw(cell: dict[str, Any]) -> _Raw:
    name, outputs = _inside(cell, "metadata", "nbgrader", "grade_id"), cell.get("outputs")
    return _Raw(
        next((kind for kind in _KINDS if kind == cell.get("cell_type")), "raw"),
        name if isinstance(name, str) else "",
        cell["id"] if isinstance(cell.get("id"), str) else "",
        _clean(_text(cell.get("source"))),
        tuple(outputs) if isinstance(outputs, list) else (),
    )


def _inside(data: Any, *keys: str) -> Any:
    """What nested dicts have there; None where one on the way is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _text(given: Any) -> str:
    """A text, which may come as a list of its lines; "" for anything else."""
    lines = given if isinstance(given, list) else [given]
    return "".join(line for line in lines if isinstance(line, str))


def _clean(text: str) -> str:
    """Text that can be written as UTF-8, with plain line ends."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------- whose cell is it


def _sorted(cells: list[_Raw], assignment: Assignment, empty: HandIn) -> HandIn:
    """Tell the student's cells from the instructor's; of two with one id the last counts, as when they are run."""
    masters = _masters(assignment)
    known = [_known(cell, masters) for cell in cells]
    last = {name: place for place, name in enumerate(known) if name}
    times = Counter(filter(None, known))
    notes = [f"the cell {name} is there {n} times; the last one counts" for name, n in times.items() if n > 1]
    own: dict[str, OwnCell] = {}
    extras: dict[str, tuple[OwnCell, ...]] = {}
    with_images = {_name(cell) for _, cell in _for_people(assignment)}
    anchor = ""
    for place, (raw, name) in enumerate(zip(cells, known, strict=True)):
        anchor = name or anchor
        if name and (last[name] != place or not is_free(masters[name])):
            continue
        cell = OwnCell(raw.kind, raw.source, _images(raw) if anchor in with_images else ())
        if not name and not cell.is_empty:
            extras[anchor] = (*extras.get(anchor, ()), cell)
        elif name:
            own[name] = replace(cell, kind=masters[name].cell_type)
            if raw.kind != own[name].kind:
                notes.append(f"the cell {name} is of another type now: {raw.kind}")
    kernels = dict(_kernels(assignment, own, extras, notes))
    sources = {name: raw.source for raw, name in zip(cells, known, strict=True) if name}
    notes += _notes_on_cells(masters, sources, set(assignment.kernel_cells))
    return replace(empty, cells=own, extras=extras, kernels=kernels, notes=tuple(notes))


def _notes_on_cells(
    masters: Mapping[str, NotebookNode], sources: Mapping[str, str], named: Collection[str]
) -> Iterator[str]:
    """Which cells of the instructor's were deleted or edited, those with points first; `named` are noted elsewhere.

    An empty or absent place for an answer is an answer that was not given, and so no note.
    """
    if not sources:
        yield f"none of the assignment's {len(masters)} cells is there"
        return
    ranked = sorted(masters, key=lambda name: not marks(masters[name]).get("points"))
    gone = [name for name in ranked if name not in sources and name not in named and not is_answer(masters[name])]
    edited = [
        name for name in ranked
        if name in sources and not is_free(masters[name]) and _said(sources[name]) != _said(masters[name].source)
    ]  # fmt: skip
    if gone:
        yield f"deleted: {_first_of(gone)}; the instructor's are taken"
    if edited:
        yield f"edited: {_first_of(edited)}; the instructor's are taken"


def _said(source: str) -> str:
    """A cell's text as released, without spaces at the ends of lines."""
    lines = _TEACHERS.sub("", _clean(source)).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def _first_of(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def share_of_cells(path: Path, assignment: Assignment) -> float:
    """Return which part of an assignment's cells a notebook has, 0 to 1; 0 for a file that cannot be read."""
    data, problem = _bytes_of(path)
    cells = [] if problem else _cells_of(data)[0]
    masters = _masters(assignment)
    return len({_known(cell, masters) for cell in cells} - {""}) / max(1, len(masters))


def _known(raw: _Raw, masters: Mapping[str, NotebookNode]) -> str:
    """The id under which the instructor's notebook has this cell, or ""."""
    if raw.name in masters:
        return raw.name
    is_nameless = raw.cell_id in masters and not grade_id(masters[raw.cell_id])
    return raw.cell_id if is_nameless else ""


def _kernels(
    assignment: Assignment, own: Mapping[str, OwnCell], extras: Mapping[str, tuple[OwnCell, ...]], notes: list[str]
) -> Iterator[tuple[str, Source]]:
    """The source for each step: its cell, else a cell of the student's own that names the step, else nothing."""
    added = [cell.source for group in extras.values() for cell in group]
    for name, step in assignment.kernel_cells.items():
        file = f"{step.split('/')[-1]}.cu"
        source = own[name].source if name in own else ""
        said = kernel_step(source)
        if name not in own:
            found = [text for text in added if kernel_step(text) == step]
            source = found[-1] if found else ""
            instead = "another cell that names the step is taken" if found else "there is nothing to grade"
            notes.append(f"the cell {name} is missing; {instead}")
        elif said and said != step:
            notes.append(f"the cell {name} names the step {said}; it is graded as {step}")
        if source.startswith("%%"):
            source = source.partition("\n")[2]
        yield step, Source(source.encode(), file, "submission")


def _images(raw: _Raw) -> tuple[str, ...]:
    """The PNGs among a cell's outputs, drawn anew."""
    found = (safe_png(_text(_inside(output, "data", "image/png"))) for output in raw.outputs[: 4 * MAX_IMAGES])
    return tuple(itertools.islice(filter(None, found), MAX_IMAGES))


# ---------------------------------------------------------------- the notebook for graders


def _masters(assignment: Assignment) -> dict[str, NotebookNode]:
    """The instructor's cells by name, without those that have none."""
    return {name: cell for cell in assignment.notebook.cells if (name := _name(cell))}


def _name(cell: NotebookNode) -> str:
    """A cell's grade id, or its own id where nbgrader knows nothing of it."""
    return grade_id(cell) or ("" if marks(cell) else str(cell.get("id", "")))


def _node(own: OwnCell) -> NotebookNode:
    cell = _KINDS[own.kind](own.source)
    if own.kind == "code":
        cell.outputs = image_outputs(own.images, STUDENTS_IMAGE)
    return cell


def image_outputs(images: Iterable[str], said: str) -> list[NotebookNode]:
    """Return the outputs that show PNGs in base64, each below a line that says whose it is."""
    return [
        output
        for image in images
        for output in (new_output("stream", text=said), new_output("display_data", {"image/png": image}))
    ]


# ---------------------------------------------------------------- images


MAX_ENCODED_CHARACTERS = 8 << 20
MAX_PIXELS = 24_000_000
MAX_SIDE = 1600


def safe_png(encoded: str) -> str:
    """Return a PNG in base64, drawn anew from one in base64; "" where there is no image in it, or one too large.

    Nothing but the pixels survives: no text chunks, no profile, no bytes after the end.
    """
    if len(encoded) > MAX_ENCODED_CHARACTERS:
        return ""
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=["PNG"])
            if image.width * image.height > MAX_PIXELS:
                return ""
            pixels = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return ""
    pixels.thumbnail((MAX_SIDE, MAX_SIDE))
    fresh = Image.new("RGBA", pixels.size)
    fresh.paste(pixels)
    out = io.BytesIO()
    fresh.save(out, format="PNG")
    return base64.b64encode(out.getvalue()).decode()
