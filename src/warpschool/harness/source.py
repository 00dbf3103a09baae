"""Which kernel file is meant: any .cu file, or a step's, one's own or the course's.

One's own file of a step is, in this order: the source or file that was given; the later of the last-run `%%kernel` cell
of the step and the step's file in the nearest personal copy at or above the working directory; in a checkout,
`kernels/`. A packaged starter is never one's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from warpschool.compile.beside import with_headers
from warpschool.contract import LAUNCHES, Contract, parse_contract
from warpschool.course import Course, Step, checkout_root
from warpschool.errors import ArgumentError, CourseError

PERSONAL_COPY_MARKER = ".warpschool"
"""A file of this name marks the root of a personal copy, which holds `kernels/labNN_topic/NN_idea.cu`."""
MAX_SOURCE_BYTES = 256 << 10

Kind = Literal["own", "begun", "reference", "starter"]
"""Whose file of a step: one's own; the same, or the starter where there is none; the course's solution, its starter."""


@dataclass(frozen=True)
class Source:
    """A kernel file: its bytes, the name that messages use, where it comes from in words, and what a list calls it."""

    data: bytes
    name: str
    origin: str
    label: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def contract(self) -> Contract:
        """Parse it; raises ContractError."""
        return parse_contract(self.text, name=self.name)


def read_source(path: Path) -> str:
    """Return a kernel file's text, with the headers beside it that it includes, and the launches recorded for it.

    Raises ArgumentError, with the reason, for a file that cannot be one.
    """
    return with_headers(_with_launches(read_text(path), path), path.parent)


def read_text(path: Path) -> str:
    """Return a kernel file's text alone. Raises ArgumentError, with the reason, for a file that cannot be one."""
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise ArgumentError(f"{path} is a folder", next_step="Name a .cu file.") from None
    except FileNotFoundError:
        raise ArgumentError(f"there is no file {path}", next_step=_nearby(path)) from None
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror}", next_step=f"Try: chmod u+r {path}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8", next_step="Save the file as UTF-8 text."
        ) from None
    if not text.strip():
        raise ArgumentError(f"{path} is empty", next_step="Start from a starter: warpschool start")
    return text


def recorded_launches(path: Path) -> Path:
    """Where `warpschool run --record` keeps the header that it makes of a program's launches."""
    return path.with_name(path.name + ".launches")


def _with_launches(text: str, path: Path) -> str:
    """A program with the header that was recorded for it; itself where it has a header, or none was recorded."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        recorded = recorded_launches(path).read_text("utf-8")
        if not re.search(r"^\s*//\s*Entry:", text, re.MULTILINE):
            return text.rstrip("\n") + LAUNCHES + recorded + "\n"
    return text


def _nearby(path: Path) -> str:
    """The .cu files beside a path that does not exist."""
    with contextlib.suppress(OSError):
        names = sorted(p.name for p in path.parent.glob("*.cu"))[:8]
        if names:
            return f"In {path.parent}/ there is: {', '.join(names)}."
    return "Name an existing .cu file."


def resolve(which: str | Path, kind: Kind = "own", *, otherwise: str = "") -> Source:
    """Return the source that a step or a .cu file names: what ends in .cu is a file, unless only a step is called so.

    `kind` says whose file of a step is meant, `otherwise` what to do where there is none. Raises CourseError for an
    unknown step and where there is no such file of it, ArgumentError for a file that cannot be read.
    """
    path = Path(str(which))
    if path.suffix == ".cu" and (path.exists() or not _is_step(str(which))):
        return Source(read_source(path).encode(), path.name, "given file", str(which))
    step = Course.find().step(str(which))
    if kind in ("reference", "starter"):
        return of_course(step, kind, otherwise=otherwise)
    try:
        return find_source(step, otherwise=otherwise)
    except CourseError:
        if kind == "own" or step.starter is None:
            raise
        return of_course(step, "starter")


def of_course(step: Step, kind: Kind, *, otherwise: str = "") -> Source:
    """Return the course's own "reference" or "starter" of a step; raises CourseError where it has none."""
    path, label = (
        (step.solution, f"solutions/{step}.cu") if kind == "reference" else (step.starter, f"{step}.cu (starter)")
    )
    if path is None:
        raise CourseError(f"{step} has no {kind} in this course", next_step=otherwise)
    return Source(path.read_bytes(), step.file_name, kind, label)


