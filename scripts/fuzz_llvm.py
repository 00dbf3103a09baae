"""The same fuzzing cases with two versions of LLVM: outcomes and bits must be the same.

    python -m scripts.fuzz_llvm [--llvmlite 0.45.1] [--cuda 300] [--launch 2000] [--seed 1] [--first 0]

The other llvmlite (by default the newest for Macs with Intel processors, as constraints.txt pins it) stands in an
environment beside this one (`drift.beside_this`). Each case leaves a digest of what it left and counted (`python -m
tests.fuzz --digests`), and these are compared. What was run goes to the fuzzer's record. Exit status 1: something was
found, or something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.drift import beside_this, intel_mac_llvmlite

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "fuzz-llvm"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvmlite", default=str(intel_mac_llvmlite()), help="the version beside the environment's")
    parser.add_argument("--cuda", type=int, default=300, help="random programs")
    parser.add_argument("--launch", type=int, default=2000, help="hostile kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args()
    other = beside_this(f"llvmlite=={a.llvmlite}")
    different = 0
    for mode, cases in (("cuda", a.cuda), ("launch", a.launch)):
        if not cases:
            continue
        options = [mode, "--cases", str(cases), "--first", str(a.first), "--seed", str(a.seed), "--threads", "1",
                   "--processes", str(a.processes)]  # fmt: skip
        ours, theirs = fuzzed(options, "own", Path(sys.executable)), fuzzed(options, a.llvmlite, other)
        different += told(mode, ours, theirs, a.llvmlite)
    return 1 if different else 0


def fuzzed(options: list[str], name: str, python: Path) -> dict[str, Any]:
    """The figures of an environment's run with its digests."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = FOLDER / f"{options[0]}-{name}.json"
    figures.unlink(missing_ok=True)
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "tests.fuzz", *options, "--digests", "--record", "--no-minimise"]
    command += ["--json", str(figures), "--findings", str(FOLDER / f"findings-{name}")]
    print(f"[llvmlite {name}] {' '.join(options)}", flush=True)
    subprocess.run(command, cwd=ROOT, env=variables)
    if not figures.exists():
        raise SystemExit(f"the run with llvmlite {name} did not end: see what it printed above")
    return dict(json.loads(figures.read_text()))


def told(mode: str, ours: dict[str, Any], theirs: dict[str, Any], version: str) -> int:
    """Prints what differs; how many cases do, or were findings."""
    a, b = ours["digests"], theirs["digests"]
    different = [number for number in sorted(a.keys() | b.keys(), key=int) if a.get(number) != b.get(number)]
    for number in different[:20]:
        print(f"{mode} case {number}: {a.get(number)} here, {b.get(number)} with llvmlite {version}")
    findings = sum(ours["findings"].values()) + sum(theirs["findings"].values())
    print(f"{mode}: {len(a)} cases, {len(different)} differ between the two versions; {findings} findings")
    return len(different) + findings


if __name__ == "__main__":
    sys.exit(main())
