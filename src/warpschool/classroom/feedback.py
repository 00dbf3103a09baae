"""A student's feedback: one HTML page from the record and the gradebook, in light and dark, escaped throughout.

What only graders may see is not in it: no question's mark scheme, no rubric, no secret case, no file of the grader.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters.exporter import Exporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from warpschool.classroom.folder import ClassFolder, folder_of
from warpschool.classroom.gradebook import coursedir_of
from warpschool.classroom.preprocessors import GRADERS_IMAGE
from warpschool.errors import GradingError
from warpschool.grading.assignment import MANUAL, PYTHON, Assignment, GradedCell, grade_id, marks
from warpschool.grading.records import CellScore, CellState, Record
from warpschool.grading.result import Criterion, Result
from warpschool.grading.verdicts import case_words
from warpschool.harness.source import Source
from warpschool.show.notes import briefly, observed_notes
from warpschool.show.page import escape, facts, page, slug
from warpschool.show.results import alike, met_cell
from warpschool.show.source import Note, marked_source
from warpschool.show.table import Cell, Table

MAX_SAID = 12
"""lines of a check cell in Python"""
HINTS = 2
"""Of the three levels: a nudge and a place; the pseudocode stays behind `warpschool hint`."""


@dataclass(frozen=True)
class Given:
    """What the gradebook has for one graded cell."""

    score: float
    points: float
    waits: bool
    by_hand: bool
    comment: str = ""


@dataclass(frozen=True)
class Marks:
    """A submission's grades as they count now: grade id -> what was given, and the late penalty in points."""

    cells: dict[str, Given]
    penalty: float
    seconds_late: float

    @property
    def score(self) -> float:
        return max(0.0, round(sum(given.score for given in self.cells.values()) - self.penalty, 6))

    @property
    def points(self) -> float:
        return sum(given.points for given in self.cells.values())

    @property
    def is_final(self) -> bool:
        return not any(given.waits for given in self.cells.values())


def read_marks(gradebook: Gradebook, folder: ClassFolder, assignment: str, student: str) -> Marks:
    """Return what the gradebook says about a submission, with the late penalty as the policy has it today."""
    submission = gradebook.find_submission(assignment, student)
    notebook = gradebook.find_submission_notebook(assignment, assignment, student)
    comments = {comment.name: comment.comment or "" for comment in notebook.comments}
    cells = {
        grade.name: Given(
            float(grade.score),
            float(grade.max_score),
            bool(grade.needs_manual_grade),
            grade.manual_score is not None,
            comments.get(grade.name, ""),
        )
        for grade in notebook.grades
    }
    earned = sum(given.score for given in cells.values())
    late = submission.total_seconds_late
    return Marks(cells, folder.policy.late.penalty(earned, late), late)


class FeedbackExporter(Exporter):
    """Writes a student's feedback page from the record and the gradebook instead of the notebook."""

    file_extension = ".html"

    def from_filename(self, filename: str, resources: Any = None, **_: Any) -> Any:
        """Return the page; `filename` is the autograded notebook."""
        found = self._init_resources(resources)
        found["output_extension"] = self.file_extension
        about = found["nbgrader"]
        coursedir = coursedir_of(self)
        folder = folder_of(coursedir)
        _clear(Path(coursedir.format_path(coursedir.feedback_directory, about["student"], about["assignment"])))
        text = feedback_page(
            folder, about["db_url"], assignment=about["assignment"], student=about["student"], notebook=Path(filename)
        )
        return text, found


