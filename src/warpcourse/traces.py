"""Traces of a step's kernel for pictures: the student's own, or the one that the step was given with."""

from __future__ import annotations

from collections.abc import Mapping

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.harness.launcher import random_inputs
from warpschool.inspect.accesses import Trace, trace
from warpschool.notebook.runs import own_contract


def own(step: str, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None, block: int = 0) -> Trace:
    """Trace one block of the student's own kernel; see `warpschool.inspect.accesses.trace`."""
    return _traced(own_contract(step), sizes, constants, block)


def given(
    step: str, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None, block: int = 0
) -> Trace:
    """Trace one block of the step's starter, whatever the student has made of it; raises CourseError without one."""
    found = Course.find().step(step)
    if found.starter is None:
        raise CourseError(f"{step} has no starter in this course")
    return _traced(parse_contract(found.starter.read_text("utf-8"), name=found.file_name), sizes, constants, block)


def _traced(contract: Contract, sizes: Mapping[str, float], constants: Mapping[str, int] | None, block: int) -> Trace:
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    return trace(contract, sizes, inputs, block=block, constants=constants)