def find_source(
    step: Step, given: str | bytes | Path | None = None, *, folder: Path | None = None, otherwise: str = ""
) -> Source:
    """Return one's own source of a step; `given` is source text (it has line breaks), bytes, or a path.

    `otherwise` tells how the caller takes a file, where it does: it becomes part of the advice. Raises CourseError when
    there is none or the file cannot be read.
    """

    def source(data: bytes, origin: str) -> Source:
        return Source(data, step.file_name, origin, f"{step}.cu ({origin})")

    if isinstance(given, str) and ("\n" in given or not given.strip()):
        given = given.encode()
    if isinstance(given, bytes):
        return source(given, "given source")
    if given is not None:
        path = Path(given)
        name = step.file_name if path.is_fifo() else path.name
        return Source(_read(path), name, "given file", str(path))
    own = personal_copy(folder or Path.cwd())
    own_file = own_file_of(step, own)
    cell = _last_cell(step, own_file)
    if cell is not None:
        return source(cell.encode(), "notebook cell")
    if own_file is not None and own_file.is_file():
        return source(_read(own_file), "personal copy")
    root = checkout_root()
    if step.starter is not None and root == Course.find().root and _is_within(folder or Path.cwd(), root):
        return source(_read(step.starter), "the checkout's kernels/")
    raise CourseError(f"no kernel of yours was found for {step}", next_step=_where_to_look(step, own, otherwise))


def own_file_of(step: Step, own: Path | None) -> Path | None:
    """Where a personal copy has, or would have, the file of a step."""
    return own / "kernels" / step.lab / step.file_name if own is not None else None


def _is_within(folder: Path, root: Path) -> bool:
    return folder.resolve().is_relative_to(root.resolve())


def _is_step(name: str) -> bool:
    with contextlib.suppress(CourseError):
        return bool(Course.find().step(name))
    return False


def _where_to_look(step: Step, own: Path | None, otherwise: str) -> str:
    """What to do where there is no kernel: it depends on whether there is a copy, here or one folder down."""
    if own is not None:
        return f"Your copy has no kernels/{step}.cu; bring it back with: warpschool start {own}"
    with contextlib.suppress(OSError):
        below = sorted(marker.parent.name for marker in Path.cwd().glob(f"*/{PERSONAL_COPY_MARKER}"))
        if below:
            return f"Your copy is one folder down: cd {below[0]}"
    cell = f"run the cell that begins with %%kernel {step}, or " if "IPython" in sys.modules else ""
    ways = f"{cell}get your own copy of the course: warpschool start"
    return f"{otherwise}; or {ways}" if otherwise else f"{ways[0].upper()}{ways[1:]}"


def personal_copy(folder: Path) -> Path | None:
    """Return the root of the nearest personal copy at or above a folder, or None."""
    return next((root for root in (folder, *folder.parents) if (root / PERSONAL_COPY_MARKER).is_file()), None)


def _last_cell(step: Step, own: Path | None) -> str | None:
    """The step's last-run cell, unless the copy's file says more; only a notebook has cells.

    Raises CourseError for a cell that was edited and not run since.
    """
    cells = sys.modules.get("warpschool.notebook.cells")
    if cells is None:
        return None
    cells.require_run(step, own)
    if own is not None and own.is_file() and cells.is_outdated(step, own):
        return None
    return cells.last_cell(step.name)


def _read(path: Path) -> bytes:
    """Read a file, or as much of it as shows that it is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        advice = "Make it readable: chmod u+r" if isinstance(error, PermissionError) else "Name an existing .cu file."
        raise CourseError(f"cannot read {path}: {reason}", next_step=advice) from None
    with contextlib.suppress(UnicodeDecodeError):  # whoever parses it tells
        return with_headers(data.decode(), path.parent).encode()
    return data
