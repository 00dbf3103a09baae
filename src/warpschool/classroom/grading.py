"""Grading hand-ins of a class: jobs, results from the store or from a run, and the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from warpschool.classroom.folder import ClassFolder
from warpschool.errors import CourseError
from warpschool.grading import batch
from warpschool.grading.assignment import Assignment
from warpschool.grading.handin import HandIn
from warpschool.grading.records import Record, assemble, kernel_jobs, mixed_versions, python_job, versions_today


def jobs_of(folder: ClassFolder, assignment: Assignment, handins: Iterable[HandIn]) -> list[Any]:
    """Return every job that these hand-ins need, each once."""
    policy = folder.policy.grading
    found: dict[str, Any] = {}
    for handin in handins:
        for job in (*kernel_jobs(handin, assignment, policy).values(), python_job(handin, assignment, policy)):
            if job is not None:
                found.setdefault(job.key, job)
    return list(found.values())


def grade_handin(folder: ClassFolder, assignment: Assignment, handin: HandIn, *, student: str) -> Record:
    """Return the record of one hand-in; what neither this run nor the store knows is run here and now."""
    fresh = dict(folder.results or {})
    missing = [job for job in jobs_of(folder, assignment, [handin]) if job.key not in fresh]
    fresh |= {job.key: result for job, result in batch.run(missing, store=folder.store)}

    def known(job: Any) -> Any:
        return fresh.get(job.key)

    return assemble(handin, assignment, folder.policy.grading, student=student, result_of=known, outcome_of=known)


def require_one_version(assignment: Assignment, records: Mapping[str, Record], folder: ClassFolder) -> None:
    """Raise CourseError when these submissions were graded otherwise than one would be today: never both in a class."""
    today = versions_today(assignment, folder.policy.grading, folder.course)
    mixed = mixed_versions(records, today)
    if not mixed:
        return
    names = sorted({key for other in mixed.values() for key in other})
    lines = [f"  {key}: then {_some(mixed, key)}, now {today[key]}" for key in names[:6]]
    raise CourseError(
        f"{len(mixed)} of {len(records)} submissions of {assignment.name} were graded otherwise:\n" + "\n".join(lines),
        next_step=f"Grade all of them anew; it names every changed score: warpschool grade {assignment.name} --regrade",
    )


def _some(mixed: Mapping[str, Mapping[str, str]], key: str) -> str:
    return next(other[key] for other in mixed.values() if key in other)
