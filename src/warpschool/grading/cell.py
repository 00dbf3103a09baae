"""`check_cell`: what the graded cells of notebooks call."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from warpschool.course import Course, Step
from warpschool.errors import GradingError
from warpschool.grading.result import Result, to_text
from warpschool.grading.runner import check_and_remember, check_source
from warpschool.grading.secret import secret_words
from warpschool.grading.verdicts import Verdict
from warpschool.harness.source import Source, find_source
from warpschool.show.bar import working
from warpschool.show.page import show, show_text
from warpschool.show.results import result_html


@dataclass
class _Grading:
    """Whether this is the grader's process, and its secret seed."""

    is_on: bool = False
    secret: str = ""


_grading = _Grading()
_results: dict[tuple[str, str, str, str, int | None], Result] = {}


def grade_with(secret: str) -> None:
    """Let `check_cell` in this process grade: on the simulator, with a secret seed, and one line said of each step."""
    _grading.is_on, _grading.secret = True, secret


def secret_rng(name: str) -> np.random.Generator:
    """What a graded cell draws comes from here: from the secret seed where one grades, else the same each time."""
    return np.random.default_rng([zlib.crc32(name.encode()), *secret_words(_grading.secret)])


def check_cell(step: str, *criteria: str, points: float = 1.0, device: str = "auto", seed: int | None = None) -> float:
    """Check the step's kernel, display the result, and return the points earned as a built-in float.

    `criteria` are titles or test names, weighted as in the grader; without any the whole step counts. A step is graded
    once for each source, so its criteria may stand in cells of their own. Prints nothing to stderr. Raises GradingError
    when the grader itself failed, so that no number is taken for a grade.
    """
    found = Course.find().step(step)
    source = find_source(found)
    result = _checked(found, source, "sim" if _grading.is_on else device, seed)
    if result.verdict is Verdict.SE:
        why = result.seen or next((c.seen for c in result.criteria if c.verdict is Verdict.SE), "")
        raise GradingError(f"{result.step} was not graded: {why}", next_step="This is no grade; tell your teacher.")
    part = result.part(criteria)
    earned, shown = float(part.fraction * points), part.worth(points)
    if _grading.is_on:
        show_text(f"{found}: {shown.verdict}, {earned:g} of {points:g} points")
    else:
        show(to_text(shown, provenance=not criteria), result_html(shown, source=source.text))
    return earned


def _checked(step: Step, source: Source, device: str, seed: int | None) -> Result:
    key = (step.name, source.sha256, source.origin, device, seed)
    if key not in _results or not _results[key].is_grade:  # after a fault of the grader the next call tries again
        if _grading.is_on:
            _results[key] = check_source(step, source, device=device, seed=seed, secret=_grading.secret)
        else:
            with working(f"checking {step}"):
                _results[key] = check_and_remember(step, source, device=device, seed=seed)
    return _results[key]
