"""The last result of each source, kept beside the compile cache: what a check found, and how far a student is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxsim import cache
from warpschool.course import Step
from warpschool.errors import GradingError, WarpschoolError
from warpschool.grading.criteria import criteria_of
from warpschool.grading.result import Result
from warpschool.grading.runner import DEFAULT_SEED, check_source
from warpschool.harness.source import Source, find_source

_KIND = "results"
_POLL_S = 0.3


@dataclass(frozen=True)
class StepState:
    """How far a step is, in words; `points` is "" before a check."""

    step: str
    state: str
    points: str = ""


def check_and_remember(step: Step, source: Source, *, device: str = "auto", seed: int | None = None) -> Result:
    """Check a source and keep its result; a disk that does not take it is no failure."""
    result = check_source(step, source, device=device, seed=DEFAULT_SEED if seed is None else seed)
    if result.verdict != "SE":
        cache.store(_KIND, _key(result.step, result.source.get("sha256", "")), json.loads(result.to_json()))
    return result


def last_result(step: str, source: Source) -> Result | None:
    """The result of this very source, or None if it was not checked since it was changed."""
    entry = cache.load(_KIND, _key(step, source.sha256))
    if entry is None:
        return None
    try:
        return Result.from_json(json.dumps(entry))
    except GradingError:
        return None


def state_of(step: Step) -> StepState:
    """How far the student's own file of a step is."""
    try:
        source = find_source(step)
    except WarpschoolError:
        return StepState(step.name, "no file")
    if step.starter is not None and source.data == step.starter.read_bytes():
        return StepState(step.name, "not started")
    result = last_result(step.name, source)
    if result is None:
        return StepState(step.name, "changed, not checked")
    state = "accepted" if result.ok else f"{result.verdict}: {result.verdict.meaning}"
    return StepState(step.name, state, f"{result.score:g}/{result.max_score:g}")


def hints_for(step: Step) -> tuple[dict[str, tuple[str, ...]], bool]:
    """(criterion -> its hints, whether they are for what the last check found wrong); before a check for everything."""
    try:
        result = last_result(step.name, find_source(step))
    except WarpschoolError:  # nobody has started
        result = None
    if result is None:
        return {info.title: tuple(info.hint) for info in criteria_of(step)}, False
    return {c.title: tuple(c.hint) for c in result.criteria if not c.ok}, True


def saved_sources(find: Callable[[], Source]) -> Iterator[Source | WarpschoolError]:
    """The source whenever it has changed, without end, and what is wrong with it, once.

    A file that is gone while an editor saves it is waited for.
    """
    last, complaint = "", ""
    while True:
        try:
            source = find()
            if source.sha256 != last:
                last, complaint = source.sha256, ""
                yield source
        except WarpschoolError as error:
            if str(error) != complaint:
                complaint, last = str(error), ""
                yield error
        time.sleep(_POLL_S)


def _key(step: str, sha256: str) -> str:
    return cache.content_key("result", step, sha256)
