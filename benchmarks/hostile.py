"""Every submission of tests/hostile, tried: kinds, how many, how many held, and what the dearest cost.

    python benchmarks/hostile.py [--seeds 2] [--kind WORDS] [--json FILE] [--fresh]

A kernel holds where it gets one of its verdicts, full points for AC alone, at every seed; a notebook where its kernel
gets its verdict. Progress is told on stderr. What is known is kept in build/hostile at once, so that a run that was
ended goes on where it was; with another library, step or submission it is tried anew, and with `--fresh` everything is.
The figures go to benchmarks/results/hostile.json, from which `scripts/hostile_table.py` writes the table in
docs/teach/cheats.md; with `--kind` those of other kinds stay, where they are of as many seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import processor

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "hostile.json"
STATE = ROOT / "build" / "hostile"
sys.path.insert(0, str(ROOT))

# the corpus lies beside the tests, not in a package that is installed
from rich.console import Console
from rich.progress import track
from tests.hostile import hostile_cells, hostile_labs, hostile_more, hostile_notebooks, hostile_steps
from tests.hostile.hostile_kernels import ATTACKS, Attack

from warpschool.course import Course
from warpschool.grading import nursery
from warpschool.grading.jobs import KernelJob
from warpschool.grading.runner import code_hash, content_hash, library_versions
from warpschool.grading.sandbox import bubblewrap_problem
from warpschool.grading.verdicts import Verdict


def tried(attack: Attack, seed: int) -> tuple[bool, float]:
    """Whether it got what is due to it, and processor time in s."""
    before = processor.spent_s()
    reference = Course.find().step(attack.step).solution
    source = attack.build().replace(b"{SECRET}", b"/etc/passwd").replace(b"{REFERENCE}", str(reference).encode())
    result = KernelJob(attack.step, source, seed=seed).run()
    holds = str(result.verdict) in attack.verdicts and (result.score == result.max_score) is (
        result.verdict is Verdict.AC
    )
    return holds, processor.spent_s() - before


def tried_cell(name: str, _seed: int) -> tuple[bool, float]:
    """The same of a student's cell in Python."""
    before = processor.spent_s()
    own, verdicts = hostile_cells.CELLS[name]
    holds = str(hostile_cells.checked(own).verdict) in verdicts.split()
    return holds, processor.spent_s() - before


class Known:
    """What is known of each submission at each seed, line by line in a file, so that a killed run loses nothing."""

    def __init__(self, *, fresh: bool) -> None:
        self.file = STATE / f"{code_hash()}.jsonl"
        if fresh:
            self.file.unlink(missing_ok=True)
        self.known: dict[str, tuple[bool, float]] = {}
        for line in self.file.read_text("utf-8").splitlines() if self.file.is_file() else ():
            with contextlib.suppress(ValueError):  # the last line of a process that was killed
                key, holds, cost_s = json.loads(line)
                self.known[key] = holds, cost_s

    def __call__(self, key: str, attempt: Callable[[], tuple[bool, float]]) -> tuple[bool, float]:
        if key not in self.known:
            self.known[key] = attempt()
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, *self.known[key]]) + "\n")
        return self.known[key]


def key_of(what: str, name: str, attempt: partial[tuple[bool, float]], seed: int) -> str:
    """Of a submission at a seed: its kind and name, and a hash of all that is handed in and expected."""
    one = attempt.args[0]
    if isinstance(one, Attack):
        parts: tuple[Any, ...] = content_hash(Course.find().step(one.step)), one.verdicts, one.build()
    else:
        parts = hostile_cells.CELLS[one]
    return f"{what}: {name}, seed {seed}, {hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


def trials(kind: str) -> list[tuple[str, str, partial[tuple[bool, float]]]]:
    """Kind, name, and what tries it with a seed."""
    assert hostile_more.RIGHT_LINE and hostile_steps.BARRIER and hostile_labs.SCAN  # their import has filled the table
    found: list[tuple[str, str, partial[tuple[bool, float]]]] = [
        (one.kind, one.name, partial(tried, one)) for one in ATTACKS
    ]
    if problem := bubblewrap_problem():
        print(f"Cells in Python are not tried, their figures stay: {problem}", file=sys.stderr)
    else:
        found += [("cells in Python", name, partial(tried_cell, name)) for name in hostile_cells.CELLS]
    return [one for one in found if kind in one[0]]


def figures(seeds: int, kind: str, known: Known) -> Iterator[dict[str, Any]]:
    """After each seed: for each kind how many, how many held at all seeds so far, the dearest; and what failed."""
    kinds: dict[str, dict[str, Any]] = {}
    failed: dict[str, None] = {}
    for seed in range(seeds):
        for what, name, attempt in track(trials(kind), description=f"seed {seed}", console=Console(stderr=True)):
            row = kinds.setdefault(what, {"tried": 0, "held": 0, "most_cpu_s": 0.0})
            holds, cost_s = known(key_of(what, name, attempt, seed), partial(attempt, seed))
            row["tried"] += seed == 0
            row["most_cpu_s"] = max(row["most_cpu_s"], round(cost_s, 1))
            if not holds and failed.setdefault(f"{what}: {name}", None) is None:
                print(f"did not hold: {what}: {name}", file=sys.stderr, flush=True)
        for what, row in kinds.items():
            row["held"] = row["tried"] - sum(name.startswith(f"{what}: ") for name in failed)
        yield {"seeds": seed + 1, "kinds": kinds, "failed": list(failed), "notebooks": len(hostile_notebooks.ATTACKS),
               "versions": library_versions()}  # fmt: skip


def keep(path: Path, found: dict[str, Any]) -> None:
    """Write the figures, beside those of the kinds that were not tried now, where these are of as many seeds."""
    before: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {"seeds": 0}
    if before["seeds"] == found["seeds"]:
        others = [name for name in before["failed"] if name.split(": ")[0] not in found["kinds"]]
        found = found | {"kinds": before["kinds"] | found["kinds"], "failed": others + found["failed"]}
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kind", default="", help="only kinds with these words in their name; the others stay")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--fresh", action="store_true", help="forget what is known")
    options = parser.parse_args()
    os.nice(5)
    nursery.open_for_good()  # as a class is graded
    for found in figures(options.seeds, options.kind, Known(fresh=options.fresh)):
        if found["seeds"] == options.seeds:
            keep(options.json, found)
    for name, row in found["kinds"].items():
        print(f"{name}: {row['held']} of {row['tried']} held; {row['most_cpu_s']} s at most")
    raise SystemExit(1 if found["failed"] else 0)


if __name__ == "__main__":
    main()
