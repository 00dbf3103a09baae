"""What works on this machine with this compiler, recorded for docs/reference/platforms.md.

    python benchmarks/platforms.py [--compiler clang] [--where "emulated by qemu-user"] [--row NAME]
                                   [--parts steps,tour,specimens,fair,suite,pass] [STEP ...]

Every reference runs at its usual sizes on the simulator: hashes of its outputs, and its counters. Then it is checked;
whole programs are checked only. Where clang's code has other bits than NVRTC's, both run, and by how much they differ
is kept. The tour runs, the wrong kernels of labs 00 to 05 must get their verdicts, and a part of the tests runs that is
quick enough for an emulated machine. --parts and names of steps do less, and keep what the row has of the rest. The
figures go to benchmarks/results/platforms.json, a row for each system, processor and compiler, from which
`scripts/platforms_page.py` writes the page; rows of other machines stay. A row tells of the checkout that made it:
record with one checkout what is to be compared. The exit code is 1 where something of what ran was not as it must be.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import warpschool as ws
from warpschool.compile import COMPILERS, compiler_report
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.grading import nursery
from warpschool.grading.runner import library_versions
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.profile import usual_sizes

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "platforms.json"
FIRST_LABS = " or ".join(f"lab{number:02}" for number in range(6))
QUICK = ("-m", "not slow", "--timeout", "0")
TESTS = {
    "specimens": ("-n", "1", "tests/specimens", "-k", FIRST_LABS),
    "suite": (*QUICK, "@tests/trimmed.txt"),
    "pass": (*QUICK, "tests/unit/compile/test_clang.py", "tests/unit/system/test_macos.py"),
}
"""Parts that are tests: wrong and right kernels of labs 00 to 05; tests of every room that are quick enough where a
machine is emulated, where time says nothing; what each `make test` runs with clang."""
FIRST = "linux x86_64 nvrtc"
PARTS = ("steps", "tour", "specimens", "suite")
"""Those that are run where none is named. The others: `pass`, and `fair`, right kernels of the later labs."""
LATER_LABS = [f"lab{number:02}" for number in range(6, 17) if number != 14]  # 14: whole programs, which nvcc compiles


def run_of(step: Step) -> RunResult | None:
    """A reference's run at its usual sizes; None for whole programs, and where it takes what no random numbers are."""
    assert step.solution is not None
    if step.is_program:
        return None
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    plan = contract.bind(usual_sizes(contract))
    inputs = random_inputs(plan, np.random.default_rng(0))
    if any(array.is_given and name not in inputs for name, array in plan.arrays.items()):
        return None  # its check runs it
    return Program(contract, device="sim").run(usual_sizes(contract), inputs)


def ran(step: Step) -> dict[str, Any]:
    """Of a reference's run a hash of each output, and the counters that are not zero."""
    run = run_of(step)
    return {} if run is None else {
        "outputs": {name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in run.outputs.items()},
        "counters": {name: value for name, value in run.counters.plain().items() if value},
        "hazards": len(run.hazards),
    }  # fmt: skip


def apart(step: Step) -> dict[str, float]:
    """By how much outputs differ from those that NVRTC's code has here, in parts of the largest number of each."""
    chosen, found = os.environ["WARPSCHOOL_COMPILER"], []
    for compiler in (chosen, "nvrtc"):
        os.environ["WARPSCHOOL_COMPILER"] = compiler
        run = run_of(step)
        found.append({} if run is None else {n: a.astype(np.float64) for n, a in run.outputs.items()})
    os.environ["WARPSCHOOL_COMPILER"] = chosen
    mine, others = found
    return {name: float(np.abs(mine[name] - other).max() / np.abs(other).max()) for name, other in others.items()}


def differs(name: str, outputs: dict[str, str], first: dict[str, Any]) -> bool:
    """Whether a reference has other bits than in the first row."""
    return bool(outputs) and outputs != first.get("steps", {}).get(name, {}).get("outputs", outputs)


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


