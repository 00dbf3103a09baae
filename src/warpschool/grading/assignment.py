"""An assignment: the instructor's notebook as data, with what each graded cell is worth and how it is graded.

What a good answer says, for the people who grade, stands in `grader/labNN_topic/rubric.md`: a section `## <grade id>`
belongs to the task of that id. Students never get it: a release leaves it out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from warpschool.course import Course
from warpschool.errors import CourseError

KERNEL_MAGIC = "%%kernel"
ANSWER_SUFFIX = "-answer"
KERNEL, PYTHON, MANUAL = "kernel", "python", "manual"


@dataclass(frozen=True)
class CheckCall:
    """One `ws.check_cell` call of a graded cell; no criteria means the whole step."""

    step: str
    criteria: tuple[str, ...]
    points: float


@dataclass(frozen=True)
class GradedCell:
    """A cell with points. `kind`: "kernel" (only `ws.check_cell` calls), "python" (other code), "manual" (a person)."""

    grade_id: str
    points: float
    kind: str
    source: str
    parts: tuple[CheckCall, ...] = ()

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """The steps that a cell of other code checks as well, by `ws.check_cell`."""
        nodes = ast.walk(ast.parse(self.source)) if self.kind == PYTHON else ()
        return tuple(dict.fromkeys(part.step for part in map(_check_call, nodes) if part is not None))


@dataclass(frozen=True)
class Assignment:
    """A lab's notebook as the instructor has it; `name` is the notebook's and the assignment's name."""

    name: str
    notebook: NotebookNode

    @cached_property
    def cells(self) -> tuple[GradedCell, ...]:
        """The cells with points, in order."""
        found = (cell for cell in self.notebook.cells if marks(cell).get("grade") or marks(cell).get("task"))
        return tuple(map(_graded, found))

    @cached_property
    def kernel_cells(self) -> dict[str, str]:
        """Grade id of each `%%kernel` cell -> its step."""
        pairs = ((grade_id(cell), kernel_step(cell.source)) for cell in self.notebook.cells if cell.cell_type == "code")
        return {name: step for name, step in pairs if name and step}

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that are graded, in the order in which they are first worth something."""
        found = (step for cell in self.cells for step in (*(part.step for part in cell.parts), *cell.checked))
        return tuple(dict.fromkeys([*found, *self.kernel_cells.values()]))

    @property
    def points(self) -> float:
        return sum(cell.points for cell in self.cells)


def read_assignment(path: Path) -> Assignment:
    """Read the instructor's notebook; raises CourseError for what is none, or has check cells that are no Python."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except OSError as error:
        raise CourseError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, nbformat.ValidationError) as error:
        raise CourseError(f"{path} is no valid notebook: {str(error).splitlines()[0]}") from None
    assignment = Assignment(path.stem, notebook)
    try:
        assert assignment.cells is not None
    except CourseError as error:
        raise CourseError(f"{path}: {error.message}") from None
    return assignment


def marks(cell: NotebookNode) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell; {} for a cell without any, or with nonsense there."""
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def grade_id(cell: NotebookNode) -> str:
    """Return a cell's grade id, or ""."""
    found = marks(cell).get("grade_id")
    return found if isinstance(found, str) else ""


def kernel_step(source: str) -> str:
    """Return the step that a cell's `%%kernel` line names, or ""."""
    words = source.split("\n", 1)[0].split()
    return words[1] if len(words) > 1 and words[0] == KERNEL_MAGIC else ""


def is_answer(cell: NotebookNode) -> bool:
    """Whether the cell is the place for an answer that stands below a task; nbgrader knows nothing of it."""
    return "nbgrader" not in cell.metadata and str(cell.get("id", "")).endswith(ANSWER_SUFFIX)


def is_manual(cell: NotebookNode) -> bool:
    """Whether people grade the cell: a task, or a solution cell with points."""
    found = marks(cell)
    return bool(found.get("task") or (found.get("grade") and found.get("solution")))


def is_free(cell: NotebookNode) -> bool:
    """Whether the cell is the student's to change: a solution cell, or one that nbgrader does not lock."""
    found = marks(cell)
    return bool(found.get("solution")) or not any(found.get(key) for key in ("locked", "grade", "task"))


def _graded(cell: NotebookNode) -> GradedCell:
    name, points = grade_id(cell), float(marks(cell).get("points", 0))
    if is_manual(cell):
        return GradedCell(name, points, MANUAL, cell.source)
    try:
        parts = _added_up(ast.parse(cell.source))
    except SyntaxError as error:
        raise CourseError(f"the check cell {name} is no Python: {error.msg} in line {error.lineno}") from None
    return GradedCell(name, points, KERNEL if parts else PYTHON, cell.source, tuple(parts or ()))


def _added_up(node: ast.AST) -> list[CheckCall] | None:
    """The calls of what does nothing but add up `ws.check_cell(...)` and names; None for anything else."""
    terms: Sequence[ast.AST] = ()
    match node:
        case ast.Module(body=statements):
            terms = statements
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            terms = [left, right]
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            terms = [value]
        case ast.AugAssign(target=ast.Name(), op=ast.Add(), value=value):
            terms = [value]
        case ast.Name():
            pass
        case _:
            call = _check_call(node)
            return None if call is None else [call]
    found = [_added_up(term) for term in terms]
    return None if None in found else [call for calls in found for call in calls or ()]


def _check_call(node: ast.AST) -> CheckCall | None:
    """The `check_cell` call whose arguments are all literals; None for anything else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "check_cell"):
        return None
    try:
        names = [ast.literal_eval(argument) for argument in node.args]
        options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except ValueError:
        return None
    if not names or not all(isinstance(name, str) for name in names) or options.keys() - {"points"}:
        return None
    return CheckCall(names[0], tuple(names[1:]), float(options.get("points", 1.0)))


# ---------------------------------------------------------------- rubrics


_HEADING = re.compile(r"^## +(?P<id>\S+) *$", re.MULTILINE)


def read_rubrics(course: Course, lab: str) -> dict[str, str]:
    """Return grade id -> rubric (Markdown) of a lab; {} for one without. Raises CourseError for an id there twice."""
    path = course.root / "grader" / lab / "rubric.md"
    if not path.is_file():
        return {}
    _, *sections = _HEADING.split(path.read_text("utf-8"))  # ids and texts, alternating
    found: dict[str, str] = {}
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        if name in found:
            raise CourseError(f"{path}: there are two sections '## {name}'")
        found[name] = text.strip()
    return found
