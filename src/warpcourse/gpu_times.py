"""Times beside each other: what the clock predicts for a student's own kernels, and what our references took on a GPU.

    gpu_times.beside([LAB + "01_register_tile", LAB + "02_block_tile"], "large")

The sizes are those at which `benchmarks/clock/record.py` timed the references: "small", "medium" and "large".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warpcourse.experiments import PREDICTED, own_gpu_ms, predicted
from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import Prediction
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.notebook.runs import is_accepted, own_contract
from warpschool.recorded import results
from warpschool.show.bar import watched
from warpschool.show.table import Table
from warpschool.suggest import did_you_mean

CASES = ("small", "medium", "large")
UNKNOWN = "not known with this compiler"
NOT_YET, REFUSED = "not accepted yet", "not predicted"
_RECORDED, _COMPARED = f"clock_times_{PREDICTED}.json", f"clock_validation_{PREDICTED}.json"


@dataclass(frozen=True)
class Reference:
    """What is recorded of a step's reference at some sizes; None where it is not."""

    sizes: Mapping[str, float]
    recorded_us: float | None
    predicted_us: float | None


@dataclass(frozen=True)
class Row:
    """One step: the prediction for the student's own kernel, or the words that stand in its place."""

    step: str
    reference: Reference
    own: Prediction | None
    said: str = ""
    reason: str = ""
    """why there is no prediction, where somebody refused it"""
    here_us: float | None = None
    """measured on this machine's GPU"""


@dataclass(frozen=True, repr=False)
class Times(Table):
    """A table of `times`; what could not be predicted says why below it."""

    times: tuple[Row, ...] = ()


def beside(steps: Sequence[str], case: str = "medium", *, course: Course | None = None) -> Times:
    """Put predicted times of the student's own kernels of some steps beside recorded ones of the references.

    `case` says at which of the recorded sizes. A kernel that has not passed its check gets no time: it may do less than
    it should. Raises ArgumentError for an unknown case.
    """
    if case not in CASES:
        raise ArgumentError(f"there is no case {case!r}", next_step=did_you_mean(case, CASES))
    found = course or Course.find()
    return _table([_row(found.step(step), case, found) for step in watched(steps, "predictions")])


def of_lab(lab: str, case: str = "medium", *, numbers: Sequence[str] = (), course: Course | None = None) -> Times:
    """The same for all steps of a lab, or for those with some `numbers`, such as "01"."""
    found = course or Course.find()
    steps = {step.idea[:2]: step.name for step in found.lab(lab).steps}
    if unknown := [number for number in numbers if number not in steps]:
        raise ArgumentError(f"{lab} has no step {unknown[0]}", next_step=f"There are {', '.join(steps)}.")
    return beside([steps[number] for number in numbers or steps], case, course=found)


def reference(step: Step, case: str, *, course: Course | None = None) -> Reference:
    """What is recorded of a step's reference at a case.

    Raises ArgumentError where there is nothing.
    """
    name = f"{step.lab[:5]}/{step.idea}@{case}"
    for result in results(_RECORDED, course=course):
        if name in result["cases"]:
            one = result["cases"][name]
            return Reference(one["sizes"], one["times"]["flushed"]["whole"][0], _compared_us(name, course))
    raise ArgumentError(f"no times of {step.name} are recorded at the case {case!r}",
                        next_step=f"{_RECORDED} says of which steps they are.")  # fmt: skip


def _compared_us(name: str, course: Course | None) -> float | None:
    """The prediction that was compared with the recorded time: of all launches of the reference together."""
    for result in results(_COMPARED, course=course):
        found = [row["predicted_us"] for row in result["rows"] if row["case"] == name]
        if found and None not in found:
            return float(sum(found))
    return None


def _row(step: Step, case: str, course: Course) -> Row:
    found = reference(step, case, course=course)
    if not is_accepted(step.name):
        return Row(step.name, found, None, NOT_YET)
    contract = own_contract(step.name)
    derived = {size.name for size in contract.sizes}
    found = replace(found, sizes={name: value for name, value in found.sizes.items() if name not in derived})
    scalars = {p.name for p in contract.parameters() if not (p.is_array or p.ctype.is_integer)}
    sizes = dict.fromkeys(scalars, 1.0) | dict(found.sizes)
    try:
        own = _predicted(contract.source, contract.name, tuple(sizes.items()))
        here_ms = own_gpu_ms(contract, sizes)
    except WarpschoolError as error:  # such as a kernel whose header refuses these sizes
        return Row(step.name, found, None, REFUSED, str(error).splitlines()[0])
    reason = own.reason if own is not None and own.us is None else ""
    said = UNKNOWN if own is None else REFUSED if reason else ""
    return Row(step.name, found, own, said, reason, None if here_ms is None else 1000 * here_ms)


@functools.lru_cache(maxsize=64)
def _predicted(source: str, name: str, sizes: tuple[tuple[str, float], ...]) -> Prediction | None:
    """A cell that is run again asks for the same."""
    return predicted(parse_contract(source, name=name), dict(sizes))


def _table(rows: Sequence[Row]) -> Times:
    shared = set.intersection(*(set(row.reference.sizes.items()) for row in rows))
    common = {name: value for name, value in rows[0].reference.sizes.items() if (name, value) in shared}
    is_here = any(row.here_us is not None for row in rows)
    machine = find_machine(PREDICTED).name
    at = ("at",) if any(len(row.reference.sizes) > len(common) for row in rows) else ()
    here = ("yours, measured here",) if is_here else ()
    head = ("us", *at, f"yours, predicted for an {machine}", "range", "longest wait", *here, "reference, predicted",
            f"reference, recorded on an {machine}")  # fmt: skip
    shown = [_shown(row, common if at else None, is_here=is_here) for row in rows]
    made = Times.of("", head, shown, wide=("at", "longest wait"), note=_note(rows, common))
    return replace(made, times=tuple(rows))


def _note(rows: Sequence[Row], common: Mapping[str, float]) -> str:
    said = [f"All at {sizes_text(common)}."] if sizes_text(common) else []
    said.append("A prediction is the clock's and no measurement; recorded times are with L2 flushed before each run.")
    said += [f"{row.step.split('/')[1]} is not predicted: {row.reason.rstrip('.')}." for row in rows if row.reason]
    if any(row.said == UNKNOWN for row in rows):
        said.append("Your own kernels are predicted where NVRTC and NVIDIA's disassembler are.")
    return " ".join(said)


def _shown(row: Row, common: Mapping[str, float] | None, *, is_here: bool) -> list[Any]:
    kept = row.reference
    told = [row.said, "", ""]
    if row.own is not None and row.own.us is not None:
        longest = max(row.own.launches, key=lambda launch: launch.us or 0.0)
        told = [_us(row.own.us), f"{_us(row.own.low_us)} to {_us(row.own.high_us)}", longest.waits_for]
    own_sizes = {name: value for name, value in kept.sizes.items() if (name, value) not in (common or {}).items()}
    at = [] if common is None else [sizes_text(own_sizes)]
    here = [_us(row.here_us)] if is_here else []
    return [row.step.split("/")[1], *at, *told, *here, _us(kept.predicted_us), _us(kept.recorded_us)]


def sizes_text(sizes: Mapping[str, float]) -> str:
    """The whole numbers among the sizes: "BATCH 8, C 32"."""
    return ", ".join(f"{name} {value:,}" for name, value in sizes.items() if isinstance(value, int))


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
