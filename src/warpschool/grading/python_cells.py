"""Check cells in Python: what the student's cells give is data, and only the instructor's check looks at it.

1. A student's cell that only writes down numbers is read as data: no Python of the student runs.
2. Any other cell runs in bubblewrap. The values of the names that the check uses leave the sandbox as plain data, and
   the check runs elsewhere, so that nothing the student's code does to Python can touch it.
3. A student's function that a check calls stays in the sandbox: arguments go in and results come out as plain data.
"""

from __future__ import annotations

import ast
import builtins
import json
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from warpschool.course import Course
from warpschool.grading.assignment import kernel_step
from warpschool.grading.calls import encoded
from warpschool.grading.handin import safe_png
from warpschool.grading.limits import COMPILER_BYTES, EXIT_CODE, MOST_SLEEP_S, MOST_STEPS, Limits
from warpschool.grading.result import CellOutcome, Drawing
from warpschool.grading.runner import readable_of
from warpschool.grading.sandbox import Finished, bubblewrap_problem, cell_environment, run_isolated, serving
from warpschool.grading.secret import secret_of
from warpschool.grading.verdicts import Verdict, readable

CHILD = "warpschool.grading.python_child"
LIMITS = Limits(
    cpu_s=60, memory_bytes=8 << 30, file_bytes=16 << 20, threads=1, resident_bytes=800 << 20,
    compiler_bytes=COMPILER_BYTES,
)  # fmt: skip
_OUTSIDE = replace(LIMITS, file_bytes=Limits.file_bytes)
"""Of a check, where no Python of a student's runs: it may build programs, whose library's header is a large file."""
MOST_PICTURES = 4
AS_DATA = "the student's Python was read as data, not run"
SANDBOX = "bubblewrap: no network, no other files, an empty home; the check ran outside of it"
DRAWN = "bubblewrap: no network, no other files, an empty home"
TRUSTED = "a child process with limits, as the instructor asked: the student's Python could read what the grader can"
_MOST_SOURCE = 100_000
_OURS = ("GradingError", "CompilerMissing", "CourseError", "FileNotFoundError", "PermissionError")
"""Errors of a check that no value of a student's brings about: a file of the course is missing, or out of its reach."""


@dataclass(frozen=True)
class _Cell:
    """A code cell: its Python (magics translated), the names it binds, uses and changes; `is_own`: the student's."""

    source: str
    python: str
    is_own: bool
    binds: frozenset[str]
    uses: frozenset[str]
    changes: frozenset[str] = frozenset()


def check(notebook: Mapping[str, Any], grade_id: str, *, points: float, policy: str, secret: str = "") -> CellOutcome:
    """Run one check cell of a notebook that was put together from the instructor's and the student's cells.

    `policy` is "sandbox", "manual" (students' Python never runs) or "trusted" (it runs without bubblewrap). `secret`
    is for kernels that the cell checks; no Python of a student's runs where it is known.
    """
    before, checking = _cells_before(notebook, lambda cell: _marks(cell).get("grade_id") == grade_id)
    chosen = _slice(before, checking.uses)
    kernels = _kernels(notebook)
    values = values_of(cell.python for cell in chosen if cell.is_own)
    given = [cell for cell in chosen if not cell.is_own]
    if values is not None:
        data = {name: encoded(value) for name, value in values.items()}
        job = _job(given, data, kernels, check=checking.source, secret=secret_of(secret, grade_id))
        done = _checked(job)
        found = _outcome(done, points, AS_DATA)
    elif why := _why_not(policy):
        found = CellOutcome(Verdict.SKIP, 0.0, f"A person grades this cell: {why}.", "", "not run")
    else:
        found = _in_sandbox(chosen, given, checking, kernels, points, is_closed=policy == "sandbox",
            secret=secret_of(secret, grade_id))
    return replace(found, grade_id=grade_id)


def _why_not(policy: str) -> str:
    """Why students' Python does not run here; "" where it does."""
    if policy == "manual":
        return "students' Python is not run, as the instructor asked"
    return bubblewrap_problem() if policy == "sandbox" else ""


