"""Notebooks: what is in their cells, and how the generated ones are filled.

They are built of texts (`authoring.lab_text`), which hold all that is written by hand and name their kernels. A cell
whose first line is `%%kernel lab02_tiling/01_tiled` holds that step's starter. `refreshed` puts it there, marked as
CUDA for nbconvert's colours, puts an empty answer cell below every task, and strips outputs; `solved` puts the
reference there instead, and the answers of `solutions/labNN_topic/answers.toml` into the cells with those grade ids.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from warpschool.authoring.starters import make_starter
from warpschool.errors import CourseError

KERNEL_MAGIC = "%%kernel "
ANSWER_SUFFIX = "-answer"
ANSWER = "*Write your answer here.*"


def kernel_step(cell: NotebookNode) -> str | None:
    """Return the step that a kernel cell is for; None for any other cell."""
    first = cell.source.split("\n", 1)[0]
    if cell.cell_type != "code" or not first.startswith(KERNEL_MAGIC):
        return None
    return first.removeprefix(KERNEL_MAGIC).split()[0]


def grade_id(cell: NotebookNode) -> str:
    """Return the cell's nbgrader id, or ""."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def is_answer(cell: NotebookNode) -> bool:
    """Whether the cell is the place for an answer that stands below a task; nbgrader knows nothing of it."""
    return "nbgrader" not in cell.metadata and str(cell.get("id", "")).endswith(ANSWER_SUFFIX)


def refreshed(notebook: NotebookNode, solutions: Path) -> NotebookNode:
    """Return the notebook with today's starters in its kernel cells, answer cells below its tasks, and no outputs.

    Raises CourseError for a kernel cell whose step has no solution.
    """
    found = _with_kernels(notebook, lambda step: make_starter(_solution(solutions, step), name=f"{step}.cu"))
    cells: list[NotebookNode] = []
    for cell in found.cells:
        if is_answer(cell):
            continue
        cells.append(cell)
        if cell.metadata.get("nbgrader", {}).get("task"):
            cells.append(_answer(grade_id(cell)))
    found.cells = cells
    return found


def solved(notebook: NotebookNode, solutions: Path, *, lab: str) -> NotebookNode:
    """Return the notebook as a perfect student would hand it in; raises CourseError for an answer without a cell."""
    result = _with_kernels(notebook, lambda step: _solution(solutions, step))
    answers = read_answers(solutions / lab)
    cells = {grade_id(cell): cell for cell in result.cells}
    for name, source in answers.items():
        if name not in cells:
            raise CourseError(f"{lab}: answers.toml answers {name!r}, but no cell of the notebook has that grade id")
        cells[name].source = source.strip("\n")
    return result


def read_answers(folder: Path) -> dict[str, str]:
    """Return grade id -> source of the cell that answers it, from a lab's answers.toml (empty without one)."""
    path = folder / "answers.toml"
    if not path.is_file():
        return {}
    try:
        answers = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path}: {error}") from error
    wrong = [name for name, value in answers.items() if not isinstance(value, str)]
    if wrong:
        raise CourseError(f"{path}: {wrong[0]!r} is no string")
    return answers


def read_notebook(path: Path) -> NotebookNode:
    """Read and validate a notebook; raises CourseError where it is none."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, nbformat.ValidationError) as error:
        raise CourseError(f"{path} is not a valid notebook: {str(error).splitlines()[0]}") from error
    return notebook


def notebook_text(notebook: NotebookNode) -> str:
    """Return the file's text: sorted keys, one-space indentation, a newline at the end, as Jupyter writes it."""
    return nbformat.writes(notebook, version=4) + "\n"


def _with_kernels(notebook: NotebookNode, source_of: Callable[[str], str]) -> NotebookNode:
    result = copy.deepcopy(notebook)
    for cell in result.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
        step = kernel_step(cell)
        if step is not None:
            cell.source = cell.source.split("\n", 1)[0] + "\n" + source_of(step).rstrip("\n")
            cell.metadata["magics_language"] = "cuda"
    result.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return result


def _answer(task: str) -> NotebookNode:
    cell = new_markdown_cell(ANSWER)
    cell["id"] = task + ANSWER_SUFFIX
    return cell


def _solution(solutions: Path, step: str) -> str:
    path = solutions / f"{step}.cu"
    if not path.is_file():
        raise CourseError(f"a kernel cell names the step {step}, but there is no {path}")
    return path.read_text("utf-8")
