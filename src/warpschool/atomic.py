"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from warpschool.errors import OutputError


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one beside it; parents must exist. Raises OutputError."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        replace_file(path, data, prefix=f".{path.name}.", mode=0o666 & ~_umask())
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from None


def replace_file(path: Path, data: bytes, *, prefix: str, mode: int) -> None:
    """Write a file as `write_file` does, with these permissions; `prefix` begins the temporary one's name.

    No reader ever sees a part, and it is flushed, so that a crash leaves no hole. Raises OSError.
    """
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def output_error(what: str, error: OSError) -> OutputError:
    """The error of a file or folder that could not be written, with advice that fits the reason."""
    advice = {
        errno.EACCES: "Choose a folder that you may write to.", errno.EPERM: "Choose a folder that you may write to.",
        errno.EROFS: "This file system is read-only: choose another folder.",
        errno.ENOSPC: "The disk is full: make room, or choose another folder.",
        errno.EDQUOT: "Your quota is used up: make room, or choose another folder.",
    }  # fmt: skip
    next_step = advice.get(error.errno or 0, "Choose another folder, or make room.")
    return OutputError(f"{what}: {error.strerror or error}", next_step=next_step)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
