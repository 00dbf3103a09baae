"""What the chapters of single labs share: references on the simulator, records of an H200, kernels that a chapter
prints, and tables as text."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import warpschool as ws
from warpschool.authoring import specimens
from warpschool.clock.prediction import Prediction
from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.harness.launcher import Program, RunResult, random_inputs
from warpschool.inspect.accesses import Trace, trace
from warpschool.recorded import recorded

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "learn"
COURSE = Course(ROOT)

Arrays = Mapping[str, npt.ArrayLike]


def short(step: str) -> str:
    """`lab05/04` of `lab05_work_per_thread/04_register_blocked`."""
    lab, idea = step.split("/")
    return f"{lab[:5]}/{idea[:2]}"


def contract(step: str) -> Contract:
    """The reference of a step."""
    solution = COURSE.step(step).solution
    assert solution is not None
    return parse_contract(solution.read_text("utf-8"), name=solution.name)


def printed(chapter: str, name: str) -> Contract:
    """A kernel file that a chapter prints, by the name in its first line."""
    page = (PAGES / f"{chapter}.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"```cuda\n(// {re.escape(name)}:.*?)```", page, re.DOTALL)
    return parse_contract(text, name=name)


def run(
    kernel: Contract, sizes: Mapping[str, float], arrays: Arrays | None = None, *,
    constants: Mapping[str, int] | None = None,
) -> RunResult:  # fmt: skip
    """The kernel on the simulator, with random inputs where none are given; a hazard is an error."""
    program = Program(kernel, device="sim", constants=constants)
    plan = program.contract.bind(sizes, constants=program.constants)
    found = program.run(sizes, random_inputs(plan, np.random.default_rng(0)) | dict(arrays or {}), check=True)
    hazards = [hazard for launch in found.launches for hazard in launch.hazards]
    assert not hazards, f"{kernel.name}: {hazards[0]}"
    return found


def seen(
    kernel: Contract, sizes: Mapping[str, float], arrays: Arrays | None = None, *, block: int = 0,
    constants: Mapping[str, int] | None = None,
) -> Trace:  # fmt: skip
    """What the lanes of one block touch."""
    given = random_inputs(kernel.bind(sizes, constants=constants)) | dict(arrays or {})
    return trace(kernel, sizes, given, block=block, constants=constants)


def predicted(
    kernel: Contract, sizes: Mapping[str, float], *, constants: Mapping[str, int] | None = None
) -> Prediction:  # fmt: skip
    """The clock's prediction for an H200, with L2 flushed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / kernel.name
        path.write_text(kernel.source, encoding="utf-8")
        found = ws.predict_time(str(path), sizes, gpu="h200", constants=constants)
    assert found.us is not None, found.reason
    return found


def time_us(found: Prediction) -> float:
    """Its microseconds; `predicted` has made sure that there are some."""
    assert found.us is not None
    return found.us


@dataclass(frozen=True)
class Timed:
    """A launch, or several of one file, of a reference that was timed on an H200, with its recorded prediction."""

    step: str
    sizes: Mapping[str, float]
    measured_us: float
    predicted_us: float
    state: str
    """what the warps of its longest launch wait for most, by Nsight Compute"""


@cache
def _timed() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in recorded("clock_validation_h200.json")["rows"]:
        found.setdefault(row["case"], []).append(row)
    return found


def timed(step: str, kind: str = "large") -> Timed:
    """The record of one of the cases of `benchmarks/clock/cases.py`: "small", "medium", "large"."""
    lab, idea = step.split("/")
    case = f"{lab[:5]}/{idea}@{kind}"
    rows = _timed()[case]
    longest = max(rows, key=lambda row: row["measured_us"])
    return Timed(
        step, recorded("clock_times_h200.json")["cases"][case]["sizes"],
        sum(row["measured_us"] for row in rows), sum(row["predicted_us"] for row in rows), longest["measured_state"],
    )  # fmt: skip


def us(value: float) -> str:
    """A time with three digits that count, in the unit that fits."""
    for unit, factor in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}" if value / factor < 1000 else f"{value / factor:,.0f} {unit}"
    return f"{value * 1e3:.0f} ns"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown. Heads that begin with `>` are of numbers, at the right."""
    lines = ["| " + " | ".join(name.removeprefix(">") for name in head) + " |"]
    lines.append("|" + "|".join("---:" if name.startswith(">") else "---" for name in head) + "|")
    for row in rows:
        assert len(row) == len(head), row
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def specimen(path: str) -> Contract:
    """A kernel of tests/specimens, by its place there without the ending."""
    found = specimens.read(ROOT / "tests" / "specimens" / f"{path}.toml")
    return parse_contract(found.source(ROOT / "solutions"), name=f"{path.rsplit('/', 1)[1]}.cu")


def random_like(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Numbers in [-0.1, 0.1), the same on every call."""
    return np.random.default_rng(1).uniform(-0.1, 0.1, tuple(shape)).astype(dtype)
