"""`check_cell`: what the graded cells of notebooks call."""

from __future__ import annotations

import html
import sys
from typing import Any

from warpschool.course import Course
from warpschool.errors import GradingError
from warpschool.grading.result import Result, TextOptions, to_text
from warpschool.grading.runner import DEFAULT_SEED, check_source
from warpschool.grading.sources import find_source
from warpschool.grading.verdicts import Verdict

_results: dict[tuple[str, str, str, str, int], Result] = {}


def check_cell(
    step: str, criterion: str = "", *, points: float = 1.0, device: str = "auto", seed: int | None = None
) -> float:
    """Check the step's kernel, display the result, and return the points earned as a built-in float.

    `criterion` is a title or test name; without one the whole step counts. A step is graded once for each source: its
    criteria may stand in cells of their own. Prints nothing to stderr. Raises GradingError when the grader itself failed,
    so that no number is taken for a grade.
    """
    result = _checked(step, device, DEFAULT_SEED if seed is None else int(seed))
    if result.verdict is Verdict.SE:
        raise GradingError(f"{result.step} was not graded: {_failure(result)}", next_step="This is no grade; tell your teacher.")
    if not criterion:
        _show(to_text(result), good=result.ok)
        return float(result.fraction * points)
    found = result.criterion(criterion)
    only = Result(
        result.step, found.verdict, (found,), result.seed, result.source, result.provenance,
        result.seen, result.line, result.code,
    )  # fmt: skip
    _show(to_text(only, TextOptions(provenance=False)), good=found.ok)
    return float(found.fraction * points)


def _checked(step: str, device: str, seed: int) -> Result:
    found = Course.find().step(step)
    source = find_source(found)
    key = (found.name, source.sha256, source.origin, device, seed)
    if key not in _results:
        result = check_source(found, source, device=device, seed=seed)
        if result.verdict is Verdict.SE:
            return result  # not kept: the next call tries again
        _results[key] = result
    return _results[key]


def _failure(result: Result) -> str:
    return result.seen or next((c.seen for c in result.criteria if c.verdict is Verdict.SE), "")


class _Shown:
    """Text with an HTML form; notebooks pick the latter."""

    def __init__(self, text: str, good: bool) -> None:
        self._text = text
        self._colour = "#2e8b57" if good else "#c0392b"

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        style = f"border-left: 4px solid {self._colour}; padding-left: 0.8em"
        return f'<pre style="{style}">{html.escape(self._text)}</pre>'


def _show(text: str, *, good: bool) -> None:
    shell: Any = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None:
        print(text)
        return
    from IPython.display import display

    display(_Shown(text, good))
