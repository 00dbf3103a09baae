"""VGG16 (Simonyan, Zisserman 2015) out of the course's kernels: inference and training.

    form = Form()                                             # 224 x 224, 1,000 classes; Form.small() for a simulator
    network = Inference(form, Kernels(device="gpu"), parameters, batch=32)
    scores = network.scores(images)                           # [32, 1000]

    step = Step(form, Kernels(device="gpu"), parameters, batch=32, optimizer=Sgd(rate=0.01, momentum=0.9))
    loss = step(images, labels)                               # one step of training; the mean loss before it
    step.gradients["conv1.weight"], step.parameters["fc3.bias"]

13 convolutions of 3 x 3 in five stages, each ending with pooling, then three dense layers: `conv1` to `conv13`, `fc1`
to `fc3`. Everything that a network needs lies in one arena, on the simulator in guarded arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.backward import TrainingGraph
from warpschool.nn.graph import Graph, Value
from warpschool.nn.optimizers import Sgd, Updater
from warpschool.nn.session import Kernels, Session
from warpschool.nn.vgg_layers import LARGE, SMALL, FirstLayer, SmallBatchDense, Tiles, WinogradLayer

STAGES = (2, 2, 3, 3, 3)
"""Convolutions of each stage."""
CROSS_ENTROPY = "lab11_training/01_cross_entropy_backward"
VggLayer = FirstLayer | WinogradLayer | SmallBatchDense


@dataclass(frozen=True, kw_only=True)
class Form:
    """The sizes of a VGG16. `widths`: filters of each stage's convolutions; `size`: rows and columns of an image.

    Raises ArgumentError for images that five stages of pooling make vanish.
    """

    widths: tuple[int, int, int, int, int] = (64, 128, 256, 512, 512)
    hidden: int = 4096
    classes: int = 1000
    size: int = 224
    channels: int = 3
    tiles: tuple[Tiles, ...] = LARGE
    """of each stage; dense layers take the last one's"""

    def __post_init__(self) -> None:
        if self.size < 2 ** len(STAGES):
            raise ArgumentError(f"images of {self.size} x {self.size} vanish", next_step="Needed: 32 x 32 or more.")

    @staticmethod
    def small() -> Form:
        """A VGG16 for a simulator: 32 x 32 pixels, 4 to 8 filters, 10 classes."""
        return Form(widths=(4, 4, 8, 8, 8), hidden=16, classes=10, size=32, tiles=SMALL)

    def layers(self, *, training: bool = False) -> tuple[VggLayer, ...]:
        """Return the layers, first to last."""
        found: list[VggLayer] = []
        for stage, (width, count) in enumerate(zip(self.widths, STAGES, strict=True)):
            for number in range(count):
                name = f"conv{len(found) + 1}"
                if not found:
                    found.append(FirstLayer(name=name, filters=width, training=training))
                    continue
                pool = 2 if number == STAGES[stage] - 1 else 1
                tiles = self.tiles[stage]
                found.append(WinogradLayer(name=name, filters=width, pool=pool, training=training, tiles=tiles))
        for number, outputs in enumerate((self.hidden, self.hidden, self.classes), start=1):
            name, tiles = f"fc{number}", self.tiles[-1]
            found.append(
                SmallBatchDense(name=name, outputs=outputs, relu=number < 3, masked=number > 1, tiles=tiles)
            )  # fc1's input left a ReLU, too: the choices of conv13 undo it
        return tuple(found)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the parameters' shapes: weights [F,C,3,3] and [IN,OUT], and biases."""
        found: dict[str, tuple[int, ...]] = {}
        channels, side = self.channels, self.size
        for layer in self.layers():
            if isinstance(layer, SmallBatchDense):
                inputs = channels * side**2
                found[f"{layer.name}.weight"] = (inputs, layer.outputs)
                channels, side = layer.outputs, 1
            else:
                found[f"{layer.name}.weight"] = (layer.filters, channels, 3, 3)
                channels, side = layer.filters, side // getattr(layer, "pool", 1)
            found[f"{layer.name}.bias"] = (channels,)
        return found

    def first_parameters(self, seed: int, *, bias: float = 0.0) -> dict[str, np.ndarray]:
        """Return weights to begin with: normal, with variance 2 / inputs (He et al. 2015).

        Biases lie between -bias and bias. Whoever compares gradients wants some: with 0, windows of zeros are inputs of
        0 to a ReLU, which has no slope there, and rounding decides what passes.
        """
        rng = np.random.default_rng(seed)
        values = {}
        for name, shape in self.shapes().items():
            if name.endswith(".bias"):
                values[name] = rng.uniform(-bias, bias, shape).astype(np.float32)
                continue
            inputs = shape[0] if len(shape) == 2 else math.prod(shape[1:])
            values[name] = rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / inputs))
        return values


