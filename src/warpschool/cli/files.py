"""Reading and writing files for commands."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from warpschool.atomic import output_error, write_file
from warpschool.errors import ArgumentError, OutputError


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


def try_write(path: Path, content: str | bytes) -> OutputError | None:
    """Write a file and return what went wrong: for commands that still have results to print."""
    try:
        write_file(path, content)
    except OutputError as error:
        return error
    return None


def require_writable_target(path: Path) -> None:
    """Raise ArgumentError or OutputError for a file that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder", next_step="Name a file.")
    if path.exists() and not path.is_file():  # a file is replaced as a whole: /dev/null would be gone
        raise ArgumentError(f"{path} is no ordinary file", next_step="Name a file.")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent}", next_step="Make it first, or name another file.")
    try:  # permission bits alone do not tell: root may write anywhere but into /proc, nobody on a read-only disk
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from None


def _nearby(path: Path) -> str:
    """The .cu files beside a path that does not exist."""
    with contextlib.suppress(OSError):
        names = sorted(p.name for p in path.parent.glob("*.cu"))[:8]
        if names:
            return f"In {path.parent}/ there is: {', '.join(names)}."
    return "Name an existing .cu file."
