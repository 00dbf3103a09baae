"""Does `check` reject what is wrong? Mutants of every reference, tried beside it at random shapes and graded.

    python benchmarks/mutants.py [LAB ...] [--per 40] [--seed 0] [--json FILE] [--fresh]

A mutant is the reference with one small mistake (`warpschool.authoring.mutants`). Which of them are wrong,
`mutant_trial.py` decides by 20 random shapes of its own; each wrong one is checked as a class's hand-in is, up to the
first criterion that is not met, and must not be accepted.
What is known of a mutant is kept in build/mutants at once, so that Ctrl-C, and a machine that goes down, lose nothing;
a changed reference or grader is tried anew, and `--fresh` tries everything anew. The figures go to
benchmarks/results/mutants.json lab by lab, from which `scripts/mutants_page.py` writes docs/teach/mutants.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mutant_trial
from judged import chosen_steps
from mutant_trial import SHAPES, Trial
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warpschool.authoring.mutants import Mutant, mutants
from warpschool.course import Course, Step
from warpschool.grading import nursery
from warpschool.grading.jobs import BATCH_LIMITS
from warpschool.grading.runner import check_source, content_hash, library_versions, prepare
from warpschool.grading.verdicts import Verdict
from warpschool.harness.source import Source

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
STATE = ROOT / "build" / "mutants"
PER = 40
SCHEMA = 1
_HANGS_S = 300.0
"""Every trial ends by its steps; after this long the process itself hangs."""


@dataclass(frozen=True)
class Tried:
    """What is known of one mutant; `verdict` is `check`'s, "" for one that was not handed to it."""

    name: str
    outcome: str
    how: str
    shape: int
    verdict: str = ""

    @property
    def is_rejected(self) -> bool:
        return self.verdict not in ("", str(Verdict.AC), str(Verdict.SE), str(Verdict.SKIP))


class Worker:
    """A process in which mutants run: one that crashes or hangs ends its process, and nothing else."""

    def __init__(self) -> None:
        self._pool = self._made()

    @staticmethod
    def _made() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def __call__(self, function: Any, *arguments: Any) -> Any:
        """What the function returns there; raises BrokenProcessPool where the process ended, or had to be ended."""
        try:
            return self._pool.submit(function, *arguments).result(timeout=_HANGS_S)
        except (BrokenProcessPool, FutureTimeout) as error:
            self.end()
            self._pool = self._made()
            raise BrokenProcessPool(str(error)) from None

    def end(self) -> None:
        """End the process, whatever it does."""
        for process in list((self._pool._processes or {}).values()):  # the pool offers no other way
            process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class Trials:
    """The mutants of one step, and what is known of them: in memory and, line by line, in a file."""

    step: Step
    seed: int
    per: int
    fresh: bool
    known: dict[str, Tried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        key = f"{self.step.name}-{content_hash(self.step)}-{self.seed}".replace("/", "-")
        self.file = STATE / f"{key}.jsonl"
        if self.fresh:
            self.file.unlink(missing_ok=True)
        if self.file.is_file():
            for line in self.file.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError):  # the last line of a process that was killed
                    key, tried = json.loads(line)
                    self.known[key] = Tried(**tried)

    @property
    def source(self) -> str:
        assert self.step.solution is not None
        return self.step.solution.read_text("utf-8")

    def run(self, worker: Worker) -> Iterator[tuple[Mutant, Tried]]:
        """Yield mutants until so many have compiled, each with what is known of it."""
        compiled = 0
        for mutant in mutants(self.source, seed=self.seed):
            if compiled == self.per:
                return
            tried = self._tried(mutant, worker)
            compiled += tried.outcome != "uncompiled"
            yield mutant, tried

    def _tried(self, mutant: Mutant, worker: Worker) -> Tried:
        key = hashlib.sha256(mutant.source.encode()).hexdigest()[:16]
        if key not in self.known:
            try:
                trial = worker(mutant_trial.trial, self.step.name, mutant.source, self.seed)
            except BrokenProcessPool:
                trial = Trial("wrong", "the process ended or hung")
            verdict = self._verdict(mutant) if trial.outcome == "wrong" else ""
            tried = self.known[key] = Tried(str(mutant), trial.outcome, trial.how, trial.shape, verdict)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, asdict(tried)]) + "\n")
        return self.known[key]

    def _verdict(self, mutant: Mutant) -> str:
        source = Source(mutant.source.encode(), self.step.file_name, "mutant")
        return str(check_source(self.step, source, device="sim", limits=BATCH_LIMITS, until_wrong=True).verdict)