def _clear(folder: Path) -> None:
    """Remove what nbgrader has copied there of the hand-in: a page of the student's would pass for the teacher's."""
    for path in folder.glob("*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def feedback_page(folder: ClassFolder, db_url: str, *, assignment: str, student: str, notebook: Path) -> str:
    """Return the page; `notebook` is the autograded one. Raises GradingError for a submission without a record."""
    record = folder.records.get(assignment, student)
    if record is None:
        raise GradingError(f"{student} has no record for {assignment}", next_step=f"warpschool grade {assignment}")
    if record.is_outdated:
        raise GradingError(
            f"{student} was graded by another version of warpschool, whose results this one cannot read",
            next_step=f"Grade everybody anew; points given by people stay: warpschool grade {assignment} --regrade",
        )
    master = folder.assignment(assignment)
    with Gradebook(db_url) as gradebook:
        marks = read_marks(gradebook, folder, assignment, student)
        comments = {c.name: c.manual_comment or "" for c in gradebook.find_submission_notebook(
            assignment, assignment, student).comments}  # fmt: skip
    graded = nbformat.read(notebook, as_version=4)
    body = "\n".join(_body(record, master, marks, comments, graded))
    return page(f"{assignment}: feedback for {student}", f"<main>{body}</main>")


def _body(
    record: Record, assignment: Assignment, marks: Marks, comments: dict[str, str], graded: NotebookNode
) -> Iterator[str]:
    state = "" if marks.is_final else " so far"
    yield f"<h1>{escape(_title(assignment))}</h1>"
    total = f"{_number(marks.score)} of {_number(marks.points)} points{state}"
    yield f'<p class="lead">{escape(record.student)}: <b>{total}</b></p>'
    if record.problem:
        yield f'<p class="notice bad">Your notebook could not be read: {escape(record.problem)}</p>'
    for note in record.notes:
        yield f'<p class="notice">{escape(note)}</p>'
    if record.report:
        yield f'<p class="notice">Your report: {escape(record.report)}</p>'
    yield _overview(record, assignment, marks)
    for step, result in record.results.items():
        yield from _step(step, result.for_student(), _source(record, step, graded), comments, record)
    yield from _answers(record, assignment, marks, graded)
    yield _footer(record)


def _title(assignment: Assignment) -> str:
    """The notebook's first heading."""
    texts = (cell.source for cell in assignment.notebook.cells if cell.cell_type == "markdown")
    return next((text.split("\n", 1)[0].removeprefix("# ") for text in texts if text.startswith("# ")), assignment.name)


def _overview(record: Record, assignment: Assignment, marks: Marks) -> str:
    rows = []
    for graded in assignment.cells:
        given, score = marks.cells.get(graded.grade_id), record.cell(graded.grade_id)
        if given is not None and score is not None:
            title = Cell(_what(graded), below=(graded.grade_id, *_said(graded, score)))
            rows.append([title, _state(score, given), _points(given)])
    if marks.seconds_late > 0:
        penalty = Cell(f"-{_number(marks.penalty)}", "bad")
        rows.append(["Late", f"{marks.seconds_late / 3600:.1f} hours late", penalty])
    rows.append(["Total", "", f"{_number(marks.score)} of {_number(marks.points)}"])
    return Table.of("", ["graded", "state", "points"], rows).html(label="points")


def _what(graded: GradedCell) -> str:
    """What a cell is about: a check cell says so in its first line, a task in its heading."""
    first = graded.source.strip().split("\n", 1)[0].lstrip("# ").strip()
    return "Answer in your own words" if graded.kind == MANUAL else first


def _said(graded: GradedCell, score: CellScore) -> list[str]:
    """What a check cell in Python printed."""
    text = score.text if graded.kind == PYTHON and score.state is CellState.GRADED else ""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("Out[")][:MAX_SAID]


def _points(given: Given) -> str:
    score = "open," if given.waits and not given.by_hand else _number(given.score)
    return f"{score} of {_number(given.points)}"


def _number(points: float) -> str:
    return f"{round(points, 2):g}"


def _state(score: CellScore, given: Given) -> Cell:
    if given.by_hand:
        return Cell("by your teacher" if not given.waits else "by your teacher, looked at again")
    if given.waits:
        failed = score.state is CellState.FAILED
        return Cell("the grader failed here; a person looks at it" if failed else "not read yet")
    if score.state is CellState.GRADED and score.text == "No response.":
        return Cell("no response", "bad")
    if given.score >= given.points:
        return Cell("✓ met", "good")
    return Cell(f"✗ {score.verdict}", "bad")


# ---------------------------------------------------------------- one step


def _step(step: str, result: Result, source: str | None, comments: dict[str, str], record: Record) -> Iterator[str]:
    kind = "good" if result.ok else "bad"
    yield f'<h2 id="{slug(step)}">{escape(step)}</h2>'
    yield f'<p><span class="{kind}">{escape(result.verdict)}: {escape(result.verdict.meaning)}</span></p>'
    for warning in result.warnings:
        yield f"<p>The compiler warns: {escape(warning)}</p>"
    if result.seen:
        yield f"<pre>{escape(result.seen)}</pre>"
    else:
        yield _criteria(result)
        yield from _findings(result)
    for name, own in record.kernel_cells.items():
        yield from _from_teacher(comments.get(name, "") if own == step else "")
    if source:
        yield marked_source(source, _line_notes(result, source), name=f"{step.split('/')[-1]}.cu")


