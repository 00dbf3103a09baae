"""How long a kernel takes beside its step's reference: information beside a check, never points.

    told = timed(step, text, device="gpu")          # measured in turns on the GPU at hand, by `ws.benchmark_ratio`
    told = timed(step, text, device="sim")          # predicted by the clock for an H200, and called so

The case is what `grader/LAB/timed.toml` declares for the step (`[01_tiled]` with its sizes), else that of the first
criterion that counts something, its sizes doubled until they fill a GPU. Both kernels get the same arrays. A
measurement runs in a process of its own, which a kernel that never ends cannot outlive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import predict_plan
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.course import Course, Step
from warpschool.device import get_device, repeated
from warpschool.device.measurement import Rules
from warpschool.errors import CourseError, WarpschoolError
from warpschool.grading.result import Timed
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.timing import benchmark_ratio
from warpschool.tour.run import RecordedKernel, enlarged, run_criterion, stated_criterion

PREDICTED = "h200"
"""The machine for which times are predicted where there is no GPU."""
MOST_SECONDS = 60.0
"""What a measurement may last, compiling and all."""
_RULES = Rules(max_seconds=0.5, target_error=0.01, min_samples=10)


@dataclass(frozen=True)
class _Case:
    """What both kernels are given: sizes, and arrays, or None where random numbers will do."""

    sizes: dict[str, float]
    arrays: Mapping[str, np.ndarray] | None


def declared(step: Step) -> dict[str, float] | None:
    """The sizes in the lab's timed.toml, None where it says nothing of the step. Raises CourseError."""
    if step.grader is None:
        return None
    path = step.grader.with_name("timed.toml")
    if not path.is_file():
        return None
    try:
        sizes = tomllib.loads(path.read_text("utf-8")).get(step.idea)
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path}: {error}", next_step="Write: [01_idea], then lines like M = 2048.") from None
    if sizes is None:
        return None
    if not isinstance(sizes, dict) or not all(isinstance(value, int | float) for value in sizes.values()):
        raise CourseError(f"{path}: [{step.idea}] holds sizes only", next_step="Write lines like M = 2048.")
    return sizes


def case_of(step: Step, contract: Contract) -> _Case:
    """What is timed of a step. Raises GradingError, or what the reference's run raises."""
    if (sizes := declared(step)) is not None:
        return _Case(sizes, None)
    kernel = RecordedKernel(contract)
    failed = run_criterion(stated_criterion(step)[1], kernel)
    if kernel.shown_run is None:
        raise CourseError(f"{step}: its grader runs no case that could be timed{f': {failed.seen}' if failed else ''}")
    small = kernel.shown_run.plan
    if any(array.is_given and (array.dtype.kind != "f" or array.shape is None) for array in small.arrays.values()):
        return _Case(dict(small.scalars), kernel.shown_arrays)
    return _Case(dict(enlarged(contract, small).scalars), None)


def timed(step: Step, text: str, *, device: str, limit_s: float = MOST_SECONDS) -> Timed:
    """Time a kernel file beside its step's reference: measured on a GPU ("auto": where there is one), else predicted.

    Whatever goes wrong is the answer's `reason`: nothing here is a verdict.
    """
    on_gpu = get_device(device).measures_time
    how, on = ("measured", "the GPU") if on_gpu else ("predicted", find_machine(PREDICTED).name)
    untold = partial(Timed, step=step.name, how=how, on=on)
    if step.solution is None or step.is_program:
        return untold(reason="a program's time is that of its own launches" if step.is_program else "no reference")
    try:
        return Timed(**json.loads(_in_child(step, text, limit_s))) if on_gpu else _predicted(step, text)
    except WarpschoolError as error:
        return untold(reason=str(error).splitlines()[0])


def _in_child(step: Step, text: str, limit_s: float) -> str:
    """What a process of its own prints. Raises CourseError where it printed nothing in time."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "warpschool.tour.timed"], input=json.dumps({"step": step.name, "source": text}),
            text=True, capture_output=True, timeout=limit_s, check=False, env=environment, cwd=Course.find().root,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CourseError(f"{step} was not timed within {limit_s:g} s") from None
    if done.returncode or not done.stdout.strip():
        last = (done.stderr.strip() or "it printed nothing").splitlines()[-1]
        raise CourseError(f"{step} was not timed: {last}", next_step="Does it run? warpschool check tells.")
    return done.stdout.strip().splitlines()[-1]


def _both(step: Step, text: str) -> tuple[Contract, Contract]:
    """The contracts of a source and of the step's reference."""
    assert step.solution is not None
    reference = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    return parse_contract(text, name=step.file_name), reference


def _measured(step: Step, text: str) -> Timed:
    """In the child: run both on the GPU, then time them in turns."""
    own, reference = _both(step, text)
    case = case_of(step, reference)
    arrays = case.arrays or random_inputs(reference.bind(case.sizes), np.random.default_rng(0))
    runs = [Program(contract, device="gpu").run(case.sizes, arrays) for contract in (own, reference)]
    found = benchmark_ratio(*(repeated(run.launches) for run in runs), device="gpu", rules=_RULES)
    assert found.speed is not None
    return Timed(
        step=step.name, how="measured", on=found.candidate.device_name, case=case.sizes,
        own_ms=found.candidate.median_ms, reference_ms=found.reference.median_ms, ratio=1 / found.speed,
        error=found.error, stable=found.stable,
    )  # fmt: skip


def _predicted(step: Step, text: str) -> Timed:
    """What the clock says of both."""
    own, reference = _both(step, text)
    case, machine = case_of(step, reference), find_machine(PREDICTED)

    def inputs(plan: Plan) -> Mapping[str, np.ndarray]:
        return case.arrays or random_inputs(plan, np.random.default_rng(0))

    times = []
    for contract in (own, reference):
        plan = contract.bind(case.sizes)
        found = predict_plan(contract, plan, machine, inputs=partial(inputs, plan))
        if found.us is None:
            why = next((launch.reason for launch in found.launches if launch.reason), "the clock cannot follow it")
            return Timed(step=step.name, how="predicted", on=machine.name, case=case.sizes, reason=why)
        times.append(found.us / 1000)
    return Timed(
        step=step.name, how="predicted", on=machine.name, case=case.sizes, own_ms=times[0], reference_ms=times[1],
        ratio=times[0] / times[1],
    )  # fmt: skip


def main() -> None:
    """The child: a job on standard input, a `Timed` as JSON on standard output."""
    job = json.load(sys.stdin)
    step = Course.find().step(job["step"])
    try:
        told = _measured(step, job["source"])
    except WarpschoolError as error:
        told = Timed(step=step.name, how="measured", on="the GPU", reason=str(error).splitlines()[0])
    print(json.dumps(told.to_dict()))


if __name__ == "__main__":
    main()