def inference_graph(form: Form, batch: int) -> Graph:
    """Return the graph from input "x" to output "fc3", the classes' scores."""
    graph = Graph()
    value = graph.input("x", (batch, form.channels, form.size, form.size))
    for layer in form.layers():
        value = layer.forward(graph, value)
    graph.output(value)
    return graph


def step_graph(form: Form, batch: int, *, loss: bool = True) -> TrainingGraph:
    """Return the graph forward and backward: outputs "fc3" and, with `loss`, "loss" of each image, and "gradients".

    Without `loss` the gradient of the scores is an input, "fc3.slope"; otherwise it is that of the mean cross entropy.
    """
    graph = TrainingGraph(form.shapes())
    value = graph.input("x", (batch, form.channels, form.size, form.size))
    for layer in form.layers(training=True):
        value = layer.forward(graph, value)
    scores = graph.output(value)
    slope = _loss(graph, scores) if loss else graph.input(f"{scores.name}.slope", scores.shape)
    for traced in reversed(graph.tape):
        slope = traced.layer.backward(graph, traced, slope)
    return graph


def _loss(graph: Graph, scores: Value) -> Value:
    batch, classes = scores.shape
    label = graph.input("label", (batch,), np.int32)
    loss = graph.output(graph.array("loss", (batch,)))
    slope = graph.array(f"{scores.name}.slope", scores.shape)
    arrays = {"x": scores, "label": label, "loss": loss, "dx": slope}
    graph.call(CROSS_ENTROPY, {"BATCH": batch, "CLASSES": classes}, arrays, layer="loss")
    return slope


class Inference:
    """A VGG16 with parameters on a device. Further keywords go to the session, `guarded` and `stream` among them."""

    def __init__(
        self, form: Form, kernels: Kernels, parameters: Mapping[str, npt.ArrayLike], *, batch: int, **options: Any
    ) -> None:
        self.form, self.batch = form, batch
        self.session = Session(inference_graph(form, batch), kernels, **options)
        self.session.load(parameters)

    def run(self) -> None:
        """Enqueue the whole network for what session["x"] holds, and do not wait."""
        self.session.run()

    def scores(self, x: npt.ArrayLike) -> np.ndarray:
        """Return the classes' scores [BATCH,CLASSES] of a batch of images."""
        _set(self.session, "x", x)
        self.run()
        self.session.device.synchronize()
        return self.session["fc3"].get()


class Step:
    """A VGG16 in training on a device: forward, loss, backward, and a step of the optimizer (None: gradients only)."""

    def __init__(
        self, form: Form, kernels: Kernels, parameters: Mapping[str, npt.ArrayLike], *, batch: int,
        optimizer: Sgd | None = None, loss: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.form, self.batch, self.optimizer = form, batch, optimizer
        self.graph = step_graph(form, batch, loss=loss)
        slopes = (any(v.name == "fc3.slope" for v in call.arrays.values()) for call in self.graph.calls)
        self.forward_calls = list(slopes).index(True)
        """how many of the graph's calls make the scores; those of the loss and the way back follow"""
        self.session = Session(self.graph, kernels, **options)
        self.session["parameters"].set(self.graph.flat(parameters))
        self.session["gradients"].set(np.zeros(self.graph.size, np.float32))
        self._updater = None
        if optimizer is not None:
            arrays = self.session["parameters"], self.session["gradients"]
            self._updater = Updater(optimizer, kernels, *arrays, stream=options.get("stream"))
        self.steps = 0

    def run(self) -> None:
        """Enqueue one step for what session["x"] and session["label"] hold, and do not wait."""
        self.session.run()
        self.steps += 1
        if self._updater is not None and self.optimizer is not None:
            self._updater.step(self.steps, rate=self.optimizer.rate)

    def __call__(self, x: npt.ArrayLike, label: npt.ArrayLike) -> float:
        """Make one step with a batch; returns its mean loss before the step."""
        _set(self.session, "x", x)
        _set(self.session, "label", label)
        self.run()
        self.session.device.synchronize()
        return float(self.session["loss"].get().astype(np.float64).mean())

    @property
    def hazards(self) -> tuple[Any, ...]:
        """Those of the last step. Raises NotMeasured on a device that looks for none."""
        return (*self.session.hazards, *(self._updater.hazards if self._updater is not None else ()))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters as they are now."""
        self.session.device.synchronize()
        return self.graph.named(self.session["parameters"].get())

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients of the last step."""
        self.session.device.synchronize()
        return self.graph.named(self.session["gradients"].get())


def _set(session: Session, name: str, values: npt.ArrayLike) -> None:
    array = session[name]
    host = np.ascontiguousarray(values, array.dtype)
    if host.shape != array.shape:
        raise ArgumentError(f"{name} has shape {list(host.shape)}, this network takes {list(array.shape)}")
    session.device.synchronize()  # whoever still reads it
    array.set(host)
