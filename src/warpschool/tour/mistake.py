"""The tour's wrong kernel: a reference without its first barrier, to show that the simulator notices."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program
from warpschool.tour.report import Mistake

_BARRIER = re.compile(r"^[ \t]*__syncthreads\(\);[^\n]*", re.MULTILINE)


def has_barrier(source: str) -> bool:
    """Whether there is a barrier to take out."""
    return _BARRIER.search(source) is not None


def without_barrier(source: str) -> tuple[str, int]:
    """The source with its first barrier's line left empty, so that other lines keep their numbers, and that line."""
    match = _BARRIER.search(source)
    if match is None:
        raise ValueError("the source has no barrier")
    return source[: match.start()] + source[match.end() :], source.count("\n", 0, match.start()) + 1


def run_mistake(
    step: str, source: str, *, name: str, sizes: Mapping[str, float], arrays: Mapping[str, np.ndarray]
) -> Mistake:
    """Run the source without its first barrier and keep the first race."""
    broken, line = without_barrier(source)
    run = Program(parse_contract(broken, name=name), device="sim").run(sizes, arrays)
    races = [hazard for hazard in run.hazards if hazard.kind == "race"]
    found = races or list(run.hazards)
    return Mistake(
        step=step, name=name, source=broken, removed_line=line, removed_text=source.split("\n")[line - 1].strip(),
        hazard=found[0] if found else None, places=len({h.line for h in found}),
    )  # fmt: skip
