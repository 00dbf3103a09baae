"""Programs of other people's: which of them build here, run to their end and say that they are right.

    python benchmarks/program_trial.py run LIST RESULTS.jsonl --collection NAME
    python benchmarks/program_trial.py write RESULTS.jsonl [...]

The programs are none of ours and do not lie here. A line of LIST is `NAME@FOLDER | sources | options | arguments`;
sources may be patterns. Each is built and run in a process of its own, at most a minute of processor time for the run,
and becomes a line of RESULTS, where those that it has already are left out. `write` judges the lines and puts them into
`results/program_trial.json`, where other programs' outcomes stay: passed are those that end with status 0 and say of
nothing that it failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import processor

from warpschool.errors import WarpschoolError
from warpschool.programs import build, find_tools, run_program

RESULTS = Path(__file__).resolve().parent / "results" / "program_trial.json"
_MOST_S = 60
_WAIVED = 2
"""The status of samples that a device cannot run."""
_LIBRARY = re.compile(r"The simulator has no (\S+):")
_HEADER = re.compile(r"fatal error: (\S+): No such file")
_SAYS_FAILED = re.compile(r"\bFAIL(ED|URE)?\b|\b[Tt]est failed\b")


def _child_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _one(folder: str, sources: str, options: str, arguments: str) -> dict[str, Any]:
    """A program's outcome; the process that calls this has no other work."""
    os.chdir(folder)
    before = _child_s()
    try:
        paths = [path for pattern in sources.split() for path in sorted(Path().glob(pattern))]
        built = build(paths, shlex.split(options))
    except WarpschoolError as problem:
        return {"kind": "build", "said": f"{problem}"[:3000]}
    build_s = _child_s() - before
    start = _child_s() + processor.spent_s()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    threading.Thread(target=_watch, args=(processor.spent_s() + _MOST_S,), daemon=True).start()
    report = run_program(built.path, shlex.split(arguments), capture=True)
    if report.interrupted:
        return {"kind": "timeout", "build_cpu": round(build_s, 1)}
    run_s = _child_s() + processor.spent_s() - start
    notes = [[note.kind, str(note.hosts[0]) if note.hosts else ""] for note in report.notes]
    return {
        "kind": "ran", "status": report.status, "notes": notes, "out": report.output[-2500:],
        "build_cpu": round(build_s, 1), "run_cpu": round(run_s, 1),
    }  # fmt: skip


def _watch(until_s: float) -> None:
    """Does what Ctrl-C does, once this process has had so much processor time."""
    while processor.spent_s() < until_s:
        time.sleep(0.5)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def run(listed: Path, results: Path, collection: str) -> None:
    """Runs what the results do not have yet."""
    done = {row["name"] for row in _rows([results])} if results.exists() else set()
    for line in listed.read_text("utf-8").splitlines():
        place, *rest = (part.strip() for part in f"{line}|||".split("|")[:4])
        name, _, folder = place.partition("@")
        if not name or name in done:
            continue
        command = [sys.executable, __file__, "one", "--", folder or ".", *rest]
        said = subprocess.run(command, capture_output=True, text=True)
        last = said.stdout.rpartition("\n@@")[2]
        row = json.loads(last) if last else {"kind": "broken", "said": said.stderr[-1500:]}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "collection": collection, **row}) + "\n")


def _rows(files: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def judged(row: dict[str, Any]) -> tuple[str, str]:
    """Of a line of results the outcome, and why it is no better: "passed", "outside", "too long" or "failed"."""
    if row["kind"] == "build":
        library, header = _LIBRARY.search(row["said"]), _HEADER.search(row["said"])
        if library or header:
            return "outside", library[1] if library else str(header and header[1])
        return "failed", row["said"].partition("\n")[2].partition("\n")[0] or row["said"]
    if row["kind"] == "timeout":
        return "too long", f"more than {_MOST_S} s"
    if row["kind"] != "ran":
        return "failed", row.get("said", "").strip().rpartition("\n")[2]
    if row["status"] == _WAIVED and re.search(r"\b[Ww]aiv", row["out"]):
        return "outside", "it wants a device with more"
    if row["status"] == 0 and not _SAYS_FAILED.search(row["out"]):
        return "passed", ""
    return "failed", f"status {row['status']}: {row['out'].strip().rpartition(chr(10))[2]}"


def write(files: list[Path]) -> None:
    """Puts the outcomes into the recorded results, in the place of what these programs did before."""
    recorded = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    collections: dict[str, dict[str, Any]] = recorded.get("collections", {})
    for row in _rows(files):
        outcome, why = judged(row)
        programs = collections.setdefault(row["collection"], {})
        programs[row["name"]] = {"outcome": outcome, **({"why": why[:120]} if why else {})}
        if outcome == "passed":
            programs[row["name"]] |= {"findings": sorted({kind for kind, _ in (note[:2] for note in row["notes"])})}
    found = {"cpu": processor.name(), "nvcc": find_tools().cuda, "most_seconds": _MOST_S, "collections": collections}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    way = ways.add_parser("run")
    way.add_argument("list", type=Path)
    way.add_argument("results", type=Path)
    way.add_argument("--collection", required=True)
    way = ways.add_parser("one")
    way.add_argument("program", nargs=4)
    way = ways.add_parser("write")
    way.add_argument("results", type=Path, nargs="+")
    given = parser.parse_args()
    if given.way == "one":
        print("\n@@" + json.dumps(_one(*given.program)))
        sys.stdout.flush()
        os._exit(0)  # a kernel that took too long goes on in its thread
    if given.way == "run":
        run(given.list, given.results, given.collection)
    else:
        write(given.results)


if __name__ == "__main__":
    main()