def _in_sandbox(
    chosen: list[_Cell], given: list[_Cell], checking: _Cell, kernels: Mapping[str, str], points: float, *,
    is_closed: bool, secret: str,
) -> CellOutcome:  # fmt: skip
    """The student's cells in the sandbox, then the check outside: values are copied to it, functions are called."""
    isolation = SANDBOX if is_closed else TRUSTED
    own_names = frozenset().union(*(cell.binds for cell in chosen if cell.is_own))
    kept = frozenset().union(*(cell.binds for cell in given)) | frozenset(dir(builtins))
    needed = checking.uses.union(*(cell.uses for cell in given))
    job = _job(chosen, {}, kernels, wanted=sorted(needed & own_names - kept))
    with serving(CHILD, job, wall_s=LIMITS.wall_s, in_bubblewrap=is_closed) as child:
        answer = _read(Finished(child.first, 0, ""))
        if answer is None:
            return _ended(child.finished() or Finished(b"", 1, ""), isolation)
        unfit = {str(name) for name in answer["unfit"]} & checking.uses
        if unfit:
            names = ", ".join(sorted(name[:40] for name in unfit)[:5])
            return CellOutcome(Verdict.WA, 0.0, f"{names}: the check needs a plain value there", "", isolation)
        functions = [str(name) for name in answer["functions"]]
        pipes = child.pipes if functions else ()
        job = _job(
            given, answer["values"], kernels, check=checking.source, functions=functions, pipes=pipes, secret=secret
        )
        done = _checked(job, pass_fds=pipes)
        gone = child.finished() if functions and '"ConnectionError"' in done.answer.decode("utf-8", "replace") else None
        return _ended(gone, isolation) if gone is not None else _outcome(done, points, isolation)


def _checked(job: str, *, pass_fds: tuple[int, ...] = ()) -> Finished:
    """How the instructor's check ended, in a child that is confined: it may run the student's kernels.

    What it writes, compiled kernels among it, is removed with it.
    """
    with tempfile.TemporaryDirectory(prefix="warpschool-cells-", ignore_cleanup_errors=True) as scratch:
        cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib"
        asked = json.loads(job)
        asked["limits"] = asdict(_OUTSIDE)
        asked["places"] = {
            "readable": [*readable_of(Course.find()), str(cached)], "writable": [scratch], "cache": scratch,
            "runs_programs": "check_case(" in asked["check"],  # it builds and runs programs of the course's own
        }  # fmt: skip
        environment = cell_environment() | {"TMPDIR": scratch, "IPYTHONDIR": scratch}
        return run_isolated(
            CHILD, json.dumps(asked), wall_s=LIMITS.wall_s, in_bubblewrap=False, environment=environment,
            pass_fds=pass_fds,
        )  # fmt: skip


def draw(notebook: Mapping[str, Any], cell_id: str, *, policy: str) -> Drawing:
    """Run a student's cell for its pictures, after the cells that it depends on. `policy`: see `check`."""
    if why := _why_not(policy):
        return Drawing((), why, "not run")
    before, drawing = _cells_before(notebook, lambda cell: cell.get("id") == cell_id)
    chosen = _slice(before, drawing.uses, with_changes=True)
    isolation = DRAWN if policy == "sandbox" else TRUSTED
    finished = run_isolated(
        CHILD, _job(chosen, {}, _kernels(notebook), drawn=drawing.source), wall_s=LIMITS.wall_s,
        in_bubblewrap=policy == "sandbox",
    )  # fmt: skip
    answer = _read(finished)
    found = answer.get("drawn") if answer is not None else None
    if not isinstance(found, list):
        return Drawing((), _ended(finished, isolation).text, isolation)
    images = tuple(filter(None, (safe_png(png) for png in found[:MOST_PICTURES] if isinstance(png, str))))
    return Drawing(images, "" if images else "the cell drew nothing when it was run again", isolation)


# ---------------------------------------------------------------- which cells


def _cells_before(notebook: Mapping[str, Any], is_it: Callable[[Mapping[str, Any]], bool]) -> tuple[list[_Cell], _Cell]:
    """The code cells before the one that is looked for, without kernels and checks; and that one."""
    found: list[_Cell] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if is_it(cell):
            return found, _parsed(source, is_own=True)
        marks = _marks(cell)
        if cell["cell_type"] == "code" and not marks.get("grade") and not source.startswith("%%"):
            found.append(_parsed(source, is_own=not marks.get("locked") or bool(marks.get("solution"))))
    raise KeyError("no such cell")


