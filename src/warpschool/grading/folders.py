"""Folders of submissions outside nbgrader: `STUDENT/labNN_topic/NN_idea.cu`, and notebooks named like their lab.

Files are read without trust: a link, a pipe or a device in a submission is not followed, only named.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptxsim import system
from ptxsim.cache import cache_root
from warpschool.contract import parse_contract
from warpschool.course import Course, Lab, Step
from warpschool.errors import ArgumentError, CourseError, WarpschoolError
from warpschool.grading.cluster import run
from warpschool.grading.jobs import KernelJob, Store
from warpschool.grading.result import Result
from warpschool.grading.secret import read_secret
from warpschool.grading.verdicts import Verdict
from warpschool.harness.source import MAX_SOURCE_BYTES, Source

_KEPT = 0.5
"""The least share of a starter's lines that a renamed program has kept."""
_SHORT = 4


@dataclass(frozen=True)
class Submitted:
    """One kernel to grade; `student` is the part of its path that names no step, `problem` why it cannot be read."""

    student: str
    step: Step
    path: Path
    data: bytes = field(default=b"", repr=False)
    problem: str = ""


def find_submissions(folder: Path, course: Course, step: str | None = None) -> tuple[list[Submitted], list[str]]:
    """Return the kernels below a folder with their steps, in order, and the files that belong to no graded step.

    With `step` every .cu file is for that step. Raises ArgumentError where there is nothing to grade.
    """
    if not folder.is_dir():
        raise ArgumentError(f"{folder} is no folder", next_step="Name the folder that holds the submissions.")
    found: list[Submitted] = []
    foreign: list[str] = []
    for path in sorted([*folder.rglob("*.cu"), *(folder.rglob("*.ipynb") if step is None else ())]):
        if ".ipynb_checkpoints" in path.parts:
            continue
        own = list(_kernel(path, folder, course, step) if path.suffix == ".cu" else _notebook(path, folder, course))
        found += own
        if not own:
            foreign.append(str(path.relative_to(folder)))
    if not found:
        others = f"; {len(foreign)} files belong to no graded step" if foreign else ""
        likely = offers(folder, foreign[:8], course)
        others += "".join(f"; {name} looks like {' or '.join(steps[:3])}" for name, steps in likely.items())
        raise ArgumentError(
            f"{folder} holds no submission{others}",
            next_step="Expected STUDENT/labNN_topic/NN_idea.cu or STUDENT/labNN_topic.ipynb; or name the step of all "
            "files: --step lab02/01",
        )
    return found, foreign


def offers(folder: Path, foreign: Sequence[str], course: Course) -> dict[str, tuple[str, ...]]:
    """File -> the steps that it seems to be for, of kernels whose names say none: a renamed file keeps its header.

    A step's file names itself in its first line and declares the step's entries; where the line is gone or ambiguous,
    the entries decide, and may leave several steps. A program, which declares none, keeps lines of its starter.
    """
    found = {}
    known: dict[tuple[str, ...], list[Step]] = {}
    for name in (name for name in foreign if name.endswith(".cu")):
        data, problem = read_submitted(folder / name, folder, most_bytes=MAX_SOURCE_BYTES)
        text = data.decode("utf-8-sig", errors="replace")
        entries = () if problem else _entries(text, name)
        if entries and not known:
            for step in course.steps():
                if step.grader is not None and step.solution is not None:
                    known.setdefault(_entries(step.solution.read_text("utf-8"), step.file_name), []).append(step)
        alike = known.get(entries, []) if entries else _programs_like(text, course)
        named = [step for step in alike if text.lstrip().startswith(f"// {step.file_name}")]
        if alike:
            found[name] = tuple(step.name for step in named or alike)
    return found


def _programs_like(text: str, course: Course) -> list[Step]:
    """The program steps of whose starter a file with a `main` keeps most lines, and that half of them at least."""
    if re.search(r"\bmain\s*\(", text) is None:
        return []
    lines = _telling(text)
    kept: dict[float, list[Step]] = defaultdict(list)
    for step in course.steps():
        if step.is_program and step.grader is not None and step.starter is not None:
            given = _telling(step.starter.read_text("utf-8"))
            kept[len(given & lines) / max(1, len(given))].append(step)
    most = max(kept, default=0.0)
    return kept[most] if most >= _KEPT else []


def _telling(text: str) -> set[str]:
    """The lines of a source that say more than a bracket."""
    return {line.strip() for line in text.splitlines() if len(line.strip()) > _SHORT}


def _entries(text: str, name: str) -> tuple[str, ...]:
    """A kernel file's entries as its header declares them; () where it has no header that can be read."""
    try:
        return tuple(map(str, parse_contract(text, name=Path(name).name).entries))
    except WarpschoolError:
        return ()


