"""Running one's own kernel of a step from a notebook."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract, Plan, parse_contract
from warpschool.course import Course
from warpschool.grading.sources import find_source
from warpschool.harness.launcher import Program, RunResult, given_sizes


def own_contract(step: str, *, otherwise: str = "") -> Contract:
    """Parse the student's own file of a step: the last-run `%%kernel` cell, else the file that `check` would take.

    `otherwise` is advice for where there is none; see `warpschool.grading.sources.find_source`.
    """
    found = Course.find().step(step)
    return parse_contract(find_source(found, otherwise=otherwise).data.decode(), name=found.file_name)


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


def random_inputs(plan: Plan, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Return an array for each input of a plan: floats in [-1, 1), integers in [0, 8)."""
    inputs = {}
    for name, array in plan.arrays.items():
        if not array.is_given or array.shape is None:
            continue
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if array.dtype.kind == "f":
            inputs[name] = rng.uniform(-1, 1, array.shape).astype(array.dtype)
        else:
            inputs[name] = rng.integers(0, 8, array.shape).astype(array.dtype)
    return inputs
