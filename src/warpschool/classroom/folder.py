"""A class's folder: where its notebooks, hand-ins, records and results are, and what its grading.toml decides."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.grading.assignment import Assignment, read_assignment
from warpschool.grading.jobs import Policy, Store
from warpschool.grading.records import Records
from warpschool.grading.secret import read_secret
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
        return {f.parent.name: f for f in folders if f.is_dir() and not (f.is_symlink() or f.parent.is_symlink())}


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


# ---------------------------------------------------------------- grading.toml


POLICY = "grading.toml"
PYTHON = ("sandbox", "manual", "trusted")
POLICY_TEMPLATE = """\
# What this class decides. Read by every `warpschool` command in this folder.

# The sizes and data of secret cases are drawn from this file's text; keep it from students. Changing it means grading
# everybody anew. Without this line only the public cases are graded, which students have too.
secret_seed_file = "{secret_file}"

# Python cells: "sandbox" runs them in bubblewrap and leaves them to people without it; "manual" always leaves them to
# people; "trusted" runs them without a sandbox, as you.
python_cells = "sandbox"

[late]
grace_minutes = 15    # not late yet
percent_per_day = 10  # of the points earned, for each day begun after that
cap_percent = 50      # never more than this

[report]
max_pages = 3         # of a PDF handed in beside the notebook
"""


@dataclass(frozen=True)
class LatePolicy:
    """Points taken from late work: `percent_per_day` of what was earned for each day begun after the grace, capped."""

    grace_minutes: float = 0.0
    percent_per_day: float = 0.0
    cap_percent: float = 100.0

    def penalty(self, points: float, seconds_late: float) -> float:
        """Return the points that are taken off `points`."""
        if seconds_late <= 60 * self.grace_minutes or points <= 0:
            return 0.0
        days = -int(-seconds_late // 86400)
        percent = min(days * self.percent_per_day, self.cap_percent)
        return round(points * percent / 100, 6)


@dataclass(frozen=True)
class ClassPolicy:
    """All of grading.toml; without the file the public cases, no penalty, and three pages."""

    grading: Policy = field(default_factory=Policy)
    late: LatePolicy = field(default_factory=LatePolicy)
    max_pages: int = 3


def read_policy(folder: Path) -> ClassPolicy:
    """Read a class's grading.toml; raises CourseError that names the line or key that is wrong."""
    path = folder / POLICY
    if not path.is_file():
        return ClassPolicy()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: {error}") from None
    known = {"secret_seed_file": str, "python_cells": str, "seed": int, "late": dict, "report": dict}
    _require(data, known, path)
    late, report = data.get("late", {}), data.get("report", {})
    _require(late, dict.fromkeys(("grace_minutes", "percent_per_day", "cap_percent"), (int, float)), path, "late.")
    _require(report, {"max_pages": int}, path, "report.")
    python = data.get("python_cells", PYTHON[0])
    if python not in PYTHON:
        raise CourseError(f"{path}: python_cells is {python!r}", next_step=f"Choose one of {', '.join(PYTHON)}.")
    secret = read_secret(path.parent / data["secret_seed_file"]) if "secret_seed_file" in data else ""
    return ClassPolicy(
        Policy(seed=data.get("seed", 0), secret=secret, python=python), _late(late, path), report.get("max_pages", 3)
    )


def _late(data: dict[str, float], path: Path) -> LatePolicy:
    late = LatePolicy(**{key: float(value) for key, value in data.items()})
    if late.grace_minutes < 0 or late.percent_per_day < 0 or not 0 <= late.cap_percent <= 100:
        raise CourseError(f"{path}: [late] has a negative number, or a cap beyond 100 percent")
    return late


def _require(data: dict[str, Any], known: dict[str, Any], path: Path, prefix: str = "") -> None:
    for key, value in data.items():
        if key not in known:
            raise CourseError(f"{path}: there is no setting {prefix}{key}", next_step=did_you_mean(key, list(known)))
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise CourseError(f"{path}: {prefix}{key} = {value!r} is of the wrong kind")
