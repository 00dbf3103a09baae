"""Rules that a lab's notebook keeps: nbgrader's, and ours."""

from __future__ import annotations

import ast
import re

from nbformat import NotebookNode

from warpschool.authoring.notebooks import grade_id, is_answer, kernel_step

MAX_CELLS = 25
CELLS_PER_KERNEL = 3
"""A lab with many steps may have this many cells for each of them instead."""
MAX_CODE_LINES = 15
SCHEMA_VERSION = 3
_KEYS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
GRADE_ID = re.compile(r"lab\d\d-\d\d-[a-z][a-z-]*")
_ON_THE_SIMULATOR = ("counters", "hazards", "lines")
"""What a run on a GPU does not tell."""


def problems(notebook: NotebookNode) -> list[str]:
    """Return what is wrong with a notebook of `labs/`, one sentence each; nothing for a good one."""
    found = []
    limit = max(MAX_CELLS, CELLS_PER_KERNEL * sum(kernel_step(cell) is not None for cell in notebook.cells))
    count = sum(not is_answer(cell) for cell in notebook.cells)
    if count > limit:
        found.append(f"{count} cells; at most {limit}")
    ids = [grade_id(cell) for cell in notebook.cells if not is_answer(cell)]
    found += [f"grade id {name!r} stands in several cells" for name in sorted(set(ids)) if ids.count(name) > 1]
    for place, cell in enumerate(notebook.cells):
        if is_answer(cell):
            continue
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
    found = []
    scored = bool(data.get("grade") or data.get("task"))
    if set(data) != _KEYS | ({"points"} if scored else set()):
        found.append(f"its nbgrader metadata has the keys {', '.join(sorted(data))}")
    if data.get("schema_version") != SCHEMA_VERSION:
        found.append(f"its nbgrader schema is {data.get('schema_version')}, not {SCHEMA_VERSION}")
    if not GRADE_ID.fullmatch(data.get("grade_id", "")):
        found.append("its grade id is not like lab02-01-correct")
    if scored and not data.get("points", 0) > 0:
        found.append("it is graded but has no points")
    if data.get("task") and (cell.cell_type != "markdown" or data.get("grade") or data.get("solution")):
        found.append("a task is a markdown cell that is neither graded by itself nor a solution")
    if bool(data.get("locked")) == bool(data.get("solution")):
        found.append("a cell is either locked or for the student")
    return found


def _contents(cell: NotebookNode) -> list[str]:
    if cell.cell_type != "code":
        return []
    found = []
    if cell.outputs or cell.execution_count is not None:
        found.append("it carries outputs")
    if kernel_step(cell) is not None:
        return found
    lines = [line for line in cell.source.splitlines() if line.strip()]
    if len(lines) > MAX_CODE_LINES:
        found.append(f"{len(lines)} lines of code; at most {MAX_CODE_LINES}")
    found += _counted(cell.source)
    if is_autograded(cell):
        found += _check_cell(cell)
    return found


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
    """Return the points of all `ws.check_cell` and `ws.check_prediction` calls in a cell: 1 each by default."""
    total = 0.0
    for call in checks_in(source):
        given = [keyword.value for keyword in call.keywords if keyword.arg == "points"]
        total += float(ast.literal_eval(given[0])) if given else 1.0
    return total


def checks_in(source: str) -> list[ast.Call]:
    """Return the `ws.check_cell` and `ws.check_prediction` calls of a cell."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("check_cell", "check_prediction")
    ]
