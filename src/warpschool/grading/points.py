"""Points in a plain pytest run, for people without nbgrader: `python -m pytest grader --submission=DIR`.

A table of points ends the report; `--gradescope=results.json` writes what Gradescope's autograder reads. The kernels
run in pytest's own process: this is for one's own work, or for a container that holds one submission. Classes are
graded by `warpschool grade`, whose checks can be killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpschool.course import Step
from warpschool.grading.criteria import CriterionInfo, info_of
from warpschool.grading.result import Criterion
from warpschool.grading.verdicts import OBSERVED, Judgement, Verdict, worst

Judge = Callable[[pytest.Item, pytest.ExceptionInfo[BaseException]], Judgement]


class PointsReport:
    """A plugin object that adds up points over all grader files of a session."""

    def __init__(self, step_of: Callable[[Path], Step | None], judge: Judge, gradescope: str | None) -> None:
        self._step_of, self._judge, self._gradescope = step_of, judge, gradescope
        self._infos: dict[tuple[str, str], CriterionInfo] = {}
        self._outcomes: dict[tuple[str, str], list[Judgement]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            mark, step = item.get_closest_marker("criterion"), self._step_of(item.path)
            if mark is not None and step is not None:
                name = item.name.split("[")[0]
                self._infos.setdefault((step.name, name), info_of(name, mark))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
        report = yield
        step = self._step_of(item.path)
        if step is None or (call.excinfo is None and call.when != "call"):
            return report
        outcome = self._judge(item, call.excinfo) if call.excinfo else Judgement(Verdict.AC, "", fraction=1.0)
        self._outcomes.setdefault((step.name, item.name.split("[")[0]), []).append(outcome)
        return report

    def criteria(self) -> list[tuple[str, Criterion]]:
        """The criteria that were run, with their steps, in order."""
        found = []
        for key, info in self._infos.items():
            outcomes = self._outcomes.get(key)
            if outcomes:
                verdict = worst(outcome.verdict for outcome in outcomes)
                told = next(outcome for outcome in outcomes if outcome.verdict is verdict)
                criterion = Criterion(
                    info.id, info.title, info.weight, told.fraction, verdict, counts=info.counts, hint=info.hint,
                    secret=told.secret, **{name: getattr(told, name) for name in OBSERVED},
                )  # fmt: skip
                found.append((key[0], criterion))
        return found

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Points by step, and their sum."""
        totals: dict[str, tuple[float, float]] = {}
        for step, criterion in self.criteria():
            if criterion.verdict is not Verdict.SKIP:
                points, most = totals.get(step, (0.0, 0.0))
                totals[step] = points + criterion.points, most + criterion.weight
        if not totals:
            return
        terminalreporter.section("points")
        for step, (points, most) in totals.items():
            terminalreporter.write_line(f"{step}: {points:g} of {most:g}")
        points, most = (sum(pair[place] for pair in totals.values()) for place in (0, 1))
        terminalreporter.write_line(f"all: {points:g} of {most:g}")

    def pytest_sessionfinish(self) -> None:
        if self._gradescope:
            text = json.dumps(gradescope_results(self.criteria()), indent=2, ensure_ascii=False) + "\n"
            Path(self._gradescope).write_text(text, "utf-8")


def gradescope_results(criteria: list[tuple[str, Criterion]]) -> dict[str, Any]:
    """Return Gradescope's results.json: a test for each criterion; a fault of the grader is no score at all."""
    tests: list[dict[str, Any]] = []
    for step, criterion in criteria:
        if criterion.verdict is Verdict.SKIP:
            continue
        lines = [f"{criterion.verdict}: {criterion.verdict.meaning}"] if not criterion.ok else []
        lines += [criterion.shown] if criterion.shown else []
        lines += [f"hint: {hint}" for hint in criterion.hint[:1] if not criterion.ok]
        tests.append({
            "name": f"{step}: {criterion.title}", "score": round(criterion.points, 6), "max_score": criterion.weight,
            "status": "passed" if criterion.ok else "failed", "output": "\n".join(lines), "visibility": "visible",
        })  # fmt: skip
    if any(criterion.verdict is Verdict.SE for _, criterion in criteria):
        return {"output": "The grader failed; this is no grade. Please tell your teacher.", "tests": []}
    return {"score": round(sum(test["score"] for test in tests), 6), "tests": tests, "output": ""}
