"""A step's stated case: the counted criterion of its grader, run on the reference while its runs are kept.

Every criterion that counts something says so (`counts=`) and does it at one stated, aligned case. The tour runs that
criterion, so that what it shows is what is graded, and no second table of sizes exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from warpschool.compile import DEFAULT_ARCH
from warpschool.contract import Contract
from warpschool.course import Step
from warpschool.errors import GradingError
from warpschool.grading.criteria import CriterionInfo, graded_functions
from warpschool.grading.submission import Submission
from warpschool.grading.verdicts import Judgement, Verdict, judge
from warpschool.harness.launcher import RunResult

SEED = 0


class RecordedKernel(Submission):
    """The kernel under test that remembers a run on the simulator and its arrays.

    It is the last one with the file's own constants, or the last of all where there is none.
    """

    def __init__(self, contract: Contract, *, on_gpu: bool = False) -> None:
        super().__init__(contract, nvrtc="", arch=DEFAULT_ARCH, on_gpu=on_gpu)
        self.last_run: RunResult | None = None
        self.last_arrays: dict[str, np.ndarray] = {}

    def _run(
        self, device: str, sizes: Mapping[str, float], arrays: Mapping[str, Any], constants: Mapping[str, int] | None
    ) -> RunResult:
        run = super()._run(device, sizes, arrays, constants)
        if device == "sim" and (not constants or self.last_run is None or self.last_run.plan.constants):
            self.last_run = run
            self.last_arrays = {name: np.asarray(array) for name, array in arrays.items()}
        return run


def stated_criterion(step: Step) -> tuple[CriterionInfo, Callable[..., Any]]:
    """The first criterion of a step that counts something, else its first. Raises GradingError where there is none."""
    found = graded_functions(step)
    if not found:
        raise GradingError(f"the grader of {step} has no criterion")
    return next(((info, test) for info, test in found if info.counts), found[0])


def run_criterion(test: Callable[..., Any], kernel: RecordedKernel) -> Judgement | None:
    """Run one criterion; None when it is met, else what failed."""
    fixtures: dict[str, Callable[[], Any]] = {
        "kernel": lambda: kernel,
        "reference": lambda: Submission(kernel.contract, nvrtc="", arch=DEFAULT_ARCH),
        "seed": lambda: SEED,
        "rng": lambda: np.random.default_rng(SEED),
    }
    wanted = inspect.signature(test).parameters
    unknown = [name for name in wanted if name not in fixtures]
    if unknown:
        return Judgement(Verdict.SE, f"the tour cannot run this criterion: it wants {', '.join(unknown)}")
    try:
        test(**{name: fixtures[name]() for name in wanted})
    except Exception as error:
        return judge(error)
    return None
