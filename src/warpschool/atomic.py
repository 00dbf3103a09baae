"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from warpschool.errors import OutputError

_ADVICE = {
    errno.EACCES: "Choose a folder that you may write to.", errno.EPERM: "Choose a folder that you may write to.",
    errno.EROFS: "This file system is read-only: choose another folder.",
    errno.ENOSPC: "The disk is full: make room, or choose another folder.",
    errno.EDQUOT: "Your quota is used up: make room, or choose another folder.",
    errno.EFBIG: "A file may not be as large as this one here: choose another folder, or raise the limit (ulimit -f).",
}  # fmt: skip
"""What refuses a file, and what to do then."""
REFUSALS = frozenset([*_ADVICE, errno.EIO])


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one beside it; parents must exist. Raises OutputError."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        replace_file(path, data, prefix=f".{path.name}.", mode=0o666 & ~_umask())
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from None


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together: none is replaced before all are on the disk. Raises OutputError."""
    made: dict[Path, str] = {}
    path = Path()
    try:
        for path, content in contents.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            made[path] = _temporary(path, data, prefix=f".{path.name}.", mode=0o666 & ~_umask())
        for path in contents:
            os.replace(made[path], path)
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from None
    finally:
        for temporary in made.values():
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def replace_file(path: Path, data: bytes, *, prefix: str, mode: int) -> None:
    """Write a file as `write_file` does, with these permissions; `prefix` begins the temporary one's name.

    No reader ever sees a part, and it is flushed, so that a crash leaves no hole. Raises OSError.
    """
    temporary = _temporary(path, data, prefix=prefix, mode=mode)
    try:
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _temporary(path: Path, data: bytes, *, prefix: str, mode: int) -> str:
    """A new file beside `path` with this content, on the disk; its name."""
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def output_error(what: str, error: OSError) -> OutputError:
    """The error of a file or folder that could not be written, with advice that fits the reason."""
    return OutputError(f"{what}: {error.strerror or error}", next_step=advice_on(error))


def advice_on(error: OSError) -> str:
    """What to do where the disk refuses a file."""
    return _ADVICE.get(error.errno or 0, "Choose another folder, or make room.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