def grade_submissions(
    found: Sequence[Submitted], *, device: str = "sim", seed: int = 0, secret_file: Path | None = None,
    store: Path | None = None, workers: int = 1, scheduler: str | None = None, slurm: bool = False,
) -> Iterator[tuple[Submitted, Result]]:  # fmt: skip
    """Grade submissions and yield each result when it is there; equal kernels are checked once.

    `store`: the folder where results are kept. `workers`, `scheduler` and `slurm`: see `cluster.run`.
    """
    secret = read_secret(secret_file) if secret_file else ""
    waiting: dict[KernelJob, list[Submitted]] = defaultdict(list)
    for item in found:
        job = KernelJob(item.step.name, item.data, seed=seed, device=device, secret=secret)
        if item.problem:
            yield item, job.failed(item.problem, Verdict.BAD)
        else:
            waiting[job].append(item)
    kept = Store(store or cache_root() / "results")
    for finished, outcome in run(waiting, store=kept, workers=workers, scheduler=scheduler, slurm=slurm):
        if isinstance(finished, KernelJob) and isinstance(outcome, Result):  # there are no other jobs here
            yield from ((item, outcome) for item in waiting[finished])


def sources_by_step(folder: Path, course: Course, step: str | None = None) -> dict[str, dict[str, str]]:
    """Step -> student -> source, of everything below a folder that can be read."""
    sources: dict[str, dict[str, str]] = defaultdict(dict)
    for item in find_submissions(folder, course, step)[0]:
        if not item.problem:
            sources[item.step.name][item.student] = item.data.decode("utf-8-sig", errors="replace")
    return sources


def known_solutions(
    folder: Path, course: Course, step: str | None = None
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Step -> file -> source, of solutions that somebody has collected, and the files that are for no graded step.

    A file below its lab's folder is for the step of its name, every other one for the steps whose entries its header
    has; with `step` all are for that one. Raises ArgumentError where there is none at all.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    try:
        items, foreign = find_submissions(folder, course, step)
    except ArgumentError:
        items, foreign = [], sorted(str(path.relative_to(folder)) for path in folder.rglob("*.cu"))
    for item in items:
        if not item.problem and item.data:
            found[item.step.name][str(item.path.relative_to(folder))] = item.data.decode("utf-8-sig", errors="replace")
    offered = offers(folder, foreign, course)
    for name, steps in offered.items():
        text = (folder / name).read_text("utf-8-sig", errors="replace")
        for one in steps:
            found[one][name] = text
    if not found:
        raise ArgumentError(
            f"{folder} holds no solution of a graded step",
            next_step="Expected labNN_topic/NN_idea.cu, or kernel files with a header; or name the step of all files: "
            "--step lab02/01",
        )
    return dict(found), [name for name in foreign if name not in offered]


def _kernel(path: Path, folder: Path, course: Course, wanted: str | None) -> Iterator[Submitted]:
    """A kernel file, if it is for a graded step."""
    inside = path.relative_to(folder)
    if wanted is not None:
        step, student = course.step(wanted), str(inside.with_suffix(""))
    elif not path.parent.name.lower().startswith("lab"):  # a student's folder may be a number
        return
    else:
        try:
            step, student = course.step("/".join(inside.with_suffix("").parts[-2:])), _student(inside.parts[:-2])
        except CourseError:
            return
    if step.grader is not None:
        data, problem = read_submitted(path, folder, most_bytes=MAX_SOURCE_BYTES)
        yield Submitted(student, step, path, data, problem)


def _notebook(path: Path, folder: Path, course: Course) -> Iterator[Submitted]:
    """The kernels of a lab's notebook, read as text; one for each graded step of the lab, whatever the file is like."""
    from warpschool.grading.assignment import read_assignment
    from warpschool.grading.handin import read_handin

    try:
        lab: Lab = course.lab(path.stem)
    except CourseError:
        return
    if lab.notebook is None or lab.name != path.stem:
        return
    assignment = read_assignment(lab.notebook)
    kernels: Mapping[str, Source] = {}
    _, problem = read_submitted(path, folder, most_bytes=0)  # whether it is a file at all
    if not problem:
        handin = read_handin(path, assignment)
        problem, kernels = handin.problem, handin.kernels
    inside = path.relative_to(folder).parts[:-1]
    student = _student(inside[:-1] if inside[-1:] == (lab.name,) else inside)
    for step in lab.steps:
        if step.grader is not None and step.name in assignment.steps:
            data = kernels[step.name].data if step.name in kernels else b""
            yield Submitted(student, step, path, data, problem)


def _student(folders: tuple[str, ...]) -> str:
    """The folders above a step's own; a personal copy's `kernels` says nothing about whose it is."""
    return "/".join(folders[:-1] if folders[-1:] == ("kernels",) else folders) or "."


def read_submitted(path: Path, folder: Path, *, most_bytes: int) -> tuple[bytes, str]:
    """Return a submitted file's bytes, or why there are none; of a file that is too large one byte too many.

    `folder` is the submissions' own: nothing on the way from there to the file may be a link, which could show any file
    of the grader in the compiler's messages.
    """
    for part in (path, *path.parents):
        if part == folder:
            break
        if part.is_symlink():
            return b"", f"{path.name}: a link instead of a file; links are not followed"
    try:
        handle = system.open_plain(path)
    except OSError as error:
        return b"", f"{path.name}: the file cannot be read: {error.strerror or error}"
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b"", f"{path.name}: no regular file, but a folder, a pipe or a device"
    with os.fdopen(handle, "rb") as file:
        return file.read(most_bytes + 1), ""
