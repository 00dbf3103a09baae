"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from warpschool.errors import OutputError


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one beside it; parents must exist. Raises OutputError."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}", next_step="Choose another folder, or make room."
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
