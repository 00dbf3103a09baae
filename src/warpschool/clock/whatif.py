"""Experiments on a GPU that nobody can build: the same launch, with another latency, bandwidth or number of warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpschool.clock.machine import Machine, find_machine
from warpschool.clock.prediction import DEFAULT, Prediction, predict_subject
from warpschool.clock.subject import subject
from warpschool.device import Launch
from warpschool.errors import ArgumentError
from warpschool.suggest import did_you_mean

Change = float | str
"""A value, or what becomes of the machine's own: "x2", "x0.5"."""


@dataclass(frozen=True)
class Knob:
    """One thing that can be changed: where a machine holds it, its unit, and what it means."""

    section: str
    key: str
    unit: str
    meaning: str


KNOBS = {
    "l1_latency": Knob("latency", "l1", "cycles", "until data from L1 are there"),
    "l2_latency": Knob("latency", "l2", "cycles", "until data from L2 are there; DRAM's moves with it"),
    "dram_latency": Knob("latency", "dram", "cycles", "until data from DRAM are there"),
    "shared_latency": Knob("latency", "shared", "cycles", "until data from shared memory are there"),
    "dram_gb_per_s": Knob("memory", "dram_gb_per_s", "GB/s", "DRAM's bandwidth"),
    "l2_bytes_per_cycle": Knob("memory", "l2_read_bytes_all", "bytes", "that L2 gives all multiprocessors in a cycle"),
    "l1_bytes": Knob("memory", "l1_bytes", "bytes", "L1 and shared memory of a multiprocessor"),
    "sms": Knob("memory", "sms", "", "multiprocessors"),
    "mhz": Knob("clock", "mhz", "MHz", "the clock"),
    "launch_us": Knob("clock", "launch_us", "us", "from event to event for an empty kernel"),
    "barrier": Knob("issue", "barrier", "cycles", "from the last warp's arrival until all go on"),
    "registers": Knob("limits", "registers", "", "registers of a thread, as far as they limit blocks; nothing spills"),
    "warps": Knob("limits", "warps", "", "warps that a multiprocessor takes at most"),
}  # fmt: skip


@dataclass(frozen=True)
class WhatIf:
    """One launch or step, predicted as it is and with each change; `changed[k]` are the values of row k."""

    as_is: Prediction
    changed: tuple[tuple[Mapping[str, float], Prediction], ...]

    def speedups(self) -> tuple[float | None, ...]:
        """How many times as fast each change makes it; None without a prediction."""
        base = self.as_is.us
        return tuple(None if base is None or found.us is None else base / found.us for _, found in self.changed)


def what_if(
    what: Launch | str, sizes: Mapping[str, float] | None = None, *, gpu: str = DEFAULT,
    constants: Mapping[str, int] | None = None, warm: bool = False, **changes: Change | Sequence[Change],
) -> WhatIf:  # fmt: skip
    """Predict `what` (see `predict_time`) on `gpu`, and on the same machine with other constants.

        ws.whatif("lab05/07", l2_latency=600)
        ws.whatif("lab03/01", {"M": 2048, "N": 2048}, warps=[8, 16, 32, 64])

    `changes` name constants (`KNOBS`): a value, or "x2" for twice the machine's own; lists of equal length give a row
    for each entry. Raises ArgumentError for a constant that there is none of, and what `predict_time` raises.
    """
    machine = find_machine(gpu)
    asked = subject(what, sizes, machine, constants)
    rows = _rows(changes, machine)
    least = max(asked.parts, key=lambda part: part.launch.warps)
    if any(row.get("warps", np.inf) < least.launch.warps for row in rows):
        raise ArgumentError(f"a block of {least.kernel} has {least.launch.warps} warps: no room for one")
    as_is = predict_subject(asked, machine, warm=warm)
    changed = [(row, predict_subject(asked, altered(machine, row), warm=warm)) for row in rows]
    return WhatIf(as_is, tuple(changed))


def altered(machine: Machine, values: Mapping[str, float]) -> Machine:
    """The same machine with other values of some `KNOBS`."""
    tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in machine.tables.items()}
    for name, value in values.items():
        knob = KNOBS[name]
        tables.setdefault(knob.section, {})[knob.key] = value
        if name == "l2_latency" and "dram_latency" not in values:
            tables["latency"]["dram"] = machine["latency"]["dram"] + value - machine["latency"]["l2"]
        if name == "mhz":
            tables["clock"]["tensor_mhz"] = machine["clock"]["tensor_mhz"] * value / machine["clock"]["mhz"]
    return replace(machine, tables=tables)


def _rows(changes: Mapping[str, Change | Sequence[Change]], machine: Machine) -> list[dict[str, float]]:
    if not changes:
        raise ArgumentError("nothing is changed", next_step=f"Name a constant and a value: {', '.join(KNOBS)}.")
    lists = {name: value for name, value in changes.items() if not isinstance(value, int | float | str)}
    lengths = {len(value) for value in lists.values()}
    if len(lengths) > 1 or 0 in lengths:
        raise ArgumentError("lists of changes must have the same length, and not be empty")
    count = lengths.pop() if lengths else 1
    return [
        {name: _value(name, lists[name][row] if name in lists else value, machine) for name, value in changes.items()}
        for row in range(count)
    ]


def _value(name: str, change: Any, machine: Machine) -> float:
    """What a change makes of the machine's own value; counts are whole numbers."""
    knob = KNOBS.get(name)
    if knob is None:
        raise ArgumentError(f"a machine has no {name!r} to change", next_step=did_you_mean(name, tuple(KNOBS)))
    own = machine.tables.get(knob.section, {}).get(knob.key)
    try:
        if isinstance(change, str) and change.startswith("x") and own is not None:
            value = own * float(change[1:])
        else:
            value = float(change)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is a number, or as 'x2' a multiple of the machine's own: not {change!r}") from None
    if not 0 < value < 1e15:
        raise ArgumentError(f"{name} must be more than nothing, not {change!r}")
    return float(round(value)) if not knob.unit or knob.unit == "bytes" else value
