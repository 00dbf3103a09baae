"""Networks composed of layers, run by kernels that are passed in.

    kernels = Kernels({"lab10/01": text}, device="sim")              # your kernel; references where you give none
    network = Network(digits_layers(), kernels, parameters=weights("digits"))
    labels = network.classify(load().test.pixels(), progress=True)   # int32 [1000]
    session = network.session(batch=100)                             # graph, arrays and launches of one batch
    session["x"].set(images); session.run(); session["labels"].get()

    graph = build_training(digits_layers("plain", labels=False), batch=64, image_shape=(1, 28, 28))
    session = Session(graph, kernels)                                # one training step: forward, loss, backward
    session["parameters"].set(graph.flat(values)); session["x"].set(images); session["label"].set(labels)
    session.run()
    graph.named(session["gradients"].get())["conv1.weight"]

Whose kernels ran is in `network.table()`. Starters, students' kernels and references take the same way, on either
device. `build(layers, batch, image_shape)` gives the graph alone; whoever has other layers writes classes with a
`forward`, and with a `backward` for training.

For training all parameters are in one array, all gradients in another. The backward pass goes along the tape of the
forward pass. What it needs of a layer is what the layer noted: a fully connected layer its input, a convolution too,
pooling half a byte for each window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError, SimulationError
from warpschool.nn.graph import Graph, GraphArray, TrainingGraph
from warpschool.nn.layers import (
    TRAINING,
    Argmax,
    AveragePool,
    BiasRelu,
    BiasReluPool,
    Convolve,
    ConvolvePool,
    FullyConnected,
    Layer,
    MaxPool,
    WinogradPool,
    backward,
    forward,
)
from warpschool.nn.session import Kernels, Session
from warpschool.show.progress import Bar, progress as show_progress

PIXELS = (1, 28, 28)
FORMS = ("plain", "pooled", "fused", "winograd")
"""How a convolution, its bias, ReLU and pooling are shared out among kernels: one each; the last three in one; all in
one; the second convolution by Winograd's method with the rest in its last transform."""
BATCH = 100
"""Images at a time on the simulator."""
GPU_BATCH = 10_000
_PREPARED = 32
"""Batches from which on kernels are compiled, for checks and without, before they run: fewer are done sooner by the
simulator's own way, which begins at once and compiles what turns out to run for long."""


def digits_layers(form: str = "fused", *, labels: bool = True) -> tuple[Layer, ...]:
    """The network of the ECE 408 report: two convolutions of 5 x 5 with 32 and 64 filters, means, 128 and 10 features.

    `labels`: end with the classes rather than their scores. Raises ArgumentError for an unknown form.
    """
    body = (*_stage("1", 32, form), *_stage("2", 64, form))
    head: tuple[Layer, ...] = (
        FullyConnected(name="fc1", outputs=128, relu=True), FullyConnected(name="fc2", outputs=10),
    )  # fmt: skip
    return (*body, *head, Argmax()) if labels else (*body, *head)


def _stage(number: str, filters: int, form: str) -> tuple[Layer, ...]:
    conv = f"conv{number}"
    convolve = Convolve(name=conv, filters=filters, size=5)
    fused = ConvolvePool(name=conv, filters=filters, size=5)
    stages: dict[str, tuple[Layer, ...]] = {
        "plain": (convolve, BiasRelu(name=f"relu{number}", of=conv), AveragePool(name=f"pool{number}")),
        "pooled": (convolve, AveragePool(name=f"pool{number}", of=conv)),
        "fused": (fused,),
        "winograd": (WinogradPool(name=conv, filters=filters, size=5) if number == "2" else fused,),
    }
    if form not in stages:
        raise ArgumentError(f"there is no form {form!r} of this network", next_step=f"There are {', '.join(FORMS)}.")
    return stages[form]


