"""Rubrics: what a good answer says, for the people who grade. Data in `grader/labNN_topic/rubric.md`.

A section `## <grade id>` belongs to the task of that id. Students never get them: a release leaves them out.
"""

from __future__ import annotations

import re

from warpschool.course import Course
from warpschool.errors import CourseError

_HEADING = re.compile(r"^## +(?P<id>\S+) *$", re.MULTILINE)


def read_rubrics(course: Course, lab: str) -> dict[str, str]:
    """Return grade id -> rubric (Markdown) of a lab; {} for one without. Raises CourseError for an id there twice."""
    path = course.root / "grader" / lab / "rubric.md"
    if not path.is_file():
        return {}
    text = path.read_text("utf-8")
    places = list(_HEADING.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    found: dict[str, str] = {}
    for place, end in zip(places, ends, strict=True):
        if place["id"] in found:
            raise CourseError(f"{path}: there are two sections '## {place['id']}'")
        found[place["id"]] = text[place.end() : end].strip()
    return found
