"""What first launches take with nothing cached: every reference of the course, and long kernels.

    python benchmarks/first_launch.py [--only NAME ...] [--repeat 1] [--write | --json FILE]

From the source text to the end of the first run: NVRTC, translation, machine code, the launch itself, with counters and
checks. Counted are user and system time, of children too, and the time by the clock, which is shorter where two cores
share the work. A reference runs at the case that its grader counts. Each has a process and an empty cache of its own;
the helpers that kernels share have been compiled there before, and are told apart. Progress is told on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import processor

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "first_launch.json"
sys.path.insert(0, str(ROOT))
REFERENCES, LONG_KERNELS = "references", "long kernels"


@dataclass
class _Spent:
    """Seconds from now on."""

    processor_s: float = field(default_factory=processor.spent_s)
    clock_s: float = field(default_factory=time.perf_counter)

    def end(self) -> dict[str, float]:
        return {"first_s": processor.spent_s() - self.processor_s, "clock_s": time.perf_counter() - self.clock_s}


_Run = Callable[[], tuple[dict[str, float], int]]
"""Runs something once: what that took, and its statements of PTX."""


def _run_reference(name: str) -> _Run:
    """What runs a reference once, the file's kernels one after the other."""
    from warpschool.course import Course
    from warpschool.grading.submission import Program
    from warpschool.harness.launcher import RunResult
    from warpschool.tour.run import RecordedKernel, parse_contract, run_criterion, stated_criterion

    step = Course(ROOT).step(name)
    assert step.solution is not None
    contract = parse_contract(step.solution.read_text(encoding="utf-8"), name=step.file_name)
    ran: list[tuple[dict[str, float], int]] = []

    class Once(RecordedKernel):
        def _run(
            self, device: str, sizes: Mapping[str, float], arrays: Mapping[str, Any],
            constants: Mapping[str, int] | None, **simulator: Any,
        ) -> RunResult:  # fmt: skip
            began = _Spent()
            program = Program(contract, device="sim", constants=constants)
            program.run(sizes, arrays, **simulator)
            ran.append((began.end(), program.module.ptx.count(";")))
            raise _Enough

    _, test = stated_criterion(step)

    def run() -> tuple[dict[str, float], int]:
        run_criterion(test, Once(contract))
        if not ran:
            raise SystemExit(f"{name}: its criterion runs nothing")
        return ran[0]

    return run


class _Enough(Exception):
    """Ends a criterion behind its first run."""


def _run_long_kernel(name: str) -> _Run:
    """What runs a long kernel once."""
    from tests.sim.engine_launch import launch
    from tests.sim.long_kernels import long_kernels

    from warpschool.compile import compile_cuda

    kernel = next(k for k in long_kernels() if k.name == name)

    def run() -> tuple[dict[str, float], int]:
        began = _Spent()
        ptx = compile_cuda(kernel.source, name=f"{name}.cu").ptx
        found = launch(ptx, name, kernel.grid, kernel.block, *kernel.arguments)
        spent = began.end()
        kernel.verify(found.arrays)
        return spent, ptx.count(";")

    return run


def _measure_here(kind: str, name: str) -> dict[str, float]:
    """In a process with an empty cache: seconds of what all kernels share, and of a first run."""
    import warpschool as ws

    ws.compile_cuda('extern "C" __global__ void before() {}')
    before = processor.spent_s()
    ws.RawModule(code='extern "C" __global__ void warm() {}', device="sim").get_function("warm")((1,), (1,), ())
    shared = processor.spent_s() - before
    run = (_run_reference if kind == REFERENCES else _run_long_kernel)(name)
    with _compilations() as compiled_s:
        first, statements = run()
    spent = {"shared_s": shared, **first, "compiler_s": sum(compiled_s)}
    return {name: round(seconds, 3) for name, seconds in spent.items()} | {"ptx_statements": statements}


@contextmanager
def _compilations() -> Iterator[list[float]]:
    """Processor time of each compilation of CUDA C++ until the end: of NVRTC."""
    from warpschool.compile.processes import Compiler

    plain, spent = Compiler.compile, list[float]()

    def timed(self: Compiler, *request: Any) -> Any:
        began = processor.spent_s()
        try:
            return plain(self, *request)
        finally:
            spent.append(processor.spent_s() - began)

    with mock.patch.object(Compiler, "compile", timed):
        yield spent


def measure(kind: str, name: str, repeat: int) -> dict[str, float]:
    """The least of some processes, each with a cache of its own."""
    least: dict[str, float] = {}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="ws-") as cache:
            command = [sys.executable, __file__, "--here", kind, name]
            environment = os.environ | {"WARPSCHOOL_CACHE": cache}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        found = json.loads(done.stdout)
        least = {key: min(value, least.get(key, value)) for key, value in found.items()}
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--here", nargs=2, metavar=("KIND", "NAME"), help="measure one in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(_measure_here(*options.here)))
        return
    from tests.sim.long_kernels import FOLDER

    from warpschool.course import Course

    names = {
        REFERENCES: [step.name for step in Course(ROOT).kernels() if step.solution and step.grader],
        LONG_KERNELS: sorted(path.stem for path in FOLDER.glob("*.cu")),
    }
    load = os.getloadavg()[0]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for kind, all_names in names.items():
        wanted = [n for n in all_names if not options.only or n.startswith(tuple(options.only))]
        rows[kind] = {}
        for name in wanted:
            rows[kind][name] = row = measure(kind, name, options.repeat)
            print(f"{name} {row['first_s']:.2f} s, {row['clock_s']:.2f} s by the clock", file=sys.stderr, flush=True)
    found = {
        "what": "first_launch", "cpu": processor.name(), "cores": os.cpu_count(), "load_before": round(load, 1),
        "repeat": options.repeat, "kernels": rows,
    }  # fmt: skip
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    for path in (RESULTS if options.write else None, options.json):
        if path:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
