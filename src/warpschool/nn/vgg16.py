"""VGG16 (Simonyan, Zisserman 2015) of the course's kernels: layers, inference and training, and the same in float64.

    form = Form()                                             # 224 x 224, 1,000 classes; Form.small() for a simulator
    network = Inference(form, Kernels(device="gpu"), parameters, batch=32)
    scores = network.scores(images)                           # [32, 1000]

    step = TrainingStep(form, Kernels(device="gpu"), parameters, batch=32, optimizer=Sgd(rate=0.01, momentum=0.9))
    loss = step(images, labels)                               # one step of training; the mean loss before it
    step.gradients["conv1.weight"], step.parameters["fc3.bias"]

13 convolutions of 3 x 3 in five stages, each ending with pooling, then three dense layers: `conv1` to `conv13`, `fc1`
to `fc3`. Everything that a network needs lies in one arena, on the simulator in guarded arrays.

Like all layers these append calls to a graph and run nothing. Forward: labs 09 and 13; backward: lab 13, which computes
no transform a second time. Kernels add bias, ReLU and pooling in the last transform; on the way back they are undone
while gradients are loaded. Tiles are constants of the kernel files: SMALL for layers of a few channels, else LARGE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.backward import TrainingGraph, append_loss
from warpschool.nn.graph import Graph, Traced, Value
from warpschool.nn.layers import Windows, forward, images
from warpschool.nn.references import (
    Convolution,
    choose,
    conv_backward_data,
    conv_backward_filter,
    convolve,
    cross_entropy,
    fc_backward,
    unpool,
)
from warpschool.nn.session import Kernels, Session
from warpschool.nn.training import Sgd, Updater
from warpschool.nn.winograd import matrices

# ---------------------------------------------------------------- layers


EXACT = matrices(4, 3)
WINOGRAD, VGG16 = "lab09_winograd/", "lab13_vgg16/"
Constants = Mapping[str, int]


@dataclass(frozen=True)
class LayerTiles:
    """Constants of a convolution's three products (forward, for its input, for its filters) and of dense layers."""

    forward: Constants = field(default_factory=dict)
    data: Constants = field(default_factory=dict)
    filters: Constants = field(default_factory=dict)
    dense: Constants = field(default_factory=dict)


def _named(names: str, *values: int) -> Constants:
    return dict(zip(names.split(), values, strict=True))