def row(found: list[tuple[Mutant, Tried]], about: dict[str, Any]) -> dict[str, Any]:
    """The figures of one step."""
    tried = [one for _, one in found]
    wrong = [one for one in tried if one.outcome == "wrong"]
    return {
        **about,
        "compiled": sum(one.outcome != "uncompiled" for one in tried),
        "equal": sum(one.outcome == "equal" for one in tried),
        "wrong": len(wrong),
        "rejected": sum(one.is_rejected for one in wrong),
        "rules": dict(sorted(Counter(mutant.rule for mutant, one in found if one.outcome == "wrong").items())),
        "verdicts": dict(sorted(Counter(one.verdict for one in wrong).items())),
        "survivors": [
            {"mutant": one.name, "wrong": one.how, "shape": one.shape, "verdict": one.verdict}
            for one in wrong if not one.is_rejected
        ],
    }  # fmt: skip


def keep(path: Path, steps: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Write the figures; those of steps that were not tried now stay."""
    before = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    merged = {**before.get("steps", {}), **steps}
    order = [step.name for step in Course.find().steps()]
    made = {
        "schema": SCHEMA, "per": options.per, "seed": options.seed, "shapes": SHAPES, "versions": library_versions(),
        "steps": {name: merged[name] for name in order if name in merged},
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    new.replace(path)


def described(step: Step, seed: int, worker: Worker) -> dict[str, Any]:
    """What the trials of a step stand on; no shapes where even its reference does not come to an end in time."""
    try:
        found: dict[str, Any] = worker(mutant_trial.described, step.name, seed, SHAPES)
    except BrokenProcessPool:
        return {"answers": "reference", "shapes": 0}
    return found


def measure(options: argparse.Namespace, bar: Progress) -> None:
    """Try step after step, and write after each what was found."""
    steps = chosen_steps(options.lab)
    nursery.open_for_good()  # a check's processor time is mostly that of loading, otherwise
    worker = Worker()
    task = bar.add_task("mutants", total=len(steps) * options.per)
    try:
        for number, step in enumerate(steps):
            bar.update(task, description=step.name)
            prepare(step, BATCH_LIMITS)
            about = described(step, options.seed, worker)
            found = []
            if about["shapes"] == SHAPES:
                for mutant, tried in Trials(step, options.seed, options.per, options.fresh).run(worker):
                    found.append((mutant, tried))
                    compiled = sum(one.outcome != "uncompiled" for _, one in found)
                    bar.update(task, completed=number * options.per + compiled)
            figures = row(found, about)
            keep(options.json, {step.name: figures}, options)
            bar.update(task, completed=(number + 1) * options.per)
            said = f"{figures['rejected']} of {figures['wrong']} wrong ones rejected, {figures['equal']} equal"
            bar.print(f"{step.name}: {said if found else 'not tried: too few shapes, or too slow'}")
            for survivor in figures["survivors"]:
                bar.print(f"  {survivor['verdict']}: {survivor['mutant']} ({survivor['wrong']})")
    finally:
        worker.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lab", nargs="*", help="a lab's or step's name or its beginning; all without")
    parser.add_argument("--per", type=int, default=PER, help="mutants of each reference that compile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    parser.add_argument("--fresh", action="store_true", help="forget what is known")
    options = parser.parse_args()
    os.nice(10 - min(10, os.nice(0)))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    try:
        with Progress(*columns, console=Console(stderr=True)) as bar:
            measure(options, bar)
    except KeyboardInterrupt:
        print("Stopped; run the same again to go on.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
