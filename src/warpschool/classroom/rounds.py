"""One round of grading a class: what is new or changed, graded side by side, then written one after the other."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ptxsim import system
from warpschool.classroom.folder import GRADING, ClassFolder
from warpschool.classroom.gradebook import telling_disk_problems
from warpschool.classroom.imports import clear
from warpschool.classroom.nbgrader_app import ClassApp
from warpschool.errors import CourseError, GradingError, OutputError, WarpschoolError
from warpschool.grading import cluster
from warpschool.grading.assignment import Assignment
from warpschool.grading.handin import HandIn, read_handin, share_of_cells
from warpschool.grading.records import (
    CellState,
    Record,
    assemble,
    is_new,
    kernel_jobs,
    mixed_versions,
    python_job,
    versions_today,
)


@dataclass(frozen=True)
class Where:
    """Where jobs run; see `warpschool.grading.cluster.run`."""

    workers: int = 1
    scheduler: str | None = None
    slurm: bool = False


HERE = Where()
MAX_SEARCHED = 100
"""notebooks of a student's that are looked into"""
MOST = 0.5
"""of an assignment's cells, for a notebook to be taken for it"""


@dataclass(frozen=True)
class Change:
    """A cell's score before and after; None where there was none, or where it waits for a person."""

    student: str
    grade_id: str
    before: float | None
    after: float | None
    points: float


@dataclass(frozen=True)
class Round:
    """What a round did: records of the graded, who was left alone and why, whom nbgrader could not process.

    `waits`: student -> cells that a person has to look at, of everybody who is graded, as the gradebook has it now;
    `offered`: student without the notebook -> files that look like it, the likeliest first.
    """

    assignment: str
    graded: Mapping[str, Record]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    without_notebook: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    moved: tuple[str, ...] = ()


def plan(folder: ClassFolder, assignment: Assignment, *, students: Sequence[str], regrade: bool) -> dict[str, Any]:
    """Return student -> notebook path of what is to be graded; raises CourseError where versions would be mixed."""
    handins = folder.handins(assignment.name)
    unknown = sorted(set(students) - handins.keys())
    if unknown:
        raise CourseError(
            f"{', '.join(unknown)} handed in nothing for {assignment.name}",
            next_step=f"There is: {', '.join(list(handins)[:12]) or 'nothing'}.",
        )
    chosen = {name: path for name, path in handins.items() if not students or name in students}
    records = folder.records.of(assignment.name)
    stays = {name: record for name, record in records.items() if not (regrade and name in chosen)}
    require_one_version(assignment, stays, folder)
    wanted = {}
    for student, path in chosen.items():
        notebook = path / f"{assignment.name}.ipynb"
        if os.path.lexists(notebook) and (regrade or is_new(records.get(student), notebook)):
            wanted[student] = notebook
    return wanted


def grade_class(
    app: ClassApp, name: str, *, students: Sequence[str] = (), regrade: bool = False, where: Where = HERE,
    begin: Callable[[int, int], Any] = lambda jobs, submissions: None,
    tell: Callable[[str, Any], None] = lambda what, of: None,
) -> Round:  # fmt: skip
    """Grade an assignment's new and changed hand-ins, all of them with `regrade`.

    `begin(jobs, submissions)` is called once the work is known, `tell("job", result)` and `tell("submission", student)`
    as it is done. Results are kept as they come: after a kill, the same call does the rest.
    """
    folder = app.folder
    assignment = folder.assignment(name)
    _require_released(app, name)
    with telling_disk_problems(folder.root), _only_writer(folder):
        moved = [path for place in folder.handins(name).values() for path in clear(place)]
        wanted = plan(folder, assignment, students=students, regrade=regrade)
        before = folder.records.of(name)
        handins = {student: read_handin(path, assignment) for student, path in wanted.items()}
        jobs = jobs_of(folder, assignment, handins.values())
        begin(len(jobs), len(wanted))
        app.coursedir.warpschool_results = results = {}
        for job, result in cluster.run(
            jobs, store=folder.store, workers=where.workers, scheduler=where.scheduler, slurm=where.slurm
        ):
            results[job.key] = result
            tell("job", result)
        failed = dict(_written(app, name, wanted, tell))
    after = folder.records.of(name)
    graded = {student: after[student] for student in wanted if student in after and student not in failed}
    everybody = folder.handins(name)
    lacking = [s for s, path in everybody.items() if not os.path.lexists(path / f"{name}.ipynb")]
    return Round(
        name, graded, dict(_waiting(app, name, after)), {s: renamed(folder, assignment, s) for s in lacking},
        tuple(s for s in everybody if s in after and s not in wanted), tuple(lacking), failed,
        tuple(changes(before, graded)), tuple(str(path) for path in moved),
    )  # fmt: skip


