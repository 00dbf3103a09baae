"""nbgrader's converters, which remove what they will replace before they write: here what was there comes back.

A converter makes a folder for each student. Before one is touched the room for it is taken once, and what it holds is
set aside under another name; where the disk refuses what is to be written, that becomes the folder again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback

from warpschool.atomic import output_error
from warpschool.classroom.gradebook import disk_problem
from warpschool.errors import OutputError

_SPARE_BYTES = 128 << 10
"""What a page or a notebook is larger than the hand-in that it is made of."""


class _Careful:
    """Part of a converter: `problem` is what the disk said; after it no other student's folder is touched."""

    force: bool
    problem: OutputError | None = None
    _aside: tuple[Path, Path] | None = None

    def start(self) -> None:
        """Convert; raises OutputError for what the disk refused, and what nbgrader raises."""
        try:
            with self._watched("the class's folder"):
                super().start()  # type: ignore[misc] # nbgrader's converter, in front of which this stands
        finally:
            self._settle()
        if self.problem is not None:
            raise self.problem

    def init_destination(self: Any, assignment_id: str, student_id: str) -> bool:
        """Set aside what is there, if there is room for something new."""
        self._settle()
        if self.problem is not None:
            return False
        folder = Path(os.path.normpath(self._format_dest(assignment_id, student_id)))
        try:
            _require_room(folder, _size(Path(self._format_source(assignment_id, student_id))) + _SPARE_BYTES)
            self._set_aside(folder)
        except OSError as error:  # were it raised, nbgrader would remove the folder
            self.problem = disk_problem(error, folder) or output_error(f"cannot write {folder}", error)
            return False
        with self._watched(folder):
            return bool(super().init_destination(assignment_id, student_id))  # type: ignore[misc] # as above

    def _set_aside(self, folder: Path) -> None:
        before = folder.with_name(f".{folder.name}.before")
        if before.is_dir() and not folder.exists():  # of a run that was killed
            before.rename(folder)
        shutil.rmtree(before, ignore_errors=True)
        if folder.is_dir():
            folder.rename(before)
            self._aside = folder, before

    def init_assignment(self, *arguments: Any) -> None:
        with self._watched("the class's folder"):
            super().init_assignment(*arguments)  # type: ignore[misc] # as above

    def convert_single_notebook(self, *arguments: Any) -> None:
        with self._watched("the class's folder"):
            super().convert_single_notebook(*arguments)  # type: ignore[misc] # as above

    @contextmanager
    def _watched(self, where: object) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.problem = self.problem or disk_problem(error, where)
            raise

    def _settle(self) -> None:
        """Remove what was set aside, or bring it back where the disk refused its successor."""
        if self._aside is None:
            return
        (folder, before), self._aside = self._aside, None
        if self.problem is None:
            shutil.rmtree(before, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                before.rename(folder)


def _require_room(folder: Path, count: int) -> None:
    """Raise OSError where a folder beside this one could not hold so many bytes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(prefix=f".{folder.name}.", dir=folder.parent) as file:
        for _ in range(0, count, 1 << 16):
            file.write(bytes(1 << 16))
        file.flush()


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


class Release(_Careful, GenerateAssignment):
    """`generate_assignment`."""


class Grade(_Careful, Autograde):
    """`autograde`."""


class Feedback(_Careful, GenerateFeedback):
    """`generate_feedback`."""


CONVERTERS = {"release": Release, "grade": Grade, "feedback": Feedback}
