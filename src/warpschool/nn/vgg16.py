"""VGG16 (Simonyan, Zisserman 2015) of the course's kernels: layers, inference and training, and the same in float64.

    form = VggForm()                                         # 224 x 224, 1,000 classes; VggForm.small() for a simulator
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
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.graph import Graph, GraphArray, Traced, TrainingGraph
from warpschool.nn.layers import Constants, FullyConnected, WinogradWindows, image_sizes
from warpschool.nn.network import build, training_graph
from warpschool.nn.references import (
    Convolution,
    choose,
    conv_backward_data,
    conv_backward_filter,
    convolve,
    cross_entropy,
    fc_backward,
    fully_connected,
    unpool,
)
from warpschool.nn.session import Kernels, Session
from warpschool.nn.training import InTraining, Optimizer
from warpschool.nn.winograd import kernel_sizes, matrices

# ---------------------------------------------------------------- layers


EXACT = matrices(4, 3)
WINOGRAD, VGG16 = "lab09_winograd/", "lab13_vgg16/"


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


@dataclass(frozen=True, kw_only=True)
class _Padded(WinogradWindows):
    """A convolution of 3 x 3 with one pixel of padding. `training`: filters are transformed anew in every run."""

    size: int = 3
    pad: int = 1
    training: bool = False

    def _filters(self, graph: Graph, x: GraphArray) -> dict[str, GraphArray]:
        return self.transform_filters(graph, x, EXACT, WINOGRAD + "01_filter_transform", once=not self.training)


@dataclass(frozen=True, kw_only=True)
class FirstLayer(_Padded):
    """A convolution of up to four channels, bias and ReLU by one kernel; backward directly, and for parameters only."""

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes, own = image_sizes(x, self.name), self._filters(graph, x)
        channels = sizes.pop("C")
        y = graph.array(self.name, self.problem(x).output_shape)
        arrays = {"x": x, "U": own["U"], "bias": own["bias"], "y": y}
        graph.call(
            WINOGRAD + "06_three_channels", sizes | {"F": self.filters, "PAD": self.pad}, arrays,
            constants=_unless(3, CHANNELS=channels), layer=self.name,
        )  # fmt: skip
        return graph.trace(self, x, y)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> None:
        """Append what computes the parameters' gradients; nobody asks for that of the images."""
        sizes = image_sizes(traced.x, self.name)
        channels = sizes.pop("C")
        arrays = {"x": traced.x, "y": traced.y, "dy": dy, **graph.gradients(self.name)}
        graph.call(
            VGG16 + "03_first_layer_backward", sizes | {"F": self.filters}, arrays,
            constants=_unless(3, CHANNELS=channels), layer=self.name,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WinogradLayer(_Padded):
    """A convolution by F(4x4,3x3), bias, ReLU, and with pool=2 the largest of windows of 2 x 2.

    `training`: a byte for each window says what passed, and U and V are kept for `backward`.
    """

    pool: int = 1
    tiles: LayerTiles = field(default_factory=LayerTiles, hash=False)

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        problem, own = self.problem(x), self._filters(graph, x)
        images, product = WINOGRAD + "02_input_transform", WINOGRAD + "03_batched_gemm"
        V, M = self.multiply(graph, x, own["U"], EXACT, images, product, self.tiles.forward)
        batch, filters, height, width = problem.output_shape
        y = graph.array(self.name, (batch, filters, height // self.pool, width // self.pool))
        sizes = kernel_sizes(problem, EXACT)["results"]
        arrays, pool = {"M": M, "bias": own["bias"], "y": y}, _unless(2, POOL=self.pool)
        if not self.training:
            graph.call(WINOGRAD + "05_fused_epilogue", sizes | {"CROP": 0}, arrays, constants=pool, layer=self.name)
            return graph.trace(self, x, y)
        choice = graph.array(f"{self.name}.choice", y.shape, np.uint8)
        graph.call(VGG16 + "06_saved_choices", sizes, arrays | {"choice": choice}, constants=pool, layer=self.name)
        return graph.trace(self, x, y, U=own["U"], V=V, choice=choice)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradients of the input, which is returned, and of the parameters."""
        if not self.training:
            raise ArgumentError(f"{self.name} saved nothing", next_step="Make the layer with training=True.")
        saved, sizes = traced.saved, image_sizes(traced.x, self.name) | {"F": self.filters}
        positions, channels, places = saved["V"].shape
        dM = graph.array(f"{self.name}.dM", (positions, self.filters, places))
        dV = graph.array(f"{self.name}.dV", saved["V"].shape)
        dx = graph.array(f"{traced.x.name}.slope", traced.x.shape)
        arrays = {"dy": dy, "choice": saved["choice"], "U": saved["U"], "dM": dM, "dV": dV, "dx": dx}
        constants = {**self.tiles.data, **_unless(1, POOL=self.pool)}
        graph.call(VGG16 + "01_winograd_backward_data", sizes, arrays, constants=constants, layer=self.name)
        sizes = {"C": channels, "F": self.filters, "P": places}
        arrays = {"V": saved["V"], "dM": dM, **graph.gradients(self.name)}
        graph.call(VGG16 + "02_winograd_backward_filter", sizes, arrays, constants=self.tiles.filters, layer=self.name)
        return dx


@dataclass(frozen=True, kw_only=True)
class SmallBatchDense(FullyConnected):
    """x times the weights [IN,OUT] plus the bias, with `relu` at least 0: each weight is read once for 32 images."""

    relu: bool = True
    step: str = VGG16 + "04_fc_small_batch"
    BACK: ClassVar[str] = VGG16 + "05_fc_small_batch_backward"
    MASK: ClassVar[str] = "MASK"


def _unless(own: int, **constant: int) -> Constants:
    """Return the constant, unless it is what the file has anyway."""
    return {name: value for name, value in constant.items() if value != own}


# ---------------------------------------------------------------- the network


STAGES = (2, 2, 3, 3, 3)
"""Convolutions of each stage."""
VggLayer = FirstLayer | WinogradLayer | SmallBatchDense


@dataclass(frozen=True, kw_only=True)
class VggForm:
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
    def small() -> VggForm:
        """A VGG16 for a simulator: 32 x 32 pixels, 4 to 8 filters, 10 classes."""
        return VggForm(widths=(4, 4, 8, 8, 8), hidden=16, classes=10, size=32, tiles=SMALL)

    def layers(self, *, training: bool = False) -> tuple[VggLayer, ...]:
        """Return the layers, first to last."""
        convolutions = [
            (width, pool, tiles)
            for width, count, tiles in zip(self.widths, STAGES, self.tiles, strict=True)
            for pool in (*[1] * (count - 1), 2)
        ]
        dense = self.tiles[-1].dense
        return (
            FirstLayer(name="conv1", filters=self.widths[0], training=training),
            *(WinogradLayer(name=f"conv{k}", filters=width, pool=pool, training=training, tiles=tiles)
              for k, (width, pool, tiles) in enumerate(convolutions[1:], start=2)),
            *(SmallBatchDense(name=f"fc{k}", outputs=outputs, relu=k < 3, constants=dense, back_constants=dense)
              for k, outputs in enumerate((self.hidden, self.hidden, self.classes), start=1)),
        )  # fmt: skip

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the parameters' shapes: weights [F,C,3,3] and [IN,OUT], and biases."""
        return {name: value.shape for name, value in inference_graph(self, 1).parameters.items()}

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


def inference_graph(form: VggForm, batch: int) -> Graph:
    """Return the graph from input "x" to output "fc3", the classes' scores."""
    return build(form.layers(), batch, form.image_shape)


def step_graph(form: VggForm, batch: int, *, loss: bool = True) -> TrainingGraph:
    """Return the graph forward and backward: outputs "fc3" and, with `loss`, "loss" of each image, and "gradients".

    Without `loss` the gradient of the scores is an input, "fc3.slope"; otherwise it is that of the mean cross entropy.
    """
    return training_graph(form.layers(training=True), batch, form.image_shape, loss=loss)


class Inference:
    """A VGG16 with parameters on a device. Further keywords go to the session, `guarded` and `stream` among them."""

    def __init__(
        self, form: VggForm, kernels: Kernels, parameters: Mapping[str, npt.ArrayLike], *, batch: int, **options: Any
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


class TrainingStep(InTraining):
    """A VGG16 in training on a device: forward, loss, backward, and a step of the optimizer (None: gradients only)."""

    def __init__(
        self, form: VggForm, kernels: Kernels, parameters: Mapping[str, npt.ArrayLike], *, batch: int,
        optimizer: Optimizer | None = None, loss: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(step_graph(form, batch, loss=loss), kernels, parameters, optimizer, **options)
        self.form, self.batch = form, batch
        slopes = (any(v.name == "fc3.slope" for v in call.arrays.values()) for call in self.graph.calls)
        self.forward_calls = list(slopes).index(True)
        """how many of the graph's calls make the scores; those of the loss and the way back follow"""

    def run(self) -> None:
        """Enqueue one step for what session["x"] and session["label"] hold, and do not wait."""
        self.session.run()
        self.update()

    def __call__(self, x: npt.ArrayLike, label: npt.ArrayLike) -> float:
        """Make one step with a batch; returns its mean loss before the step."""
        self.take(x, label)
        self.run()
        return self.mean_loss()

    def take(self, x: npt.ArrayLike, label: npt.ArrayLike) -> None:
        """Copy a batch to the device, for the calls that are run next."""
        _set(self.session, "x", x)
        _set(self.session, "label", label)


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
class _Applied:
    """A layer as it was applied; `passed` is what ReLU and pooling let through: choices, or whether."""

    layer: VggLayer
    x: np.ndarray
    y: np.ndarray
    passed: np.ndarray


def reference(
    form: VggForm, parameters: Mapping[str, npt.ArrayLike], x: npt.ArrayLike, label: npt.ArrayLike
) -> Reference:
    """Return scores, losses and gradients of a batch of images [BATCH,C,SIZE,SIZE] with labels [BATCH]."""
    values = {name: np.asarray(array, np.float64) for name, array in parameters.items()}
    tape: list[_Applied] = []
    value = np.asarray(x, np.float64)
    for layer in form.layers():
        tape.append(_forward(layer, values[f"{layer.name}.weight"], values[f"{layer.name}.bias"], value))
        value = tape[-1].y
    loss, slope = cross_entropy(value, label)
    gradients: dict[str, np.ndarray] = {}
    for applied in reversed(tape):
        name = applied.layer.name
        dw, db, slope = _backward(applied, values[f"{name}.weight"], slope.reshape(applied.y.shape))
        gradients |= {f"{name}.weight": dw, f"{name}.bias": db}
    return Reference(value, loss, gradients)


def _forward(layer: VggLayer, w: np.ndarray, bias: np.ndarray, x: np.ndarray) -> _Applied:
    if isinstance(layer, SmallBatchDense):
        flat = x.reshape(len(x), -1)
        y = fully_connected(flat, w, bias, relu=layer.relu)
        return _Applied(layer, flat, y, (y > 0) | (not layer.relu))
    return _Applied(layer, x, *choose(convolve(x, w, pad=1) + bias[:, None, None], _pool(layer)))


def _pool(layer: FirstLayer | WinogradLayer) -> int:
    return layer.pool if isinstance(layer, WinogradLayer) else 1


def _backward(applied: _Applied, w: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of weights, bias and input."""
    layer, x = applied.layer, applied.x
    if isinstance(layer, SmallBatchDense):
        return fc_backward(x, w, dy * applied.passed)
    dz = unpool(dy, applied.passed, height=x.shape[2], width=x.shape[3], pool=_pool(layer))
    problem = Convolution.of(x, w, pad=1)
    return (*conv_backward_filter(x, dz, problem), conv_backward_data(dz, w, problem))
