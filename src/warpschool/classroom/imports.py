"""Submissions out of the zip files that Canvas and Moodle give: into `submitted/STUDENT/ASSIGNMENT/`.

Links, pipes and devices in a hand-in are moved aside before nbgrader copies what it finds.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from warpschool.atomic import output_error, write_files
from warpschool.errors import ArgumentError, OutputError
from warpschool.grading.handin import MAX_NOTEBOOK_BYTES

MAX_MEMBERS = 20_000
MAX_RATIO = 200
"""unpacked to packed bytes: more is no notebook"""
SUFFIXES = {".ipynb", ".pdf"}
_CANVAS = re.compile(r"(?P<who>[a-z0-9-]+?)(?P<late>_LATE)?_(?P<user>\d+)_(?P<file>\d+)_(?P<name>.+)", re.IGNORECASE)
_MOODLE = re.compile(r"(?P<who>.+?)_(?P<user>\d+)_assignsubmission_\w+")
_AGAIN = re.compile(r"-\d+(?=\.\w+$)")
"""Canvas puts the number of the attempt behind a resubmitted file's name"""
_STUDENT = re.compile(r"[A-Za-z0-9][\w.@-]*")


@dataclass(frozen=True)
class Arrival:
    """One file of a student: the member of the zip, and where it goes."""

    student: str
    member: str
    name: str
    modified: datetime


@dataclass(frozen=True)
class Import:
    """What an import did: student -> names of files; members that were left alone, with the reason."""

    taken: Mapping[str, tuple[str, ...]]
    left: Mapping[str, str]


def import_zip(
    archive: Path, target: Path, assignment: str, *, students: Mapping[str, str] | None = None,
    handed_in: datetime | None = None,
) -> Import:  # fmt: skip
    """Unpack a Canvas or Moodle zip of one assignment below `target` (nbgrader's `submitted/`).

    `students`: name in the zip -> student id, where they differ; without, "José Gil" of Moodle is `jose-gil`. A
    student's newest notebook becomes `ASSIGNMENT.ipynb`, a PDF `report.pdf`. `handed_in` replaces the times in the zip.
    Raises ArgumentError for a file that is no zip, OutputError for a full disk; never writes outside `target`.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            return _unpack(packed, target, assignment, students or {}, handed_in)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"cannot read {archive}: {why}", next_step="Name the zip as Canvas or Moodle gave it."
        ) from None


def _unpack(
    packed: zipfile.ZipFile, target: Path, assignment: str, students: Mapping[str, str], handed_in: datetime | None
) -> Import:
    if len(packed.infolist()) > MAX_MEMBERS:
        raise ArgumentError(f"the zip has {len(packed.infolist()):,} members; at most {MAX_MEMBERS:,}")
    left: dict[str, str] = {}
    arrivals = sorted(_arrivals(packed, students, left), key=lambda arrival: arrival.modified)
    chosen = {(arrival.student, Path(arrival.name).suffix.lower()): arrival for arrival in arrivals}
    taken: dict[str, tuple[str, ...]] = {}
    for (student, suffix), arrival in sorted(chosen.items()):
        folder = target / student / assignment
        name = f"{assignment}.ipynb" if suffix == ".ipynb" else "report.pdf"
        if folder.is_symlink() or folder.parent.is_symlink():
            left[arrival.member] = f"{folder} is a link"
            continue
        contents: dict[Path, str | bytes] = {folder / name: packed.read(arrival.member)}
        if suffix == ".ipynb":
            time = (handed_in or arrival.modified).astimezone(UTC)
            contents[folder / "timestamp.txt"] = f"{time:%Y-%m-%d %H:%M:%S} UTC\n"
        _put(folder, contents)
        taken[student] = (*taken.get(student, ()), name)
    return Import(taken, left)


def _put(folder: Path, contents: Mapping[Path, str | bytes]) -> None:
    """Write a hand-in's files, all or none; a folder that was made for nothing goes again. Raises OutputError."""
    is_new = not folder.exists()
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(f"cannot make {folder}", error) from None
        write_files(contents)
    except OutputError as error:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()  # only if it is empty
        advice = f"{error.next_step} Then run the same command again: what arrived stays.".lstrip()
        raise OutputError(error.message, next_step=advice) from None


