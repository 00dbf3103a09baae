"""The record of one graded submission: every score, why, and by which versions. JSON, one file for each submission.

Feedback, exports and the before/after table of a regrade are made from records; the gradebook holds what people add.
The JSON schemas of results and records are made from the dataclasses, so that they cannot drift apart.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import nbformat

from warpschool.atomic import write_file
from warpschool.course import Course
from warpschool.errors import GradingError
from warpschool.grading.assignment import KERNEL, PYTHON, Assignment, GradedCell
from warpschool.grading.handin import HandIn, answers, digest, digest_of, drawn_cells, reassembled
from warpschool.grading.jobs import KernelJob, Policy, PythonJob, PythonOutcome
from warpschool.grading.result import FORMAT as RESULT_FORMAT, CellOutcome, Result, Timed
from warpschool.grading.runner import cases_of, provenance
from warpschool.grading.verdicts import Verdict, worst

FORMAT = 1
_RESULTS = f"format {RESULT_FORMAT}"
_VERSION_KEYS = ("warpschool", "code", "counters", "compiler", "nvrtc", "arch", "cases")


class CellState(StrEnum):
    """What a cell's score waits for."""

    GRADED = "graded"
    PERSON = "person"
    """a person has to read or look at it"""
    FAILED = "failed"
    """the grader failed: never a zero, and no grade until it is settled"""


@dataclass(frozen=True)
class CellScore:
    """One graded cell: `score` is None while it waits; `answer` is a hash of what was graded ("": nothing there)."""

    grade_id: str
    points: float
    score: float | None
    verdict: Verdict
    state: CellState
    answer: str
    text: str = ""