def _criteria(result: Result) -> str:
    rows = [[Cell(c.title, below=_counted(c)), met_cell(c), f"{c.points:g} of {c.weight:g}"] for c in result.criteria]
    return Table.of("", ["criterion", "met?", "weight"], rows).html(label=f"criteria of {result.step}")


def _counted(criterion: Criterion) -> tuple[str, ...]:
    """What a criterion counts, and what it counted."""
    return (*([f"Counted: {criterion.counts}"] if criterion.counts else []), *criterion.measured)


def _findings(result: Result) -> Iterator[str]:
    """What was seen for each failed criterion; those that failed alike, at the same line, are told together."""
    for group in alike(result.criteria):
        first = group[0]
        distinct = list(dict.fromkeys(c.hint for c in group if c.hint))
        hints = distinct[0][:HINTS] if len(distinct) == 1 else tuple(hint[0] for hint in distinct)
        yield f"<h3>{escape(', '.join(c.title for c in group))}</h3>"
        if first.seen and first.seen != "not run":
            yield f'<pre class="answer">{escape(first.seen)}</pre>'
        for c in group[1:]:
            yield f"<p>{escape(c.title)}: {escape(briefly(c))}</p>" if c.seen not in ("", first.seen) else ""
        if hints:
            yield f"<p>Hints:</p><ul>{''.join(f'<li>{escape(hint)}</li>' for hint in hints)}</ul>"


def _line_notes(result: Result, source: str) -> list[Note]:
    """What was seen, on its line and on that of the other thread where there is one; equal findings once."""
    notes: list[Note] = []
    abouts: list[Result | Criterion] = [result, *result.criteria]
    for about in (about for about in abouts if about.line and about.seen):
        case = f"at {case_words(about.case)}: " if about.case else ""
        first = replace(about, said=about.said.strip().split("\n", 1)[0])
        for note in observed_notes(source, first):
            notes.append(note if note.is_second else replace(note, text=f"{case}{note.text}"))
    return notes


def _source(record: Record, step: str, graded: NotebookNode) -> str | None:
    """The student's kernel as it was graded, from the autograded notebook; only the very text that the result names."""
    wanted = record.results[step].source.get("sha256")
    names = {name for name, own in record.kernel_cells.items() if own == step}
    for found in graded.cells:
        if grade_id(found) in names or found.source.startswith("%%"):
            text = found.source.partition("\n")[2] if found.source.startswith("%%") else found.source
            if Source(text.encode(), "", "").sha256 == wanted:
                return text
    return None


# ---------------------------------------------------------------- answers for people


def _answers(record: Record, assignment: Assignment, marks: Marks, graded: NotebookNode) -> Iterator[str]:
    for question in assignment.cells:
        given, score = marks.cells.get(question.grade_id), record.cell(question.grade_id)
        if question.kind != MANUAL or given is None or score is None:
            continue
        yield f'<h2 id="{slug(question.grade_id)}">{escape(question.grade_id)}</h2>'
        yield facts({"points": _points(given)})
        yield from _from_teacher(given.comment)
        yield from _own_cells(question.grade_id, graded)


def _from_teacher(comment: str) -> Iterator[str]:
    if comment:
        yield f'<div class="notice"><b>Your teacher:</b> <span class="said">{escape(comment)}</span></div>'


def _own_cells(task: str, graded: NotebookNode) -> Iterator[str]:
    """The student's cells below a task, or the task's own cell where that is the answer."""
    inside = False
    for found in graded.cells:
        name = grade_id(found)
        inside = name == task or (inside and not name)
        if inside and (marks(found).get("solution") if name else found.source.strip()):
            yield from _own_cell(found)


def _own_cell(found: NotebookNode) -> Iterator[str]:
    yield f'<pre class="answer">{escape(found.source)}</pre>'
    where = "as in your file"
    for output in found.get("outputs", ()):
        if output.output_type == "stream":
            where = "drawn again when your work was graded" if output.text == GRADERS_IMAGE else "as in your file"
        png = output.get("data", {}).get("image/png", "")
        if png:
            image = f'<img alt="the image of the cell above" src="data:image/png;base64,{escape(png)}">'
            yield f"<figure>{image}<figcaption>{where}</figcaption></figure>"


def _footer(record: Record) -> str:
    shown = {key: value for key, value in record.versions.items() if key in ("warpschool", "nvrtc", "arch", "counters")}
    text = ", ".join(f"{key} {value}" for key, value in shown.items())
    return (
        f"<footer><p>Graded with {escape(text)}. Hand-in {escape(record.handin[:12])}. Counters are the simulator's: "
        "the same on every machine.</p></footer>"
    )
