"""Check cells in Python: what the student's cells give is data, and only the instructor's check looks at it.

1. A student's cell that only writes down numbers is read as data: no Python of the student runs.
2. Any other cell runs in bubblewrap. The values of the names that the check uses leave the sandbox as plain data, and
   the check runs elsewhere, so that nothing the student's code does to Python can touch it.
3. Only a check that calls a student's function runs in the sandbox beside it, and its outcome says so.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from warpschool.grading.limits import Limits
from warpschool.grading.python_child import encoded
from warpschool.grading.sandbox import Finished, bubblewrap_problem, run_isolated
from warpschool.grading.verdicts import Verdict, readable

CHILD = "warpschool.grading.python_child"
LIMITS = Limits(wall_s=300.0, cpu_s=120, memory_bytes=8 << 30, file_bytes=16 << 20, threads=1, resident_bytes=800 << 20)
AS_DATA = "the student's Python was read as data, not run"
SANDBOX = "bubblewrap: no network, no other files, an empty home; the check ran outside of it"
TOGETHER = "bubblewrap: no network, no other files, an empty home; the check ran beside the student's code"
TRUSTED = "a child process with limits, as the instructor asked: the student's Python could read what the grader can"
_MOST_DIGITS = 300
_MOST_SOURCE = 100_000
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """What a check cell gave: `value` points, or the verdict and text of why there are none."""

    verdict: Verdict
    value: float
    text: str
    png: str
    isolation: str


@dataclass(frozen=True)
class _Cell:
    """A code cell: its Python (magics translated), the names it binds and uses; `is_own`: the student's."""

    source: str
    python: str
    is_own: bool
    binds: frozenset[str]
    uses: frozenset[str]


def check(notebook: Mapping[str, Any], grade_id: str, *, points: float, policy: str) -> Checked:
    """Run one check cell of a notebook that was put together from the instructor's and the student's cells.

    `policy` is "sandbox", "manual" (students' Python never runs) or "trusted" (it runs without bubblewrap).
    """
    before, checking = _cells(notebook, grade_id)
    chosen = _slice(before, checking.uses)
    kernels = _kernels(notebook)
    own = [cell for cell in chosen if cell.is_own]
    values = _as_data(own)
    given = [cell for cell in chosen if not cell.is_own]
    if values is not None:
        job = _job(given, {name: encoded(value) for name, value in values.items()}, kernels, check=checking.source)
        return _outcome(run_isolated(CHILD, job, wall_s=LIMITS.wall_s, in_bubblewrap=False), points, AS_DATA)
    problem = bubblewrap_problem() if policy == "sandbox" else ""
    if policy == "manual" or problem:
        why = problem or "students' Python is not run, as the instructor asked"
        return Checked(Verdict.SKIP, 0.0, f"A person grades this cell: {why}.", "", "not run")
    return _in_sandbox(chosen, given, checking, kernels, points, is_closed=policy == "sandbox")


def _in_sandbox(
    chosen: list[_Cell], given: list[_Cell], checking: _Cell, kernels: Mapping[str, str], points: float, *,
    is_closed: bool,
) -> Checked:  # fmt: skip
    """The student's cells in the sandbox, then the check with their values outside; or both inside where it must be."""
    own_names = frozenset().union(*(cell.binds for cell in chosen if cell.is_own))
    wanted = sorted(checking.uses & own_names - frozenset().union(*(cell.binds for cell in given)))
    finished = run_isolated(
        CHILD, _job(chosen, {}, kernels, wanted=wanted), wall_s=LIMITS.wall_s, in_bubblewrap=is_closed
    )
    answer = _read(finished)
    if answer is None:
        return _ended(finished, SANDBOX if is_closed else TRUSTED)
    if not answer["unfit"]:
        job = _job(given, answer["values"], kernels, check=checking.source)
        done = run_isolated(CHILD, job, wall_s=LIMITS.wall_s, in_bubblewrap=False)
        return _outcome(done, points, SANDBOX if is_closed else TRUSTED)
    if not set(answer["unfit"]) <= _called(checking.python):
        names = ", ".join(sorted(str(name)[:40] for name in answer["unfit"])[:5])
        return Checked(Verdict.WA, 0.0, f"{names}: the check needs a plain value there", "", SANDBOX)
    both = run_isolated(
        CHILD, _job(chosen, {}, kernels, check=checking.source), wall_s=LIMITS.wall_s, in_bubblewrap=is_closed
    )
    return _outcome(both, points, TOGETHER if is_closed else TRUSTED)


# ---------------------------------------------------------------- which cells


def _cells(notebook: Mapping[str, Any], grade_id: str) -> tuple[list[_Cell], _Cell]:
    """The code cells before the check, without kernels and other checks; and the check."""
    found: list[_Cell] = []
    for cell in notebook["cells"]:
        marks = cell.get("metadata", {}).get("nbgrader", {})
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        if marks.get("grade_id") == grade_id:
            return found, _parsed(source, is_own=False)
        if cell["cell_type"] == "code" and not marks.get("grade") and not source.startswith("%%"):
            found.append(_parsed(source, is_own=not marks.get("locked") or bool(marks.get("solution"))))
    raise KeyError(grade_id)


