"""Which warp issues what in which cycle on one multiprocessor, and why the others wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpschool.clock import core
from warpschool.clock.machine import find_machine
from warpschool.clock.predict import predict_launch
from warpschool.clock.prediction import DEFAULT, STATES
from warpschool.clock.subject import subject
from warpschool.clock.trace import PathUnknown
from warpschool.device import Launch
from warpschool.errors import ArgumentError

SCHEDULERS = 4
MOST_CYCLES = 4000


@dataclass(frozen=True)
class Issue:
    """A warp issues an instruction in `cycle`, after it waited from `since` on, most of that time in `state`.

    `warp` is its place on the multiprocessor: places of one scheduler lie four apart.
    """

    cycle: int
    warp: int
    since: int
    state: str
    opcode: str
    line: int

    @property
    def waited(self) -> int:
        """Cycles between the warp's issue before and this one."""
        return self.cycle - self.since


@dataclass(frozen=True)
class IssueTimeline:
    """What one multiprocessor issues from cycle `start` until `end`, in order; waits may begin before and end after."""

    gpu: str
    """the machine's name, and whether nobody validated it"""
    kernel: str
    case: str
    start: int
    end: int
    cycles: int
    """of the blocks that were followed"""
    warps: int
    """places for warps"""
    warps_per_block: int
    issues: tuple[Issue, ...]

    def of(self, scheduler: int) -> tuple[int, ...]:
        """The places of a scheduler's warps."""
        return tuple(range(scheduler, self.warps, SCHEDULERS))

    def busy(self, scheduler: int) -> float:
        """The share of cycles in which a scheduler issues."""
        return sum(self.start <= i.cycle < self.end and i.warp % SCHEDULERS == scheduler for i in self.issues) / (
            self.end - self.start
        )


def issue_timeline(
    what: Launch | str, sizes: Mapping[str, float] | None = None, *, gpu: str = DEFAULT,
    constants: Mapping[str, int] | None = None, start: int | None = None, cycles: int = 240, number: int = 0,
    warm: bool = False,
) -> IssueTimeline:  # fmt: skip
    """Follow launch `number` of what `predict_time` takes, and keep `cycles` of it from `start` on; without it, of
    the middle, where they show most: different instructions after different waits.

    Raises PathUnknown where the launch cannot be predicted, ArgumentError for cycles that it does not have, and what
    `predict_time` raises.
    """
    if not 1 <= cycles <= MOST_CYCLES:
        raise ArgumentError(f"a timeline has 1 to {MOST_CYCLES:,} cycles, not {cycles:,}")
    machine = find_machine(gpu)
    asked = subject(what, sizes, machine, constants)
    if not 0 <= number < len(asked.parts):
        raise ArgumentError(f"there are {len(asked.parts)} launches, counted from 0: no launch {number}")
    part = asked.parts[number]
    if part.program is None:
        raise PathUnknown(part.reason)
    whole = int(predict_launch(part.program, part.launch, machine, warm=warm).used[core.U_CYCLES])
    if start is not None and not 0 <= start < whole:
        raise ArgumentError(f"the blocks that are followed take {whole:,} cycles: none is number {start:,}")
    middle = max(0, (whole - MOST_CYCLES) // 2)
    around = (middle, min(whole, middle + MOST_CYCLES)) if start is None else (start, min(whole, start + cycles))
    found = predict_launch(part.program, part.launch, machine, warm=warm, watched=around)
    code = part.program.function.code
    first = _richest(found.issues, [i.opcode for i in code], around, cycles) if start is None else start
    end = min(whole, first + cycles)
    shown = found.issues[(found.issues[:, 0] >= first) & (found.issues[:, 3] < end)]
    issues = tuple(
        Issue(int(cycle), int(warp), int(since), STATES[int(state)], code[pc].opcode, code[pc].line)
        for cycle, warp, pc, since, state in shown
    )
    return IssueTimeline(
        gpu=str(machine), kernel=part.kernel, case=asked.case, start=first, end=end,
        cycles=whole, warps=found.resident * part.launch.warps, warps_per_block=part.launch.warps, issues=issues,
    )  # fmt: skip


def _richest(issues: np.ndarray, opcodes: Sequence[str], around: tuple[int, int], cycles: int) -> int:
    """Where `cycles` begin that show most: different opcodes after different waits; of several places the first."""
    low, high = around
    kinds = [(opcodes[pc], state) for _, _, pc, _, state in issues]
    inside: Counter[tuple[str, int]] = Counter()
    best, place, oldest = 0, low, 0
    for kind, cycle in zip(kinds, issues[:, 0], strict=True):
        inside[kind] += 1
        while issues[oldest, 0] <= cycle - cycles:
            inside[kinds[oldest]] -= 1
            oldest += 1
        inside += Counter()  # drops what is no longer there
        if len(inside) > best:
            best, place = len(inside), int(issues[oldest, 0])
    return max(low, min(place, high - cycles))
