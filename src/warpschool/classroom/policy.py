"""grading.toml: what an instructor decides for a class."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpschool.errors import CourseError
from warpschool.grading.jobs import Policy
from warpschool.grading.secret import read_secret
from warpschool.suggest import did_you_mean

FILE = "grading.toml"
PYTHON = ("sandbox", "manual", "trusted")
TEMPLATE = """\
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
    path = folder / FILE
    if not path.is_file():
        return ClassPolicy()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: {error}") from None
    known: dict[str, Any] = dict.fromkeys(("secret_seed_file", "python_cells"), str)
    known |= {"seed": int, "late": dict, "report": dict}
    _require(data, known, path)
    late, report = data.get("late", {}), data.get("report", {})
    _require(late, dict.fromkeys(("grace_minutes", "percent_per_day", "cap_percent"), (int, float)), path, "late.")
    _require(report, {"max_pages": int}, path, "report.")
    python = data.get("python_cells", PYTHON[0])
    if python not in PYTHON:
        raise CourseError(f"{path}: python_cells is {python!r}", next_step=f"Choose one of {', '.join(PYTHON)}.")
    secret = read_secret(path.parent / data["secret_seed_file"]) if "secret_seed_file" in data else ""
    grading = Policy(seed=data.get("seed", 0), secret=secret, python=python)
    return ClassPolicy(grading, _late(late, path), report.get("max_pages", 3))


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
