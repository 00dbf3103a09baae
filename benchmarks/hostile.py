"""Every submission of tests/hostile, tried: kinds, how many, how many held, and what the dearest cost.

    python benchmarks/hostile.py [--seeds 2] [--kind WORDS] [--json FILE]

A kernel holds where it gets one of its verdicts, full points for AC alone, at every seed; a notebook where its kernel
gets its verdict. Progress is told on stderr. The figures go to benchmarks/results/hostile.json, from which
`scripts/hostile_table.py` writes the table in docs/teach/cheats.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "hostile.json"
sys.path.insert(0, str(ROOT))

# the corpus lies beside the tests, not in a package that is installed
from rich.progress import track
from tests.hostile import hostile_cells, hostile_more, hostile_notebooks
from tests.hostile.hostile_kernels import ATTACKS, Attack

from warpschool.course import Course
from warpschool.grading.jobs import KernelJob
from warpschool.grading.runner import library_versions
from warpschool.grading.verdicts import Verdict


def tried(attack: Attack, seed: int) -> tuple[bool, float]:
    """Whether it got what is due to it, and processor time in s."""
    before = _spent_s()
    reference = Course.find().step(attack.step).solution
    source = attack.build().replace(b"{SECRET}", b"/etc/passwd").replace(b"{REFERENCE}", str(reference).encode())
    result = KernelJob(attack.step, source, seed=seed).run()
    holds = str(result.verdict) in attack.verdicts and (result.score == result.max_score) is (
        result.verdict is Verdict.AC
    )
    return holds, _spent_s() - before


def _spent_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def figures(seeds: int, kind: str) -> dict[str, Any]:
    """For each kind: how many, how many held at all seeds, the most processor time of one check; and what failed."""
    assert hostile_more.RIGHT_LINE  # its import has filled the table
    kinds: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    chosen = [attack for attack in ATTACKS if kind in attack.kind]
    for attack in track(chosen, description="kernels"):
        row = kinds.setdefault(attack.kind, {"tried": 0, "held": 0, "most_cpu_s": 0.0})
        found = [tried(attack, seed) for seed in range(seeds)]
        holds = all(one for one, _ in found)
        row["tried"] += 1
        row["held"] += holds
        row["most_cpu_s"] = round(max(row["most_cpu_s"], *(cost for _, cost in found)), 1)
        failed += [] if holds else [f"{attack.kind}: {attack.name}"]
    for name in track([name for name in hostile_cells.CELLS if kind in "cells in Python"], description="cells"):
        row = kinds.setdefault("cells in Python", {"tried": 0, "held": 0, "most_cpu_s": 0.0})
        before = _spent_s()
        own, verdicts = hostile_cells.CELLS[name]
        holds = str(hostile_cells.checked(own).verdict) in verdicts.split()
        row["tried"] += 1
        row["held"] += holds
        row["most_cpu_s"] = round(max(row["most_cpu_s"], _spent_s() - before), 1)
        failed += [] if holds else [f"cells in Python: {name}"]
    return {"seeds": seeds, "kinds": kinds, "failed": failed, "notebooks": len(hostile_notebooks.ATTACKS),
            "versions": library_versions()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kind", default="", help="only kinds with these words in their name; nothing is written")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.nice(5)
    found = figures(options.seeds, options.kind)
    if not options.kind:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for name, row in found["kinds"].items():
        print(f"{name}: {row['held']} of {row['tried']} held; {row['most_cpu_s']} s at most")
    for name in found["failed"]:
        print(f"did not hold: {name}")
    raise SystemExit(1 if found["failed"] else 0)


if __name__ == "__main__":
    main()
