"""What a grader file declares: criteria with points and hints."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from warpschool.course import Course, Step
from warpschool.errors import CourseError, GradingError
from warpschool.grading.verdicts import Judgement, Verdict

HINT_LEVELS = 3


@dataclass(frozen=True)
class CriterionInfo:
    """A criterion as its grader file declares it; `hint` holds a nudge, a place and pseudocode."""

    id: str
    title: str
    weight: float
    hint: tuple[str, ...]
    counts: str
    about: Verdict | None = None
    """the fault that it is about: its hints are given wherever the step's kernels show that fault"""


def criterion(
    title: str, *, weight: float = 1, hint: Sequence[str] = (), counts: str = "", about: str = ""
) -> Callable[[Callable[..., Any]], Any]:
    """Mark a test function as one graded criterion.

    `weight` is its share of the step's points, `hint` up to three hints (a nudge, where to look, pseudocode), `counts`
    says what is counted and why, `about` is the verdict of the one fault that the hints are about ("RACE"). Raises
    GradingError for a criterion that could not be shown or scored.
    """
    if not title or not weight > 0 or isinstance(hint, str) or len(hint) > HINT_LEVELS:
        raise GradingError(f"criterion {title!r}: it needs a title, a positive weight and at most {HINT_LEVELS} hints")
    import pytest  # here, because who only reads results needs none of it

    if about and about not in tuple(Verdict):
        raise GradingError(f"criterion {title!r}: '{about}' is no verdict", next_step=f"One of {', '.join(Verdict)}.")
    fault = Verdict(about) if about else None
    return pytest.mark.criterion(title=title, weight=weight, hint=tuple(hint), counts=counts, about=fault)


def partial(fraction: float, why: str, *, line: int = 0) -> NoReturn:
    """End a criterion with a part of its points."""
    if not 0 < fraction < 1:
        raise GradingError(f"partial({fraction}): the fraction lies between 0 and 1")
    raise Judgement(Verdict.PC, why, line=line, fraction=float(fraction))


def info_of(name: str, mark: Any) -> CriterionInfo:
    """Return what a criterion's mark says about the test function `name`."""
    return CriterionInfo(name, **mark.kwargs)


def criteria_of(step: Step) -> tuple[CriterionInfo, ...]:
    """Return the criteria of a step, in the order of its grader file, without running any.

    Raises CourseError when the step has no grader.
    """
    return tuple(info for info, _ in graded_functions(step))


def graded_functions(step: Step) -> tuple[tuple[CriterionInfo, Callable[..., Any]], ...]:
    """Return the criteria of a step with their test functions. Raises CourseError when the step has no grader."""
    if step.grader is None:
        raise CourseError(f"{step} has no grader", next_step="Choose a step that has a file in grader/.")
    found = []
    for name, member in vars(_load(step.grader)).items():
        marks = [mark for mark in getattr(member, "pytestmark", ()) if mark.name == "criterion"]
        if name.startswith("test_") and inspect.isfunction(member) and marks:
            found.append((info_of(name, marks[0]), member))
    return tuple(found)


def _load(path: Path) -> ModuleType:
    """Import a grader file under a name of its own, and leave no trace of it."""
    name = f"_warpschool_grader_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise GradingError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with Course(path.parents[2]).adopted():  # its modules may be those of its course
            spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module
