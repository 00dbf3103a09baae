"""How fast every mapping of one product is, from recorded runs: CPU, float, half, 8 bits, tensor cores."""

from __future__ import annotations

import json
from dataclasses import dataclass

from warpcourse.ladder import Measured, measured
from warpschool.course import Course

SIZE = 4096
_PARTS = ("ladder", "half", "int8", "large")


@dataclass(frozen=True)
class Speed:
    """One mapping at size x size x size; `rate` in 10^12 operations per second."""

    label: str
    kind: str
    rate: float
    size: int
    device: str
    is_library: bool = False


def mappings(*, course: Course | None = None) -> tuple[Speed, ...]:
    """Return one speed for each recorded step, library and CPU; empty where the course carries no recorded runs."""
    course = course or Course.find()
    found: dict[str, Speed] = {}
    for row in measured(course=course):
        if row.part not in _PARTS or row.sizes != dict.fromkeys("MNK", SIZE):
            continue
        kind = _kind(row.step)
        label = "/".join((row.step[:5], row.step.split("/")[1]))
        found.setdefault(label, Speed(label, kind, row.rate, SIZE, row.device))
        library = _library(row, kind)
        found.setdefault(f"{library.label} {library.kind}", library)
    return (*found.values(), *_host(course))


def _kind(step: str) -> str:
    """What a step's products are made of and by."""
    what = "8 bits" if step.endswith("int8") else "half" if step >= "lab06" else "float"
    return f"{what}, tensor cores" if step.startswith("lab07") else what


def _library(row: Measured, kind: str) -> Speed:
    """The reference of a row: on tensor cores wherever the numbers are smaller than floats."""
    tensor = kind if kind == "float" or kind.endswith("tensor cores") else f"{kind}, tensor cores"
    return Speed(row.reference.split(", tensor")[0], tensor, row.reference_rate, SIZE, row.device, is_library=True)


def _host(course: Course) -> tuple[Speed, ...]:
    """NumPy's product on the host of the half-precision benchmark."""
    paths = sorted((course.root / "benchmarks" / "results").glob("half_precision_*.json"))
    if not paths:
        return ()
    result = json.loads(paths[0].read_text("utf-8"))
    size, time_ms = result["host_matmul_size"], result["host_matmul_ms"]
    return (Speed("NumPy", "CPU, float", 2e-9 * size**3 / time_ms, size, f"its host, {result['host']}", True),)
