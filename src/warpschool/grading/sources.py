"""Which source is checked when nobody names one, and what the result says about it.

In this order: the source or file that was given; the last-run `%%kernel` cell of the step; the step's file in the
nearest personal copy at or above the working directory; in a checkout, `kernels/`. A packaged starter is never checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from warpschool.course import Course, Step, checkout_root
from warpschool.errors import ArgumentError, CourseError
from warpschool.grading.submission import MAX_SOURCE_BYTES

PERSONAL_COPY_MARKER = ".warpschool"
"""A file of this name marks the root of a personal copy, which holds `kernels/labNN_topic/NN_idea.cu`."""


@dataclass(frozen=True)
class Source:
    """A source to check: its bytes, the name that messages use, and where it comes from in words."""

    data: bytes
    name: str
    origin: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def find_source(
    step: Step, given: str | bytes | Path | None = None, *, folder: Path | None = None, otherwise: str = ""
) -> Source:
    """Return the source to check; `given` is source text (it has line breaks), bytes, or a path.

    `otherwise` tells how the caller takes a file, where it does: it becomes part of the advice. Raises CourseError when
    there is none or the file cannot be read.
    """
    if isinstance(given, bytes):
        return Source(given, step.file_name, "given source")
    if isinstance(given, str) and ("\n" in given or not given.strip()):
        return Source(given.encode(), step.file_name, "given source")
    if given is not None:
        path = Path(given)
        return Source(_read(path), path.name, "given file")
    cell = _last_cell(step.name)
    if cell is not None:
        return Source(cell.encode(), step.file_name, "notebook cell")
    own = personal_copy(folder or Path.cwd())
    own_file = own / "kernels" / step.lab / step.file_name if own is not None else None
    if own_file is not None and own_file.is_file():
        return Source(_read(own_file), step.file_name, "personal copy")
    if step.starter is not None and checkout_root() == Course.find().root:
        return Source(_read(step.starter), step.file_name, "the checkout's kernels/")
    raise CourseError(f"no kernel of yours was found for {step}", next_step=_where_to_look(step, own, otherwise))


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
    for candidate in (folder, *folder.parents):
        if (candidate / PERSONAL_COPY_MARKER).is_file():
            return candidate
    return None


def _last_cell(step: str) -> str | None:
    """The notebook's memory is asked only where a notebook has run a cell."""
    cells = sys.modules.get("warpschool.notebook.cells")
    return cells.last_cell(step) if cells is not None else None


def _read(path: Path) -> bytes:
    """Read a file, or as much of it as shows that it is too large."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        advice = "Make it readable: chmod u+r" if isinstance(error, PermissionError) else "Name an existing .cu file."
        raise CourseError(f"cannot read {path}: {reason}", next_step=advice) from None


def read_source(path: Path) -> str:
    """Return a kernel file's text. Raises ArgumentError, with the reason, for a file that cannot be one."""
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


def _nearby(path: Path) -> str:
    """The .cu files beside a path that does not exist."""
    with contextlib.suppress(OSError):
        names = sorted(p.name for p in path.parent.glob("*.cu"))[:8]
        if names:
            return f"In {path.parent}/ there is: {', '.join(names)}."
    return "Name an existing .cu file."