@dataclass(frozen=True)
class Record:
    """A graded submission. `results`: step -> result; `outcomes`: grade id of a Python cell -> what it gave;
    `kernel_cells`: grade id of a kernel cell -> its step; `report`: what is to be said of a PDF beside the notebook;
    `drawings`: id of a cell that people grade -> what it drew when it was run again.
    """

    assignment: str
    student: str
    handin: str
    cells: tuple[CellScore, ...]
    results: Mapping[str, Result]
    outcomes: Mapping[str, Mapping[str, str | float]] = field(default_factory=dict)
    problem: str = ""
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    kernel_cells: Mapping[str, str] = field(default_factory=dict)
    report: str = ""
    drawings: Mapping[str, Mapping[str, str | tuple[str, ...]]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether no cell waits for the grader itself."""
        return all(cell.state is not CellState.FAILED for cell in self.cells)

    @property
    def is_outdated(self) -> bool:
        """Whether another version of warpschool wrote its results: there are only scores then."""
        return self.versions.get("results", _RESULTS) != _RESULTS

    def cell(self, grade_id: str) -> CellScore | None:
        """Return a cell's score; None for a cell that this record does not know."""
        return next((cell for cell in self.cells if cell.grade_id == grade_id), None)

    def to_json(self) -> str:
        """Return JSON with sorted keys: equal records are equal bytes."""
        data = asdict(self) | {
            "format": FORMAT, "results": {step: result.to_dict() for step, result in self.results.items()},
        }  # fmt: skip
        return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Record:
        """Read what `to_json` wrote; raises GradingError for anything else.

        Scores are read whatever version wrote them; results of another version are left out: see `is_outdated`.
        """
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError("another format")
            cells = tuple(
                CellScore(**{**cell, "verdict": Verdict(cell["verdict"]), "state": CellState(cell["state"])})
                for cell in data.pop("cells")
            )
            results, others = _results_of(data.pop("results"))
            data["versions"] |= {"results": others} if others else {}
            return Record(**{**data, "notes": tuple(data["notes"])}, cells=cells, results=results)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GradingError(f"this is no record of warpschool: {error}") from None


def _results_of(data: Mapping[str, Any]) -> tuple[dict[str, Result], str]:
    """The results of this version's form, and which other form is among them ("": none)."""
    found, others = {}, ""
    for step, item in data.items():
        try:
            found[step] = Result.from_json(json.dumps(item))
        except GradingError:
            others = f"of another form ({item.get('format')})"
    return ({}, others) if others else (found, "")


@dataclass(frozen=True)
class Records:
    """The folder of records: ASSIGNMENT/STUDENT.json."""

    folder: Path

    def path(self, assignment: str, student: str) -> Path:
        return self.folder / assignment / f"{student}.json"

    def get(self, assignment: str, student: str) -> Record | None:
        """Return a submission's record, or None; raises GradingError, with the file, for one that is damaged."""
        path = self.path(assignment, student)
        try:
            return Record.from_json(path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (GradingError, UnicodeDecodeError) as error:
            raise GradingError(
                f"{path}: {error}", next_step="Move the file away and grade this submission again."
            ) from None

    def put(self, record: Record) -> None:
        """Write a record, whole or not at all."""
        path = self.path(record.assignment, record.student)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, record.to_json())

    def promote(self, record: Record, target: Records) -> None:
        """Move a record to another folder, once what it says has been written where it belongs."""
        path = target.path(record.assignment, record.student)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path(record.assignment, record.student).replace(path)

    def of(self, assignment: str) -> dict[str, Record]:
        """Return student -> record of an assignment, in order."""
        names = sorted(path.stem for path in (self.folder / assignment).glob("*.json"))
        found = {name: self.get(assignment, name) for name in names}
        return {name: record for name, record in found.items() if record is not None}


def is_new(record: Record | None, notebook: Path) -> bool:
    """Return whether a hand-in is to be graded: never was, was changed since, or the grader failed at it."""
    return record is None or not record.is_complete or digest_of(notebook) != record.handin


# ---------------------------------------------------------------- from results to scores


def kernel_jobs(handin: HandIn, assignment: Assignment, policy: Policy) -> dict[str, KernelJob]:
    """Return step -> what is to be run for it; nothing for a file that cannot be read."""
    wanted = {step for cell in assignment.cells for step in (*(part.step for part in cell.parts), *cell.checked)}
    return {
        step: KernelJob(step, source.data, name=source.name, seed=policy.seed, secret=policy.secret)
        for step, source in handin.kernels.items()
        if step in wanted
    }


def python_job(handin: HandIn, assignment: Assignment, policy: Policy) -> PythonJob | None:
    """Return what is to be run for the cells that need Python; None where there are none."""
    points = {cell.grade_id: cell.points for cell in assignment.cells if cell.kind == PYTHON}
    drawn = drawn_cells(handin, assignment)
    if handin.problem or not (points or drawn):
        return None
    return PythonJob(
        nbformat.writes(reassembled(handin, assignment), version=4), points, seed=policy.seed,
        secret=policy.secret, policy=policy.python, drawn=drawn,
        checked=tuple(dict.fromkeys(step for cell in assignment.cells for step in cell.checked)),
    )  # fmt: skip


def assemble(
    handin: HandIn, assignment: Assignment, policy: Policy, *, student: str,
    result_of: Callable[[KernelJob], Result | None], outcome_of: Callable[[PythonJob], PythonOutcome | None],
) -> Record:  # fmt: skip
    """Return the record of a submission from the results of its jobs; what has no result is the grader's failure."""
    found = {step: result_of(job) for step, job in kernel_jobs(handin, assignment, policy).items()}
    results = {step: result for step, result in found.items() if result is not None}
    job = python_job(handin, assignment, policy)
    outcome = (outcome_of(job) if job is not None else None) or PythonOutcome({})
    own = answers(handin, assignment)
    scores = []
    for cell in assignment.cells:
        if handin.problem:
            scores.append(_score(cell, Verdict.BAD, "", 0.0, handin.problem))
        elif cell.kind == KERNEL:
            scores.append(_kernel_score(cell, results, handin))
        elif cell.kind == PYTHON:
            scores.append(_python_score(cell, outcome.cells.get(cell.grade_id), handin))
        elif answer := digest(own.get(cell.grade_id, ())):
            scores.append(_score(cell, Verdict.SKIP, answer))
        else:
            scores.append(_score(cell, Verdict.SKIP, "", 0.0, "No response."))
    return Record(
        assignment.name, student, handin.sha256, tuple(scores), results,
        {name: asdict(item) for name, item in outcome.cells.items()}, handin.problem,
        (*handin.notes, *_crashes(results)),
        _versions({step: result.provenance for step, result in results.items()}) | _promised(assignment, policy),
        dict(assignment.kernel_cells), drawings={name: asdict(item) for name, item in outcome.drawings.items()},
    )  # fmt: skip


def _crashes(results: Mapping[str, Result]) -> list[str]:
    """What a grader should know of kernels that crashed what ran them: a person may want to look."""
    return [
        f"{step} crashed the simulator twice ({result.crash}): {result.verdict} without a person's look"
        for step, result in results.items() if result.crash
    ]  # fmt: skip


def mixed_versions(records: Mapping[str, Record], today: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return student -> what else that submission was graded with; nothing where a class has one set of versions."""
    others = {
        student: {key: value for key, value in record.versions.items() if today.get(key, value) != value}
        for student, record in records.items()
    }
    return {student: other for student, other in others.items() if other}


def versions_today(assignment: Assignment, policy: Policy, course: Course) -> dict[str, str]:
    """Return what this machine would grade with: the library's and compiler's versions, cases, points, content."""
    made = {name: provenance(course.step(name), device="", cases=cases_of(policy.secret)) for name in assignment.steps}
    return _versions(made) | _promised(assignment, policy)


def _promised(assignment: Assignment, policy: Policy) -> dict[str, str]:
    points = ", ".join(f"{cell.grade_id} {cell.points:g}" for cell in assignment.cells)
    return {"points": points, "seed": str(policy.seed), "results": _RESULTS}


def _versions(provenances: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What a class must have in common, of the provenance of each step's result."""
    found: dict[str, str] = {}
    for step, made in provenances.items():
        found |= {key: made[key] for key in _VERSION_KEYS} | {f"content of {step}": made["content"]}
    return found


def _score(cell: GradedCell, verdict: Verdict, answer: str, score: float | None = None, text: str = "") -> CellScore:
    """A cell's score; one without a number waits: for the grader after its own fault, else for a person."""
    waits = CellState.FAILED if verdict is Verdict.SE else CellState.PERSON
    state = waits if score is None else CellState.GRADED
    return CellScore(cell.grade_id, cell.points, score, verdict, state, answer, text)


def _kernel_score(cell: GradedCell, results: Mapping[str, Result], handin: HandIn) -> CellScore:
    """The cell's points times the weighted part that was earned; skipped criteria leave it to a person."""
    sources = {step: source.sha256 for step, source in handin.kernels.items()}
    answer = digest("\0".join(f"{part.step}\0{sources.get(part.step, '')}" for part in cell.parts))
    shown = [results[part.step].part(part.criteria) for part in cell.parts if part.step in results]
    verdict = worst(result.verdict for result in shown)
    if len(shown) < len(cell.parts) or verdict is Verdict.SE:
        text = "The grader failed here; this is not the student's fault. Grade again, or give the points by hand."
        return _score(cell, Verdict.SE, answer, text=text)
    worth = sum(part.points for part in cell.parts)
    if verdict is Verdict.SKIP or not worth:
        return _score(cell, Verdict.SKIP, answer, text=verdict.meaning)
    earned = sum(part.points * result.fraction for part, result in zip(cell.parts, shown, strict=True))
    return _score(cell, verdict, answer, round(cell.points * earned / worth, 6))


def _python_score(cell: GradedCell, found: CellOutcome | None, handin: HandIn) -> CellScore:
    answer = digest("\0".join([own.source for own in handin.cells.values()]))
    if found is None:
        return _score(cell, Verdict.SE, answer, text="the grader gave no result")
    waits = found.verdict in (Verdict.SE, Verdict.SKIP)
    return _score(cell, found.verdict, answer, None if waits else round(cell.points * found.fraction, 6), found.text)


# ---------------------------------------------------------------- schemas


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
          type(None): {"type": "null"}}  # fmt: skip
_OBSERVED = {
    "said": "the words of a comparison, a budget or a compiler", "file": "the file's name, where the place is told",
    "line": "the student's line, 0 for none", "code": "its text", "case": "sizes at which it was observed",
    "finding": "what the simulator found there", "more": "how many others it found",
}  # fmt: skip
_WORDS = {
    "Result": ("seen", "why the file could not be run at all, for people"),
    "Criterion": ("seen", "what was observed, for people"),
    "Finding": ("message", "the sentence that tells it"),
}
"""What is written beside the fields: a sentence made of some of them."""
_NOTES = {
    "Result": {
        **_OBSERVED,
        "step": "labNN_topic/NN_idea", "verdict": "the gravest of all criteria's", "seed": "of all random inputs",
        "source": "name, sha256 and origin of what was graded",
        "warnings": "what the compiler warns of, each with its line in front; nothing of it is judged",
        "provenance": "versions and places; results that differ in them are not compared",
    },
    "Record": {
        "assignment": "the lab", "student": "nbgrader's id", "handin": "sha256 of the notebook",
        "cells": "one for each cell with points", "outcomes": "grade id -> what a check cell in Python gave",
        "problem": "why the notebook could not be read", "notes": "what a grader should know",
        "versions": "what a class must have in common", "kernel_cells": "grade id -> step",
        "report": "what is to be said of a PDF beside the notebook",
        "drawings": "id of a cell that people grade -> PNGs that it drew when it was run again, and where that was",
    },
    "CellScore": {
        "points": "what the cell is worth", "score": "null while it waits", "state": "graded, person, failed",
        "answer": "a hash of what was graded", "text": "what the check said",
    },
    "Criterion": {
        **_OBSERVED,
        "id": "name of the test function", "title": "what people read", "weight": "its share of the step's points",
        "fraction": "of the weight that was earned",
        "counts": "what is counted, and why", "hint": "a nudge, a place, pseudocode",
        "secret": "observed in a case of the secret seed: not for students", "measured": "counts held against limits",
        "wrong": "where an output is wrong",
    },
    "Finding": {
        "kind": "race, unordered, lockstep, out-of-bounds, uninitialized, divergent-barrier, misaligned, warp-sync or "
        "async-order",
        "access": "read, write, atomic, free or barrier",
        "address": "byte offset into the array, or into shared memory",
        "others": "how many the other side is: thread, warp, warps, blocks", "other_warp": "that warp's first thread",
        "other_did": "read, write, atomic, read and write, access (one of them), copy, returned or waits",
        "detail": "what the kind does not tell", "size": "of the array, or the alignment asked for, in bytes",
        "calls": "lines that called the helper in which it happened, the nearest first",
        "other_calls": "those of the other side",
    },
    "Timed": {
        "how": "measured or predicted", "on": "the GPU's name", "case": "the sizes", "own_ms": "null without a time",
        "reference_ms": "of the step's reference, measured in turns", "ratio": "own_ms / reference_ms",
        "error": "half width of the ratio's 95 % confidence interval, relative; null where predicted",
        "stable": "the measurement settled", "reason": "why there is no time",
    },
    "WrongMap": {
        "name": "the array", "shape": "its dimensions", "height": "rows after folding", "columns": "likewise",
        "box_rows": "rows of elements that a character stands for", "box_columns": "columns of elements, likewise",
        "rows": ". right, 1 to 9 tenths wrong, # all wrong", "wrong": "elements", "pattern": "what they have in common",
    },
}  # fmt: skip


def result_schema() -> dict[str, Any]:
    """Return the JSON schema of what `Result.to_json` writes, and `check --time` adds to."""
    document = _document(schema_of(Result, title="A result of warpschool"), {
        "format": {"const": RESULT_FORMAT, "description": "of this document"},
        "score": {"type": ["number", "null"], "description": "sum of weight x fraction; null for SE: no grade"},
        "max_score": {"type": "number", "description": "sum of the weights that were counted"},
    })  # fmt: skip
    told = {**schema_of(Timed), "description": "only where `check` or `grade` timed the kernel: no points depend on it"}
    document["properties"]["timed"] = told
    return document


def record_schema() -> dict[str, Any]:
    """Return the JSON schema of what `Record.to_json` writes: one graded submission of a class."""
    result = {key: value for key, value in result_schema().items() if key != "$schema"}
    return _document(schema_of(Record, title="A graded submission of warpschool"), {
        "format": {"const": FORMAT, "description": "of this document"},
        "results": {"type": "object", "additionalProperties": result, "description": "step -> its result"},
    })  # fmt: skip


def _document(schema: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a whole file, which holds more than its dataclass."""
    properties = {**schema["properties"], **more}
    return {"$schema": DIALECT, **schema, "properties": properties, "required": sorted(properties)}


def schema_of(record: type, *, title: str = "") -> dict[str, Any]:
    """Return the schema of a dataclass; every field is required, and no other is allowed."""
    hints = typing.get_type_hints(record)
    notes = _NOTES.get(record.__name__, {})
    properties = {}
    for own in dataclasses.fields(record):
        properties[own.name] = _of_type(hints[own.name])
        if own.name in notes:
            properties[own.name]["description"] = notes[own.name]
    if record.__name__ in _WORDS:
        name, what = _WORDS[record.__name__]
        properties[name] = {"type": "string", "description": what}
    return {
        "title": title or record.__name__, "type": "object", "properties": properties, "required": sorted(properties),
        "additionalProperties": False,
    }  # fmt: skip


def _of_type(kind: Any) -> dict[str, Any]:
    """The schema of an annotation; raises TypeError for one that has none here."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(member) for member in kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return schema_of(kind)
    if origin is tuple and len(set(arguments) - {Ellipsis}) > 1:
        return {"type": "array", "prefixItems": [_of_type(argument) for argument in arguments], "items": False}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin in (Mapping, dict):
        return {"type": "object", "additionalProperties": _of_type(arguments[1])}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_of_type(argument) for argument in arguments]}
    raise TypeError(f"no schema for {kind}")
