"""`check_cell`: what the graded cells of notebooks call."""

from __future__ import annotations

from warpschool.course import Course
from warpschool.errors import GradingError
from warpschool.grading.result import Result, TextOptions, to_text
from warpschool.grading.runner import DEFAULT_SEED, check_source
from warpschool.grading.sources import find_source
from warpschool.grading.verdicts import Verdict
from warpschool.notebook.show import show
from warpschool.viz.displays import result_html

_results: dict[tuple[str, str, str, str, int], Result] = {}


def check_cell(step: str, *criteria: str, points: float = 1.0, device: str = "auto", seed: int | None = None) -> float:
    """Check the step's kernel, display the result, and return the points earned as a built-in float.

    `criteria` are titles or test names, weighted as in the grader; without any the whole step counts. A step is graded
    once for each source, so its criteria may stand in cells of their own. Prints nothing to stderr. Raises GradingError
    when the grader itself failed, so that no number is taken for a grade.
    """
    result = _checked(step, device, DEFAULT_SEED if seed is None else int(seed))
    if result.verdict is Verdict.SE:
        raise GradingError(
            f"{result.step} was not graded: {_failure(result)}", next_step="This is no grade; tell your teacher."
        )
    shown = result.part(criteria)
    show(to_text(shown, TextOptions(provenance=not criteria)), result_html(shown))
    return float(shown.fraction * points)


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
