"""Counted and predicted figures as `ncu --page raw --csv` prints them, so that whatever reads that reads these.

A row of metric names, a row of units, then one row for each launch. Counters are those of the simulator that have a
name in Nsight Compute; where the clock predicts, its metrics stand beside them. What is not known has no column, or is
empty.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence

from ptxsim.counters import COUNTERS
from warpschool.clock.prediction import LaunchPrediction, Prediction
from warpschool.counters import Counters
from warpschool.inspect.profile import LaunchReport

_ABOUT = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
_UNITS = {
    "gpu__time_duration.sum": "ns", "sm__cycles_elapsed.max": "cycle", "smsp__inst_executed.sum": "inst",
    "sm__inst_executed.avg.per_cycle_active": "inst/cycle", "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
    "l1tex__t_sector_hit_rate.pct": "%", "launch__registers_per_thread": "register/thread",
    "launch__occupancy_limit_blocks": "block",
}  # fmt: skip
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_PIPES = {
    "FMA pipe": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "ALU pipe": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "FP64 pipe": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "tensor pipe": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "issue slots": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
}  # fmt: skip


def raw_csv(
    *, counted: Sequence[LaunchReport] = (), predicted: Prediction | None = None, capability: tuple[int, int]
) -> str:
    """The table of launches that ran on the simulator, of predictions, or of both for the same launches."""
    told = predicted.launches if predicted else ()
    rows = []
    for number in range(max(len(counted), len(told))):
        launch = counted[number] if number < len(counted) else told[number]
        metrics: dict[str, float | None] = {}
        if number < len(counted):
            metrics |= _counters(counted[number].counters)
        if number < len(told) and told[number].us is not None:
            metrics |= _predicted(told[number])
        rows.append((_about(number, launch, capability), metrics))
    names = sorted({name for _, metrics in rows for name in metrics})
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*_ABOUT, *names])
    writer.writerow([*("" for _ in _ABOUT), *(_UNITS.get(name, "") for name in names)])
    for about, metrics in rows:
        writer.writerow([*about, *(_number(metrics.get(name)) for name in names)])
    return out.getvalue()


def _about(number: int, launch: LaunchReport | LaunchPrediction, capability: tuple[int, int]) -> list[object]:
    block, grid = (f"({', '.join(map(str, size))})" for size in (launch.block, launch.grid))
    chip = "{}.{}".format(*capability)
    return [number, os.getpid(), "warpschool", "127.0.0.1", launch.kernel, 1, 7, block, grid, 0, chip]


def _counters(counters: Counters) -> dict[str, float]:
    values = counters.plain()
    return {counter.metric: values[counter.name] for counter in COUNTERS if counter.metric and counter.name in values}


def _predicted(launch: LaunchPrediction) -> dict[str, float | None]:
    """The clock's metrics. Instructions are those of the machine code, which replace PTX's."""
    selected = launch.states.get("selected") or 1.0
    found: dict[str, float | None] = {
        "gpu__time_duration.sum": 1000 * launch.duration_us, "sm__cycles_elapsed.max": launch.cycles,
        "smsp__inst_executed.sum": launch.instructions, "sm__inst_executed.avg.per_cycle_active": launch.ipc,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100 * launch.active_warps / launch.most_warps,
        "launch__registers_per_thread": launch.registers,
    }  # fmt: skip
    if launch.l1_hit_rate is not None:
        found["l1tex__t_sector_hit_rate.pct"] = 100 * launch.l1_hit_rate
    found |= {metric: 100 * launch.units[unit] for unit, metric in _PIPES.items() if unit in launch.units}
    found |= {
        _STALLED.format(state.lower().replace(" ", "_")): share / selected for state, share in launch.states.items()
    }
    return found


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}"


