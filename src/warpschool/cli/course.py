"""Commands around one's own work: `status`, `diff`, `solution`."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from warpschool.cli.failures import BAD_INPUT, guarded
from warpschool.cli.files import read_source
from warpschool.cli.options import AsJson, Plain, StepName
from warpschool.cli.output import Cell, Output
from warpschool.errors import ArgumentError, WarpschoolError

if TYPE_CHECKING:
    from warpschool.course import Step

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@guarded
def status(as_json: AsJson = False, plain: Plain = False) -> None:
    """Show how far you are: every step of your copy, and the last check of the file as it is now.

    Example: warpschool status
    """
    from warpschool.course import Course
    from warpschool.grading import personal_copy

    output = Output(as_json=as_json, plain=plain)
    course = Course.find()
    rows = [_status_of(step) for step in course.steps() if step.grader]
    own = personal_copy(Path.cwd())
    output.data({"copy": str(own) if own else None, "steps": rows})
    styles = {"accepted": "bold green", "not started": "dim", "no file": "dim"}
    cells: list[list[Cell]] = [
        [str(row["step"]), Text(str(row["state"]), style=styles.get(str(row["state"]), "yellow")), str(row["points"])]
        for row in rows
    ]
    output.table(["step", "state", "points"], cells, numbers=("points",))
    done = sum(row["state"] == "accepted" for row in rows)
    where = own or "the checkout's kernels/ or nothing: warpschool start makes a copy"
    output.show(f"{done} of {len(rows)} steps accepted. Your copy: {where}", style="dim")


@guarded
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A step or a file.")],
    second: Annotated[str | None, typer.Argument(metavar="B", help="Another; without it, A's starter.")] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="Of steps, take the references, not your files.")
    ] = False,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Show what changes between two steps or files: between two steps of a ladder, that is the idea.

    Example: warpschool diff lab01/01 lab02/01 --solutions
    """
    output = Output(as_json=as_json, plain=plain)
    from warpschool.course import Course
    from warpschool.harness.source import of_course, resolve

    names = (first,) if second is None else (first, second)
    sources = [resolve(name, "reference" if solutions else "begun", read=read_source) for name in names]
    if second is None:
        sources.insert(0, of_course(Course.find().step(first), "starter"))
    a_name, b_name = (source.label for source in sources)
    a, b = (source.text.splitlines() for source in sources)
    lines = list(difflib.unified_diff(a, b, a_name, b_name, lineterm=""))
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    output.data({"a": a_name, "b": b_name, "added": added, "removed": removed, "diff": "\n".join(lines)})
    for line in lines:
        output.show(line, style=_DIFF_STYLES.get(line[:1], ""))
    output.show(f"+{added} -{removed} lines" if lines else f"{a_name} and {b_name} are the same", style="dim")


@guarded
def solution(
    step: StepName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Print a step's reference, after asking: a solution can be read only once for the first time.

    Example: warpschool solution lab02/01
    """
    from warpschool.course import Course
    from warpschool.harness.source import of_course

    output = Output(as_json=as_json, plain=plain)
    found = Course.find().step(step)
    text = of_course(found, "reference").text
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise ArgumentError("nobody is there to be asked", next_step="If you mean it: --yes")
        if not typer.confirm(f"Show the whole solution of {found}? Hints come first: warpschool hint {found.name} 1"):
            raise typer.Exit(BAD_INPUT)
    output.data({"step": found.name, "source": text})
    if output.plain:
        output.show(text.rstrip("\n"))
        return
    from warpschool.cli.draw import code

    for line in text.splitlines():
        output.show(code(line))


def _status_of(step: Step) -> dict[str, str | float]:
    from warpschool.cli.results import last_result
    from warpschool.grading import find_source

    def row(state: str, points: str = "") -> dict[str, str | float]:
        return {"step": step.name, "state": state, "points": points}

    try:
        source = find_source(step)
    except WarpschoolError:
        return row("no file")
    if step.starter is not None and source.data == step.starter.read_bytes():
        return row("not started")
    result = last_result(step.name, source)
    if result is None:
        return row("changed, not checked")
    state = "accepted" if result.ok else f"{result.verdict}: {result.verdict.meaning}"
    return row(state, f"{result.score:g}/{result.max_score:g}")