def _marks(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    return cell.get("metadata", {}).get("nbgrader", {})


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
    binds |= set(_imported(python))
    uses = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return _Cell(source, python, is_own, frozenset(binds), frozenset(uses), frozenset(_changed(nodes)))


def _changed(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names of what a cell may change in place: `name.append(...)`, `name[...] = ...`, `name.x = ...`."""
    for node in nodes:
        place = node.func if isinstance(node, ast.Call) else node
        stored = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        while isinstance(place, ast.Attribute | ast.Subscript) and (stored or isinstance(node, ast.Call)):
            place = place.value
            if isinstance(place, ast.Name):
                yield place.id


def _slice(cells: list[_Cell], names: Iterable[str], *, with_changes: bool = False) -> list[_Cell]:
    """The cells that the names depend on, in order: what only draws or measures is left out.

    With `with_changes`, cells of the student's that may change what is needed too; names of modules are no such thing.
    """
    modules = {name for cell in cells for name in _imported(cell.python)}
    needed, chosen = set(names), []
    for cell in reversed(cells):
        if cell.binds & needed or (with_changes and cell.is_own and (cell.changes - modules) & needed):
            chosen.append(cell)
            needed |= cell.uses
    return chosen[::-1]


def _imported(python: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(python)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _kernels(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Step -> source of its last `%%kernel` cell."""
    sources = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return {step: source.partition("\n")[2] for source in sources if (step := kernel_step(source))}


# ---------------------------------------------------------------- the child


def _job(
    cells: list[_Cell], values: Mapping[str, Any], kernels: Mapping[str, str], *, wanted: Iterable[str] = (),
    check: str | None = None, functions: Iterable[str] = (), pipes: Iterable[int] = (), drawn: str | None = None,
    secret: str = "",
) -> str:  # fmt: skip
    return json.dumps({
        "limits": asdict(LIMITS), "cells": [cell.source for cell in cells],
        "values": dict(values), "kernels": dict(kernels), "wanted": list(wanted), "check": check, "drawn": drawn,
        "functions": list(functions), "pipes": list(pipes), "secret": secret, "places": None,
    })  # fmt: skip


def _read(finished: Finished) -> dict[str, Any] | None:
    """The child's answer, if it is one."""
    try:
        answer = json.loads(finished.answer)
        ok = isinstance(answer["values"], dict) and all(isinstance(answer[k], list) for k in ("unfit", "functions"))
        return answer if ok and not finished.timed_out else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _ended(finished: Finished, isolation: str) -> CellOutcome:
    """What a child without an answer stands for."""
    log, code = finished.log, finished.code
    waits = "the check ran out of time: this machine is overloaded, or the notebook's Python waits for something"
    steps = f"the notebook's Python runs more than {MOST_STEPS:,} steps or sleeps for over {MOST_SLEEP_S:g} s"
    ends = {
        (Verdict.SE, waits): finished.timed_out,  # what never ends, ends by its steps or by its processor time
        (Verdict.TLE, steps): code == EXIT_CODE,
        (Verdict.TLE, "the notebook's Python used up its processor time"): "SIGXCPU" in log or code in (-24, 152),
        (Verdict.MLE, "the notebook's Python needed too much memory"): "MemoryError" in log,
        (Verdict.SE, readable(f"the check did not end well: {log[-500:]}")): isolation == AS_DATA,
        (Verdict.RTE, "the notebook's Python ended without an answer"): True,
    }
    verdict, why = next(end for end, is_so in ends.items() if is_so)
    return CellOutcome(verdict, 0.0, why, "", isolation)


def _outcome(finished: Finished, points: float, isolation: str) -> CellOutcome:
    """The points that a check gave, never more than it is worth; nothing that is no number becomes points."""
    answer = _read(finished)
    said = answer.get("check") if answer is not None else None
    if not isinstance(said, dict):
        return _ended(finished, isolation)
    text, png = readable(str(said.get("text", ""))), str(said.get("png", ""))
    if said.get("error"):
        kind, verdict, seen = (str(part) for part in said["error"])
        if verdict == "SE" and kind not in _OURS:
            verdict = "WA"  # the check stumbled over what the student gave it
        return CellOutcome(Verdict(verdict), 0.0, readable("\n".join(filter(None, [text, seen]))), png, isolation)
    value = said.get("value")
    if value is None and said.get("gives_nothing"):
        value = points  # nbgrader's rule for a check that only asserts
    if not isinstance(value, int | float) or not 0 <= value <= points + 1e-9:
        return CellOutcome(Verdict.SE, 0.0, f"the check gave {value!r}, which is no number of points", png, isolation)
    verdict = Verdict.AC if value >= points else Verdict.PC if value > 0 else Verdict.WA
    return CellOutcome(verdict, min(float(value), points) / points if points else 0.0, text, png, isolation)


# ---------------------------------------------------------------- Python that is only data


_MOST_DIGITS = 300
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def values_of(cells: Iterable[str]) -> dict[str, Any] | None:
    """Return what cells bind, if they do nothing but bind names to constants and arithmetic on them; else None."""
    values: dict[str, Any] = {}
    for cell in cells:
        for statement in ast.parse(cell).body:
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
        case ast.Dict(keys=keys, values=items) if all(key is not None for key in keys):
            pairs = zip(keys, items, strict=True)
            return {_constant(key, values): _constant(item, values) for key, item in pairs if key is not None}
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
