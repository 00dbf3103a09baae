"""Pictures that the course has by name, for notebooks and chapters alike: `ws.picture("lab02/tiles")`.

They stand in `labs/pictures.toml`, whose first lines tell its keys, and are made of the course's references.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.harness.source import of_course
from warpschool.show.exhibit import Exhibit
from warpschool.show.fragments import show_fragments
from warpschool.show.passes import show_passes
from warpschool.show.timeline import show_streams, show_timeline
from warpschool.show.values import show_values
from warpschool.show.walk import show_walk
from warpschool.suggest import did_you_mean

FILE = "labs/pictures.toml"


def _walk(course: Course, row: dict[str, Any]) -> Exhibit:
    return show_walk(row.pop("step"), row.pop("sizes"), source="reference", **row)


def _timeline(course: Course, row: dict[str, Any]) -> Exhibit:
    step = course.step(row.pop("step"))
    of_course(step, "reference")  # or it says what is missing
    return show_timeline(str(step.solution), row.pop("sizes"), **row)


def _fragments(course: Course, row: dict[str, Any]) -> Exhibit:
    return show_fragments(row.pop("instruction"), row.pop("shape"), row.pop("type"), **row)


def _passes(course: Course, row: dict[str, Any]) -> Exhibit:
    return show_passes(row.pop("record"), course=course, **row)


def _values(course: Course, row: dict[str, Any]) -> Exhibit:
    return show_values(row.pop("step"), row.pop("sizes"), source=row.pop("source", "reference"), **row)


def _streams(course: Course, row: dict[str, Any]) -> Exhibit:
    return show_streams(row.pop("record"), course=course, **row)


_WAYS: Mapping[str, Callable[[Course, dict[str, Any]], Exhibit]] = {
    "walk": _walk, "timeline": _timeline, "fragments": _fragments, "passes": _passes,
    "values": _values, "streams": _streams,
}  # fmt: skip


def picture(name: str, course: Course | None = None) -> Exhibit:
    """Draw the picture that is called so. Raises CourseError for an unknown name, and for a row that is none."""
    course = course or Course.find()
    rows = names(course)
    if name not in rows:
        raise CourseError(f"there is no picture '{name}'", next_step=did_you_mean(name, list(rows)))
    row = dict(rows[name])
    told, show = row.pop("told", ""), row.pop("show", "")
    if show not in _WAYS or not told:
        raise CourseError(f"{FILE}: {name} needs `told`, and a `show`", next_step=f"There are {', '.join(_WAYS)}.")
    try:
        drawn = _WAYS[show](course, row)
    except (TypeError, KeyError) as error:
        raise CourseError(f"{FILE}: {name}: {error}", next_step=f"See what show_{show} takes.") from None
    return replace(drawn, finding=f"{told} {drawn.finding}")


def names(course: Course) -> dict[str, dict[str, Any]]:
    """All pictures: lab02/tiles -> its row. Raises CourseError for a file that is no TOML."""
    path = course.root / FILE
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is no TOML: {error}", next_step="Mend that line.") from None
    return {f"{lab}/{name}": row for lab, rows in found.items() for name, row in rows.items()}
