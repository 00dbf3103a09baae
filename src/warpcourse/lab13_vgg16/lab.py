"""Lab 13: a small VGG16 of one's own kernels, and what was recorded on GPUs beside the thesis that the lab follows.

The thesis's tables 7 to 11: a GTX 1080, 32 images of 224 x 224, times in ms. Each entry is what it compares itself
with, and its own time: cuDNN by hand (tables 7, 8, 10, and "ours" of 9) or TensorFlow 2.2 (11, and what is called from
it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpcourse import experiments
from warpschool.course import Course
from warpschool.nn.session import Kernels
from warpschool.nn.training import Sgd
from warpschool.nn.vgg16 import TrainingStep, VggForm, reference
from warpschool.recorded import results
from warpschool.show.bar import watched
from warpschool.show.table import Table, small_table

LAB = "lab13_vgg16"
RATE, MOMENTUM = 0.02, 0.9


def own_kernels(*, device: str = "sim") -> Kernels:
    """The student's own files of all steps of the lab, references for all others."""
    return experiments.own_kernels(LAB, device=device)


def small_step(kernels: Kernels, *, batch: int = 2, seed: int = 1) -> tuple[TrainingStep, np.ndarray, np.ndarray]:
    """A small VGG16 in training, and a batch of random images and labels."""
    form = VggForm.small()
    rng = np.random.default_rng(seed)
    start = form.first_parameters(seed, bias=0.1)
    step = TrainingStep(form, kernels, start, batch=batch, optimizer=Sgd(rate=RATE, momentum=MOMENTUM))
    x = rng.uniform(-1, 1, (batch, form.channels, form.size, form.size)).astype(np.float32)
    return step, x, rng.integers(0, form.classes, batch).astype(np.int32)


def score_table(step: TrainingStep, x: np.ndarray, label: np.ndarray) -> Table:
    """Run the way there, from the images to the scores, and compare the scores of each image with float64."""
    step.take(x, label)
    _run(step, range(step.forward_calls), "kernels of the way there")
    found, exact = step.fetch("fc3"), reference(step.form, step.parameters, x, label)
    rows = []
    for number, (mine, wanted) in enumerate(zip(found, exact.scores, strict=True), start=1):
        error = np.abs(mine - wanted).max() / np.abs(wanted).max()
        said = f"{error:.0e}" if np.isfinite(error) else "no result"
        rows.append((f"image {number}", f"{wanted.min():+.3f} to {wanted.max():+.3f}", said))
    note = f"The largest error of an image's {step.form.classes} scores, of the largest score."
    return small_table(("", "scores in float64", "error"), rows, note)


def _run(step: TrainingStep, calls: range, what: str) -> None:
    """Run these calls of the step's graph, one after the other, with a bar: each is translated when it is met."""
    for number in watched(calls, what):
        step.session.run(slice(number, number + 1))


def gradient_table(step: TrainingStep, x: np.ndarray, label: np.ndarray) -> Table:
    """Make one step and compare the gradients of every layer with float64: largest error, of the largest gradient."""
    before = step.parameters
    step.take(x, label)
    _run(step, range(len(step.graph.calls)), "kernels of a step")
    step.update()
    loss = step.mean_loss()
    exact = reference(step.form, before, x, label)
    found = step.gradients
    rows = []
    for layer in step.form.layers():
        errors = []
        for name in (f"{layer.name}.weight", f"{layer.name}.bias"):
            wanted = exact.gradients[name]
            error = np.abs(found[name] - wanted).max() / max(np.abs(wanted).max(), 1e-30)
            errors.append(f"{error:.0e}" if np.isfinite(error) else "no result")
        shape = " x ".join(map(str, exact.gradients[f"{layer.name}.weight"].shape))
        rows.append((layer.name, shape, *errors))
    mean = f"{loss:.6f}" if np.isfinite(loss) else "not computed"
    note = f"Mean loss {mean}, float64 {exact.loss.mean():.6f}. Hazards: {len(step.hazards)}."
    return small_table(("layer", "weights", "error of dw", "error of db"), rows, note)


def train(step: TrainingStep, x: np.ndarray, label: np.ndarray, *, steps: int = 6) -> list[float]:
    """Mean losses of so many steps with one batch, each before its step."""
    return [step(x, label) for _ in range(steps)]


# ---------------------------------------------------------------- tables 7 to 11 of the thesis


Pair = tuple[float, float]