def lenet5_layers(*, labels: bool = True) -> tuple[Layer, ...]:
    """LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998) as it is built today: ReLU and the largest of 2 x 2."""
    layers: tuple[Layer, ...] = (
        Convolve(name="conv1", filters=6, size=5, pad=2), BiasRelu(name="relu1", of="conv1"), MaxPool(name="pool1"),
        Convolve(name="conv2", filters=16, size=5), BiasRelu(name="relu2", of="conv2"), MaxPool(name="pool2"),
        FullyConnected(name="fc1", outputs=120, relu=True), FullyConnected(name="fc2", outputs=84, relu=True),
        FullyConnected(name="fc3", outputs=10),
    )  # fmt: skip
    return (*layers, Argmax()) if labels else layers


def build(
    layers: Sequence[Layer], batch: int, image_shape: Sequence[int] = PIXELS, *, dtype: npt.DTypeLike = np.float32
) -> Graph:
    """Return the graph of one batch: input "x" [batch, *image_shape], output the last layer's."""
    graph = Graph()
    graph.output(forward(graph, layers, batch, image_shape, dtype))
    return graph


# ---------------------------------------------------------------- the graph of one training step


def training_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers with bias, ReLU and pooling in one that notes what the backward pass asks.

    Raises ArgumentError for a layer that has no backward pass here.
    """
    found: list[Layer] = []
    waiting: BiasRelu | None = None
    for layer in layers:
        if waiting is not None:
            if not isinstance(layer, (AveragePool, MaxPool)):
                raise ArgumentError(f"{layer.name} after {waiting.name}: only pooling may follow here")
            average = isinstance(layer, AveragePool)
            found.append(BiasReluPool(name=layer.name, of=waiting.of, average=average))
            waiting = None
        elif isinstance(layer, BiasRelu):
            waiting = layer
        elif hasattr(layer, "backward"):
            found.append(layer)
        else:
            raise ArgumentError(
                f"{layer.name} ({type(layer).__name__}) has no backward pass here",
                next_step='Use digits_layers("plain", labels=False) or lenet5_layers(labels=False).',
            )
    if waiting is not None:
        raise ArgumentError(f"{waiting.name} ends the network: only pooling may follow it")
    return tuple(found)


def build_training(
    layers: Sequence[Layer], batch: int, image_shape: Sequence[int], *, dtype: npt.DTypeLike = np.float32
) -> TrainingGraph:
    """Return the graph of one step: inputs "x" and "label", outputs "loss" and "scores", and "gradients".

    Raises ArgumentError for layers that have no backward pass, and for sizes that do not fit.
    """
    return training_graph(training_layers(layers), batch, image_shape, dtype=dtype)


def training_graph(
    layers: Sequence[Layer], batch: int, image_shape: Sequence[int], *, loss: bool = True,
    dtype: npt.DTypeLike = np.float32,
) -> TrainingGraph:  # fmt: skip
    """The same of layers that know their way back. Without `loss` the slope of the scores is an input."""
    parameters = build(layers, batch, image_shape, dtype=dtype).parameters
    graph = TrainingGraph({name: value.shape for name, value in parameters.items()})
    scores = graph.output(forward(graph, layers, batch, image_shape, dtype))
    if len(scores.shape) != 2:
        raise ArgumentError(f"the network ends with {list(scores.shape)}, not with scores [BATCH,CLASSES]")
    slope = _append_loss(graph, scores) if loss else graph.input(f"{scores.name}.slope", scores.shape)
    backward(graph, graph.tape, slope)
    return graph


def _append_loss(graph: Graph, scores: GraphArray) -> GraphArray:
    """Append the cross entropy, output "loss" of each image of input "label"; returns the slope of its mean."""
    batch, classes = scores.shape
    label = graph.input("label", (batch,), np.int32)
    loss = graph.output(graph.array("loss", (batch,)))
    slope = graph.array(f"{scores.name}.slope", scores.shape)
    arrays = {"x": scores, "label": label, "loss": loss, "dx": slope}
    graph.call(TRAINING + "01_cross_entropy_backward", {"BATCH": batch, "CLASSES": classes}, arrays, layer="loss")
    return slope


# ---------------------------------------------------------------- running a network


@dataclass(frozen=True)
class KernelOrigin:
    """Whose kernel a layer runs."""

    layer: str
    step: str
    whose: str


class Network:
    """Layers, the kernels that run them, and parameters; one session for each size of batch that was asked for.

    Further keywords go to each session: `stream`, `guarded`, and launch options such as check=False and count=False.
    """

    def __init__(
        self, layers: Sequence[Layer], kernels: Kernels, *, parameters: Mapping[str, npt.ArrayLike],
        image_shape: Sequence[int] = PIXELS, dtype: npt.DTypeLike = np.float32, **sessions: Any,
    ) -> None:  # fmt: skip
        self.layers, self.kernels = tuple(layers), kernels
        self.parameters = {name: np.asarray(values) for name, values in parameters.items()}
        self.image_shape, self.dtype = tuple(image_shape), np.dtype(dtype)
        self._options = sessions
        self._sessions: dict[int, Session] = {}

    def session(self, batch: int) -> Session:
        """Return the session for batches of that size, parameters loaded."""
        if batch not in self._sessions:
            graph = build(self.layers, batch, self.image_shape, dtype=self.dtype)
            session = Session(graph, self.kernels, **self._options)
            session.load(self.parameters)
            self._sessions[batch] = session
        return self._sessions[batch]

    @property
    def result(self) -> str:
        """The name of the last layer's array."""
        return self.layers[-1].name

    def table(self) -> list[KernelOrigin]:
        """Return for each call which step it runs and whose file that is."""
        calls = self.session(1).graph.calls
        return [KernelOrigin(call.layer, call.step, self.kernels.origin(call)) for call in calls]

    def classify(self, images: npt.ArrayLike, *, batch: int | None = None, progress: bool = False) -> np.ndarray:
        """Return the last layer's results for all images, a batch at a time; `progress` shows a bar.

        The simulator checks and counts the first batch of each size. Raises ArgumentError for
        images of another shape, SimulationError for kernels with races or accesses out of bounds.
        """
        x = np.asarray(images, self.dtype)
        if x.shape[1:] != self.image_shape:
            raise ArgumentError(f"the network takes images {list(self.image_shape)}, not {list(x.shape[1:])}")
        size = batch or (GPU_BATCH if self.kernels.device.measures_time else BATCH)
        parts = [x[first : first + size] for first in range(0, len(x), size)]
        with show_progress(len(x), "reading", unit="images", shown=progress) as bar:
            found = [self._one(part, bar, prepared=len(parts) >= _PREPARED) for part in parts]
        return np.concatenate(found) if found else np.empty(0, np.int32)

    def _one(self, x: np.ndarray, bar: Bar, *, prepared: bool) -> np.ndarray:
        session = self.session(len(x))
        if prepared:
            session.prepare(relaxed=True, told=partial(bar.beside, "compiling", unit="kernels"))
        try:
            found = self._read(session, x)
        except BaseException:
            session.stop_preparing()
            raise
        bar.advance(len(x))
        return found

    def _read(self, session: Session, x: np.ndarray) -> np.ndarray:
        session["x"].set(x)
        session.run()
        if session.checked:
            _refuse(session)
            session.relax()
        return session[self.result].get()


def _refuse(session: Session) -> None:
    """Raise SimulationError for the first hazard of the last run."""
    for call, launches in session.launches:
        for hazard in (hazard for launch in launches for hazard in launch.hazards):
            raise SimulationError(
                f"layer {call.layer}, {call.step}: {hazard.kind}: {hazard.message}", file=hazard.file,
                line=hazard.line, next_step=f"warpschool check {call.step} shows more.",
            )  # fmt: skip