def _waiting(app: ClassApp, name: str, records: Mapping[str, Record]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Students with cells that a person has to look at: none of those that one has given points for already, and none
    that wait for the grader."""
    with app.gradebook() as gradebook:
        for submission in gradebook.assignment_submissions(name):
            record = records.get(str(submission.student_id))
            failed = {cell.grade_id for cell in record.cells if cell.state is CellState.FAILED} if record else set()
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            if cells := tuple(grade.name for grade in grades if grade.needs_manual_grade and grade.name not in failed):
                yield str(submission.student_id), cells


def renamed(folder: ClassFolder, assignment: Assignment, student: str) -> tuple[str, ...]:
    """Return the notebooks of a student that hold most of an assignment's cells under another name or in another place.

    Paths are relative to the student's folder, the likeliest first; notebooks that are another assignment's are left.
    """
    own = folder.root / folder.submitted / student
    others = {own / name / f"{name}.ipynb" for name in folder.names()}
    files = [path for path in sorted(own.glob("**/*.ipynb"))[:MAX_SEARCHED] if path not in others]
    shares = {path: share_of_cells(path, assignment) for path in files}
    alike = sorted((path for path in files if shares[path] >= MOST), key=lambda path: -shares[path])
    return tuple(str(path.relative_to(own)) for path in alike)


def _require_released(app: ClassApp, name: str) -> None:
    with telling_disk_problems(app.folder.root), app.gradebook() as gradebook:
        if name not in [found.name for found in gradebook.assignments]:
            raise CourseError(
                f"{name} is not in the gradebook yet", next_step=f"Release it first: warpschool release {name}"
            )


def _written(
    app: ClassApp, name: str, wanted: Mapping[str, Any], tell: Callable[[str, Any], None]
) -> Iterator[tuple[str, str]]:
    """Write each submission through nbgrader; yield whom that failed for, and why."""
    for student in wanted:
        try:
            app.convert("grade", name, student=glob.escape(student))
        except OutputError:  # the next one's would not be written either; the same command does the rest
            raise
        except WarpschoolError as error:
            yield student, str(error)
        tell("submission", student)


def changes(before: Mapping[str, Record], after: Mapping[str, Record]) -> Iterator[Change]:
    """Yield every cell whose score is another one than before, of submissions that were graded before."""
    for student, record in after.items():
        old = before.get(student)
        if old is None:
            continue
        for name in dict.fromkeys(cell.grade_id for cell in (*old.cells, *record.cells)):
            first, second = old.cell(name), record.cell(name)
            was, now = (cell.score if cell is not None else None for cell in (first, second))
            if was != now:
                points = (second or first).points  # type: ignore[union-attr] # one of the two has the name
                yield Change(student, name, was, now, points)


@contextmanager
def _only_writer(folder: ClassFolder) -> Iterator[None]:
    """One grading run at a time; the lock goes with the process, however it ends."""
    path = folder.root / GRADING / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if not system.lock(file.fileno()):
            raise GradingError(f"another run grades this class ({path} is locked)", next_step="Wait for it, or end it.")
        yield


# ---------------------------------------------------------------- one hand-in


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
    fresh |= {job.key: result for job, result in cluster.run(missing, store=folder.store)}

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
