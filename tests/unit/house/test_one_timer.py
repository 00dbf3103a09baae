"""One timing helper: whoever times work asks `ws.benchmark`, or `benchmark_host` for the host's own work."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CLOCKS = {"perf_counter", "perf_counter_ns"}
"""fine enough for a kernel; deadlines and processor time have clocks of their own"""
SEARCHED = ("benchmarks", "src/warpcourse", "src/warpschool/nn", "src/warpschool/inspect", "src/warpschool/notebook",
            "src/warpschool/grading", "src/warpschool/device", "src/warpschool/tour", "labs", "grader")  # fmt: skip
ALLOWED = {
    "src/warpschool/inspect/timing.py": "the helper's own clock of the host",
    "src/warpschool/device/measurement.py": "how long a measurement may last",
    "src/warpschool/device/gpu.py": "how long a launch keeps the host busy, by which the helper holds a GPU back",
    "src/warpschool/inspect/machine.py": "how long a doctor's test kernel took, compiler and all",
    "src/warpschool/inspect/profile.py": "how long a profile took to make",
    "src/warpschool/tour/run.py": "how long a tour took",
    "src/warpschool/grading/program.py": "how long a student's program ran, against its limit",
    "src/warpschool/nn/training.py": "how long a run of training took, host and all",
    "src/warpcourse/lab11_training/lab.py": "the same, for who waits for it",
}
"""file -> what it reads a clock for; none of these is a kernel's time"""
HOST_ONLY = {
    "benchmarks/first_launch.py", "benchmarks/simulator.py", "benchmarks/simulator_cases.py",
    "benchmarks/simulator_networks.py",
}  # fmt: skip
"""benchmarks of the simulator, which is work of the CPU: they know no GPU"""


def clocks(source: str) -> Iterator[int]:
    """Lines in which a program reads a clock."""
    if not any(name in source for name in CLOCKS):
        return
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in CLOCKS:
            yield node.lineno


def searched() -> list[str]:
    found = [path for folder in SEARCHED for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def test_nobody_else_reads_a_clock():
    guilty = [
        f"{name}:{line}" for name in searched() if name not in {*ALLOWED, *HOST_ONLY}
        for line in clocks((ROOT / name).read_text("utf-8"))
    ]  # fmt: skip
    assert guilty == []


@pytest.mark.parametrize("name", sorted({*ALLOWED, *HOST_ONLY}))
def test_who_may_read_a_clock_does(name):
    source = (ROOT / name).read_text("utf-8")
    assert list(clocks(source)), f"{name} needs no leave"
    assert name not in HOST_ONLY or ("cupy" not in source and "torch" not in source)


@pytest.mark.parametrize("lines", ["time.perf_counter()", "from time import perf_counter_ns\nt = perf_counter_ns()"])
def test_a_clock_is_seen(lines):
    assert list(clocks(lines))