def _parsed(source: str, *, is_own: bool) -> _Cell:
    """A cell with its names; a student's cell that is no Python binds nothing."""
    try:
        if len(source) > _MOST_SOURCE:
            raise ValueError("too long to be an answer")
        python = TransformerManager().transform_cell(source)
        nodes = list(ast.walk(ast.parse(python)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Cell(source, "", is_own, frozenset(), frozenset())
    binds = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    binds |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            binds |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    uses = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return _Cell(source, python, is_own, frozenset(binds), frozenset(uses))


def _called(python: str) -> set[str]:
    """The names that a cell calls as functions."""
    calls = (node.func for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _slice(cells: list[_Cell], names: Iterable[str]) -> list[_Cell]:
    """The cells that the names depend on, in order: what only draws or measures is left out."""
    needed, chosen = set(names), []
    for cell in reversed(cells):
        if cell.binds & needed:
            chosen.append(cell)
            needed |= cell.uses
    return chosen[::-1]


def _kernels(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Step -> source of its last `%%kernel` cell."""
    found = {}
    for cell in notebook["cells"]:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        first, _, rest = source.partition("\n")
        words = first.split()
        if cell["cell_type"] == "code" and len(words) > 1 and words[0] == "%%kernel":
            found[words[1]] = rest
    return found


# ---------------------------------------------------------------- data


def _as_data(cells: list[_Cell]) -> dict[str, Any] | None:
    """What the cells bind, if they do nothing but bind names to constants and arithmetic on them; else None."""
    values: dict[str, Any] = {}
    for cell in cells:
        for statement in ast.parse(cell.python).body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
                return None
            try:
                value = _constant(statement.value, values)
            except (ValueError, ArithmeticError, TypeError, RecursionError):
                return None
            values |= {target.id: value for target in statement.targets if isinstance(target, ast.Name)}
    return values


def _constant(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a constant expression; raises ValueError for anything that would have to be run."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Tuple(elts=items):
            return tuple(_constant(item, values) for item in items)
        case ast.List(elts=items):
            return [_constant(item, values) for item in items]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_number(operand, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _small(_OPERATORS[type(op)](_number(left, values), _number(right, values)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _number(left, values), _number(right, values)
            if abs(exponent) > 64:
                raise ValueError("a large power")
            return _small(base**exponent)
    raise ValueError("no constant")


def _number(node: ast.expr, values: Mapping[str, Any]) -> Any:
    value = _constant(node, values)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("no number")
    return value


def _small(value: Any) -> Any:
    if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > 4 * _MOST_DIGITS):
        raise ValueError("too large")
    return value


# ---------------------------------------------------------------- the child


def _job(
    cells: list[_Cell], values: Mapping[str, Any], kernels: Mapping[str, str], *, wanted: Iterable[str] = (),
    check: str | None = None,
) -> str:  # fmt: skip
    return json.dumps({
        "limits": asdict(LIMITS), "cells": [cell.source for cell in cells], "values": dict(values),
        "kernels": dict(kernels), "wanted": list(wanted), "check": check,
    })  # fmt: skip


def _read(finished: Finished) -> dict[str, Any] | None:
    """The child's answer, if it is one."""
    try:
        answer = json.loads(finished.answer)
        ok = isinstance(answer["values"], dict) and isinstance(answer["unfit"], list)
        return answer if ok and not finished.timed_out else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _ended(finished: Finished, isolation: str) -> Checked:
    """What a child without an answer stands for."""
    if finished.timed_out or "SIGXCPU" in finished.log or finished.code in (-24, 152):
        return Checked(Verdict.TLE, 0.0, "the notebook's Python ran out of time", "", isolation)
    if "MemoryError" in finished.log:
        return Checked(Verdict.MLE, 0.0, "the notebook's Python needed too much memory", "", isolation)
    if isolation == AS_DATA:
        return Checked(Verdict.SE, 0.0, readable(f"the check did not end well: {finished.log[-500:]}"), "", isolation)
    return Checked(Verdict.RTE, 0.0, "the notebook's Python ended without an answer", "", isolation)


def _outcome(finished: Finished, points: float, isolation: str) -> Checked:
    """The points that a check gave, never more than it is worth; nothing that is no number becomes points."""
    answer = _read(finished)
    said = answer.get("check") if answer is not None else None
    if not isinstance(said, dict):
        return _ended(finished, isolation)
    text, png = readable(str(said.get("text", ""))), str(said.get("png", ""))
    if said.get("error"):
        kind, verdict, seen = (str(part) for part in said["error"])
        if verdict == "SE" and kind not in ("GradingError", "CompilerMissing"):
            verdict = "WA"  # the check stumbled over what the student gave it
        return Checked(Verdict(verdict), 0.0, readable("\n".join(filter(None, [text, seen]))), png, isolation)
    value = said.get("value")
    if value is None and said.get("gives_nothing"):
        value = points  # nbgrader's rule for a check that only asserts
    if not isinstance(value, int | float) or not 0 <= value <= points + 1e-9:
        return Checked(Verdict.SE, 0.0, f"the check gave {value!r}, which is no number of points", png, isolation)
    verdict = Verdict.AC if value >= points else Verdict.PC if value > 0 else Verdict.WA
    return Checked(verdict, min(float(value), points), text, png, isolation)