def tested(*arguments: str, **variables: str) -> dict[str, int]:
    """How many tests passed, failed, or were skipped; what pytest says is shown as it comes."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | variables) as run:
        for line in run.stdout or ():
            print(line, end="", flush=True)
            last = line if line.strip() else last
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}


def timed_pass() -> dict[str, Any]:
    """What each run of the tests does with clang, with the processor time that it takes with an empty cache."""
    import processor  # asks the system what Windows does not tell

    with tempfile.TemporaryDirectory() as folder:
        before = processor.spent_s()
        found = tested(*TESTS["pass"], WARPSCHOOL_CACHE=folder)
        return {**found, "processor_s": round(processor.spent_s() - before, 1), "processor": processor.name()}


def record(name: str, row: dict[str, Any], parts: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Put into the row what is asked for, and keep it after each step: an emulated machine takes hours.

    What was not as it must be, in words.
    """
    wrong = []
    with nursery.opened():  # checks are forks of one process, where that can be
        for step in Course(ROOT).steps() if "steps" in parts else ():
            if step.solution is None or (wanted and not step.name.startswith(tuple(wanted))):
                continue
            found = ran(step) | checked(step)
            if differs(step.name, found.get("outputs", {}), _recorded().get(FIRST, {})) and "clang" in name:
                found["apart"] = apart(step)
            row["steps"][step.name] = found
            print(step.name, found["verdict"], flush=True)
            wrong += [f"{step.name}: {found['verdict']}"] if found["verdict"] != "AC" else []
            _keep(name, row)
    if "tour" in parts:
        row["tour"] = takes_tour()
        wrong += [] if row["tour"] else ["the tour"]
    for lab in LATER_LABS if "fair" in parts else ():
        if not wanted or lab in wanted:
            found = tested("-n", "0", "tests/specimens", "-k", f"right_ and {lab}")
            row["fair"] = row.get("fair", {}) | {lab: found}
            wrong += _faults(lab, found)
            _keep(name, row)
    for part, arguments in TESTS.items():
        if part in parts:
            row[part] = found = timed_pass() if part == "pass" else tested(*arguments)
            wrong += _faults(part, found)
    _keep(name, row)
    return wrong


def _faults(part: str, found: dict[str, Any]) -> list[str]:
    return [f"{part}: {found}"] if not found.get("passed") or {"failed", "error"} & set(found) else []


def main() -> int:
    """Record one row, or a part of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("steps", nargs="*", help="only these labs or steps")
    parser.add_argument("--compiler", default="auto", choices=COMPILERS)
    parser.add_argument("--where", default="", help="what else is to be said of the machine")
    parser.add_argument("--row", default="", help="a row of another name, which is put behind the machine's")
    parser.add_argument("--parts", default=",".join(PARTS), help="of these, separated by commas")
    options = parser.parse_args()
    os.environ["WARPSCHOOL_COMPILER"] = options.compiler
    compiler = str(compiler_report().get("compiler", "none"))
    name = f"{platform.system()} {platform.machine()} {compiler.split()[0]} {options.row}".lower().strip()
    row: dict[str, Any] = {"steps": {}, **_recorded().get(name, {})}
    row |= {"compiler": compiler, "where": options.where, "versions": library_versions()}
    if not options.steps and "steps" in options.parts:
        row["steps"] = {}
    wrong = record(name, row, options.parts.split(","), options.steps)
    print("\n".join([f"{name}: {RESULTS.relative_to(ROOT)}", *(f"wrong: {one}" for one in wrong)]))
    return int(bool(wrong))


def _keep(name: str, row: dict[str, Any]) -> None:
    fresh = RESULTS.with_suffix(f".{os.getpid()}")  # whole at every moment: another platform may be recorded beside
    fresh.write_text(json.dumps(_recorded() | {name: row}, indent=1, sort_keys=True) + "\n", "utf-8")
    fresh.replace(RESULTS)


def _recorded() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text("utf-8"))) if RESULTS.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
