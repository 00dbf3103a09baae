"""What the VGG16 lab's notebook measures: a small VGG16 of one's own kernels, and what was recorded on GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warpcourse.lab13_vgg16.thesis_times import TIMES_MS
from warpschool.course import Course
from warpschool.nn.optimizers import Sgd
from warpschool.nn.session import Kernels
from warpschool.nn.vgg16 import Form, Step
from warpschool.nn.vgg_reference import reference
from warpschool.notebook.runs import own_contract
from warpschool.show.table import Table, small_table

LAB = "lab13_vgg16"
RATE, MOMENTUM = 0.02, 0.9


def own_kernels(*, device: str = "sim") -> Kernels:
    """The student's own files of all steps of the lab, references for all others."""
    steps = Course.find().lab(LAB).steps
    return Kernels({step.name: own_contract(step.name) for step in steps}, device=device)


def small_step(kernels: Kernels, *, batch: int = 2, seed: int = 1) -> tuple[Step, np.ndarray, np.ndarray]:
    """A small VGG16 in training, and a batch of random images and labels."""
    form = Form.small()
    rng = np.random.default_rng(seed)
    start = form.first_parameters(seed, bias=0.1)
    step = Step(form, kernels, start, batch=batch, optimizer=Sgd(rate=RATE, momentum=MOMENTUM))
    x = rng.uniform(-1, 1, (batch, form.channels, form.size, form.size)).astype(np.float32)
    return step, x, rng.integers(0, form.classes, batch).astype(np.int32)


def gradient_table(step: Step, x: np.ndarray, label: np.ndarray) -> Table:
    """Make one step and compare the gradients of every layer with float64: largest error, of the largest gradient."""
    before = step.parameters
    loss = step(x, label)
    exact = reference(step.form, before, x, label)
    found = step.gradients
    rows = []
    for layer in step.form.layers():
        errors = []
        for name in (f"{layer.name}.weight", f"{layer.name}.bias"):
            wanted = exact.gradients[name]
            errors.append(f"{np.abs(found[name] - wanted).max() / max(np.abs(wanted).max(), 1e-30):.0e}")
        shape = " x ".join(map(str, exact.gradients[f"{layer.name}.weight"].shape))
        rows.append((layer.name, shape, *errors))
    note = f"Mean loss {loss:.6f}, float64 {exact.loss.mean():.6f}. Hazards: {len(step.hazards)}."
    return small_table(("layer", "weights", "error of dw", "error of db"), tuple(rows), note)


def train(step: Step, x: np.ndarray, label: np.ndarray, *, steps: int = 6) -> list[float]:
    """Mean losses of so many steps with one batch, each before its step."""
    return [step(x, label) for _ in range(steps)]


# ---------------------------------------------------------------- tables 7 to 11 of the thesis


def recorded(table: int, *, course: Course | None = None) -> Table:
    """Table 7, 8, 9, 10 or 11 of the thesis, redrawn from benchmarks/results/networks_vgg_*.json, its own beside ours.

    Empty where nothing was recorded. Raises KeyError for another number.
    """
    write = _TABLES[table]
    root = (course or Course.find()).root
    for path in sorted((root / "benchmarks" / "results").glob("networks_vgg_*.json")):
        result = json.loads(path.read_text("utf-8"))
        title, header, rows = write(result)
        images = f"batch {result['batch']}, {result['image']} x {result['image']}"
        note = f"{title}; {images}, recorded on {result['device']}. The thesis measured on a GTX 1080."
        beside = tuple((*row, *_thesis(table, str(row[0]))) for row in rows)
        return small_table((*header, *_THEIRS), beside, note)
    return small_table((f"table {table}",), (), "Nothing recorded.")


def _thesis(table: int, row: str) -> tuple[str, str]:
    other, own = TIMES_MS[table][row]
    return f"{own:g}", _change(own / other)


_Drawn = tuple[str, tuple[str, ...], list[tuple[Any, ...]]]
_HEADER = ("layer", "cuDNN ms", "ours ms", "ours against it")
_THEIRS = ("the thesis's ms", "against its own rival")


def _layers(part: str, what: Callable[[str], bool], title: str) -> Callable[[Mapping[str, Any]], _Drawn]:
    def write(result: Mapping[str, Any]) -> _Drawn:
        chosen = [row for row in result["rows"] if row["part"] == part and what(row["layer"])]
        rows: list[tuple[Any, ...]] = [
            (row["layer"], f"{row['pytorch_ms']:.3f}", f"{row['time_ms']:.3f}", _change(row["ratio"])) for row in chosen
        ]
        theirs, ours = (sum(row[key] for row in chosen) for key in ("pytorch_ms", "time_ms"))
        return title, _HEADER, [*rows, ("total", f"{theirs:.3f}", f"{ours:.3f}", _change(ours / theirs))]

    return write


def _whole(part: str, title: str, per_image: bool) -> Callable[[Mapping[str, Any]], _Drawn]:
    def write(result: Mapping[str, Any]) -> _Drawn:
        rows: list[tuple[Any, ...]] = []
        for row in result["rows"]:
            if row["layer"] != "all" or row["part"] not in (part, f"{part} from PyTorch"):
                continue
            who = "ours, called from PyTorch" if row["part"] != part else "ours"
            rows.append((who, f"{row['pytorch_ms']:.2f}", f"{row['time_ms']:.2f}", _change(row["ratio"])))
            if per_image:
                rates = [f"{1e3 * result['batch'] / row[key]:,.0f}" for key in ("pytorch_ms", "time_ms")]
                rows[-1] = (*rows[-1], *rates)
        more = ("PyTorch images/s", "our images/s") if per_image else ()
        return title, ("", "PyTorch ms", "ours ms", "ours against it", *more), rows

    return write


def _change(ratio: float) -> str:
    return f"{round(100 * (ratio - 1)):+d} %"


def _is_dense(layer: str) -> bool:
    return layer.startswith("fc")


_TABLES: Mapping[int, Callable[[Mapping[str, Any]], _Drawn]] = {
    7: _layers(
        "forward", lambda layer: not _is_dense(layer),
        "Table 7: convolutions forward (ours with ReLU and pooling, cuDNN's without)",
    ),
    8: _layers("forward", _is_dense, "Table 8: dense layers forward (ours with ReLU)"),
    9: _whole("inference", "Table 9: inference", False),
    10: _layers("backward", lambda layer: True, "Table 10: layers backward, ReLU and pooling included"),
    11: _whole("training step", "Table 11: a training step", True),
}  # fmt: skip


def tables(numbers: Sequence[int] = (7, 8, 9, 10, 11), *, course: Course | None = None) -> list[Table]:
    """All of them."""
    return [recorded(number, course=course) for number in numbers]
