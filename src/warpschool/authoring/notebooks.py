"""Notebooks: what is in their cells, how the generated ones are filled, and the rules that a lab's notebook keeps.

They are built of texts (`authoring.lab_text`), which hold all that is written by hand and name their kernels. A cell
whose first line is `%%kernel lab02_tiling/01_tiled` holds that step's starter. `refreshed` puts it there, marked as
CUDA for nbconvert's colours, puts an empty answer cell below every task, and strips outputs; `solved` puts the
reference there instead, and the answers of `solutions/labNN_topic/answers.toml` into the cells with those grade ids.
"""

from __future__ import annotations

import ast
import copy
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from warpschool.authoring.starters import make_starter
from warpschool.errors import CourseError
from warpschool.grading.assignment import ANSWER_SUFFIX, grade_id, is_answer, kernel_step as named_step

ANSWER = "*Write your answer here.*"


def kernel_step(cell: NotebookNode) -> str | None:
    """Return the step that a kernel cell is for; None for any other cell."""
    return (cell.cell_type == "code" and named_step(cell.source)) or None


def refreshed(notebook: NotebookNode, solutions: Path) -> NotebookNode:
    """Return the notebook with today's starters in its kernel cells, answer cells below its tasks, and no outputs.

    Raises CourseError for a kernel cell whose step has no solution.
    """
    found = _with_kernels(notebook, lambda step: make_starter(_solution(solutions, step), name=f"{step}.cu"))
    cells: list[NotebookNode] = []
    for cell in (cell for cell in found.cells if not is_answer(cell)):
        cells.append(cell)
        if cell.metadata.get("nbgrader", {}).get("task"):
            cells.append(new_markdown_cell(ANSWER, id=grade_id(cell) + ANSWER_SUFFIX))
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


def _solution(solutions: Path, step: str) -> str:
    path = solutions / f"{step}.cu"
    if not path.is_file():
        raise CourseError(f"a kernel cell names the step {step}, but there is no {path}")
    return path.read_text("utf-8")


# ---------------------------------------------------------------- rules


MAX_CELLS = 26
CELLS_PER_KERNEL = 3
"""A lab with many steps may have this many cells for each of them instead, and these besides:"""
CELLS_OF_TIMES = 2
"""what would take longer than ten seconds is shared out among cells that lie one behind the other"""
MAX_CODE_LINES = 15
SCHEMA_VERSION = 3
_KEYS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
_EVERYWHERE = re.compile(r"lab\d\d-9\d-")
"""Debugging and concept checks, which every lab has at its end: they do not count against the limit."""
GRADE_ID = re.compile(r"lab\d\d-\d\d-[a-z][a-z-]*")
_ON_THE_SIMULATOR = ("counters", "hazards", "lines")
"""What a run on a GPU does not tell."""


def problems(notebook: NotebookNode) -> list[str]:
    """Return what is wrong with a notebook of `labs/`, one sentence each; nothing for a good one."""
    found = []
    kernels = sum(kernel_step(cell) is not None for cell in notebook.cells)
    limit = max(MAX_CELLS, CELLS_PER_KERNEL * kernels + CELLS_OF_TIMES)
    count = sum(not is_answer(cell) and not _EVERYWHERE.match(grade_id(cell)) for cell in notebook.cells)
    if count > limit:
        found.append(f"{count} cells; at most {limit}: merge texts, or take a picture out")
    ids = [grade_id(cell) for cell in notebook.cells if not is_answer(cell)]
    found += [f"grade id {name!r} stands in several cells" for name in sorted(set(ids)) if ids.count(name) > 1]
    for place, cell in enumerate(notebook.cells):
        if not is_answer(cell):
            label = grade_id(cell) or f"cell {place}"
            found += [f"{label}: {text}" for text in [*_metadata(cell), *_contents(cell)]]
    return found


def points_of(cell: NotebookNode) -> float:
    """Return the points that a cell's metadata give; 0 for a cell without any."""
    return float(cell.metadata.get("nbgrader", {}).get("points", 0))


def is_autograded(cell: NotebookNode) -> bool:
    """Whether nbgrader takes the cell's value as its score."""
    data = cell.metadata.get("nbgrader", {})
    return bool(data.get("grade")) and not data.get("solution")


def _metadata(cell: NotebookNode) -> list[str]:
    """nbgrader's schema 3, as its validator demands it."""
    data = cell.metadata.get("nbgrader")
    if data is None:
        return ["it has no nbgrader metadata"]
    grade, solution, task, version = (data.get(key) for key in ("grade", "solution", "task", "schema_version"))
    scored = bool(grade or task)
    keys = f"its nbgrader metadata has the keys {', '.join(sorted(data))}"
    breaches = {
        keys: set(data) != _KEYS | ({"points"} if scored else set()),
        f"its nbgrader schema is {version}, not {SCHEMA_VERSION}": version != SCHEMA_VERSION,
        "its grade id is not like lab02-01-correct": not GRADE_ID.fullmatch(data.get("grade_id", "")),
        "it is graded but has no points": scored and not data.get("points", 0) > 0,
        "a task is a markdown cell that is neither graded by itself nor a solution": task
        and (cell.cell_type != "markdown" or grade or solution),
        "a cell is either locked or for the student": bool(data.get("locked")) == bool(solution),
    }
    return [text for text, is_breached in breaches.items() if is_breached]


def _contents(cell: NotebookNode) -> list[str]:
    if cell.cell_type != "code":
        return []
    found = ["it carries outputs"] if cell.outputs or cell.execution_count is not None else []
    if kernel_step(cell) is not None:
        return found
    lines = sum(bool(line.strip()) for line in cell.source.splitlines())
    if lines > MAX_CODE_LINES:
        found.append(f"{lines} lines of code; at most {MAX_CODE_LINES}")
    return [*found, *_counted(cell.source), *(_check_cell(cell) if is_autograded(cell) else ())]


def _counted(source: str) -> list[str]:
    """Counters are read of runs on the simulator: elsewhere the cell would fail where there is a GPU."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return []
    free = {
        ast.unparse(node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign) and _runs(node.value)
    }
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _ON_THE_SIMULATOR]
    return [
        f'{ast.unparse(node.value)[:60]} reads {node.attr}: it needs device="sim"'
        for node in read
        if _runs(node.value) or ast.unparse(node.value) in free
    ]


def _runs(node: ast.expr) -> bool:
    """Whether this is `ws.run` on any device."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "ws.run"
        and not any(keyword.arg == "device" for keyword in node.keywords)
    )


def _check_cell(cell: NotebookNode) -> list[str]:
    """An autograded cell says what it checks, and its last expression is worth the points of its metadata."""
    found = []
    if not cell.source.startswith("# "):
        found.append("a check cell begins with a comment that says what it checks")
    last = ast.parse(cell.source).body[-1]
    if not isinstance(last, ast.Expr):
        return [*found, "a check cell ends in an expression, its score"]
    promised = called_points(cell.source)
    if promised != points_of(cell):
        found.append(f"its calls are worth {promised:g} points, its metadata say {points_of(cell):g}")
    return found


def called_points(source: str) -> float:
    """Return the points of all checks that a cell calls: 1 each by default."""
    given = ({keyword.arg: keyword.value for keyword in call.keywords} for call in checks_in(source))
    return sum(float(ast.literal_eval(options.get("points", "1"))) for options in given)


def checks_in(source: str) -> list[ast.Call]:
    """Return the calls of a cell that give points: `ws.check_cell`, `check_prediction`, `check_case`."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("check_cell", "check_prediction", "check_case")
    ]
