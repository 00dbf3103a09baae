"""What was fuzzed, with which version, kept in benchmarks/results/fuzz.json.

Each row is a run of neighbouring cases of one mode and seed, on one state of the code; a run that goes on where a row
ends is added to it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "fuzz.json"
_SUMMED, _MOST = ("asked", "cases", "seconds", "processor_s"), ("resident_mb", "slowest_s")


def add(figures: dict[str, Any], path: Path = RECORD) -> None:
    """Adds a run to the record."""
    rows = json.loads(path.read_text())["runs"] if path.exists() else []
    new = {key: value for key, value in figures.items() if key != "digests"} | versions()
    for row in rows:
        same = all(row[key] == new[key] for key in ("mode", "seed", *versions()))
        if same and row["first"] + row["asked"] == new["first"]:
            _extend(row, new)
            break
    else:
        rows.append(new)
    rows.sort(key=lambda row: (row["mode"], row["seed"], row["first"]))
    path.write_text(json.dumps({"what": "fuzz", "runs": rows}, indent=1) + "\n")


def _extend(row: dict[str, Any], new: dict[str, Any]) -> None:
    row |= {key: round(row[key] + new[key], 1) for key in _SUMMED}
    row |= {key: max(row[key], new[key]) for key in _MOST}
    if "optimised" in row or "optimised" in new:
        row["optimised"] = row.get("optimised", []) + new.get("optimised", [])
    for key in ("outcomes", "findings"):
        row[key] = {name: row[key].get(name, 0) + new[key].get(name, 0) for name in {**row[key], **new[key]}}


def versions() -> dict[str, str]:
    """What decides a case's outcome: the code of simulator and fuzzer, LLVM, compiler; and the machine it ran on."""
    from warpschool.compile import compiler_report

    return {
        "code": code_digest(), "llvmlite": importlib.metadata.version("llvmlite"),
        "compiler": str(compiler_report().get("nvrtc")), "machine": _machine(),
    }  # fmt: skip


def code_digest() -> str:
    """Of every module of the simulator and of the fuzzer."""
    seen = hashlib.sha256()
    for folder in ("src/ptxsim", "tests/fuzz"):
        for path in sorted(p for p in (ROOT / folder).rglob("*.py") if not p.name.startswith("test_")):
            seen.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return seen.hexdigest()[:12]


def _machine() -> str:
    """The processor's name, and the GPU's where the driver tells one."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")][:1]
    chips = [line.split(":")[1].strip() for card in Path("/proc/driver/nvidia/gpus").glob("*/information")
             for line in _lines(card) if line.startswith("Model")][:1]  # fmt: skip
    return ", ".join(names + chips) or platform.machine()


def _lines(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
