"""Grades for other systems: CSV, Canvas, Moodle. Late penalties are computed anew from the points as they are now."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from warpschool.classroom.feedback import read_marks
from warpschool.classroom.folder import ClassFolder
from warpschool.errors import ArgumentError, CourseError


@dataclass(frozen=True)
class Line:
    """One student and assignment. `score` is what counts, after the penalty; None while something waits."""

    student: str
    first_name: str
    last_name: str
    email: str
    assignment: str
    handed_in: str
    seconds_late: float
    raw: float
    penalty: float
    score: float | None
    points: float
    waits: tuple[str, ...] = ()


def grade_lines(gradebook: Gradebook, folder: ClassFolder, assignments: Sequence[str]) -> list[Line]:
    """Return the grades of every student for these assignments; one who handed in nothing has 0."""
    known = {found.name: found for found in gradebook.assignments}
    missing = [name for name in assignments if name not in known]
    if missing:
        raise CourseError(
            f"the gradebook has no assignment {missing[0]}",
            next_step=f"It has {', '.join(known)}." if known else f"Release it first: warpschool release {missing[0]}",
        )
    wanted = list(assignments) or [name for name in sorted(known) if known[name].submissions]
    people = sorted(gradebook.students, key=lambda student: student.id)
    return [_line(gradebook, folder, name, student) for name in wanted for student in people]


def _line(gradebook: Gradebook, folder: ClassFolder, assignment: str, student: Any) -> Line:
    name = str(student.id)
    first, last, email = (str(getattr(student, key) or "") for key in ("first_name", "last_name", "email"))
    points = float(gradebook.find_assignment(assignment).max_score)
    try:
        submission = gradebook.find_submission(assignment, name)
    except MissingEntry:
        return Line(name, first, last, email, assignment, "", 0.0, 0.0, 0.0, 0.0, points)
    marks = read_marks(gradebook, folder, assignment, name)
    waits = tuple(key for key, given in marks.cells.items() if given.waits)
    time = submission.timestamp.isoformat(" ") if submission.timestamp is not None else ""
    raw = round(sum(given.score for given in marks.cells.values()), 6)
    return Line(
        name, first, last, email, assignment, time, marks.seconds_late, raw, marks.penalty,
        None if waits else marks.score, marks.points, waits,
    )  # fmt: skip


def as_csv(lines: Iterable[Line]) -> str:
    """One row for each student and assignment."""
    head = [
        "assignment", "student_id", "last_name", "first_name", "email", "handed_in", "seconds_late", "raw_score",
        "late_penalty", "score", "max_score", "waiting",
    ]  # fmt: skip
    rows = [
        [
            line.assignment, line.student, line.last_name, line.first_name, line.email, line.handed_in,
            _number(line.seconds_late), _number(line.raw), _number(line.penalty), _number(line.score),
            _number(line.points), " ".join(line.waits),
        ]
        for line in lines
    ]  # fmt: skip
    return _table(head, rows)


def as_canvas(lines: Iterable[Line], template: str) -> str:
    """Canvas' gradebook file with our scores: its own export is the template, for only Canvas knows its ids.

    Students are matched by "SIS Login ID", "SIS User ID" or "ID"; the assignment's column is the one that begins with
    its name, and is added where there is none. Open grades leave what is there.
    Raises ArgumentError where no student matches.
    """
    rows = list(csv.reader(io.StringIO(template)))
    if not rows or "Student" not in rows[0]:
        raise ArgumentError("this is no gradebook exported from Canvas: its first line has no column 'Student'")
    head, body = rows[0], rows[1:]
    keys = [head.index(name) for name in ("SIS Login ID", "SIS User ID", "ID") if name in head]
    found = _by_student(lines)
    matched = 0
    for assignment in dict.fromkeys(line.assignment for group in found.values() for line in group.values()):
        column = next((n for n, name in enumerate(head) if name.split(" (")[0] == assignment), len(head))
        if column == len(head):
            head.append(assignment)
        points = next(group[assignment].points for group in found.values() if assignment in group)
        for row in body:
            row += [""] * (len(head) - len(row))
            if row[head.index("Student")].strip().startswith("Points Possible"):
                row[column] = _number(points)
                continue
            line = next((found[row[key]].get(assignment) for key in keys if row[key] in found), None)
            if line is not None:
                matched += 1
                row[column] = _number(line.score) or row[column]
    if not matched:
        raise ArgumentError(
            "no student of the gradebook is in Canvas' file",
            next_step="Student ids here must be Canvas' SIS Login ID, SIS User ID or ID.",
        )
    return _table(head, body)


def as_moodle(lines: Iterable[Line]) -> str:
    """A file for Moodle's grade import: one row for each student, one column for each assignment."""
    found = _by_student(lines)
    assignments = list(dict.fromkeys(name for group in found.values() for name in group))
    rows = []
    for student, group in found.items():
        person = next(iter(group.values()))
        scores = [_number(group[name].score) if name in group else "" for name in assignments]
        rows.append([student, person.email, person.first_name, person.last_name, *scores])
    return _table(["ID number", "Email address", "First name", "Last name", *assignments], rows)


FORMATS: Mapping[str, Callable[[list[Line]], str]] = {"csv": as_csv, "moodle": as_moodle}


def read_template(path: Path) -> str:
    """Read Canvas' export; raises ArgumentError."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(
            f"cannot read {path}: {error}", next_step="Export it from Canvas: Grades, Export."
        ) from None


def _by_student(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        found.setdefault(line.student, {})[line.assignment] = line
    return found


def _number(value: float | None) -> str:
    return "" if value is None else f"{round(value, 4):g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """CSV that no spreadsheet takes for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_harmless(text) for text in row] for row in rows)
    return out.getvalue()


def _harmless(text: str) -> str:
    """A text that begins like a formula gets a quote before it; numbers stay numbers."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
