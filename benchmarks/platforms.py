"""What works on this machine with this compiler, recorded for docs/reference/platforms.md.

    python benchmarks/platforms.py [--compiler clang] [--where "emulated by qemu-user"] [LAB ...]

Every reference runs at its usual sizes on the simulator: hashes of its outputs, and its counters. Then it is checked.
The tour runs, and the wrong kernels of labs 00 to 05 must get their verdicts. The figures go to
benchmarks/results/platforms.json, a row for each system, processor and compiler, from which
`scripts/platforms_page.py` writes the page; rows of other machines stay. A row tells of the checkout that made it:
record with one checkout what is to be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import warpschool as ws
from warpschool.compile import COMPILERS, compiler_report
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.grading.runner import library_versions
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.profile import usual_sizes

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "platforms.json"
SPECIMENS = " or ".join(f"lab{number:02}" for number in range(6))


def ran(step: Step) -> dict[str, Any]:
    """A reference at its usual sizes: a hash of each output, and the counters that are not zero."""
    assert step.solution is not None
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    plan = contract.bind(usual_sizes(contract))
    inputs = random_inputs(plan, np.random.default_rng(0))
    if any(array.is_given and name not in inputs for name, array in plan.arrays.items()):
        return {}  # it takes what no random numbers are; its check runs it
    run = Program(contract, device="sim").run(usual_sizes(contract), inputs)
    return {
        "outputs": {name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in run.outputs.items()},
        "counters": {name: value for name, value in run.counters.plain().items() if value},
        "hazards": len(run.hazards),
    }


def checked(step: Step) -> dict[str, Any]:
    """What `check` says of a reference, and which of its criteria are not judged here."""
    result = ws.check(step.name, step.solution, device="sim")
    return {
        "verdict": str(result.verdict),
        "points": [result.score, result.max_score],
        "not judged": [criterion.title for criterion in result.criteria if not criterion.is_judged],
    }


def takes_tour() -> bool:
    """Whether the tour comes to its end and every reference in it is right."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "warpschool", "tour", "--device", "sim", "--html", f"{folder}/tour.html"]
        return subprocess.run(command, capture_output=True).returncode == 0


def specimens() -> dict[str, int]:
    """How many kernels of labs 00 to 05 with a known verdict got it, or did not."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", str(ROOT / "tests" / "specimens"), "-k", SPECIMENS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    last = done.stdout.strip().split("\n")[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}


def main() -> None:
    """Record one row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("labs", nargs="*", help="only these labs")
    parser.add_argument("--compiler", default="auto", choices=COMPILERS)
    parser.add_argument("--where", default="", help="what else is to be said of the machine")
    options = parser.parse_args()
    os.environ["WARPSCHOOL_COMPILER"] = options.compiler
    compiler = str(compiler_report().get("compiler", "none"))
    row: dict[str, Any] = {"compiler": compiler, "where": options.where, "versions": library_versions(), "steps": {}}
    for step in Course(ROOT).kernels():
        if step.solution is None or (options.labs and not step.name.startswith(tuple(options.labs))):
            continue
        row["steps"][step.name] = ran(step) | checked(step)
        print(step.name, row["steps"][step.name]["verdict"], flush=True)
    if not options.labs:
        row |= {"tour": takes_tour(), "specimens": specimens()}
    found = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    name = f"{platform.system()} {platform.machine()} {compiler.split()[0]}".lower()
    found[name] = row
    RESULTS.write_text(json.dumps(dict(sorted(found.items())), indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{name}: {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
