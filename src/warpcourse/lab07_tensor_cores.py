"""Lab 07: who waits for whom in a pipeline, and how fast every mapping of one product is, from recorded runs: CPU,
float, half, 8 bits, tensor cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt

from warpcourse.ladder import Measured, measured
from warpcourse.lessons import BLUE, GREEN, GREY, ORANGE, RED, say_nothing
from warpcourse.pipelines import draw_pipeline, schedule
from warpschool.course import Course
from warpschool.harness.launcher import Program, random_inputs
from warpschool.notebook.runs import own_contract
from warpschool.recorded import results
from warpschool.show.figures import Picture

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
    what = "8 bits" if step.endswith(("int8", "fp8")) else "half" if step >= "lab06" else "float"
    return f"{what}, tensor cores" if step.startswith("lab07") else what


def _library(row: Measured, kind: str) -> Speed:
    """The reference of a row: on tensor cores wherever the numbers are smaller than floats."""
    tensor = kind if kind == "float" or kind.endswith("tensor cores") else f"{kind}, tensor cores"
    return Speed(row.reference.split(", tensor")[0], tensor, row.reference_rate, SIZE, row.device, is_library=True)


def _host(course: Course) -> tuple[Speed, ...]:
    """NumPy's product on the host of the half-precision benchmark."""
    found = results("half_precision_*.json", course=course)
    if not found:
        return ()
    size, time_ms = found[0]["host_matmul_size"], found[0]["host_matmul_ms"]
    return (Speed("NumPy", "CPU, float", 2e-9 * size**3 / time_ms, size, f"its host, {found[0]['host']}", True),)


def own_pipeline(step: str, *, tiles: int = 10) -> Picture:
    """Who waits for whom in the student's own kernel of a step, run on the simulator over so many tiles of K."""
    program = Program(own_contract(step), device="sim")
    sizes = {"M": 256, "N": 256, "K": 64 * tiles}
    run = program.run(sizes, random_inputs(program.contract.bind(sizes)), handoffs=True)
    return draw_pipeline(schedule(run.launches[0].handoffs))


_KINDS = {
    "CPU, float": GREY, "float": BLUE, "half": GREEN, "8 bits": "#56B4E9", "half, tensor cores": ORANGE,
    "8 bits, tensor cores": RED,
}  # fmt: skip


def draw_mappings(speeds: Sequence[Speed]) -> Picture:
    """Every mapping of one product, slowest first, as a bar of its speed on a logarithmic axis."""
    if not speeds:
        figure, axes = plt.subplots(figsize=(8, 1.2))
        text = "no recorded times in benchmarks/results"
        say_nothing(axes, "", text)
        return Picture(figure, f"All mappings of one product: {text}.")
    ordered = sorted(speeds, key=lambda speed: speed.rate)
    figure, axes = plt.subplots(figsize=(9, 1 + 0.26 * len(ordered)), layout="constrained")
    places = range(len(ordered))
    bars = axes.barh(
        places, [speed.rate for speed in ordered], color=[_KINDS[speed.kind] for speed in ordered], log=True
    )
    for bar, speed in zip(bars, ordered, strict=True):
        if speed.is_library:
            bar.set_hatch("///")
            bar.set_edgecolor("white")
    axes.bar_label(bars, [f"{speed.rate:,.3g}" for speed in ordered], fontsize=8, padding=2)
    axes.set_yticks(places, [speed.label for speed in ordered], fontsize=8)
    axes.set_xlim(right=max(speed.rate for speed in ordered) * 3)
    axes.set_xlabel("10¹² operations per second (logarithmic; hatched: a library)")
    kinds = {kind: colour for kind, colour in _KINDS.items() if any(speed.kind == kind for speed in ordered)}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in kinds.values()]
    axes.legend(handles, list(kinds), fontsize=8, loc="lower right")
    devices = ", ".join(sorted({speed.device for speed in ordered}))
    axes.set_title(f"A product of {ordered[0].size}³ in every mapping ({devices})", fontsize=10)
    told = "; ".join(f"{speed.label} ({speed.kind}) {speed.rate:,.3g}" for speed in ordered)
    return Picture(figure, f"Recorded speeds of a product of {ordered[0].size} cubed on {devices}, in TFLOP/s: {told}.")
