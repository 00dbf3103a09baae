"""Writes docs/reference/cuda-calls.md: CUDA's calls that whole programs may make, and those that are refused.

The names are those of NVIDIA's headers, as benchmarks/cuda_calls.py records them; what there is, is read off the
runtime library's own sources.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpschool.programs.refused import Refusal, entry_points, refusal

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "cuda-calls.md"
RECORDED = ROOT / "benchmarks" / "results"


def page() -> str:
    names = json.loads((RECORDED / "cuda_calls.json").read_text("utf-8"))
    runtime, driver = entry_points()
    lines = [
        "# Calls of whole programs", "",
        f"Calls of CUDA {names['cuda']} that a program under [`warpschool run`](../learn/programs.md) can make, and",
        "those that it cannot. A refused call compiles and links; it returns `cudaErrorNotSupported`, and is told with",
        "the line that made it, the reason, and what to do in its place.", "",
        "*Written by `scripts/calls_page.py` from the library's sources and the names in NVIDIA's headers.*", "",
    ]  # fmt: skip
    for title, declared, there in (("runtime", names["runtime"], runtime), ("driver", names["driver"], driver)):
        lines += _interface(title, declared, there)
    return "\n".join(lines)


def _interface(title: str, declared: Sequence[str], there: frozenset[str]) -> list[str]:
    done = [name for name in declared if name in there]
    refused: dict[Refusal, list[str]] = {}
    for name in declared:
        if name not in there:
            refused.setdefault(refusal(name), []).append(name)
    twins = {why: names for why, names in refused.items() if why.instead.startswith("call cuda")}
    lines = [f"## The {title}: {len(done)} of {len(declared)}", "", _listed(done), ""]
    lines += ["| refused | what they are about | in their place |", "|---|---|---|"]
    lines += [
        f"| {_listed(names)} | {why.what} | {why.instead} |" for why, names in refused.items() if why not in twins
    ]
    if twins:
        pairs = [name for names in twins.values() for name in names]
        lines.append(f"| {_listed(pairs)} | twins of calls of the runtime's | call that; a program may use both |")
    return [*lines, ""]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def trial() -> str:
    """The table of programs of other people's, from benchmarks/program_trial.py."""
    path = RECORDED / "program_trial.json"
    if not path.is_file():
        return "*Not measured yet.*"
    found = json.loads(path.read_text("utf-8"))
    rows = [_row(name, programs) for name, programs in sorted(found["collections"].items())]
    return "\n".join(["| programs | tried | right | not, and why |", "|---|---:|---:|---|", *rows])


def _row(name: str, programs: dict[str, dict[str, Any]]) -> str:
    able = {title: one for title, one in programs.items() if one["outcome"] != "outside"}
    passed = sum(one["outcome"] == "passed" for one in able.values())
    late = sorted(title for title, one in able.items() if one["outcome"] == "too long")
    failed = sorted(f"{title} ({one['why'].rstrip('.')})" for title, one in able.items() if one["outcome"] == "failed")
    why = [f"more work than a minute's: {', '.join(late)}"] if late else []
    return f"| {name} | {len(able)} | {passed} | {'; '.join(why + failed) or 'all are'} |"


def files() -> dict[Path, str]:
    """The page, and the table of the page on programs."""
    from scripts.pages import between

    learn = ROOT / "docs" / "learn" / "programs.md"
    return {PAGE: page(), learn: between(learn.read_text("utf-8"), "trial", trial())}
