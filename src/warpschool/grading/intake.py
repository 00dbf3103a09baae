"""Submitted files, read without trust: a link, a pipe or a device in a submission is not followed, only named."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_submitted(path: Path, folder: Path, *, most_bytes: int) -> tuple[bytes, str]:
    """Return a submitted file's bytes, or why there are none; of a file that is too large one byte too many.

    `folder` is the submissions' own: nothing on the way from there to the file may be a link, which could show any file
    of the grader in the compiler's messages.
    """
    for part in (path, *path.parents):
        if part == folder:
            break
        if part.is_symlink():
            return b"", f"{path.name}: a link instead of a file; links are not followed"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return b"", f"{path.name}: the file cannot be read: {error.strerror or error}"
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b"", f"{path.name}: no regular file, but a folder, a pipe or a device"
    with os.fdopen(handle, "rb") as file:
        return file.read(most_bytes + 1), ""
