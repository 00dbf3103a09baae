"""The child that runs Python cells: `python -m warpschool.grading.python_child`, a job on stdin, an answer on stdout.

A job names cells, values of names, kernel sources, and one of three things to do: give the values of names and serve
calls of the functions among them (in the sandbox), run a check with such values and functions (outside of it), or run a
cell for its pictures (in the sandbox). What a student's code may write into an answer are its own values.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptxsim import cache
from warpschool.grading.calls import SandboxFunction, Wire, decoded, encoded, serve
from warpschool.grading.confinement import SYSTEM, confine, filter_calls
from warpschool.grading.limits import Limits, limit_steps

MOST_TEXT = 4000
MOST_PICTURES = 4
MOST_PICTURE_CHARACTERS = 6 << 20


def main() -> int:
    """Read the job, run its cells, answer."""
    asked, answer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    job = json.loads(asked.readline())
    if job["places"]:  # before there are threads
        readable, writable = [*SYSTEM, *job["places"]["readable"]], job["places"]["writable"]
        runs_programs = job["places"]["runs_programs"]
        confine(readable=readable, writable=writable, executable=[*readable, *writable] if runs_programs else None)
        cache.write_only_to(Path(job["places"]["cache"]))
    limits = Limits(**job["limits"])
    limits.apply(on_gpu=False)
    found, functions = _run(job)
    limits.require_memory()
    answer.write(json.dumps(found, allow_nan=True).encode() + b"\n")
    answer.flush()
    if functions:
        serve({name: _within(limits, function) for name, function in functions.items()}, Wire(asked, answer))
    os._exit(0)  # whatever threads and exit handlers the cells have left


def _within(limits: Limits, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which ends this process where it has used more memory than it may."""

    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        finally:
            limits.require_memory()

    return call


def _run(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Callable[..., Any]]]:
    """What the job asks for, and the functions that are to be served."""
    from warpschool.compile import compiler_report
    from warpschool.grading.cell import grade_with
    from warpschool.notebook.cells import remember

    grade_with(job["secret"])
    for step, source in job["kernels"].items():
        remember(step, source)
    shell = _shell()
    if job["check"] is None:  # here run the student's cells
        if any("warpschool" in source for source in job["cells"]):
            compiler_report()  # while a process may be started: kernels of these cells need the compiler's
        filter_calls(processes=False)
        shell.ast_transformers.append(limit_steps())
    shell.user_ns.update({name: decoded(value) for name, value in job["values"].items()})
    if job["pipes"]:
        read, write = job["pipes"]
        wire = Wire(os.fdopen(read, "rb"), os.fdopen(write, "wb"))
        shell.user_ns.update({name: SandboxFunction(name, wire) for name in job["functions"]})
    for source in job["cells"]:
        _run_cell(shell, source)
    found: dict[str, Any] = {"values": {}, "unfit": [], "functions": []}
    for name in (name for name in job["wanted"] if name in shell.user_ns):
        try:
            found["values"][name] = encoded(shell.user_ns[name])
        except Exception:  # a student's own class may raise anything
            found["functions" if callable(shell.user_ns[name]) else "unfit"].append(name)
    if job["check"] is not None:
        found["check"] = _check(shell, job["check"])
    if job["drawn"] is not None:
        found["drawn"] = _pictures(shell, job["drawn"])
    return found, {name: shell.user_ns[name] for name in found["functions"]}


def _shell() -> Any:
    """An IPython without a terminal: pictures are kept, errors are not printed, nothing is remembered."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def enable_gui(self, gui: Any = None) -> None:
            """There is none."""

        def showtraceback(self, *args: Any, **options: Any) -> None:
            """Errors are in what `run_cell` returns."""

    settings = Config()
    settings.HistoryManager.enabled = False  # no database is made
    shell: Any = Shell.instance(config=settings)
    return shell


def _run_cell(shell: Any, source: str) -> tuple[Any, Any]:
    """Run a cell; return how it ended and what it said, and log the error that ended it."""
    from IPython.utils.capture import capture_output

    with capture_output() as said:
        done = shell.run_cell(source, store_history=False)
    if not done.success:
        print(f"{type(done.error_in_exec or done.error_before_exec).__name__} in: {source[:200]}", file=sys.stderr)
    return done, said


def _pngs(said: Any) -> list[str]:
    """The pictures among what a cell said, in base64."""
    return [_base64(o.data["image/png"]) for o in said.outputs if "image/png" in (o.data or {})]


def _base64(png: Any) -> str:
    return base64.b64encode(png).decode() if isinstance(png, bytes) else str(png)


def _check(shell: Any, source: str) -> dict[str, Any]:
    """Run the check cell: its value, what it printed, its first picture, and the error that ended it."""
    from warpschool.grading.verdicts import judge

    done, said = _run_cell(shell, source)
    texts = [said.stdout, *((o.data or {}).get("text/plain", "") for o in said.outputs[:20])]
    error = done.error_before_exec or done.error_in_exec
    judged = judge(error) if error is not None else None
    value = done.result
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return {
        "text": "\n".join(filter(None, texts))[:MOST_TEXT],
        "png": next(iter(_pngs(said)), ""),
        "error": [type(error).__name__, str(judged.verdict), judged.seen] if judged is not None else None,
        "value": float(value) if is_number else None,
        "gives_nothing": value is None and not _ends_in_a_value(source),
    }


def _pictures(shell: Any, source: str) -> list[str]:
    """Run a cell and return its PNGs in base64; figures that it left open are drawn too."""
    _, said = _run_cell(shell, source)
    pictures: list[str] = []
    for png in (_pngs(said) or _open_figures())[:MOST_PICTURES]:
        if sum(map(len, pictures)) + len(png) <= MOST_PICTURE_CHARACTERS:
            pictures.append(png)
    return pictures


def _open_figures() -> list[str]:
    from matplotlib import pyplot as plt

    found = []
    for number in plt.get_fignums()[:MOST_PICTURES]:
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png")
        found.append(_base64(file.getvalue()))
    return found


def _ends_in_a_value(source: str) -> bool:
    body = ast.parse(source).body
    return bool(body) and isinstance(body[-1], ast.Expr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
