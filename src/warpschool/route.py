"""The way through a course's labs: what each stands on, an estimate of its hours, and paths for different aims.

The data stand in `labs/route.toml`, whose comments tell what its keys mean. A course without the file has no route; a
lab that the file does not name stands on nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from warpschool.course import Course, Lab, Step
from warpschool.errors import CourseError

FILE = "labs/route.toml"
_LINES = re.compile(r"\(about (\d+) lines?\)")
_CODE = re.compile(r"^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Rates:
    """Minutes that the estimate takes for what it counts."""

    for_100_words: float
    for_a_step: float
    for_a_line: float
    for_the_explanation: float


@dataclass(frozen=True)
class Counted:
    """What the estimate of a lab, or of a part of it, counts."""

    words: float
    steps: int
    lines: int
    explanations: float

    def minutes(self, rates: Rates) -> float:
        """How long that takes at these rates."""
        return (
            self.words / 100 * rates.for_100_words + self.steps * rates.for_a_step
            + self.lines * rates.for_a_line + self.explanations * rates.for_the_explanation
        )  # fmt: skip


@dataclass(frozen=True)
class Waypoint:
    """One lab of the route. `needs` and `uses` are names of labs; hours are an estimate, no measurement."""

    lab: Lab
    about: str
    needs: tuple[str, ...]
    uses: tuple[str, ...]
    counted: Counted
    hours: float


@dataclass(frozen=True)
class Stage:
    """A part of a path: when, what (labs or steps by name), what is handed in at its end."""

    when: str
    steps: tuple[Step, ...]
    hand_in: str
    hours: float


@dataclass(frozen=True)
class Track:
    """One way through some of the labs."""

    name: str
    told: str
    stages: tuple[Stage, ...]

    @property
    def hours(self) -> float:
        return sum(stage.hours for stage in self.stages)

    @property
    def labs(self) -> tuple[str, ...]:
        """The labs that it touches, each once."""
        return tuple(dict.fromkeys(step.lab for stage in self.stages for step in stage.steps))


@dataclass(frozen=True)
class Route:
    """All labs of a course, and the paths."""

    rates: Rates
    waypoints: tuple[Waypoint, ...]
    tracks: tuple[Track, ...]

    def here(self, done: Mapping[str, tuple[int, int, int]]) -> Waypoint | None:
        """Where somebody is: the last lab that is begun and not complete, else the first whose needs are complete.

        `done`: lab -> (steps accepted, steps begun or accepted, steps). None where everything is complete.
        """
        complete = {lab for lab, (accepted, _, steps) in done.items() if accepted == steps}
        left = [point for point in self.waypoints if point.lab.name not in complete]
        begun = [point for point in left if done[point.lab.name][1]]
        ready = [point for point in left if complete.issuperset(point.needs)]
        return begun[-1] if begun else ready[0] if ready else left[0] if left else None


def read_route(course: Course) -> Route | None:
    """The route of a course, None where it has none. Raises CourseError for a file that is broken or names no lab."""
    file = course.root / FILE
    if not file.is_file():
        return None
    try:
        found = tomllib.loads(file.read_text("utf-8"))
        rates = Rates(**found["estimate"])
        labs = {course.lab(name).name: row for name, row in found["labs"].items()}
        points = tuple(_waypoint(course, lab, labs.get(lab.name, {}), rates) for lab in course.labs())
        tracks = tuple(_track(course, row, rates) for row in found.get("paths", ()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise CourseError(f"{file} is no route: {error}", next_step="Its first lines say what it holds.") from None
    return Route(rates, points, tracks)


def count(lab: Lab, steps: Iterable[Step] | None = None) -> Counted:
    """What there is to read and to write in a lab; of some of its steps with their share of text and explanation."""
    chosen = lab.steps if steps is None else tuple(steps)
    share = len(chosen) / len(lab.steps) if lab.steps else 1.0
    text = lab.notebook.with_suffix(".md") if lab.notebook is not None else None
    told = text.read_text("utf-8") if text is not None and text.is_file() else ""
    lines = sum(_lines(step) for step in chosen)
    return Counted(len(_CODE.sub("", told).split()) * share, len(chosen), lines, told.count('task="') * share)


def _lines(step: Step) -> int:
    """Lines that the starter asks for."""
    return sum(map(int, _LINES.findall(step.starter.read_text("utf-8")))) if step.starter is not None else 0


def _waypoint(course: Course, lab: Lab, row: Mapping[str, Any], rates: Rates) -> Waypoint:
    needs, uses = (tuple(course.lab(name).name for name in row.get(key, ())) for key in ("needs", "uses"))
    counted = count(lab)
    return Waypoint(lab, row.get("about", ""), needs, uses, counted, counted.minutes(rates) / 60)


def _track(course: Course, row: Mapping[str, Any], rates: Rates) -> Track:
    return Track(row["name"], row["told"], tuple(_stage(course, stage, rates) for stage in row["stages"]))


def _stage(course: Course, row: Mapping[str, Any], rates: Rates) -> Stage:
    steps: list[Step] = []
    for name in row["labs"]:
        steps += [course.step(name)] if "/" in name else course.lab(name).steps
    by_lab = {name: [step for step in steps if step.lab == name] for name in dict.fromkeys(s.lab for s in steps)}
    minutes = sum(count(course.lab(name), own).minutes(rates) for name, own in by_lab.items())
    return Stage(row["when"], tuple(steps), row.get("hand_in", ""), minutes / 60)
