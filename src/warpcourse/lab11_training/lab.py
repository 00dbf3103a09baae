"""Lab 11: the student's own kernels in training on real digits, gradients checked against float64, losses drawn, the
course's two networks with the settings of their weights, and what was recorded.
"""

from __future__ import annotations

import math
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from warpcourse import experiments
from warpcourse.curves import LiveCurve, loss_left
from warpcourse.lessons import BLUE, GREEN, ORANGE
from warpschool.course import Course
from warpschool.errors import ArgumentError, SimulationError
from warpschool.nn.digits import Split, load
from warpschool.nn.layers import BiasReluPool, Convolve, FullyConnected, Layer
from warpschool.nn.network import digits_layers, lenet5_layers, training_layers
from warpschool.nn.references import bias_relu_pool, convolve, cross_entropy, finite_difference, fully_connected
from warpschool.nn.session import Kernels
from warpschool.nn.training import Epoch, Settings, Sgd, Trainer
from warpschool.recorded import results
from warpschool.show.page import show_text
from warpschool.show.table import Table, small_table
from warpschool.suggest import did_you_mean

# ---------------------------------------------------------------- how the course's networks are trained


NETWORKS = ("digits", "lenet5")
RECIPE = Settings(epochs=40, batch=64, seed=1, optimizer=Sgd(rate=0.05, momentum=0.9, decay=2e-4), shift=2)
"""The settings of the weights that the course ships."""

_CONVOLUTIONS = {
    "sim": "lab08_convolution/01_direct",  # short code: translated in no time
    "gpu": "lab08_convolution/12_register_tiles",
}
"""By device: the kernel of the convolutions."""


def training_network(name: str, device: str) -> tuple[Layer, ...]:
    """Return a network's layers, up to the scores, for training on "sim" or "gpu". Raises ArgumentError."""
    if name not in NETWORKS:
        raise ArgumentError(f"there is no network {name!r}", next_step=did_you_mean(name, NETWORKS))
    layers = digits_layers("plain", labels=False) if name == "digits" else lenet5_layers(labels=False)
    step = _CONVOLUTIONS[device]
    back = Convolve.backward_step if device == "sim" else step
    return tuple(
        replace(layer, step=step, backward_step=back) if isinstance(layer, Convolve) else layer for layer in layers
    )


# ---------------------------------------------------------------- a loss in float64


def scores(layers: Sequence[Layer], parameters: Mapping[str, npt.ArrayLike], images: npt.ArrayLike) -> np.ndarray:
    """Return what the last layer gives. Raises ArgumentError for layers that cannot be trained here."""
    value = np.asarray(images, np.float64)
    exact = {name: np.asarray(values, np.float64) for name, values in parameters.items()}
    for layer in training_layers(layers):
        if isinstance(layer, Convolve):
            value = convolve(value, exact[f"{layer.name}.weight"], stride=layer.stride, pad=layer.pad)
        elif isinstance(layer, BiasReluPool):
            value = bias_relu_pool(value, exact[f"{layer.of}.bias"], average=layer.average)[0]
        elif isinstance(layer, FullyConnected):
            w, bias = exact[f"{layer.name}.weight"], exact[f"{layer.name}.bias"]
            value = fully_connected(value.reshape(len(value), -1), w, bias, relu=layer.relu)
    return value


def mean_loss(
    layers: Sequence[Layer], parameters: Mapping[str, npt.ArrayLike], images: npt.ArrayLike, labels: npt.ArrayLike
) -> float:
    """Return the mean cross entropy of a batch."""
    return float(cross_entropy(scores(layers, parameters, images), labels)[0].mean())


# ---------------------------------------------------------------- the notebook's runs


LAB = "lab11_training"
TINY = Settings(epochs=3, batch=8, seed=1, optimizer=Sgd(rate=0.05))
TINY_IMAGES = 160
GUESSING = {"guessing among 10": math.log(10)}
"""What a network's loss is that knows nothing."""
FALLS_TO = 1 / 2
"""What is left of the loss after the tiny run: the last ten steps against the first ten."""
SCALARS = {
    "06_sgd_momentum": {"N": 4096, "rate": 0.1, "momentum": 0.9, "decay": 0.0},
    "07_adam": {"N": 4096, "rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "correction1": 10.0,
                "correction2": 1000.0},
}  # fmt: skip
"""Sizes and scalars of both optimizers, for one step to be counted."""


def own_kernels(device: str = "sim") -> Kernels:
    """The student's own kernels of this lab, references of the labs before."""
    return experiments.own_kernels(LAB, device=device)


@dataclass
class TinyRun:
    """A short training: its losses, epochs and time; `stopped` says why it ended early."""

    losses: list[float]
    history: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""
    trainer: Trainer | None = field(default=None, repr=False)
    """who goes on with it"""

    @property
    def left(self) -> float:
        """The mean loss of the last ten steps, over that of the first ten; NaN before there are twenty."""
        return loss_left(self.losses)

    @property
    def is_whole(self) -> bool:
        """Whether all epochs were made."""
        return self.trainer is None or len(self.history) == self.trainer.settings.epochs

    def table(self) -> Table:
        """One line for each epoch."""
        rows = [
            (epoch.epoch, f"{epoch.loss:.4f}", f"{epoch.rate:.4f}", f"{epoch.seconds:.1f}") for epoch in self.history
        ]
        fell = self.left <= FALLS_TO or not self.is_whole
        note = self.stopped or (
            f"{self.seconds:.0f} s in all; {self.left:.2f} of the first losses is left"
            + ("." if fell else f": more than {FALLS_TO:.2f}, something is wrong with the way back.")
        )
        return small_table(("epoch", "mean loss", "rate", "seconds of training"), rows, note)


class _NoNumber(Exception):
    """The loss is no number any more; ends a run from inside."""