def _arrivals(packed: zipfile.ZipFile, students: Mapping[str, str], left: dict[str, str]) -> Iterator[Arrival]:
    members = [info for info in packed.infolist() if not info.is_dir()]
    paths = [PurePosixPath(info.filename.replace("\\", "/")) for info in members]
    ids = _ids({_whose(path)[:2] for path in paths})
    for info, path in zip(members, paths, strict=True):
        who, user, name = _whose(path)
        student = students.get(who, ids[who, user])
        problem = _problem(info, path, student)
        if problem:
            left[info.filename] = problem
        else:
            yield Arrival(student, info.filename, name, datetime(*info.date_time).astimezone())


def _problem(info: zipfile.ZipInfo, path: PurePosixPath, student: str) -> str:
    """Why a member of the zip is not taken, or ""."""
    problems = {
        "its name leads out of the zip": path.is_absolute() or ".." in path.parts,
        "it is a link": stat.S_ISLNK(info.external_attr >> 16),
        "it is neither a notebook nor a PDF": path.suffix.lower() not in SUFFIXES,
        f"it is too large: {info.file_size:,} bytes": info.file_size > MAX_NOTEBOOK_BYTES,
        "it is packed too tightly to be a notebook": info.file_size > MAX_RATIO * max(info.compress_size, 1024),
        "its name does not say whose it is: give a list of students (--students)": not _STUDENT.fullmatch(student),
    }
    return next((problem for problem, is_so in problems.items() if is_so), "")


def _whose(path: PurePosixPath) -> tuple[str, str, str]:
    """Who handed a file in, their number there, and its own name, from the names that Canvas and Moodle make."""
    if len(path.parts) > 1:  # Moodle: a folder for each student
        match = _MOODLE.fullmatch(path.parts[-2])
        return (match["who"], match["user"], path.name) if match else (path.parts[-2], "", path.name)
    match = _CANVAS.fullmatch(path.name)
    return (match["who"], match["user"], _AGAIN.sub("", match["name"])) if match else ("", "", path.name)


def _ids(people: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A student id for everybody: the name where it is one, else its letters without accents: "José Gil" is "jose-gil".

    Of two people whose names give one id, each gets the platform's number behind it.
    """
    is_id = {person: person[0].isascii() and bool(_STUDENT.fullmatch(person[0])) for person in people}
    found = {person: person[0] if is_id[person] else _plain(*person) for person in people}
    often = Counter(found.values())
    return {(who, user): f"{name}-{user}" if often[name] > 1 and user else name for (who, user), name in found.items()}


def _plain(who: str, user: str) -> str:
    letters = unicodedata.normalize("NFKD", who).encode("ascii", "ignore").decode().lower()
    if len(letters) < len(who) / 2:  # written in another alphabet
        return f"user-{user}" if user and who.strip(" .") else ""
    return "-".join(re.findall(r"[a-z0-9]+", letters))


def read_students(path: Path) -> dict[str, str]:
    """Read "name in the zip,student id" lines; raises ArgumentError."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"cannot read {path}: {why}", next_step="Write lines of: name in the zip,student id"
        ) from None
    found = {}
    for number, line in enumerate(lines, start=1):
        name, comma, student = line.rpartition(",")
        if not line.strip():
            continue
        if not comma or not _STUDENT.fullmatch(student.strip()):
            raise ArgumentError(f"{path}:{number}: expected 'name in the zip,student id', not {line!r}")
        found[name.strip()] = student.strip()
    return found


# ---------------------------------------------------------------- quarantine


MAX_FILE_BYTES = 100 << 20


def before_copying(*, notebooks: Sequence[str], **_: Any) -> None:
    """nbgrader calls this with a submission's notebooks before it copies the files around them."""
    for folder in {Path(notebook).parent for notebook in notebooks}:
        clear(folder)


def clear(folder: Path) -> list[Path]:
    """Move what is no regular file, or larger than 100 MB, to `quarantine/` beside `submitted/`; return what was moved.

    A notebook that is a link stays as an empty file of that name, so that it is graded as unreadable.
    """
    root = folder.parents[2] / "quarantine" / folder.parent.name / folder.name
    moved = []
    for path in _strange(folder):
        target = root / f"{len(list(root.glob('*')))}-{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)
        if path.suffix == ".ipynb":
            path.touch()
        moved.append(path)
    return moved


def _strange(folder: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(current) / name
            about = path.lstat()
            is_fine = stat.S_ISREG(about.st_mode) and about.st_size <= MAX_FILE_BYTES
            if not is_fine and not stat.S_ISDIR(about.st_mode):
                yield path
