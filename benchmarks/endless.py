"""How soon does an endless loop end? Every loop of every reference, made endless and graded.

    python benchmarks/endless.py [LAB ...] [--each 3] [--json FILE] [--fresh]

A loop without its step stays where it is, one without its condition walks out of its arrays
(`warpschool.authoring.mutants.endless`). Each is checked as a hand-in of a class is, in a fork of a process that has
loaded what it needs; what it took is processor time of that fork and its compiler. Other programs on the machine make
that longer, never shorter: a check that took more than the most that is allowed is made twice more, and the least
counts. `--each` takes so many of each reference, spread over its file, in place of all. What is known is kept in
build/endless at once; a changed reference, grader or library is tried anew, and `--fresh` tries everything anew. The
figures go to benchmarks/results/endless.json, from which `scripts/result_schema.py` writes the table in
docs/reference/verdicts.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import processor
from judged import chosen_steps, keep
from rich.console import Console
from rich.progress import track

from warpschool.authoring.mutants import Mutant, endless
from warpschool.course import Step
from warpschool.grading import nursery
from warpschool.grading.jobs import BATCH_LIMITS, KernelJob
from warpschool.grading.runner import code_hash, content_hash, prepare
from warpschool.grading.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "endless.json"
STATE = ROOT / "build" / "endless"
MOST_S = 5.0
"""What any endless loop may take."""
TRIES = 3
"""Of a check that seems to take longer."""


@dataclass(frozen=True)
class Tried:
    """One loop: which, its verdict, processor time, and the instructions of warps that it was charged with."""

    name: str
    verdict: str
    cpu_s: float
    executed: int


def tried(step: Step, mutant: Mutant) -> Tried:
    """A loop's verdict and cost: the first that is within what is allowed, or the least of all tries."""
    found = [_tried(step, mutant)]
    while found[-1].cpu_s > MOST_S and len(found) < TRIES:
        found.append(_tried(step, mutant))
    return min(found, key=lambda one: one.cpu_s)


def _tried(step: Step, mutant: Mutant) -> Tried:
    before = processor.spent_s()
    result = KernelJob(step.name, mutant.source.encode()).run()
    executed = int(result.provenance.get("executed", 0))
    return Tried(str(mutant), str(result.verdict), round(processor.spent_s() - before, 2), executed)


def chosen(step: Step, each: int) -> list[Mutant]:
    """The loops of a step that are tried."""
    assert step.solution is not None
    found = endless(step.solution.read_text("utf-8"))
    if not each or len(found) <= each:
        return found
    return [found[(2 * k + 1) * len(found) // (2 * each)] for k in range(each)]


class Known:
    """What is known of a step's loops, line by line in a file, so that a killed run loses nothing."""

    def __init__(self, step: Step, *, fresh: bool) -> None:
        self.step = step
        name = step.name.replace("/", "-")
        self.file = STATE / f"{name}-{content_hash(step)}-{code_hash()}.jsonl"
        if fresh:
            self.file.unlink(missing_ok=True)
        self.known: dict[str, Tried] = {}
        for line in self.file.read_text("utf-8").splitlines() if self.file.is_file() else ():
            with contextlib.suppress(ValueError):  # the last line of a process that was killed
                key, data = json.loads(line)
                self.known[key] = Tried(**data)

    def __call__(self, mutant: Mutant) -> Tried:
        key = hashlib.sha256(mutant.source.encode()).hexdigest()[:16]
        if key not in self.known:
            self.known[key] = tried(self.step, mutant)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, asdict(self.known[key])]) + "\n")
        return self.known[key]


def row(found: list[Tried]) -> dict[str, Any]:
    """The figures of one step; its dearest loop is one that did not come to its end, where there is any."""
    ended = [one for one in found if one.verdict != str(Verdict.AC)]
    dearest = max(ended or found, key=lambda one: one.cpu_s)
    return {
        "loops": len(found),
        "verdicts": dict(sorted(Counter(one.verdict for one in found).items())),
        "over": sum(one.cpu_s > MOST_S for one in ended),
        "most_cpu_s": dearest.cpu_s,
        "dearest": dearest.name,
        "verdict": dearest.verdict,
        "executed": max(one.executed for one in ended or found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lab", nargs="*", help="a lab's or step's name or its beginning; all without")
    parser.add_argument("--each", type=int, default=0, metavar="N", help="loops of each reference; 0: all")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    parser.add_argument("--fresh", action="store_true", help="forget what is known")
    options = parser.parse_args()
    os.nice(10 - min(10, os.nice(0)))
    steps = chosen_steps(options.lab)
    nursery.open_for_good()  # as a class is graded
    over = 0
    for step in track(steps, description="endless loops", console=Console(stderr=True)):
        prepare(step, BATCH_LIMITS)
        known = Known(step, fresh=options.fresh)
        found = [known(mutant) for mutant in chosen(step, options.each)]
        if not found:
            continue
        keep(options.json, {step.name: row(found)}, each=options.each, most_s=MOST_S)
        for one in found:
            if one.cpu_s > MOST_S and one.verdict != str(Verdict.AC):
                over += 1
                print(f"{step.name}: {one.cpu_s} s, {one.verdict}: {one.name}", flush=True)
    raise SystemExit(f"{over} took over {MOST_S:g} s" if over else 0)


if __name__ == "__main__":
    main()
