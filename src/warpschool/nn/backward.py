"""The graph of one training step: forward, loss, backward; all parameters in one array, all gradients in another.

    graph = build_training(digits_layers("plain", labels=False), batch=64, image_shape=(1, 28, 28))
    session = Session(graph, kernels)
    session["parameters"].set(graph.flat(values)); session["x"].set(images); session["label"].set(labels)
    session.run()
    graph.named(session["gradients"].get())["conv1.weight"]

The backward pass goes along the tape of the forward pass. What it needs of a layer is what the layer noted: a fully
connected layer its input, a convolution too, pooling half a byte for each window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.graph import Graph, Traced, Value
from warpschool.nn.layers import AveragePool, BiasRelu, Convolve, FullyConnected, Layer, MaxPool, forward, images
from warpschool.nn.references import Convolution

LAB = "lab11_training/"
ALIGN = 64
"""Every parameter begins at a multiple of so many floats: 256 bytes, as allocations do."""


@dataclass(frozen=True, kw_only=True)
class BiasReluPool:
    """max(x + bias, 0) and the largest, or the mean, of windows of 2 x 2; bits say what passed, for the way back.

    `of`: the layer whose bias it is. `packed`: four bits for each window, else a byte.
    """

    name: str
    of: str
    average: bool
    packed: bool = True
    step: str = LAB + "08_bias_relu_pool"
    back: str = LAB + "03_pool_relu_backward"

    @property
    def constants(self) -> dict[str, int]:
        return {"AVERAGE": int(self.average), "PACKED": int(self.packed)}

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, channels, height, width = images(x, self.name)
        windows = batch * channels * -(-height // 2) * -(-width // 2)
        words = 4 * -(-windows // 32) if self.packed else -(-windows // 4)
        bias = graph.parameter(f"{self.of}.bias", (channels,), x.dtype)
        y = graph.array(self.name, (batch, channels, height // 2, width // 2), x.dtype)
        saved = graph.array(f"{self.name}.saved", (words,), np.uint32)
        sizes = {"BATCH": batch, "C": channels, "H": height, "W": width}
        arrays = {"z": x, "bias": bias, "y": y, "saved": saved}
        graph.call(self.step, sizes, arrays, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, bias=bias, saved=saved)


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
        elif isinstance(layer, (Convolve, FullyConnected, BiasReluPool)):
            found.append(layer)
        else:
            raise ArgumentError(
                f"{layer.name} ({type(layer).__name__}) has no backward pass here",
                next_step='Use digits_layers("plain", labels=False) or lenet5_layers(labels=False).',
            )
    if waiting is not None:
        raise ArgumentError(f"{waiting.name} ends the network: only pooling may follow it")
    return tuple(found)


class TrainingGraph(Graph):
    """A graph whose parameters are parts of one array, with a second one of the same form for gradients."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.places: dict[str, Value] = {}
        """the parameters, as parts of the array "parameters" """
        first = 0
        for name, shape in shapes.items():
            self.places[name] = Value("parameters", shape, np.dtype(np.float32), "parameter", first)
            first += -(-math.prod(shape) // ALIGN) * ALIGN
        self.size = first
        super().parameter("parameters", (first,))
        super().parameter("gradients", (first,))

    def parameter(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Value:
        """Return a parameter's part. Raises ArgumentError for another shape or type than was said."""
        place = self.places.get(name)
        if place is None or place.shape != tuple(shape) or np.dtype(dtype) != np.float32:
            raise ArgumentError(f"training keeps no parameter {name!r} {list(shape)} of {np.dtype(dtype)}")
        return place

    def gradient(self, name: str) -> Value:
        """Return the part of a parameter's gradient."""
        return replace(self.places[name], name="gradients")

    def flat(self, values: Mapping[str, npt.ArrayLike]) -> np.ndarray:
        """Return values by parameter as one array; what lies between them is 0. Raises ArgumentError."""
        if set(values) != set(self.places):
            told = ", ".join(sorted(set(values) ^ set(self.places)))
            raise ArgumentError(f"these are not the network's parameters: missing or unknown {told}")
        whole = np.zeros(self.size, np.float32)
        for name, place in self.places.items():
            part = np.asarray(values[name])
            if part.shape != place.shape:
                raise ArgumentError(f"{name} has shape {list(part.shape)}, the network's has {list(place.shape)}")
            whole[place.first : place.first + place.size] = part.reshape(-1)
        return whole

    def named(self, whole: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of such an array by parameter."""
        return {
            name: whole[place.first : place.first + place.size].reshape(place.shape).copy()
            for name, place in self.places.items()
        }


class _Shapes(Graph):
    """Learns which parameters the layers ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, tuple[int, ...]] = {}

    def parameter(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Value:
        self.shapes[name] = tuple(shape)
        return Value(name, tuple(shape), np.dtype(dtype), "parameter")

    def call(self, *_: object, **__: object) -> None:
        """Nothing is ever run."""


def build_training(layers: Sequence[Layer], batch: int, image_shape: Sequence[int]) -> TrainingGraph:
    """Return the graph of one step: inputs "x" and "label", outputs "loss" and "scores", and "gradients".

    Raises ArgumentError for layers that have no backward pass, and for sizes that do not fit.
    """
    chosen = training_layers(layers)
    shapes = _Shapes()
    forward(shapes, chosen, batch, image_shape)
    graph = TrainingGraph(shapes.shapes)
    scores = graph.output(forward(graph, chosen, batch, image_shape))
    if len(scores.shape) != 2:
        raise ArgumentError(f"the network ends with {list(scores.shape)}, not with scores [BATCH,CLASSES]")
    slope = append_loss(graph, scores)
    for traced, before in zip(reversed(graph.tape), [*reversed(graph.tape[:-1]), None], strict=True):
        slope = _BACK[type(traced.layer)](graph, traced, slope, before)
    return graph


def append_loss(graph: Graph, scores: Value) -> Value:
    """Append the cross entropy, output "loss" of each image of input "label"; returns the slope of its mean."""
    batch, classes = scores.shape
    label = graph.input("label", (batch,), np.int32)
    loss = graph.output(graph.array("loss", (batch,)))
    slope = graph.array(f"{scores.name}.slope", scores.shape)
    arrays = {"x": scores, "label": label, "loss": loss, "dx": slope}
    graph.call(LAB + "01_cross_entropy_backward", {"BATCH": batch, "CLASSES": classes}, arrays, layer="loss")
    return slope


# ---------------------------------------------------------------- one layer back


def _back_through_fc(graph: TrainingGraph, traced: Traced, slope: Value, before: Traced | None) -> Value:
    layer, x = traced.layer, traced.x
    batch, inputs = x.shape[0], math.prod(x.shape[1:])
    after_relu = before is not None and isinstance(before.layer, FullyConnected) and before.layer.relu
    dx = graph.array(f"{x.name}.slope", (batch, inputs))
    graph.call(
        LAB + "02_fc_backward", {"BATCH": batch, "IN": inputs, "OUT": layer.outputs, "RELU": int(after_relu)},
        {"x": x, "w": traced.saved["weight"], "dy": slope, "dw": graph.gradient(f"{layer.name}.weight"),
         "db": graph.gradient(f"{layer.name}.bias"), "dx": dx}, layer=layer.name,
    )  # fmt: skip
    return dx


def _back_through_pool(graph: TrainingGraph, traced: Traced, slope: Value, _: Traced | None) -> Value:
    layer, z = traced.layer, traced.x
    dz = graph.array(f"{z.name}.slope", z.shape)
    sizes = dict(zip(("BATCH", "C", "H", "W"), z.shape, strict=True))
    arrays = {"dy": slope, "saved": traced.saved["saved"], "dz": dz}
    graph.call(layer.back, sizes, arrays, constants=layer.constants, layer=layer.name)
    return dz


def _back_through_convolution(graph: TrainingGraph, traced: Traced, slope: Value, before: Traced | None) -> Value:
    layer, x = traced.layer, traced.x
    problem: Convolution = layer.problem(x)
    arrays = {"x": x, "dy": slope, "dw": graph.gradient(f"{layer.name}.weight")}
    arrays["db"] = graph.gradient(f"{layer.name}.bias")
    graph.call(LAB + "05_conv_backward_filter", problem.sizes, arrays, layer=layer.name)
    if before is None:
        return slope  # nobody asks for the slope of the images
    dx = graph.array(f"{x.name}.slope", x.shape)
    arrays = {"dy": slope, "w": traced.saved["weight"], "dx": dx}
    graph.call(LAB + "04_conv_backward_data", problem.sizes, arrays, layer=layer.name)
    return dx


_BACK: dict[type, Callable[[TrainingGraph, Traced, Value, Traced | None], Value]] = {
    FullyConnected: _back_through_fc,
    BiasReluPool: _back_through_pool,
    Convolve: _back_through_convolution,
}
