"""Processor time of `warpschool check` for the references of labs 00 to 06: by itself, and in the warm process.

    python benchmarks/checks.py [--labs 7] [--repeat 3] [--write]

Counted are user and system time of the command, its forks, the grading child and the compiler. A first check finds an
empty cache but for the helpers that kernels share: it compiles and translates the kernel. The next one finds PTX
and machine code there. Of `--repeat` runs the one with the least counts. Progress is told on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processor

from warpschool.course import Course, Step
from warpschool.warm import client, place

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "checks.json"
_BEGIN_S = 60.0
_ASK = "from warpschool.warm import place; print(place.socket_path())"


class Bench:
    """Checks with a cache of their own, and a warm process that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        self._cache = folder / "cache"
        self._environment = {key: value for key, value in os.environ.items() if key != "CI"} | {
            "XDG_RUNTIME_DIR": str(folder), "WARPSCHOOL_CACHE": str(self._cache), place.SWITCH: "1"
        }  # fmt: skip
        os.environ |= {"XDG_RUNTIME_DIR": str(folder)}  # where `client.reports` looks
        asked = subprocess.run(
            [sys.executable, "-c", _ASK], env=self._environment, capture_output=True, text=True, check=True
        )
        path = asked.stdout.strip()
        command = [sys.executable, "-P", "-m", "warpschool.warm.server", path]
        self._server = subprocess.Popen(command, env=self._environment, cwd="/", start_new_session=True)
        end = time.monotonic() + _BEGIN_S
        while not os.path.exists(path):
            if time.monotonic() > end or self._server.poll() is not None:
                raise SystemExit("the warm process does not begin")
            time.sleep(0.1)
        self._helpers = shutil.copytree(self._cache, folder / "helpers")
        self.memory_bytes = client.reports()[0]["memory_bytes"]

    def end(self) -> None:
        """End the warm process."""
        self._server.send_signal(signal.SIGTERM)
        self._server.wait()

    def forget(self) -> None:
        """Leave nothing in the cache but what the warm process has put there when it began."""
        shutil.rmtree(self._cache)
        shutil.copytree(self._helpers, self._cache)

    def check(self, step: Step, *, warm: bool) -> float:
        """Processor seconds of one check."""
        before = processor.spent_s()
        command = [sys.executable, "-m", "warpschool", "check", step.name, "--kernel", str(step.solution)]
        environment = self._environment if warm else self._environment | {place.SWITCH: "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{step}: {done.stdout}{done.stderr}")
        return processor.spent_s() - before


def measure(bench: Bench, step: Step, repeat: int) -> dict[str, float]:
    """Processor seconds: alone and in the warm process, the first check of a kernel and the next."""
    least: dict[str, float] = {}
    for _ in range(repeat):
        for name, warm in (("alone", False), ("warm", True)):
            bench.forget()
            for which in ("first", "again"):
                key = f"{name}_{which}_s"
                least[key] = min(least.get(key, 1e9), round(bench.check(step, warm=warm), 3))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=7, help="how many labs, from the first")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    labs = Course(ROOT).labs()[: options.labs]
    steps = [step for lab in labs for step in lab.steps if step.solution and step.grader and not step.is_program]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="ws-", dir="/tmp") as folder:
        bench = Bench(Path(folder))
        try:
            rows = {}
            for step in steps:
                rows[step.name] = measure(bench, step, options.repeat)
                print(step, *(f"{key} {value:.2f}" for key, value in rows[step.name].items()), file=sys.stderr)
        finally:
            bench.end()
    found = {
        "cpu": processor.name(), "cores": os.cpu_count(), "load_before": round(load, 1), "repeat": options.repeat,
        "warm_bytes": bench.memory_bytes, "steps": rows,
    }  # fmt: skip
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    for path in (RESULTS if options.write else None, options.json):
        if path:
            Path(path).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
