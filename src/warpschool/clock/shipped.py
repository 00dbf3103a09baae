"""Predicted times that the course carries: of its references, for where no machine code is made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from warpschool.clock.cubin import has_disassembler
from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import DEFAULT, predict_plan
from warpschool.contract import Contract, Plan
from warpschool.errors import CourseError
from warpschool.inspect.profile import case_text
from warpschool.recorded import recorded

RECORD = "clock_cost.json"


def predicted_us(
    contract: Contract, plan: Plan, *, inputs: Callable[[], Mapping[str, np.ndarray]] | None = None
) -> float | None:
    """Microseconds on an H200 as the clock predicts them; where no machine code is made, those that are carried."""
    if has_disassembler():
        machine = find_machine(DEFAULT)
        found = predict_plan(contract, plan, machine, constants=plan.constants, inputs=inputs)
        if found.us is not None:
            return found.us
    return shipped_us(contract, plan)


def shipped_us(contract: Contract, plan: Plan) -> float | None:
    """Microseconds on an H200 of just this source at just these sizes; None where the course carries no such time."""
    try:
        rows = recorded(RECORD)["rows"]
    except CourseError:
        return None
    key = digest(contract.source), case_text(plan)
    return next((row["us"] for row in rows if (row["source"], row["case"]) == key), None)


def digest(source: str) -> str:
    """What a source is known by."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]
