"""A predicted time as tables, with the sections and names of Nsight Compute."""

from __future__ import annotations

import functools
import math
from typing import Any

from warpschool.clock.prediction import MEANING, LaunchPrediction, Prediction, predict_time as _predict_time
from warpschool.clock.trace import PathUnknown
from warpschool.clock.whatif import KNOBS, WhatIf, what_if
from warpschool.show.exhibit import Exhibit
from warpschool.show.page import notebook_box
from warpschool.show.table import Table

_SHOWN = 0.005
_LINES = 12


def prediction_tables(found: Prediction, source: str = "") -> list[Table]:
    """Speed of light, warp states and source lines of each launch that has a time."""
    tables = []
    for launch in found.launches:
        if launch.us is not None:
            tables += [_speed_of_light(launch), _states(launch), _lines(launch, source.split("\n")), _occupancy(launch)]
    return tables


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _speed_of_light(launch: LaunchPrediction) -> Table:
    rows = [(unit, _percent(share)) for unit, share in launch.units.items() if share >= _SHOWN]
    rows += [("L1 hit rate", _percent(launch.l1_hit_rate))] if launch.l1_hit_rate is not None else []
    caption = f"{launch.kernel}: GPU Speed Of Light (predicted: {launch.cycles:,.0f} cycles, {launch.us:,.2f} us)"
    return Table.of(caption, ("unit", "of its best"), rows)


def _occupancy(launch: LaunchPrediction) -> Table:
    warps = launch.block[0] * launch.block[1] * launch.block[2] + 31 >> 5
    rows = [
        ("registers of a thread", launch.registers), ("shared memory of a block", f"{launch.shared_bytes:,} bytes"),
        ("blocks at a time", launch.resident_blocks),
        ("occupancy at most", _percent(launch.resident_blocks * warps / launch.most_warps)),
        ("occupancy achieved", _percent(launch.active_warps / launch.most_warps)),
    ]  # fmt: skip
    return Table.of(f"{launch.kernel}: Occupancy (predicted)", ("", "of a multiprocessor"), rows)


def _states(launch: LaunchPrediction) -> Table:
    rows = [
        (state, _percent(share), MEANING[state])
        for state, share in sorted(launch.states.items(), key=lambda entry: -entry[1])
        if share >= _SHOWN
    ]
    return Table.of(
        f"{launch.kernel}: Warp State (predicted)",
        ("state", "of all warps' time", "waits for"),
        rows,
        wide=("waits for",),
    )


def _lines(launch: LaunchPrediction, source: list[str]) -> Table:
    totals = {line: sum(states.values()) for line, states in launch.lines.items()}
    rows = []
    for line in sorted(totals, key=lambda line: -totals[line])[:_LINES]:
        states = {name: share for name, share in launch.lines[line].items() if name != "selected"}
        worst = max(states, key=lambda name: states[name], default="")
        text = source[line - 1].strip()[:70] if 0 < line <= len(source) else ""
        if totals[line] >= _SHOWN:
            rows.append((line or "-", _percent(totals[line]), worst, text))
    heads = ("line", "of all warps' time", "most of it", "source")
    return Table.of(f"{launch.kernel}: Source (predicted)", heads, rows, wide=("most of it", "source"))


# ---------------------------------------------------------------- in notebooks


class ShownPrediction(Prediction):
    """A prediction that a notebook shows as sentences and tables."""

    def _repr_html_(self) -> str:
        return notebook_box(_exhibit(self).html())


def _exhibit(found: Prediction) -> Exhibit:
    first, *rest = found.explain().split("\n")
    return Exhibit("Predicted", first, sheets=tuple(prediction_tables(found)), note=" ".join(rest))


@functools.wraps(_predict_time)
def predict_time(*arguments: Any, **options: Any) -> ShownPrediction:
    return ShownPrediction(**vars(_predict_time(*arguments, **options)))


@functools.wraps(what_if)
def whatif(*arguments: Any, **options: Any) -> Exhibit:
    return whatif_exhibit(what_if(*arguments, **options))


def whatif_exhibit(found: WhatIf) -> Exhibit:
    """A row for each change, beside the launch as it is. Raises PathUnknown where it cannot be predicted."""
    if found.as_is.us is None:
        raise PathUnknown(found.as_is.reason)
    names = list(found.changed[0][0])
    rows = [_row("as it is", found.as_is, 1.0)]
    for (values, predicted), speedup in zip(found.changed, found.speedups(), strict=True):
        told = ", ".join(f"{name} {values[name]:,g}" for name in names)
        rows.append(_row(told, predicted, speedup))
    told = "; ".join(f"{name}: {KNOBS[name].meaning}" for name in names)
    sheet = Table.of(
        "", ("", "us", "times as fast", "IPC", "blocks at a time", "waits most for"), rows, wide=("waits most for",),
        note=f"{told}. Both are predicted for {found.as_is.place} and a machine that differs in nothing else.",
    )  # fmt: skip
    return Exhibit("What if", _answer(found), sheets=(sheet,), note=found.as_is.case, open_table=True)


def _row(name: str, found: Prediction, speedup: float | None) -> tuple[object, ...]:
    if found.us is None or speedup is None:
        return (name, "-", "-", "-", "-", found.reason)
    longest = max(found.launches, key=lambda launch: launch.us or 0.0)
    return (
        name, f"{found.us:,.2f}", f"{speedup:.2f}", f"{longest.ipc:.2f}", longest.resident_blocks, longest.waits_for
    )  # fmt: skip


def _answer(found: WhatIf) -> str:
    """What the change that matters most does."""
    rows = [
        (speedup, values)
        for (values, _), speedup in zip(found.changed, found.speedups(), strict=True)
        if speedup is not None
    ]
    if not rows:
        return "Nothing can be predicted with these changes."
    speedup, values = max(rows, key=lambda row: abs(math.log(row[0])))
    told = ", ".join(f"{name} = {value:,g}{_unit(name)}" for name, value in values.items())
    if 0.98 < speedup < 1.02:
        return f"It does not matter: with {told} it takes as long as it does."
    return f"With {told} it would be {speedup:.2f} times as fast."


def _unit(name: str) -> str:
    return f" {KNOBS[name].unit}" if KNOBS[name].unit else ""