FORWARD_NAMES = "TSF TSP TSC WSF WSP WPTF WPTP BLOCKS"
DATA_NAMES = "TSC TSP TSF WSC WSP WPTC WPTP BLOCKS"
FILTER_NAMES = "TSC TSF TSP WSC WSF WPTC WPTF BLOCKS"
DENSE_NAMES = "TSM TSN TSK WSM WSN WPTM WPTN BLOCKS"
_DEEP = _named(FORWARD_NAMES, 64, 128, 16, 32, 64, 8, 8, 3)
_FEW = _named(DATA_NAMES, 64, 128, 8, 32, 64, 8, 8, 3)
_WIDE = _named(FILTER_NAMES, 64, 128, 8, 32, 64, 8, 8, 3)
LARGE = (
    LayerTiles(
        forward=_named(FORWARD_NAMES, 64, 128, 16, 32, 64, 8, 8, 4),
        filters=_named(FILTER_NAMES, 64, 64, 8, 32, 64, 8, 8, 8),
    ),
    LayerTiles(forward=_DEEP, data=_named(DATA_NAMES, 64, 128, 16, 32, 64, 8, 8, 3), filters=_WIDE),
    LayerTiles(forward=_DEEP, data=_FEW, filters=_WIDE),
    LayerTiles(forward=_named(FORWARD_NAMES, 128, 64, 8, 64, 32, 8, 8, 3), data=_FEW, filters=_WIDE),
    LayerTiles(forward=_DEEP, data=_FEW, filters=_WIDE),
)
"""For each stage of VGG16: what was found best at batch 32 on an H200; what is not named is the file's own."""
SMALL = (
    LayerTiles(
        forward=_named(FORWARD_NAMES, 16, 32, 8, 16, 32, 4, 4, 4), data=_named(DATA_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
        filters=_named(FILTER_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
        dense=_named(DENSE_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
    ),
) * 5  # fmt: skip
"""A warp to a block: for networks scaled down."""


def _places(problem: Convolution) -> int:
    """LayerTiles of all images."""
    return problem.batch * -(-problem.height // EXACT.m) * -(-problem.width // EXACT.m)


@dataclass(frozen=True, kw_only=True)
class _Padded(Windows):
    """A convolution of 3 x 3 with one pixel of padding."""

    size: int = 3
    pad: int = 1
    training: bool = False

    def _parameters(self, graph: Graph, x: Value) -> tuple[Value, Value, Value]:
        """Weights, bias, and the transformed weights: computed anew in every run of a training, once otherwise."""
        channels = x.shape[1]
        w = graph.parameter(f"{self.name}.weight", (self.filters, channels, 3, 3))
        bias = graph.parameter(f"{self.name}.bias", (self.filters,))
        U = graph.array(f"{self.name}.U", (EXACT.positions, channels, self.filters))
        graph.call(
            WINOGRAD + "01_filter_transform", {"F": self.filters, "C": channels}, {"w": w, "U": U}, layer=self.name,
            once=not self.training,
        )  # fmt: skip
        return w, bias, U


@dataclass(frozen=True, kw_only=True)
class FirstLayer(_Padded):
    """A convolution of up to four channels, bias and ReLU by one kernel; backward directly, and for parameters only."""

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, channels, height, width = images(x, self.name)
        _, bias, U = self._parameters(graph, x)
        y = graph.array(self.name, (batch, self.filters, height, width))
        sizes = {"BATCH": batch, "H": height, "W": width, "F": self.filters, "PAD": 1}
        arrays = {"x": x, "U": U, "bias": bias, "y": y}
        graph.call(
            WINOGRAD + "06_three_channels", sizes, arrays, constants=_unless(3, CHANNELS=channels), layer=self.name
        )
        return graph.trace(self, x, y)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: Value) -> None:
        """Append what computes the parameters' gradients; nobody asks for that of the images."""
        batch, channels, height, width = images(traced.x, self.name)
        sizes = {"BATCH": batch, "F": self.filters, "H": height, "W": width}
        arrays = {"x": traced.x, "y": traced.y, "dy": dy, **_gradients(graph, self.name)}
        graph.call(
            VGG16 + "03_first_layer_backward", sizes, arrays, constants=_unless(3, CHANNELS=channels), layer=self.name
        )


@dataclass(frozen=True, kw_only=True)
class WinogradLayer(_Padded):
    """A convolution by F(4x4,3x3), bias, ReLU, and with pool=2 the largest of windows of 2 x 2.

    `training`: a byte for each window says what passed, and U and V are kept for `backward`.
    """

    pool: int = 1
    tiles: LayerTiles = field(default_factory=LayerTiles, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        problem = self.problem(x)
        batch, channels, height, width = problem.image_shape
        _, bias, U = self._parameters(graph, x)
        count = _places(problem)
        V = graph.array(f"{self.name}.V", (EXACT.positions, channels, count))
        M = graph.array(f"{self.name}.M", (EXACT.positions, self.filters, count))
        y = graph.array(self.name, (batch, self.filters, height // self.pool, width // self.pool))
        sizes = {"BATCH": batch, "C": channels, "H": height, "W": width, "PAD": 1}
        graph.call(WINOGRAD + "02_input_transform", sizes, {"x": x, "V": V}, layer=self.name)
        sizes = {"POSITIONS": EXACT.positions, "C": channels, "F": self.filters, "P": count}
        arrays = {"U": U, "V": V, "M": M}
        graph.call(WINOGRAD + "03_batched_gemm", sizes, arrays, constants=self.tiles.forward, layer=self.name)
        sizes = {"BATCH": batch, "F": self.filters, "OH": height, "OW": width}
        arrays, pool = {"M": M, "bias": bias, "y": y}, _unless(2, POOL=self.pool)
        if not self.training:
            graph.call(
                WINOGRAD + "05_fused_epilogue", sizes | {"CROP": 0}, arrays, constants=pool, layer=self.name
            )
            return graph.trace(self, x, y)
        choice = graph.array(f"{self.name}.choice", y.shape, np.uint8)
        graph.call(VGG16 + "06_saved_choices", sizes, arrays | {"choice": choice}, constants=pool, layer=self.name)
        return graph.trace(self, x, y, U=U, V=V, choice=choice)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: Value) -> Value:
        """Append what computes the gradients of the input, which is returned, and of the parameters."""
        if not self.training:
            raise ArgumentError(f"{self.name} saved nothing", next_step="Make the layer with training=True.")
        problem, saved = self.problem(traced.x), traced.saved
        count = _places(problem)
        dM = graph.array(f"{self.name}.dM", (EXACT.positions, self.filters, count))
        dV = graph.array(f"{self.name}.dV", (EXACT.positions, problem.channels, count))
        dx = graph.array(f"{traced.x.name}.slope", traced.x.shape)
        sizes = {
            "BATCH": problem.batch, "C": problem.channels, "F": self.filters, "H": problem.height, "W": problem.width
        }  # fmt: skip
        arrays = {"dy": dy, "choice": saved["choice"], "U": saved["U"], "dM": dM, "dV": dV, "dx": dx}
        constants = {**self.tiles.data, **_unless(1, POOL=self.pool)}
        graph.call(VGG16 + "01_winograd_backward_data", sizes, arrays, constants=constants, layer=self.name)
        sizes = {"C": problem.channels, "F": self.filters, "P": count}
        arrays = {"V": saved["V"], "dM": dM, **_gradients(graph, self.name)}
        graph.call(
            VGG16 + "02_winograd_backward_filter", sizes, arrays, constants=self.tiles.filters, layer=self.name
        )
        return dx


@dataclass(frozen=True, kw_only=True)
class SmallBatchDense:
    """x times the weights [IN,OUT] plus the bias, with `relu` at least 0: each weight is read once for 32 images.

    `masked`: x came out of a ReLU whose gradient is not undone elsewhere.
    """

    name: str
    outputs: int
    relu: bool = True
    masked: bool = True
    tiles: LayerTiles = field(default_factory=LayerTiles, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, inputs = x.shape[0], math.prod(x.shape[1:])
        w = graph.parameter(f"{self.name}.weight", (inputs, self.outputs))
        bias = graph.parameter(f"{self.name}.bias", (self.outputs,))
        y = graph.array(self.name, (batch, self.outputs))
        sizes = {"BATCH": batch, "IN": inputs, "OUT": self.outputs, "RELU": int(self.relu)}
        arrays = {"x": x, "w": w, "bias": bias, "y": y}
        graph.call(VGG16 + "04_fc_small_batch", sizes, arrays, constants=self.tiles.dense, layer=self.name)
        return graph.trace(self, x, y, weight=w)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: Value) -> Value:
        """Append what computes the gradients of the input, which is returned, and of the parameters."""
        x = traced.x
        batch, inputs = x.shape[0], math.prod(x.shape[1:])
        dx = graph.array(f"{x.name}.slope", x.shape)
        sizes = {"BATCH": batch, "IN": inputs, "OUT": self.outputs, "MASK": int(self.masked)}
        arrays = {"x": x, "w": traced.saved["weight"], "dy": dy, "dx": dx, **_gradients(graph, self.name)}
        graph.call(VGG16 + "05_fc_small_batch_backward", sizes, arrays, constants=self.tiles.dense, layer=self.name)
        return dx


def _gradients(graph: TrainingGraph, layer: str) -> dict[str, Value]:
    return {"dw": graph.gradient(f"{layer}.weight"), "db": graph.gradient(f"{layer}.bias")}


def _unless(own: int, **constant: int) -> Constants:
    """Return the constant, unless it is what the file has anyway."""
    return {name: value for name, value in constant.items() if value != own}


# ---------------------------------------------------------------- the network


STAGES = (2, 2, 3, 3, 3)
"""Convolutions of each stage."""
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
    tiles: tuple[LayerTiles, ...] = LARGE
    """of each stage; dense layers take the last one's"""

    def __post_init__(self) -> None:
        if self.size < 2 ** len(STAGES):
            raise ArgumentError(f"images of {self.size} x {self.size} vanish", next_step="Needed: 32 x 32 or more.")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

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
    graph.output(forward(graph, form.layers(), batch, form.image_shape))
    return graph


def step_graph(form: Form, batch: int, *, loss: bool = True) -> TrainingGraph:
    """Return the graph forward and backward: outputs "fc3" and, with `loss`, "loss" of each image, and "gradients".

    Without `loss` the gradient of the scores is an input, "fc3.slope"; otherwise it is that of the mean cross entropy.
    """
    graph = TrainingGraph(form.shapes())
    scores = graph.output(forward(graph, form.layers(training=True), batch, form.image_shape))
    slope = append_loss(graph, scores) if loss else graph.input(f"{scores.name}.slope", scores.shape)
    for traced in reversed(graph.tape):
        slope = traced.layer.backward(graph, traced, slope)
    return graph


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


class TrainingStep:
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


# ---------------------------------------------------------------- in float64


@dataclass(frozen=True, eq=False)
class Reference:
    """What one pass forward and backward gives."""

    scores: np.ndarray
    loss: np.ndarray
    """of each image"""
    gradients: Mapping[str, np.ndarray]
    """of the mean loss, by parameter"""


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer as it was applied; `z`: its results before ReLU and pooling."""

    layer: VggLayer
    x: np.ndarray
    z: np.ndarray
    choice: np.ndarray | None = None

    @property
    def pool(self) -> int:
        return getattr(self.layer, "pool", 1)


def reference(form: Form, parameters: Mapping[str, npt.ArrayLike], x: npt.ArrayLike, label: npt.ArrayLike) -> Reference:
    """Return scores, losses and gradients of a batch of images [BATCH,C,SIZE,SIZE] with labels [BATCH]."""
    values = {name: np.asarray(array, np.float64) for name, array in parameters.items()}
    tape: list[_Layer] = []
    value = np.asarray(x, np.float64)
    for layer in form.layers():
        tape.append(_forward(layer, values, value))
        value = _result(tape[-1])
    loss, slope = cross_entropy(value, label)
    gradients: dict[str, np.ndarray] = {}
    for applied in reversed(tape):
        dw, db, slope = _backward(applied, values, slope)
        gradients |= {f"{applied.layer.name}.weight": dw, f"{applied.layer.name}.bias": db}
    return Reference(value, loss, gradients)


def _forward(layer: VggLayer, values: Mapping[str, np.ndarray], x: np.ndarray) -> _Layer:
    w, bias = values[f"{layer.name}.weight"], values[f"{layer.name}.bias"]
    if isinstance(layer, SmallBatchDense):
        flat = x.reshape(len(x), -1)
        return _Layer(layer, flat, flat @ w + bias)
    z = convolve(x, w, pad=1) + bias[:, None, None]
    return _Layer(layer, x, z, choose(z, getattr(layer, "pool", 1))[1])


def _result(applied: _Layer) -> np.ndarray:
    if not isinstance(applied.layer, SmallBatchDense):
        return choose(applied.z, applied.pool)[0]
    return np.maximum(applied.z, 0) if applied.layer.relu else applied.z


def _backward(
    applied: _Layer, values: Mapping[str, np.ndarray], slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of weights, bias and input."""
    layer, w = applied.layer, values[f"{applied.layer.name}.weight"]
    if isinstance(layer, SmallBatchDense):
        dz = slope * (applied.z > 0) if layer.relu else slope
        return fc_backward(applied.x, w, dz)
    shape = applied.z.shape
    assert applied.choice is not None
    dy = slope.reshape(applied.choice.shape)
    dz = unpool(dy, applied.choice, height=shape[2], width=shape[3], pool=applied.pool)
    problem = Convolution.of(applied.x, w, pad=1)
    return (*conv_backward_filter(applied.x, dz, problem), conv_backward_data(dz, w, problem))
