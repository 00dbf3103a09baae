"""The same fuzzing cases with two versions of LLVM: outcomes and bits must be the same.

    python scripts/fuzz_llvm.py [--llvmlite 0.45.1] [--cuda 300] [--launch 2000] [--seed 1] [--first 0]

The other llvmlite (by default the newest for Macs with Intel processors, as constraints.txt pins it) is put into
build/llvm/VERSION, whose packages come before the environment's own; the rest of the environment is shared. Each case
leaves a digest of what it left and counted (`python -m tests.fuzz --digests`), and these are compared. What was run
goes to the fuzzer's record. Exit status 1: something was found, or something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "llvm"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvmlite", default=other_version(), help="the version beside the environment's")
    parser.add_argument("--cuda", type=int, default=300, help="random programs")
    parser.add_argument("--launch", type=int, default=2000, help="hostile kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args()
    folder = installed(a.llvmlite)
    different = 0
    for mode, cases in (("cuda", a.cuda), ("launch", a.launch)):
        if not cases:
            continue
        options = [mode, "--cases", str(cases), "--first", str(a.first), "--seed", str(a.seed), "--threads", "1",
                   "--processes", str(a.processes)]  # fmt: skip
        ours, theirs = fuzzed(options, "own"), fuzzed(options, a.llvmlite, folder)
        different += told(mode, ours, theirs, a.llvmlite)
    return 1 if different else 0


def other_version() -> str:
    """The llvmlite that constraints.txt pins for Macs with Intel processors."""
    found = re.search(r"^llvmlite==(\S+); sys_platform == 'darwin'", (ROOT / "constraints.txt").read_text(), re.M)
    if found is None:
        raise SystemExit("constraints.txt pins no llvmlite for Macs with Intel processors: name one with --llvmlite")
    return found[1]


def installed(version: str) -> Path:
    """A folder with this llvmlite, made where it is missing."""
    folder = FOLDER / version
    if not (folder / "llvmlite").is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*install, f"llvmlite=={version}"], check=True)
    return folder


def fuzzed(options: list[str], name: str, *before: Path) -> dict[str, Any]:
    """The figures of a run with its digests; `before` are folders whose packages come first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = FOLDER / f"{options[0]}-{name}.json"
    figures.unlink(missing_ok=True)
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*before, ROOT)))}
    command = [sys.executable, "-m", "tests.fuzz", *options, "--digests", "--record", "--no-minimise"]
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
