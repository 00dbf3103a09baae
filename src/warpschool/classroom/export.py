"""Grades for other systems: CSV, Canvas, Moodle. Late penalties are computed anew from the points as they are now."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from warpschool.classroom.feedback import read_marks
from warpschool.classroom.folder import ClassFolder
from warpschool.classroom.roster import Student, everybody
from warpschool.errors import ArgumentError, CourseError
from warpschool.grading.records import Record, is_new


@dataclass(frozen=True)
class Line:
    """One student and assignment. `score` is what counts, after the penalty; None while something waits.

    `waits`: cells that a person has to look at, or in words what else has to be done first; `notes`: what the grader
    of the hand-in noticed, such as deleted cells.
    """

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
    notes: tuple[str, ...] = ()


NOT_GRADED, CHANGED, NO_NOTEBOOK = "not graded yet", "changed since it was graded", "handed in under another name"


def grade_lines(gradebook: Gradebook, folder: ClassFolder, assignments: Sequence[str]) -> list[Line]:
    """Return the grades of everybody in the class for these assignments, of all that somebody handed in where none is
    named. One who handed in nothing has 0; a hand-in that was not graded waits."""
    known = {found.name: found for found in gradebook.assignments}
    missing = [name for name in assignments if name not in known]
    if missing:
        raise CourseError(
            f"the gradebook has no assignment {missing[0]}",
            next_step=f"It has {', '.join(known)}." if known else f"Release it first: warpschool release {missing[0]}",
        )
    wanted = list(assignments) or [name for name in sorted(known) if known[name].submissions or folder.handins(name)]
    people = everybody(gradebook, folder)
    return [line for name in wanted for line in _lines(gradebook, folder, name, people)]


def _lines(gradebook: Gradebook, folder: ClassFolder, assignment: str, people: Sequence[Student]) -> Iterator[Line]:
    handins, records = folder.handins(assignment), folder.records.of(assignment)
    points = float(gradebook.find_assignment(assignment).max_score)
    for person in people:
        record, handin = records.get(person.id), handins.get(person.id)
        about = (person.id, person.first_name, person.last_name, person.email, assignment)
        notes = tuple(filter(None, (record.problem, *record.notes, record.report))) if record is not None else ()
        undone = _undone(handin / f"{assignment}.ipynb", record) if handin is not None else ()
        try:
            submission = gradebook.find_submission(assignment, person.id)
        except MissingEntry:
            yield Line(*about, "", 0.0, 0.0, 0.0, None if undone else 0.0, points, undone, notes)
            continue
        marks = read_marks(gradebook, folder, assignment, person.id)
        waits = (*undone, *(key for key, given in marks.cells.items() if given.waits))
        time = submission.timestamp.isoformat(" ") if submission.timestamp is not None else ""
        raw = round(sum(given.score for given in marks.cells.values()), 6)
        yield Line(
            *about, time, marks.seconds_late, raw, marks.penalty, None if waits else marks.score, marks.points, waits,
            notes,
        )  # fmt: skip


def _undone(notebook: Path, record: Record | None) -> tuple[str, ...]:
    """What has to be done with a hand-in before it has a grade at all; () where nothing has."""
    if not os.path.lexists(notebook):
        return (NO_NOTEBOOK,)
    if record is None:
        return (NOT_GRADED,)
    return (CHANGED,) if is_new(record, notebook) else ()


def as_csv(lines: Iterable[Line]) -> str:
    """One row for each student and assignment."""
    head = [
        "assignment", "student_id", "last_name", "first_name", "email", "handed_in", "seconds_late", "raw_score",
        "late_penalty", "score", "max_score", "waiting", "notes",
    ]  # fmt: skip
    rows = [
        [
            line.assignment, line.student, line.last_name, line.first_name, line.email, line.handed_in,
            _number(line.seconds_late), _number(line.raw), _number(line.penalty), _number(line.score),
            _number(line.points), "; ".join(line.waits), "; ".join(line.notes),
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
