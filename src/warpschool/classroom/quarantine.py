"""Links, pipes and devices in a hand-in: moved aside before nbgrader copies what it finds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 100 << 20


def before_copying(*, notebooks: Sequence[str], **_: Any) -> None:
    """nbgrader calls this with a submission's notebooks before it copies the files around them."""
    for folder in {Path(notebook).parent for notebook in notebooks}:
        clear(folder)


def clear(folder: Path) -> list[Path]:
    """Move what is no regular file, or larger than 100 MB, to `quarantine/` beside `submitted/`; return what was moved.

    A notebook that is a link stays as an empty file of that name, so that it is graded as unreadable.
    """
    root = folder.parents[2] / "quarantine" / folder.parent.name / folder.name
    moved = []
    for path in _strange(folder):
        target = root / f"{len(list(root.glob('*')))}-{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)
        if path.suffix == ".ipynb":
            path.touch()
        moved.append(path)
    return moved


def _strange(folder: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(current) / name
            about = path.lstat()
            if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)) or (
                stat.S_ISREG(about.st_mode) and about.st_size > MAX_FILE_BYTES
            ):
                yield path
