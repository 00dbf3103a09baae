"""Time to first success: from nothing installed to the first accepted kernel, with a stopwatch.

    python scripts/stopwatch.py [--install REQUIREMENT] [--write]

A fresh virtual environment and an empty cache, in a temporary folder: install, make a copy of the course, check the
untouched starter (which must fail with a hint), put the solution in, check again (which must be accepted). A person's
typing is not in the times; everything else is, downloads too. `--install` is what pip installs: this checkout, or
`warpschool` for the published package. `--write` keeps the times in benchmarks/results/first_success.json and puts them
into docs/learn/start.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "first_success.json"
PAGE = ROOT / "docs" / "learn" / "start.md"
BEGIN, END = "<!-- begin times: written by scripts/stopwatch.py -->", "<!-- end times -->"
LIMIT_S = 300
STEP = "lab00_first_kernels/01_saxpy"


class Stopwatch:
    """Runs commands in a fresh environment and takes their times."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.phases: dict[str, float] = {}
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WARPSCHOOL"))
        } | {"WARPSCHOOL_CACHE": str(folder / "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(self, phase: str, *command: str, expect: int = 0) -> str:
        """Run a command; ends the script with its output where it does not exit as it should."""
        start = time.perf_counter()
        cwd = self.folder / "mine" if (self.folder / "mine").is_dir() else self.folder
        done = subprocess.run(command, cwd=cwd, env=self.environment, capture_output=True, text=True, check=False)
        self.phases[phase] = round(time.perf_counter() - start, 1)
        print(f"{self.phases[phase]:7.1f} s  {phase}", flush=True)
        if done.returncode != expect:
            sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout


def measure(requirement: str) -> dict[str, object]:
    """Go the whole way once. `load`: how many other processes wanted a core when it began."""
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory(prefix="first-success-") as name:
        watch = Stopwatch(Path(name))
        start = time.perf_counter()
        venv.create(watch.folder / "venv", with_pip=True)
        watch.phases["make a virtual environment"] = round(time.perf_counter() - start, 1)
        pip = (str(watch.python), "-m", "pip", "install", "--quiet", "--no-cache-dir")
        watch.run("pip install", *pip, "--constraint", str(ROOT / "constraints.txt"), requirement)
        warpschool = str(watch.python.with_name("warpschool"))
        watch.run("warpschool start", warpschool, "start", "mine")
        said = watch.run("warpschool check: the starter, with a hint", warpschool, "check", STEP, expect=1)
        if "hint" not in said.lower():
            sys.exit(f"the untouched starter gets no hint:\n{said}")
        solution = watch.run("(the solution is put in)", warpschool, "solution", STEP, "--yes", "--json")
        source = json.loads(solution)["source"]
        (watch.folder / "mine" / "kernels" / f"{STEP}.cu").write_text(source, encoding="utf-8")
        said = watch.run("warpschool check: accepted", warpschool, "check", STEP)
        if "accepted" not in said:
            sys.exit(f"the solution is not accepted:\n{said}")
    del watch.phases["(the solution is put in)"]
    return {
        "seconds": round(sum(watch.phases.values()), 1), "phases": watch.phases, "limit_s": LIMIT_S,
        "python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count(), "load": load,
    }  # fmt: skip


def table(result: dict) -> str:
    """The times as the page shows them."""
    rows = ["| what | seconds |", "|---|---:|"]
    rows += [f"| {phase} | {seconds:.1f} |" for phase, seconds in result["phases"].items()]
    rows.append(f"| **all, without your typing** | **{result['seconds']:.0f}** |")
    note = (
        f"Python {result['python']} on {result['machine']} with {result['cores']} cores, {result['load']:.1f} other "
        "processes at work on them; nothing cached, packages from a nearby mirror. On a slow line the download "
        "decides: about 180 MB."
    )
    return "\n".join([BEGIN, *rows, "", note, END])


def updated(page: str, result: dict) -> str:
    """The page's text with these times between the markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + table(result) + after


def files() -> dict[Path, str]:
    """The page with the recorded times. Only this needs the library: the stopwatch installs its own."""
    from warpschool.course import Course
    from warpschool.recorded import recorded

    return {PAGE: updated(PAGE.read_text("utf-8"), recorded(RESULT.name, course=Course(ROOT)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", default=str(ROOT), metavar="REQUIREMENT", help="what pip installs")
    parser.add_argument("--write", action="store_true", help="keep the times, and put them into the page")
    options = parser.parse_args()
    result = measure(options.install)
    print(f"{result['seconds']:7.1f} s  in all; the limit is {LIMIT_S} s")
    if options.write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
        PAGE.write_text(updated(PAGE.read_text("utf-8"), result), "utf-8")
    sys.exit(0 if float(str(result["seconds"])) <= LIMIT_S else 1)


if __name__ == "__main__":
    main()
