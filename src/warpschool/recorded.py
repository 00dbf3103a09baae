"""What was measured and recorded in a course's benchmarks/results: one reader for all that show it.

    recorded("gemm_h200.json")["rows"]                       # raises CourseError where it was not recorded
    for result in results("winograd_*.json"): ...            # nothing where nothing was recorded
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.errors import CourseError

FOLDER = Path("benchmarks", "results")


def results(pattern: str, *, course: Course | None = None) -> tuple[dict[str, Any], ...]:
    """Return the results in all files of a pattern, in the order of their names; none where nothing was recorded.

    Raises CourseError for a file that holds no result.
    """
    folder = (course or Course.find()).root / FOLDER
    return tuple(_read(path) for path in sorted(folder.glob(pattern)))


def recorded(name: str, *, course: Course | None = None) -> dict[str, Any]:
    """Return the result in one file; raises CourseError, with what there is, where it was not recorded."""
    found = course or Course.find()
    for result in results(name, course=found):
        return result
    known = sorted(path.name for path in (found.root / FOLDER).glob("*.json"))
    raise CourseError(
        f"{FOLDER / name} was not recorded",
        next_step=f"There are {', '.join(known)}." if known else "The scripts in benchmarks/ measure and record.",
    )


def beside_best(stem: str, *, course: Course | None = None) -> dict[str, Any] | None:
    """Return the result of a convolutions' benchmark whose rows have cuDNN's fastest algorithm beside them.

    One of an H200 before one of another card; None where nothing was recorded so.
    """
    found = [one for one in results(f"{stem}_*.json", course=course) if all("best" in row for row in one["rows"])]
    return min(found, key=lambda one: "H200" not in one["device"], default=None)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CourseError(f"{path} is no result: {error}", next_step="Restore it, or measure anew.") from None
    if not isinstance(found, dict):
        raise CourseError(f"{path} is no result: it holds no object", next_step="Restore it, or measure anew.")
    return found
