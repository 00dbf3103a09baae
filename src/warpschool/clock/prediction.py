"""Predicted times: of a launch, of a kernel file, of a step of the course, on a GPU that is not there.

    prediction = predict_time("lab05/07", {"M": 1024, "N": 1024, "K": 1024}, gpu="h200")
    prediction.us, prediction.low_us, prediction.high_us, print(prediction.explain())

The kernel's real machine code is followed along the paths that its warps take, on a model of one multiprocessor whose
constants were measured with microbenchmarks. No prediction is ever graded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.clock import core
from warpschool.clock.machine import NOT_VALIDATED, Machine, find_machine
from warpschool.clock.predict import Followed, LaunchTime, follow, time_of
from warpschool.clock.subject import IMPOSSIBLE, Part, Subject, planned, subject
from warpschool.clock.trace import PathUnknown
from warpschool.contract import Contract, Plan
from warpschool.device import Launch
from warpschool.errors import LaunchError

DEFAULT = "h200"
RECORD = Path(__file__).with_name("agreement.json")
STATES = {
    core.R_SELECTED: "selected", core.R_NOT_SELECTED: "not selected", core.R_WAIT: "wait",
    core.R_LONG: "long scoreboard", core.R_SHORT: "short scoreboard", core.R_BARRIER: "barrier",
    core.R_MIO: "MIO throttle", core.R_LG: "LG throttle", core.R_MATH: "math pipe throttle",
    core.R_BRANCH: "branch resolving", core.R_NO_INSTRUCTION: "no instruction", core.R_DRAIN: "drain",
    core.R_MEMBAR: "membar", core.R_DISPATCH: "dispatch stall", core.R_PRODUCT: "GMMA",
}  # fmt: skip
"""Warp states under Nsight Compute's names."""
MEANING = {
    "selected": "the warp issues", "not selected": "ready, but another warp was issued",
    "wait": "a fixed latency of the instruction before", "long scoreboard": "data from L1, L2 or DRAM",
    "short scoreboard": "data from shared memory, a special function or a conversion",
    "barrier": "the other warps of the block, at a barrier", "MIO throttle": "room in the queue to shared memory",
    "LG throttle": "room in the queue to global memory", "math pipe throttle": "the arithmetic pipe, which is busy",
    "branch resolving": "the target of a branch", "no instruction": "the next instruction's code",
    "drain": "the end of its stores", "membar": "a memory fence", "dispatch stall": "register banks",
    "GMMA": "the products of its warpgroup",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LaunchPrediction:
    """One launch. Times in microseconds, shares between 0 and 1; `reason` says why there is no time where `us` is
    None."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    us: float | None
    reason: str = ""
    cycles: float = 0.0
    """from where the GPU begins with the launch to its end"""
    instructions: float = 0.0
    """of all warps"""
    ipc: float = 0.0
    """instructions that a multiprocessor issues in a cycle"""
    resident_blocks: int = 0
    blocks_followed: int = 0
    blocks_per_sm: int = 0
    states: Mapping[str, float] = field(default_factory=dict)
    """warp state -> share of all warps' cycles"""
    lines: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """source line -> warp state -> share of all warps' cycles"""
    units: Mapping[str, float] = field(default_factory=dict)
    """unit -> how much of its best it does"""
    duration_us: float = 0.0
    """of the kernel alone, as Nsight Compute measures it: `us` without the two events"""
    registers: int = 0
    shared_bytes: int = 0
    """of a block, static and dynamic"""
    active_warps: float = 0.0
    """of a multiprocessor, as a mean over its cycles"""
    most_warps: int = 0
    """that a multiprocessor can hold"""
    l1_hit_rate: float | None = None
    dram_bytes: float = 0.0
    """that one multiprocessor reads and writes"""

    @property
    def waits_for(self) -> str:
        """The state that costs most, "selected" apart."""
        costs = {state: share for state, share in self.states.items() if state != "selected"}
        return max(costs, key=lambda state: costs[state], default="")

    @property
    def limit(self) -> str:
        """The unit that is nearest to its best."""
        return max(self.units, key=lambda unit: self.units[unit], default="")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predicted time of one or more launches, one after the other, with the range in which the real one should lie
    (`agreement()` says how often it did). `us` is None where a launch cannot be predicted; `reason` says why."""

    gpu: str
    is_validated: bool
    case: str
    warm: bool
    launches: tuple[LaunchPrediction, ...]

    @property
    def us(self) -> float | None:
        """Microseconds, event to event."""
        times = [launch.us for launch in self.launches]
        return None if None in times else float(sum(time for time in times if time is not None))

    @property
    def place(self) -> str:
        """The GPU, with what has to be said of it wherever the prediction is shown."""
        return self.gpu if self.is_validated else f"{self.gpu} ({NOT_VALIDATED})"

    @property
    def reason(self) -> str:
        return next((launch.reason for launch in self.launches if launch.us is None), "")

    @property
    def low_us(self) -> float | None:
        return None if self.us is None else self.us * agreement().low

    @property
    def high_us(self) -> float | None:
        return None if self.us is None else self.us * agreement().high

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "gpu": self.gpu, "validated": self.is_validated, "case": self.case, "warm": self.warm, "us": self.us,
            "low_us": self.low_us, "high_us": self.high_us, "reason": self.reason,
            "launches": [asdict(launch) for launch in self.launches], "agreement": asdict(agreement()),
        }  # fmt: skip

    def __str__(self) -> str:
        if self.us is None:
            return f"no prediction for {self.place}: {self.reason}"
        assert self.low_us is not None and self.high_us is not None
        return (
            f"predicted: {_time(self.us)} on {self.place} ({_time(self.low_us)} to {_time(self.high_us)}), "
            f"{'caches warm' if self.warm else 'L2 flushed'}"
        )

    def explain(self) -> str:
        """The prediction in sentences: what limits each launch, what its warps wait for, and where."""
        parts = [str(self) + "."]
        for launch in self.launches:
            if launch.us is None:
                parts.append(f"{launch.kernel}: {launch.reason}.")
                continue
            worst = launch.waits_for
            where = [(line, found.get(worst, 0.0)) for line, found in launch.lines.items() if line and found.get(worst)]
            where.sort(key=lambda entry: -entry[1])
            told = ", ".join(f"line {line} ({share:.0%})" for line, share in where[:3])
            followed = "every block" if launch.blocks_followed == launch.blocks_per_sm else (
                f"{launch.blocks_followed} of {launch.blocks_per_sm} blocks"
            )  # fmt: skip
            parts.append(
                f"{launch.kernel}: {_time(launch.us)}, {launch.cycles:,.0f} cycles, "
                f"{launch.ipc:.2f} instructions per cycle. "
                f"Nearest to its best is {launch.limit} ({launch.units[launch.limit]:.0%}). "
                f"Warps wait most in the state '{worst}', for {MEANING[worst]} "
                f"({launch.states[worst]:.0%} of their time)"
                + (f": {told}." if told else ".")
                + f" Followed: {followed} of one multiprocessor, {launch.resident_blocks} at a time."
            )
        if self.us is None:
            return "\n".join(parts)
        if not self.is_validated:
            parts.append(
                f"{self.gpu} was {NOT_VALIDATED}: its constants are from specifications and literature, and the range "
                f"is that of predictions for {agreement().gpu}, which says little of this GPU."
            )
        parts.append(
            "Not modelled: power and clocks under load but for one step; hashing of L2 and its halves; other kernels "
            "on the GPU; divisions of numbers so large or small that they take a longer way, where they come from "
            "tensor cores. A prediction is no measurement and never graded."
        )
        return "\n".join(parts)


@dataclass(frozen=True)
class Agreement:
    """How predictions agreed with times of a real GPU: over `launches`, the median of |predicted / measured - 1|, its
    90th percentile, Spearman's rank correlation; four fifths of measured / predicted lie between `low` and `high`."""

    gpu: str
    launches: int
    median: float
    p90: float
    rank_correlation: float
    low: float
    high: float


@functools.cache
def agreement() -> Agreement:
    """The recorded agreement, written by `benchmarks/clock/validate.py`."""
    return Agreement(**json.loads(RECORD.read_text(encoding="utf-8")))


def _time(us: float) -> str:
    unit, size = next(((u, s) for u, s in (("s", 1e6), ("ms", 1e3)) if us >= s), ("us", 1.0))
    return f"{us / size:.3g} {unit}"


# ---------------------------------------------------------------- predicting


def predict_time(
    what: Launch | str, sizes: Mapping[str, float] | None = None, *, gpu: str | Machine = DEFAULT,
    constants: Mapping[str, int] | None = None, warm: bool = False,
) -> Prediction:  # fmt: skip
    """Predict how long something takes on `gpu` ("h200"), and where its warps wait.

    `what` is a launch that ran on the simulator, whose arrays are taken as they are now, or a kernel file or step
    ("lab05/07"), which need not run: inputs are random. `warm` leaves in L2 what fits. A kernel that cannot be
    predicted gives a Prediction without a time, with the reason. Raises WarpschoolError for an unknown GPU, what
    compiling raises, and CompilerMissing without the disassembler.
    """
    machine = gpu if isinstance(gpu, Machine) else find_machine(gpu)
    return predict_subject(subject(what, sizes, machine, constants), machine, warm=warm)


def predict_plan(
    contract: Contract, plan: Plan, machine: Machine, *, constants: Mapping[str, int] | None = None, warm: bool = False,
    inputs: Callable[[], Mapping[str, np.ndarray]] | None = None,
) -> Prediction:  # fmt: skip
    """Predict all launches of a kernel file with these sizes, on the arrays that `inputs` makes where paths depend on
    them."""
    return predict_subject(planned(contract, plan, machine, constants=constants, inputs=inputs), machine, warm=warm)


def predict_subject(asked: Subject, machine: Machine, *, warm: bool = False) -> Prediction:
    """Predict launches that follow each other; the later ones find in L2 what the first ones left."""
    found = [_predicted(part, machine, warm=warm or number > 0) for number, part in enumerate(asked.parts)]
    return Prediction(
        gpu=machine.name, is_validated=machine.is_validated, case=asked.case, warm=warm, launches=tuple(found)
    )


def _predicted(part: Part, machine: Machine, *, warm: bool) -> LaunchPrediction:
    return told(part, followed(part, machine), machine, warm=warm)


def followed(part: Part, machine: Machine) -> Followed | str:
    """What a launch's warps do, or why nobody knows."""
    if part.program is None:
        return part.reason
    try:
        return follow(part.program, part.launch, machine)
    except LaunchError as error:
        return f"{IMPOSSIBLE}: {error.message}"
    except PathUnknown as error:
        return error.message


def told(part: Part, what: Followed | str, machine: Machine, *, warm: bool = False) -> LaunchPrediction:
    """The prediction of a launch of which `followed` found this."""
    launch = part.launch
    if not isinstance(what, str):
        try:
            return _told(part, what, machine, time_of(what, machine, warm=warm))
        except PathUnknown as error:
            what = error.message
    return LaunchPrediction(kernel=part.kernel, grid=launch.grid, block=launch.block, us=None, reason=what)


def _told(part: Part, what: Followed, machine: Machine, found: LaunchTime) -> LaunchPrediction:
    launch, function = part.launch, what.program.function
    total = float(found.stalls.sum()) or 1.0
    by_line: dict[int, np.ndarray] = {}
    for instruction, row in zip(function.code, found.stalls, strict=True):
        by_line[instruction.line] = by_line.get(instruction.line, 0.0) + row
    return LaunchPrediction(
        kernel=part.kernel, grid=launch.grid, block=launch.block, us=found.us, cycles=found.cycles,
        duration_us=found.us - float(machine["clock"]["events_us"]), registers=function.registers,
        shared_bytes=function.shared_bytes + launch.shared_bytes,
        active_warps=total / float(found.used[core.U_CYCLES]),
        most_warps=machine.spec.sm.warps,
        instructions=found.instructions,
        ipc=float(found.used[core.U_ISSUED] / max(found.used[core.U_CYCLES], 1.0)),
        resident_blocks=found.resident, blocks_followed=found.blocks_followed, blocks_per_sm=found.blocks_per_sm,
        states=_shares(found.stalls.sum(0), total),
        lines={line: _shares(row, total) for line, row in sorted(by_line.items())},
        units=_units(found, machine), l1_hit_rate=_ratio(found.used[core.U_L1_HITS], found.used[core.U_L1_SECTORS]),
        dram_bytes=float(found.used[core.U_DRAM_READ] + found.used[core.U_DRAM_WRITTEN]),
    )  # fmt: skip


def _shares(row: np.ndarray, total: float) -> dict[str, float]:
    return {name: float(row[state] / total) for state, name in STATES.items() if row[state] > 0}


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _units(found: LaunchTime, machine: Machine) -> dict[str, float]:
    """How much of its best each unit does while the blocks run, under Nsight Compute's names."""
    used, cycles = found.used, max(float(found.used[core.U_CYCLES]), 1.0)
    slots = 4 * cycles
    return {
        "issue slots": float(used[core.U_ISSUED]) / slots,
        "FMA pipe": float(used[core.U_FMA]) * float(machine["pipes"]["heavy"]) / machine.fp32_pipes / slots,
        "ALU pipe": float(used[core.U_ALU]) * float(machine["pipes"]["alu"]) / slots,
        "XU pipe": float(used[core.U_XU]) / slots, "FP64 pipe": float(used[core.U_FP64]) / slots,
        "tensor pipe": float(used[core.U_TENSOR]) / slots, "LSU": float(used[core.U_LSU]) / cycles,
        "L2": float(used[core.U_L2_SHARE]), "DRAM": float(used[core.U_DRAM_SHARE]),
    }  # fmt: skip