_FORWARD = (
    (9.1, 9.06), (18, 16.65), (7.1, 6.65), (9.9, 9.9), (4.22, 4.08), (6.74, 7.04), (6.74, 7.04), (3.2, 3.31),
    (5.73, 5.97), (5.73, 5.97), (1.83, 1.86), (1.83, 1.86), (1.83, 1.86),
)  # fmt: skip
_BACKWARD = (
    (27.6, 9.4), (56.5, 26), (19, 11.2), (26, 15.1), (10, 8), (15.6, 12.2), (16.9, 12), (7, 5.9), (11.7, 10.8),
    (12.2, 10.7), (3.9, 3.45), (3.9, 3.45), (4.2, 3.4), (3.75, 3.6), (0.96, 0.65), (0.4, 0.18),
)  # fmt: skip
_LAYERS = (*(f"conv{k}" for k in range(1, 14)), "fc1", "fc2", "fc3")

TIMES_MS: Mapping[int, Mapping[str, Pair]] = {
    7: {**dict(zip(_LAYERS, _FORWARD, strict=False)), "total": (81.95, 81.25)},
    8: {"fc1": (1.82, 1.7), "fc2": (0.31, 0.29), "fc3": (0.1, 0.2), "total": (2.23, 2.19)},
    9: {"ours": (91.5, 84), "ours, called from PyTorch": (116, 86)},
    10: {**dict(zip(_LAYERS, _BACKWARD, strict=True)), "total": (219.6, 136)},
    11: {"ours": (355, 243), "ours, called from PyTorch": (355, 252)},
}
"""table -> row -> the other's time and the thesis's own; totals as they are printed there"""


def recorded(table: int, *, course: Course | None = None) -> Table:
    """Table 7, 8, 9, 10 or 11 of the thesis, redrawn from benchmarks/results/networks_vgg_*.json, its own beside ours.

    Empty where nothing was recorded. Raises KeyError for another number.
    """
    title, part, shown = _TABLES[table]
    found = results("networks_vgg_*.json", course=course)
    if not found:
        return small_table((f"table {table}",), (), "Nothing recorded.")
    result = found[0]
    header, rows = _layers(result, part, shown) if shown else _whole(result, part)
    images = f"batch {result['batch']}, {result['image']} x {result['image']}"
    note = f"{title}; {images}, recorded on {result['device']}. The thesis measured on a GTX 1080."
    return small_table((*header, *_THEIRS), [(*row, *_thesis(table, str(row[0]))) for row in rows], note)


_TABLES: Mapping[int, tuple[str, str, str]] = {
    7: ("Table 7: convolutions forward (ours with ReLU and pooling, cuDNN's without)", "forward", "conv"),
    8: ("Table 8: dense layers forward (ours with ReLU)", "forward", "fc"),
    9: ("Table 9: inference", "inference", ""),
    10: ("Table 10: layers backward, ReLU and pooling included", "backward", "conv fc"),
    11: ("Table 11: a training step", "training step", ""),
}
"""table -> its title, the part of a network that it is about, and which layers; none: all of them at once"""
_THEIRS = ("the thesis's ms", "against its own rival")


def _thesis(table: int, row: str) -> tuple[str, str]:
    other, own = TIMES_MS[table][row]
    return f"{own:g}", _change(own / other)


_Drawn = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def _layers(result: Mapping[str, Any], part: str, shown: str) -> _Drawn:
    chosen = [row for row in result["rows"] if row["part"] == part and row["layer"].startswith(tuple(shown.split()))]
    theirs, ours = (sum(row[key] for row in chosen) for key in ("pytorch_ms", "time_ms"))
    total = {"layer": "total", "pytorch_ms": theirs, "time_ms": ours, "ratio": ours / theirs}
    rows: list[tuple[Any, ...]] = [
        (row["layer"], f"{row['pytorch_ms']:.3f}", f"{row['time_ms']:.3f}", _change(row["ratio"]))
        for row in (*chosen, total)
    ]
    return ("layer", "cuDNN ms", "ours ms", "ours against it"), rows


def _whole(result: Mapping[str, Any], part: str) -> _Drawn:
    who = {part: "ours", f"{part} from PyTorch": "ours, called from PyTorch"}
    chosen = [row for row in result["rows"] if row["layer"] == "all" and row["part"] in who]
    rows: list[tuple[Any, ...]] = [
        (who[row["part"]], f"{row['pytorch_ms']:.2f}", f"{row['time_ms']:.2f}", _change(row["ratio"]))
        for row in chosen
    ]
    header = ("", "PyTorch ms", "ours ms", "ours against it")
    if part == "inference":
        return header, rows
    rates = [[f"{1e3 * result['batch'] / row[key]:,.0f}" for key in ("pytorch_ms", "time_ms")] for row in chosen]
    return (*header, "PyTorch images/s", "our images/s"), [(*row, *rate) for row, rate in zip(rows, rates, strict=True)]


def _change(ratio: float) -> str:
    return f"{round(100 * (ratio - 1)):+d} %"


def tables(numbers: Sequence[int] = (7, 8, 9, 10, 11), *, course: Course | None = None) -> list[Table]:
    """All of them."""
    return [recorded(number, course=course) for number in numbers]
