"""Our parts in nbgrader's pipelines: what a release keeps, how a hand-in is graded, how scores reach the gradebook.

A lab is released only where it holds no solution and its points add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, IncludeHeaderFooter, NbGraderPreprocessor

from warpschool.authoring.notebooks import called_points, read_answers
from warpschool.authoring.starters import find_holes
from warpschool.classroom.folder import ClassFolder, folder_of
from warpschool.classroom.gradebook import apply, coursedir_of
from warpschool.classroom.reports import look_at_report
from warpschool.classroom.rounds import grade_handin, require_one_version
from warpschool.course import Course
from warpschool.errors import CourseError, GradingError, WarpschoolError
from warpschool.grading.assignment import MANUAL, Assignment, grade_id, is_free, kernel_step, read_rubrics
from warpschool.grading.criteria import criteria_of
from warpschool.grading.handin import image_outputs, read_handin, reassembled
from warpschool.grading.records import CellScore, CellState, Record
from warpschool.grading.result import Result, to_text
from warpschool.show.results import result_html

GRADERS_IMAGE = "The image below was drawn when this cell was graded.\n"
HANDIN = "warpschool_handin"
Processed = tuple[NotebookNode, Any]
MARK_SCHEME = "### BEGIN MARK SCHEME", "### END MARK SCHEME"
"""nbgrader's delimiters"""


class _ClassPreprocessor(NbGraderPreprocessor):
    """Knows the class that its converter works for."""

    @property
    def folder(self) -> ClassFolder:
        return folder_of(coursedir_of(self))

    def record(self, resources: Any) -> Record:
        """The record that the first round has left for this submission."""
        about = resources["nbgrader"]
        record = self.folder.pending.get(about["assignment"], about["student"])
        if record is None:
            raise GradingError(f"{about['student']} was not graded: there is no record", next_step="Grade again.")
        return record


class CheckSource(_ClassPreprocessor):
    """Refuses to release a notebook that holds a solution, or whose points do not add up."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Check the instructor's notebook; raises CourseError."""
        require_releasable(Assignment(resources["nbgrader"]["notebook"], nb), self.folder.course)
        return nb, resources


class AddRubrics(_ClassPreprocessor):
    """Puts each task's rubric below its question, as a mark scheme: formgrader shows it, a release leaves it out."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Add the rubrics of one notebook; a task that has a mark scheme keeps its own."""
        rubrics = read_rubrics(self.folder.course, resources["nbgrader"]["assignment"])
        for cell in nb.cells:
            rubric = rubrics.get(grade_id(cell))
            if rubric and cell.metadata.get("nbgrader", {}).get("task") and MARK_SCHEME[0] not in cell.source:
                cell.source = "\n".join([cell.source, "", MARK_SCHEME[0], rubric, MARK_SCHEME[1]])
        return nb, resources


class NamedHeaderFooter(IncludeHeaderFooter):
    """nbgrader's header and footer, with cell ids that are the same in every release; it would draw them at random."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Put the header before and the footer behind a notebook."""
        own = {id(cell) for cell in nb.cells}
        nb, resources = super().preprocess(nb, resources)
        for place, cell in enumerate(nb.cells):
            if id(cell) not in own:
                cell["id"] = f"around-{place}"
        return nb, resources


class KeepStarters(ClearSolutions):
    """Leaves solution cells as they are, for labs hold starters; only regions marked `### BEGIN SOLUTION` are cleared.

    nbgrader's own would put `raise NotImplementedError()` in place of a `%%kernel` cell, magic line and all.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Processed:
        """Clear one cell's marked regions; in a kernel cell `// BEGIN SOLUTION` marks the student's place."""
        if kernel_step(cell.source) or self.begin_solution_delimeter not in cell.source:
            return cell, resources
        return super().preprocess_cell(cell, resources, cell_index)


class HandInExporter(NotebookExporter):
    """Hands the path of a submitted notebook to `GradeHandIn`, which reads it as data; nbformat never sees it."""

    def from_filename(self, filename: str, resources: Any = None, **options: Any) -> Any:
        """Convert one notebook; the second round of an autograding reads what the first has written."""
        if not getattr(self.parent, "_sanitizing", False):
            return super().from_filename(filename, resources=resources, **options)
        found = self._init_resources(resources)
        found[HANDIN] = str(filename)
        return self.from_notebook_node(new_notebook(), resources=found, **options)


class GradeHandIn(_ClassPreprocessor):
    """Reads a submitted notebook as data, grades it, and passes on the instructor's with the student's cells in it."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Grade one submission; `nb` is empty, for the file was not read yet."""
        about, folder = resources["nbgrader"], self.folder
        if about["notebook"] != about["assignment"]:
            raise CourseError(
                f"{about['notebook']}.ipynb: an assignment has one notebook, named like it",
                next_step=f"Rename it to {about['assignment']}.ipynb, or make an assignment {about['notebook']}.",
            )
        assignment = folder.assignment(about["assignment"])
        if folder.results is None:  # nbgrader's own command; `grade_class` has looked at the whole class already
            others = {s: r for s, r in folder.records.of(assignment.name).items() if s != about["student"]}
            require_one_version(assignment, others, folder)
        handin = read_handin(Path(resources[HANDIN]), assignment)
        record = grade_handin(folder, assignment, handin, student=about["student"])
        report = look_at_report(Path(resources[HANDIN]).parent, most_pages=folder.policy.max_pages)
        folder.pending.put(replace(record, report=report))
        for note in (handin.problem, *handin.notes):
            if note:
                self.log.warning("%s: %s", about["student"], note)
        return reassembled(handin, assignment), resources


