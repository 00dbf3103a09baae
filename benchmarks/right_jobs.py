"""What does the check of a right submission cost? Every step's reference, judged as a class is, secret cases and all.

    python benchmarks/right_jobs.py [LAB ...] [--json FILE]

Each runs in a fork of a process that has loaded what it needs, with an empty compile cache, and within a class's limits
of memory: what is accepted has kept below them. The figure is processor time of that fork and its compiler. Other
programs on the machine make that longer, never shorter: what took more than is allowed is made once more, and the
lesser counts. The figures go to benchmarks/results/right_jobs.json step by step, those of steps that were not tried
stay; the exit status is 1 where a step took more than `MOST_S` or was not accepted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import processor
from judged import chosen_steps, keep
from rich.console import Console
from rich.progress import track

from warpschool.course import Step
from warpschool.grading import nursery
from warpschool.grading.jobs import BATCH_LIMITS, KernelJob
from warpschool.grading.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "right_jobs.json"
MOST_S = 20.0
"""What the check of any submission may take."""
SECRET = "0123456789abcdef" * 2
"""Of a class: it chooses the cases that no student sees."""


def cost(step: Step) -> dict[str, Any]:
    """Verdict, processor time in s, and what was counted of one check."""
    assert step.solution is not None
    before = processor.spent_s()
    result = KernelJob(step.name, step.solution.read_bytes(), secret=SECRET).run()
    counted = {name: int(result.provenance.get(name, 0)) for name in ("executed", "translated", "launches")}
    return {"verdict": str(result.verdict), "cpu_s": round(processor.spent_s() - before, 1), **counted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lab", nargs="*", help="a lab's or step's name or its beginning; all without")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    options = parser.parse_args()
    os.nice(10 - min(10, os.nice(0)))
    steps = chosen_steps(options.lab)
    with tempfile.TemporaryDirectory() as empty:
        os.environ["WARPSCHOOL_CACHE"] = empty
        nursery.open_for_good()  # as a class is graded
        shown = track(steps, description="right submissions", console=Console(stderr=True))
        amiss = sum(not _is_fine(step, options.json) for step in shown)
    raise SystemExit(1 if amiss else 0)


def _is_fine(step: Step, figures: Path) -> bool:
    """Keep what a step takes; whether it is accepted, and within what is allowed."""
    row = cost(step)
    if row["cpu_s"] > MOST_S:
        row = min(row, cost(step), key=lambda one: one["cpu_s"])
    keep(figures, {step.name: row}, most_s=MOST_S, most_mb=BATCH_LIMITS.resident_bytes >> 20)
    is_fine = row["verdict"] == str(Verdict.AC) and row["cpu_s"] <= MOST_S
    if not is_fine:
        print(f"{step.name}: {row['verdict']}, {row['cpu_s']} s", flush=True)
    return is_fine


if __name__ == "__main__":
    main()
