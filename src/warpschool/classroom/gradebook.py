"""Scores and comments in nbgrader's gradebook: what people have entered survives where the answer is unchanged.

All is written in short, whole transactions, beside formgrader and other writers. Late penalties are computed anew as
points change.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbgrader.api import Grade, Gradebook
from nbgrader.plugins import LateSubmissionPlugin
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from warpschool.atomic import REFUSALS, output_error
from warpschool.classroom.folder import LatePolicy, read_policy
from warpschool.errors import CourseError, OutputError
from warpschool.grading.records import CellScore, CellState, Record
from warpschool.grading.result import Result

MAX_COMMENT = 600


def apply(record: Record, gradebook: Gradebook, *, before: Record | None) -> None:
    """Write a record's scores, in one transaction; `before` is the record that the gradebook was last written from.

    Raises CourseError when the gradebook knows other cells or points than the record.
    """
    with transaction(gradebook):
        notebook = gradebook.find_submission_notebook(record.assignment, record.assignment, record.student)
        grades = {grade.name: grade for grade in notebook.grades}
        comments = {comment.name: comment for comment in notebook.comments}
        _require_same_points(record, grades)
        for score in record.cells:
            _write(grades[score.grade_id], score, before.cell(score.grade_id) if before is not None else None)
            if score.grade_id in comments:
                comments[score.grade_id].auto_comment = score.text or None
        for name, step in _kernel_comments(record).items():
            if name in comments:
                comments[name].auto_comment = step


def _write(grade: Grade, new: CellScore, old: CellScore | None) -> None:
    """A score that a person gave stays; it is to be looked at again only where what it was given for has changed."""
    is_graded = new.state is CellState.GRADED
    same = old is not None and (old.answer, old.points) == (new.answer, new.points)
    if is_graded:
        same = same and old is not None and old.score == new.score
    grade.auto_score = new.score
    if grade.manual_score is None or not same:
        grade.needs_manual_grade = grade.manual_score is not None or not is_graded


def _require_same_points(record: Record, grades: dict[str, Grade]) -> None:
    """Fail closed: nobody gets a zero for a cell that only one side knows, or knows with other points."""
    known = {name: float(grade.max_score) for name, grade in grades.items()}
    wanted = {cell.grade_id: cell.points for cell in record.cells}
    for name in sorted(known.keys() | wanted.keys()):
        if known.get(name) != wanted.get(name):
            here, there = (f"{p:g} points" if p is not None else "nothing" for p in (known.get(name), wanted.get(name)))
            raise CourseError(
                f"{record.assignment}: for {name} the gradebook has {here}, the instructor's notebook {there}",
                next_step=f"The notebook was changed after its release. Run: warpschool release {record.assignment}",
            )


def _kernel_comments(record: Record) -> dict[str, str]:
    """Grade id of each kernel cell -> what its comment says."""
    return {name: comment(record.results[step]) for name, step in record.kernel_cells.items() if step in record.results}


def comment(result: Result) -> str:
    """Return a result in a few words for students: the verdict, the line, and the first thing that was seen."""
    result = result.for_student()
    failed = [f"{c.title}: {_seen(c.seen, c.line)}" for c in result.criteria if not c.ok and c.is_judged]
    told = [_seen(result.seen, result.line)] if result.seen else failed[:3]
    return "\n".join([f"{result.verdict}: {result.verdict.meaning}.", *told])[:MAX_COMMENT]


def _seen(text: str, line: int) -> str:
    first = text.strip().split("\n", 1)[0]
    return f"line {line}: {first}" if line and f":{line}:" not in first else first


# ---------------------------------------------------------------- transactions


TRIES = 5
_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def disk_problem(error: BaseException, where: object) -> OutputError | None:
    """What to say of an error that the disk is the reason of, a full one or one that is read-only; None for others.

    `where`: what was to be written, for errors that do not name it.
    """
    if isinstance(error, OutputError):
        return error
    if isinstance(error, OSError) and error.errno in REFUSALS:
        return output_error(f"cannot write {error.filename or where}", error)
    if isinstance(error, DBAPIError) and getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _DISK:
        return OutputError(
            f"cannot write the gradebook: {error.orig}",
            next_step="Make room, or let it be written, and run the same command again; what it held is still there.",
        )
    return None


@contextmanager
def telling_disk_problems(where: object) -> Iterator[None]:
    """Raise OutputError for what the disk refuses; other errors stay what they are."""
    try:
        yield
    except (OSError, DBAPIError) as error:
        if problem := disk_problem(error, where):
            raise problem from None
        raise


@contextmanager
def transaction(gradebook: Gradebook) -> Iterator[None]:
    """Hold the write lock from the first read to the commit, so that what people enter meanwhile is never overwritten.

    Raises OutputError when others keep the database locked for minutes, and where the disk takes no more.
    """
    database = gradebook.db
    database.rollback()
    for attempt in range(TRIES):
        try:
            if database.get_bind().dialect.name == "sqlite":
                database.execute(text("BEGIN IMMEDIATE"))
            break
        except OperationalError as error:
            database.rollback()
            if problem := disk_problem(error, "the gradebook"):
                raise problem from None
            if attempt == TRIES - 1:
                raise OutputError(
                    f"the gradebook is locked: {error.orig}",
                    next_step="Close what else writes to it, and run this again.",
                ) from None
            time.sleep(1 << attempt)
    database.expire_all()
    try:
        yield
        database.commit()
    except BaseException:
        database.rollback()
        raise


# ---------------------------------------------------------------- the late policy


class LatePenalty(LateSubmissionPlugin):
    """nbgrader asks this while it grades; people's points come later, so `recompute` has the last word."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the points to take off one notebook's score."""
        return read_policy(Path(coursedir_of(self).root)).late.penalty(score, total_seconds_late)


def recompute(gradebook: Gradebook, assignment: str, policy: LatePolicy) -> None:
    """Write the penalty of every submission anew, from the points that it has now, people's included."""
    with transaction(gradebook):
        for submission in gradebook.assignment_submissions(assignment):
            for notebook in submission.notebooks:
                late = policy.penalty(notebook.score, submission.total_seconds_late)
                if (notebook.late_submission_penalty or 0.0) != late:
                    notebook.late_submission_penalty = late or None


def coursedir_of(part: Any) -> Any:
    """nbgrader's CourseDirectory, from any part of a converter."""
    while part is not None and getattr(part, "coursedir", None) is None:
        part = part.parent
    return part.coursedir
