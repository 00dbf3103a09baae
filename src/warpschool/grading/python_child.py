"""The child that runs Python cells: `python -m warpschool.grading.python_child`, a job on stdin, an answer on stdout.

A job names cells (source and whether it is the check), values of names, and kernel sources. The answer holds what the
check gave, or the values of the asked names. What a student's code may write into the answer are its own values.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from warpschool.grading.limits import Limits

MOST_TEXT = 4000
_PLAIN = (bool, int, float, str, type(None))


def main() -> int:
    """Read the job, run its cells, answer."""
    answer = os.dup(1)
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read())
    Limits(**job["limits"]).apply(on_gpu=False)
    text = json.dumps(_run(job), allow_nan=True)
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
    os._exit(0)  # whatever threads and exit handlers the cells have left


def _run(job: dict[str, Any]) -> dict[str, Any]:
    from IPython.utils.capture import capture_output

    from warpschool.notebook.cells import remember

    for step, source in job["kernels"].items():
        remember(step, source)
    shell = _shell()
    shell.user_ns.update({name: decoded(value) for name, value in job["values"].items()})
    for source in job["cells"]:
        with capture_output():
            done = shell.run_cell(source, store_history=False)
        if not done.success:
            print(f"{type(done.error_in_exec or done.error_before_exec).__name__} in: {source[:200]}", file=sys.stderr)
    found: dict[str, Any] = {"values": {}, "unfit": []}
    for name in job["wanted"]:
        if name in shell.user_ns:
            try:
                found["values"][name] = encoded(shell.user_ns[name])
            except TypeError:
                found["unfit"].append(name)
    if job["check"] is not None:
        found["check"] = _check(shell, job["check"])
    return found


def _shell() -> Any:
    """An IPython without a terminal: pictures are kept, errors are not printed, nothing is remembered."""
    from IPython.core.interactiveshell import InteractiveShell

    class Shell(InteractiveShell):
        def enable_gui(self, gui: Any = None) -> None:
            """There is none."""

        def showtraceback(self, *args: Any, **options: Any) -> None:
            """Errors are in what `run_cell` returns."""

    shell = Shell.instance()
    shell.history_manager.enabled = False  # type: ignore[union-attr]
    return shell


def _check(shell: Any, source: str) -> dict[str, Any]:
    """Run the check cell: its value, what it printed, its first picture, and the error that ended it."""
    from IPython.utils.capture import capture_output

    from warpschool.grading.verdicts import judge

    with capture_output() as said:
        done = shell.run_cell(source, store_history=False)
    png = next((o.data["image/png"] for o in said.outputs if "image/png" in (o.data or {})), "")
    if isinstance(png, bytes):
        png = base64.b64encode(png).decode()
    texts = [said.stdout, *((o.data or {}).get("text/plain", "") for o in said.outputs[:20])]
    error = done.error_before_exec or done.error_in_exec
    answer: dict[str, Any] = {"text": "\n".join(filter(None, texts))[:MOST_TEXT], "png": png, "error": None}
    if error is not None:
        judged = judge(error)
        answer["error"] = [type(error).__name__, str(judged.verdict), judged.seen]
    value = done.result
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    answer["value"] = float(value) if is_number else None
    answer["gives_nothing"] = value is None and not _ends_in_a_value(source)
    return answer


def _ends_in_a_value(source: str) -> bool:
    body = ast.parse(source).body
    return bool(body) and isinstance(body[-1], ast.Expr)


def encoded(value: Any) -> Any:
    """Return plain data that `decoded` turns back into the value; raises TypeError for what is more than data."""
    kind = type(value)
    if kind in _PLAIN:
        return ["plain", value]
    if kind is Fraction:
        return ["fraction", str(value)]
    if kind in (list, tuple, set):
        return [kind.__name__, [encoded(item) for item in value]]
    if kind is dict:
        return ["dict", [[encoded(key), encoded(item)] for key, item in value.items()]]
    if kind is np.ndarray and value.dtype.kind in "biufc" and value.nbytes <= 1 << 22:
        return ["array", value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return ["array", value.dtype.str, [], base64.b64encode(value.tobytes()).decode()]
    raise TypeError(f"a {kind.__name__} is not plain data")


def decoded(data: Any) -> Any:
    """Return the value that `encoded` described; raises ValueError for anything else."""
    match data:
        case ["plain", value] if type(value) in _PLAIN:
            return value
        case ["fraction", str(text)]:
            return Fraction(text[:200])
        case ["list" | "tuple" | "set" as kind, list(items)]:
            return {"list": list, "tuple": tuple, "set": set}[kind](decoded(item) for item in items)
        case ["dict", list(items)]:
            return {decoded(key): decoded(item) for key, item in items}
        case ["array", str(dtype), list(shape), str(text)] if np.dtype(dtype).kind in "biufc":
            array = np.frombuffer(base64.b64decode(text), np.dtype(dtype)).reshape(shape).copy()
            return array if shape else array[()]
    raise ValueError("this is no value of a notebook")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
