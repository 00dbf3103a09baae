"""Every reference of the course on every machine that the clock describes: has it a prediction, and may that be true?

    python benchmarks/clock/machines_check.py [--only TEXT] [--gpu KEY ...] [--size small|medium|large]

A prediction may not be shorter than the roofline bound of the same launches, which the simulator's exact counters give;
nor may the first blocks touch other sectors of global memory on one machine than on another, or issue far more or fewer
instructions, for the same source does the same work on each, whatever its machine code. What a machine's architecture cannot do is named. The exit status is 1
where something is wrong.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np
from cases import Case, cases, inputs_of

from warpschool.clock.footprint import entries
from warpschool.clock.launches import of_plan
from warpschool.clock.machine import Machine, find_machine, machines
from warpschool.clock.prediction import LaunchPrediction, predict_plan
from warpschool.clock.subject import IMPOSSIBLE, encoded, machine_arch
from warpschool.clock.trace import BlockTrace, KernelLaunch, PathUnknown, Tracer
from warpschool.counters import Counters
from warpschool.errors import CompileError
from warpschool.harness.launcher import Program
from warpschool.model import Estimate, estimate

CLOSE = 0.97
"""What a prediction may be of its bound: counters, sizes and clocks have three digits."""
GLOBAL = 1 << 43
"""Entries of lines below this address are global memory; local memory has its own place above."""
BLOCKS = 3
ALIKE = 0.65, 1.5


@dataclass
class Findings:
    """What was found of one case on one machine."""

    name: str
    gpu: str
    us: float | None
    bound_us: float
    reason: str = ""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.us:10.2f} us, bound {self.bound_us:10.2f} us" if self.us else self.reason[:100]
        return f"{self.name:44s} {self.gpu:14s} {told}" + "".join(f"\n    WRONG: {text}" for text in self.wrong)


def check(case: Case, machine: Machine, counted: list[Counters], inputs: dict[str, np.ndarray]) -> Findings:
    """One case on one machine, against the bounds of its launches."""
    predicted = predict_plan(case.contract, case.plan, machine, inputs=lambda: inputs)
    bounds = _bounds(case, machine, counted)
    bound_us = sum(bound.time_ms for bound in bounds) * 1e3
    found = Findings(case.name, machine.key, predicted.us, bound_us, predicted.reason)
    for launch, bound in zip(predicted.launches, bounds, strict=True):
        if launch.us is not None and launch.us < CLOSE * bound.time_ms * 1e3:
            found.wrong.append(f"{launch.kernel}: {launch.us:.2f} us beats its bound, {bound}")
    if predicted.us is None and not _may_be_without(case, machine, predicted.launches):
        found.wrong.append("no prediction")
    return found


def _bounds(case: Case, machine: Machine, counted: list[Counters]) -> list[Estimate]:
    """Of each launch. DRAM counts for the first one alone, whose caches are flushed, and for the inputs passed to it."""
    arrays = case.plan.arrays
    passed = {p.name for p in case.plan.launches[0].arguments if p.name in arrays and arrays[p.name].is_given}
    nbytes = sum(int(np.prod(arrays[name].shape or ())) * arrays[name].dtype.itemsize for name in passed)
    return [
        estimate(counters, gpu=machine.spec, array_bytes=nbytes if at == 0 else None)
        for at, counters in enumerate(counted)
    ]


def _may_be_without(case: Case, machine: Machine, launches: tuple[LaunchPrediction, ...]) -> bool:
    """Whether the reasons are the architecture's: what it cannot do, or what the clock says that it does not model."""
    return all(
        launch.us is not None or launch.reason.startswith(IMPOSSIBLE) or "asynchronous engines" in launch.reason
        for launch in launches
    )


@dataclass(frozen=True)
class Work:
    """What the first blocks of a launch do: instructions that their warps issue, and sectors that they touch."""

    issued: int
    sectors: list[np.ndarray]

    def differences(self, other: Work) -> list[str]:
        """In what it is not the other's work. Compilers differ by a third, where tensor products do by shape."""
        found = [] if all(map(np.array_equal, self.sectors, other.sectors)) else ["touches other sectors"]
        ratio = self.issued / other.issued
        return found + ([] if ALIKE[0] < ratio < ALIKE[1] else [f"issues {ratio:.2f} times the instructions"])


def work_of(case: Case, machine: Machine, inputs: dict[str, np.ndarray]) -> dict[str, Work]:
    """By launch; nothing of a file that cannot be compiled there."""
    try:
        programs = encoded(case.contract.source, case.contract.name, machine_arch(case.contract.arch, machine), {})
    except CompileError:
        return {}
    file = Program(case.contract, device="sim")
    found = {}
    for at, (kernel, launch) in enumerate(of_plan(file, case.plan, inputs)):
        try:
            tracer = Tracer(programs[kernel], launch)
            traces = [tracer.run(launch.block_at(block)) for block in range(min(BLOCKS, launch.blocks))]
        except PathUnknown:
            continue
        sectors = [_sectors(trace, launch) for trace in traces]
        found[f"{kernel} {at}"] = Work(sum(trace.issued for trace in traces), sectors)
    return found


def _sectors(trace: BlockTrace, launch: KernelLaunch) -> np.ndarray:
    """Sectors as offsets from the arrays that they lie in, for addresses differ from one run to the next; -1 outside."""
    words = entries(trace)
    words = words[words >> 4 < GLOBAL]
    sectors = np.unique(np.concatenate([((words >> 4) * 4 + k)[(words >> k & 1) == 1] for k in range(4)]))
    found = np.full(len(sectors), -1)
    for number, (address, data) in enumerate(launch.arrays):
        inside = (sectors >= address // 32) & (sectors * 32 < address + data.nbytes)
        found[inside] = (number << 40) + sectors[inside] - address // 32
    return np.sort(found)  # by array: which of them lies first is chance


def main() -> None:
    """Check what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="steps whose names begin with this, such as lab05/07")
    parser.add_argument("--gpu", nargs="*", default=sorted(machines(), key=lambda key: key != "h200"), help="which")
    parser.add_argument("--size", default="medium", help="which of the three sizes")
    options = parser.parse_args()
    wrong, start, begin = 0, time.process_time(), f"lab{options.only.removeprefix('lab')}"
    for case in cases():
        if not case.name.startswith(begin) or not case.name.endswith(f"@{options.size}"):
            continue
        inputs = inputs_of(case)
        run = Program(case.contract, device="sim").run(case.plan.scalars, inputs)
        counted = [launch.counters for launch in run.launches]
        first: dict[str, Work] = {}
        for key in options.gpu:
            machine = find_machine(key)
            found = check(case, machine, counted, inputs)
            here = work_of(case, machine, inputs)
            first = first or here
            for name in here.keys() & first.keys():
                found.wrong += [
                    f"{name} {text}, not as {options.gpu[0]}" for text in here[name].differences(first[name])
                ]
            wrong += bool(found.wrong)
            print(found, flush=True)
    print(f"{wrong} wrong, {time.process_time() - start:.0f} s")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