def tiny_run(
    kernels: Kernels, *, settings: Settings = TINY, images: int = TINY_IMAGES, epochs: int = 0, checked: bool = False
) -> TinyRun:
    """Train LeNet-5 on some of the digits and draw the loss while it falls; a kernel's fault ends it with a word.

    `epochs`: how many of them are made now (0: all); `go_on` makes the others. `checked`: the kernels were checked
    before, as `gradient_table` does, and no step is.
    """
    layers = training_network("lenet5", kernels.device.name)
    run = TinyRun([], trainer=Trainer(layers, kernels, settings, never_check=checked))
    return go_on(run, images=images, epochs=epochs)


def go_on(run: TinyRun, *, images: int = TINY_IMAGES, epochs: int = 0) -> TinyRun:
    """Make further epochs of a run (0: all that are left)."""
    trainer, data = run.trainer, load()
    if trainer is None or run.stopped or run.is_whole:
        return run
    first, steps = len(run.history), images // trainer.settings.batch
    last = min(first + epochs, trainer.settings.epochs) if epochs else trainer.settings.epochs
    curve = LiveCurve(trainer.settings.epochs * steps, levels=GUESSING)
    curve.losses = run.losses

    def seen(step: int, loss: float) -> None:
        curve(step, loss)
        if not math.isfinite(loss):
            raise _NoNumber(f"The loss of step {step} is {loss}: a kernel leaves something out, or the rate is high.")

    start = time.perf_counter()
    try:
        train = Split(data.train.images[:images], data.train.labels[:images])
        trainer.fit(train, on_step=seen, on_epoch=run.history.append, epochs=range(first, last))
    except (SimulationError, _NoNumber) as fault:
        run.stopped = str(fault)
        show_text(f"Training stopped. {fault}", failed=True)
    run.seconds += time.perf_counter() - start
    curve.draw()
    return run


def gradient_table(kernels: Kernels, *, batch: int = 4, seed: int = 0) -> Table:
    """For each parameter of LeNet-5: the loss's slope along a random direction, by the kernels and by differences."""
    layers = training_network("lenet5", kernels.device.name)
    data = load().train
    images, labels = data.pixels()[:batch], data.labels[:batch].astype(np.int32)
    rng, settings = np.random.default_rng(seed), Settings(batch=batch, seed=seed)
    trainer = Trainer(layers, kernels, settings, always_check=True)
    # Biases of 0 on blank paper are inputs of 0 to a ReLU, where the loss has a kink and no slope: move away from it.
    parameters = {n: v + rng.normal(0, 0.05, v.shape).astype(np.float32) for n, v in trainer.parameters.items()}
    trainer.session["parameters"].set(trainer.graph.flat(parameters))
    header = ("parameter", "numbers", "by your kernels", "by differences", "agree")
    try:
        trainer.step(images, labels, rate=0.0)
    except SimulationError as fault:
        return small_table(header, (), str(fault))
    rows = []
    for name, gradient in trainer.gradients.items():
        direction = rng.choice([-1.0, 1.0], gradient.shape)

        def loss(values: np.ndarray, name: str = name) -> float:
            return mean_loss(layers, parameters | {name: values}, images, labels)

        mine = float((gradient.astype(np.float64) * direction).sum())
        other = finite_difference(loss, parameters[name], direction)
        agrees = abs(mine - other) <= 1e-3 * float(np.abs(gradient).sum())
        rows.append((name, f"{gradient.size:,}", f"{mine:+.6f}", f"{other:+.6f}", "yes" if agrees else "no"))
    return small_table(header, rows, f"A batch of {batch} digits, in float64: two losses for each line.")


# ---------------------------------------------------------------- what was recorded


def _recorded(course: Course | None) -> Mapping[str, Any]:
    return ChainMap(*reversed(results("training_*.json", course=course)))


def recorded(*, course: Course | None = None) -> Table:
    """Networks that were trained on a GPU: accuracy, time, and an epoch's time against PyTorch's."""
    found = _recorded(course)
    rows = [
        (row["network"], row["settings"]["epochs"], row["settings"]["seed"], f"{row['accuracy']:.2%}",
         f"{row['seconds']:.1f}")
        for row in found.get("weights", [])
    ]  # fmt: skip
    compared = [
        f"{row['network']}, batches of {row['batch']}: {row['ratio']:.2f} of PyTorch's time ({row['pytorch']})"
        for row in found.get("against", [])
    ]
    note = f"{found.get('device', 'Nothing recorded')}. " + "; ".join(compared)
    return small_table(("network", "epochs", "seed", "accuracy", "seconds of training"), rows, note)


def draw_recorded_batches(*, course: Course | None = None) -> None:
    """Draw batch sizes against accuracy and speed, as recorded."""
    draw_batches(_recorded(course).get("batches", []))


# ---------------------------------------------------------------- pictures


def draw_batches(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy, and images a second, against the batch size; one line for each network."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    names = sorted({row["network"] for row in rows})
    for name, colour in zip(names, (BLUE, GREEN, ORANGE), strict=False):
        own = sorted((row for row in rows if row["network"] == name), key=lambda row: row["batch"])
        batches = [row["batch"] for row in own]
        left.plot(batches, [100 * row["accuracy"] for row in own], "o-", color=colour, label=name)
        right.plot(batches, [row["images_per_second"] / 1e3 for row in own], "o-", color=colour, label=name)
    for axes, title in ((left, "accuracy in %"), (right, "thousand images a second")):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="images of a batch", title=title)
        axes.grid(alpha=0.3)
        if names:
            axes.legend(fontsize=8)
        else:
            axes.text(0.5, 0.5, "nothing recorded", ha="center", va="center", transform=axes.transAxes)
    figure.tight_layout()
    return figure
