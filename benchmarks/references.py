"""The course's reference kernels on the GPU at hand: each graded there, and timed with the course's own helper.

    python benchmarks/references.py [--lab lab02 ...] [--json FILE]

Needs CuPy and a GPU. A step's case is the tour's: large enough to fill the chip; products are timed against cuBLAS in
the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import warpschool as ws
from warpschool.course import Course
from warpschool.device import get_device
from warpschool.tour.run import TourPlan, run_tour

RESULTS = Path(__file__).parent / "results"


def figures(lab_names: list[str]) -> dict:
    """Verdict on the GPU and time of every reference of the labs whose names start like one of `lab_names`."""
    device = get_device("gpu")
    steps = [s for s in Course.find().kernels() if s.solution is not None and s.grader is not None]
    steps = [s for s in steps if not lab_names or any(s.name.startswith(name) for name in lab_names)]
    rows: dict[str, dict] = {}
    for step in steps:
        result = ws.check(step.name, step.solution, device="gpu")
        rows[step.name] = {"verdict": str(result.verdict), "score": result.score, "max_score": result.max_score}
        print(f"{step.name}: {result.verdict}", file=sys.stderr, flush=True)
    for done in run_tour(TourPlan(tuple(steps), True, ())):
        gpu = getattr(done, "gpu", None)
        if gpu is not None:
            rows[done.step]["gpu"] = gpu.to_dict()
    return {"what": "references", "device": str(device), "steps": rows, "versions": {"warpschool": ws.__version__}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lab", action="append", default=[], help="a lab's name or its beginning; several are allowed")
    parser.add_argument("--json", type=Path, default=RESULTS / "references.json", help="where the figures go")
    arguments = parser.parse_args()
    result = figures(arguments.lab)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1, default=str) + "\n")
    wrong = [name for name, row in result["steps"].items() if row["verdict"] != "AC"]
    print(f"{len(result['steps']) - len(wrong)} of {len(result['steps'])} references accepted on {result['device']}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
