"""A class's folder: where its notebooks, hand-ins, records and results are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from warpschool.classroom.policy import ClassPolicy, read_policy
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading.assignment import Assignment, read_assignment
from warpschool.grading.records import Records
from warpschool.grading.store import Store
from warpschool.suggest import did_you_mean

CONFIG = "nbgrader_config.py"
GRADING = "grading"


@dataclass(frozen=True)
class ClassFolder:
    """The folders of a class; `source` and `submitted` are nbgrader's names for two of them."""

    root: Path
    source: str = "source"
    submitted: str = "submitted"
    results: Mapping[str, Any] | None = field(default=None, compare=False)
    """what a run of `grade_class` has found out: key of a job -> its result, failures included; None outside of one"""

    @cached_property
    def policy(self) -> ClassPolicy:
        return read_policy(self.root)

    @cached_property
    def course(self) -> Course:
        """The content whose graders judge: the checkout's, else the package's."""
        return Course.find()

    @cached_property
    def records(self) -> Records:
        return Records(self.root / GRADING / "records")

    @cached_property
    def pending(self) -> Records:
        """Records that are not in the gradebook yet."""
        return Records(self.root / GRADING / "pending")

    @cached_property
    def store(self) -> Store:
        return Store(self.root / GRADING / "results")

    def assignment(self, name: str) -> Assignment:
        """Read an assignment's notebook; raises CourseError with what there is."""
        path = self.root / self.source / name / f"{name}.ipynb"
        if not path.is_file():
            found = sorted(path.parent.name for path in (self.root / self.source).glob("*/*.ipynb"))
            raise CourseError(
                f"there is no notebook {path}",
                next_step=f"Assignments here: {', '.join(found)}." if found else "Make a class: warpschool quickstart",
            )
        return read_assignment(path)

    def names(self) -> list[str]:
        """The assignments that have a notebook, in order."""
        return sorted(p.stem for p in (self.root / self.source).glob("*/*.ipynb") if p.stem == p.parent.name)

    def find(self, name: str) -> str:
        """Return the assignment that a name or the unambiguous beginning of one means; raises CourseError."""
        names = self.names()
        found = [full for full in names if full == name] or [full for full in names if name and full.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise CourseError(f"'{name}' could be any of {', '.join(found)}", next_step="Write more of the name.")
        advice = did_you_mean(name, names) if names else f"There are no notebooks in {self.root / self.source}."
        raise CourseError(f"the class has no assignment '{name}'", next_step=advice)

    def handins(self, assignment: str) -> dict[str, Path]:
        """Return student -> folder of what was handed in for an assignment, in order; links are no hand-ins."""
        folders = sorted((self.root / self.submitted).glob(f"*/{assignment}"))
        real = (f for f in folders if f.is_dir() and not (f.is_symlink() or f.parent.is_symlink()))
        return {folder.parent.name: folder for folder in real}


def folder_of(coursedir: Any) -> ClassFolder:
    """Return the class that nbgrader's CourseDirectory object stands for."""
    results = getattr(coursedir, "warpschool_results", None)
    return ClassFolder(Path(coursedir.root), coursedir.source_directory, coursedir.submitted_directory, results)


def find_class(folder: Path) -> Path:
    """Return the class's root at or above a folder; raises CourseError."""
    start = folder.resolve()
    for candidate in (start, *start.parents):
        if (candidate / CONFIG).is_file():
            return candidate
    raise CourseError(
        f"{folder} is in no class's folder: there is no {CONFIG} at or above it",
        next_step="Make a class: warpschool quickstart DIR; or name its folder: --class DIR",
    )
