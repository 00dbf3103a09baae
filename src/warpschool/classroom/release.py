"""What must hold before a lab is released: no solution in it, and points that add up."""

from __future__ import annotations

from collections.abc import Iterator

from warpschool.authoring.notebooks import read_answers
from warpschool.authoring.rules import called_points
from warpschool.authoring.starters import find_holes
from warpschool.course import Course
from warpschool.errors import CourseError, WarpschoolError
from warpschool.grading.assignment import MANUAL, Assignment, grade_id, is_free
from warpschool.grading.criteria import criteria_of


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
    for cell in assignment.notebook.cells:
        name = grade_id(cell)
        step = assignment.kernel_cells.get(name)
        if step is not None and _holds_solution(cell.source, step, course):
            yield f"{name} holds the solution of {step}"
        elif step is None and is_free(cell) and name and cell.source.strip() == _answer(name, assignment, course):
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


def _answer(name: str, assignment: Assignment, course: Course) -> str | None:
    answers = read_answers(course.root / "solutions" / assignment.name)
    return answers[name].strip() if name in answers else None


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
