"""A predicted time as tables, with the sections and names of Nsight Compute."""

from __future__ import annotations

from warpschool.clock.prediction import MEANING, LaunchPrediction, Prediction
from warpschool.show.table import Table

_SHOWN = 0.005
_LINES = 12


def prediction_tables(found: Prediction, source: str = "") -> list[Table]:
    """Speed of light, warp states and source lines of each launch that has a time."""
    tables = []
    for launch in found.launches:
        if launch.us is not None:
            tables += [_speed_of_light(launch), _states(launch), _lines(launch, source.split("\n"))]
    return tables


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _speed_of_light(launch: LaunchPrediction) -> Table:
    rows = [(unit, _percent(share)) for unit, share in launch.units.items() if share >= _SHOWN]
    rows += [("L1 hit rate", _percent(launch.l1_hit_rate))] if launch.l1_hit_rate is not None else []
    caption = f"{launch.kernel}: GPU Speed Of Light (predicted: {launch.cycles:,.0f} cycles, {launch.us:,.2f} us)"
    return Table.of(caption, ("unit", "of its best"), rows)


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
