"""Running one's own kernel of a step from a notebook."""

from __future__ import annotations

from collections.abc import Mapping

import numpy.typing as npt

from warpschool.contract import Contract
from warpschool.course import Course
from warpschool.grading.runner import state_of
from warpschool.harness.launcher import Program, RunResult, given_sizes, random_inputs
from warpschool.harness.source import resolve


def own_contract(step: str, *, otherwise: str = "") -> Contract:
    """Parse the student's own file of a step: the last-run `%%kernel` cell, else the file that `check` would take.

    `otherwise` is advice for where there is none; see `warpschool.harness.source.resolve`.
    """
    return resolve(step, otherwise=otherwise).contract()


def is_accepted(step: str) -> bool:
    """Whether the student's own file of a step, as it is now, has passed its check.

    Such a kernel may be counted with `check=False`, which is faster; any other could take the notebook with it.
    """
    return state_of(Course.find().step(step)).state == "accepted"


def program(step: str, *, device: str = "auto", constants: Mapping[str, int] | None = None) -> Program:
    """Return the student's own kernel file of a step, ready to run."""
    return Program(own_contract(step), device=device, constants=constants)


def run(
    step: str, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike] | None = None, *,
    constants: Mapping[str, int] | None = None, device: str = "auto", seed: int = 0,
) -> RunResult:  # fmt: skip
    """Run the student's own kernel of a step once; input arrays that are not given are random.

    `run.outputs["C"]` are the results, `run.counters` the totals, `run.lines` the counters of each source line.
    Raises what `warpschool.harness.launcher.run_kernel` raises.
    """
    own = program(step, device=device, constants=constants)
    sizes = given_sizes(sizes)
    plan = own.contract.bind(sizes, constants=constants)
    return own.run(sizes, random_inputs(plan, seed=seed) | dict(arrays or {}))