class ShowResults(_ClassPreprocessor):
    """In place of Execute: puts the results into the outputs of check cells. Nothing is run here."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Fill in the outputs of one graded notebook."""
        record = self.record(resources)
        parts = {cell.grade_id: cell.parts for cell in self.folder.assignment(record.assignment).cells}
        for cell in nb.cells:
            _show_drawing(cell, record.drawings.get(str(cell.get("id", "")), {}))
            score = record.cell(grade_id(cell))
            if score is not None and cell.cell_type == "code" and score.state is not CellState.PERSON:
                shown = [record.results[p.step].part(p.criteria) for p in parts[score.grade_id]
                         if p.step in record.results]  # fmt: skip
                cell.outputs = [*_shown(shown, record.outcomes.get(score.grade_id, {}), score)]
        return nb, resources


def _shown(results: Iterable[Result], outcome: Mapping[str, Any], score: CellScore) -> Iterator[NotebookNode]:
    """The outputs of a check cell: its results or its picture, what it said, and the points."""
    for result in results:
        yield new_output("display_data", {"text/html": result_html(result), "text/plain": to_text(result)})
    yield from image_outputs(filter(None, [outcome.get("png")]), GRADERS_IMAGE)
    if score.text:
        yield new_output("stream", text=score.text + "\n")
    if score.score is not None:
        yield new_output("execute_result", {"text/plain": repr(float(score.score))})


def _show_drawing(cell: NotebookNode, drawing: Mapping[str, Any]) -> None:
    """Put what a cell drew when it was run again in place of the student's own images; without any, these stay."""
    if drawing.get("images"):
        cell.outputs = image_outputs(drawing["images"], GRADERS_IMAGE)
    elif drawing:
        cell.outputs.insert(0, new_output("stream", text=f"Run again, it gave no image: {drawing['text']}\n"))


class SaveScores(_ClassPreprocessor):
    """In place of SaveAutoGrades: scores come from the record, never from outputs; what is missing is no zero."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> Processed:
        """Write one submission's scores and comments."""
        record = self.record(resources)
        with Gradebook(resources["nbgrader"]["db_url"]) as gradebook:
            apply(record, gradebook, before=self.folder.records.get(record.assignment, record.student))
        self.folder.pending.promote(record, self.folder.records)
        return nb, resources


# ---------------------------------------------------------------- what must hold before a lab is released


def require_releasable(assignment: Assignment, course: Course) -> None:
    """Raise CourseError that lists all that is wrong with an instructor's notebook."""
    if not assignment.kernel_cells and not any("ws.check_" in cell.source for cell in assignment.cells):
        raise CourseError(
            f"{assignment.name} is no lab of warpschool: it has neither a %%kernel cell nor a ws.check_ call",
            next_step="Keep other notebooks in a course of their own, with nbgrader's own configuration.",
        )
    found = [*_leaks(assignment, course), *_points(assignment), *_checks(assignment, course)]
    if found:
        raise CourseError(
            f"{assignment.name} is not released:\n" + "\n".join(f"  {problem}" for problem in found),
            next_step="Mend the notebook and release it again.",
        )


def _leaks(assignment: Assignment, course: Course) -> Iterator[str]:
    """Cells for students that hold what students are to write."""
    answers = read_answers(course.root / "solutions" / assignment.name)
    for cell in assignment.notebook.cells:
        name = grade_id(cell)
        step = assignment.kernel_cells.get(name)
        if step is not None and _holds_solution(cell.source, step, course):
            yield f"{name} holds the solution of {step}"
        elif step is None and is_free(cell) and name in answers and cell.source.strip() == answers[name].strip():
            yield f"{name} holds the answer"


def _holds_solution(source: str, step: str, course: Course) -> bool:
    """Whether a kernel cell has the lines of a hole of its step, all of them together."""
    try:
        solution = course.step(step).solution
    except CourseError:
        return False
    if solution is None:
        return False
    holes = find_holes(solution.read_text("utf-8"), name=f"{step}.cu")
    wanted = ("\n".join(line.strip() for line in hole.solution if line.strip()) for hole in holes)
    text = "\n".join(line.strip() for line in source.splitlines() if line.strip())
    return any(lines and lines in text for lines in wanted)


def _points(assignment: Assignment) -> Iterator[str]:
    for cell in assignment.cells:
        if not cell.points > 0:
            yield f"{cell.grade_id} is graded but has no points"
        elif cell.kind != MANUAL and "ws.check_" in cell.source and called_points(cell.source) != cell.points:
            calls = called_points(cell.source)
            yield f"{cell.grade_id} is worth {cell.points:g} points by its metadata, {calls:g} by its calls"


def _checks(assignment: Assignment, course: Course) -> Iterator[str]:
    """Calls of steps and criteria that do not exist."""
    for cell in assignment.cells:
        for part in cell.parts:
            try:
                infos = criteria_of(course.step(part.step))
            except WarpschoolError as error:
                yield f"{cell.grade_id}: {error.message}"
                continue
            known = {name for info in infos for name in (info.title, info.id, info.id.removeprefix("test_"))}
            yield from (f"{cell.grade_id}: {part.step} has no criterion '{c}'" for c in part.criteria if c not in known)
