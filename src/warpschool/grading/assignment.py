"""An assignment: the instructor's notebook as data, with what each graded cell is worth and how it is graded.

What a good answer says, for the people who grade, stands in `grader/labNN_topic/rubric.md`: a section `## <grade id>`
belongs to the task of that id. Students never get it: a release leaves it out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import nbformat
from nbformat import NotebookNode

from warpschool.course import Course
from warpschool.errors import CourseError

KERNEL_MAGIC = "%%kernel"
ANSWER_SUFFIX = "-answer"
KERNEL, PYTHON, MANUAL = "kernel", "python", "manual"


@dataclass(frozen=True)
class Part:
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
    parts: tuple[Part, ...] = ()

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """The steps that a cell of other code checks as well, by `ws.check_cell`."""
        if self.kind != PYTHON:
            return ()
        calls = (node for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Call))
        found = [_part(call) for call in calls if _is_check_cell(call)]
        return tuple(dict.fromkeys(part.step for part in found if part is not None))


@dataclass(frozen=True)
class Assignment:
    """A lab's notebook as the instructor has it; `name` is the notebook's and the assignment's name."""

    name: str
    notebook: NotebookNode

    @cached_property
    def cells(self) -> tuple[GradedCell, ...]:
        """The cells with points, in order."""
        return tuple(_graded(cell) for cell in self.notebook.cells if _has_points(cell))

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

    def cell(self, name: str) -> GradedCell:
        """Return a graded cell by its grade id; raises CourseError."""
        for cell in self.cells:
            if cell.grade_id == name:
                return cell
        raise CourseError(f"{self.name} has no graded cell '{name}'")


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
        raise CourseError(f"{path}: {error.message}", next_step=error.next_step) from None
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


def _has_points(cell: NotebookNode) -> bool:
    found = marks(cell)
    return bool(found.get("grade") or found.get("task"))


def _graded(cell: NotebookNode) -> GradedCell:
    name, points = grade_id(cell), float(marks(cell).get("points", 0))
    if is_manual(cell):
        return GradedCell(name, points, MANUAL, cell.source)
    try:
        parts = tuple(_parts(cell.source))
    except SyntaxError as error:
        raise CourseError(f"the check cell {name} is no Python: {error.msg} in line {error.lineno}") from None
    return GradedCell(name, points, KERNEL if parts else PYTHON, cell.source, parts)


def _parts(source: str) -> Iterator[Part]:
    """The calls of a cell that does nothing but add up `ws.check_cell(...)`; nothing for any other cell."""
    found: list[Part] = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign | ast.AugAssign) and _is_plain(statement):
            value: ast.expr = statement.value
        elif isinstance(statement, ast.Expr):
            value = statement.value
        else:
            return
        terms = _terms(value)
        if terms is None:
            return
        found += terms
    yield from found


def _is_plain(statement: ast.Assign | ast.AugAssign) -> bool:
    """Whether the statement is `name = ...` or `name += ...`."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Name) and isinstance(statement.op, ast.Add)
    return len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)


def _terms(value: ast.expr) -> list[Part] | None:
    """The check_cell calls of a sum of them; [] for a bare name; None for anything else."""
    if isinstance(value, ast.Name):
        return []
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = _terms(value.left), _terms(value.right)
        return None if left is None or right is None else left + right
    if _is_check_cell(value):
        part = _part(value)
        return None if part is None else [part]
    return None


def _is_check_cell(value: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "check_cell"


def _part(call: ast.Call) -> Part | None:
    """A call whose arguments are all literals; None for any other."""
    try:
        names = [ast.literal_eval(argument) for argument in call.args]
        options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        return None
    if not names or not all(isinstance(name, str) for name in names) or options.keys() - {"points"}:
        return None
    return Part(names[0], tuple(names[1:]), float(options.get("points", 1.0)))


# ---------------------------------------------------------------- rubrics


_HEADING = re.compile(r"^## +(?P<id>\S+) *$", re.MULTILINE)


def read_rubrics(course: Course, lab: str) -> dict[str, str]:
    """Return grade id -> rubric (Markdown) of a lab; {} for one without. Raises CourseError for an id there twice."""
    path = course.root / "grader" / lab / "rubric.md"
    if not path.is_file():
        return {}
    text = path.read_text("utf-8")
    places = list(_HEADING.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    found: dict[str, str] = {}
    for place, end in zip(places, ends, strict=True):
        if place["id"] in found:
            raise CourseError(f"{path}: there are two sections '## {place['id']}'")
        found[place["id"]] = text[place.end() : end].strip()
    return found
