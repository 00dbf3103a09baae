"""Who is in a class: nbgrader's students, `roster.csv` where the class has one, and everybody who handed in."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook

from warpschool.classroom.folder import ClassFolder
from warpschool.errors import CourseError

ROSTER = "roster.csv"
_EXPECTED = "Its first line names the columns: id, and if known first_name, last_name, email; as in nbgrader."


@dataclass(frozen=True)
class Student:
    """A student of the class; what is not known is ""."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""


def everybody(gradebook: Gradebook, folder: ClassFolder) -> list[Student]:
    """Return each student once, by id: the gradebook's names count, then the roster's; a hand-in has only an id."""
    found = {name: Student(name) for assignment in folder.names() for name in folder.handins(assignment)}
    found |= {student.id: student for student in read_roster(folder.root / ROSTER)}
    for known in gradebook.students:
        listed = found.get(str(known.id), Student(str(known.id)))
        found[listed.id] = Student(
            listed.id, known.first_name or listed.first_name, known.last_name or listed.last_name,
            known.email or listed.email,
        )  # fmt: skip
    return [found[name] for name in sorted(found)]


def read_roster(path: Path) -> list[Student]:
    """Read a class list, nothing where there is none; raises CourseError, with the line, for one that is wrong."""
    if not path.exists():
        return []
    try:
        rows = list(csv.DictReader(path.read_text("utf-8-sig").splitlines(), skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"cannot read {path}: {error}", next_step=_EXPECTED) from None
    found: dict[str, Student] = {}
    for number, row in enumerate(rows, start=2):
        fields = {key: (row.get(key) or "").strip() for key in ("id", "first_name", "last_name", "email")}
        name = fields["id"]
        if not name or "/" in name or name in (".", ".."):
            raise CourseError(f"{path}:{number}: there is no student id", next_step=_EXPECTED)
        if name in found:
            raise CourseError(f"{path}:{number}: {name} is there twice", next_step="Keep one of the lines.")
        found[name] = Student(**fields)
    return list(found.values())
