"""The layers of VGG16, forward and backward: Winograd's convolutions with all they need saved, and dense layers.

    layer = WinogradLayer(name="conv2", filters=64, pool=2, training=True)
    y = layer.forward(graph, x)                      # U, V and choices stay in the graph
    dx = layer.backward(graph, graph.tape[-1], dy)   # from y's gradient

Like all layers they append calls to a graph and run nothing. Forward: labs 09 and 13; backward: lab 13, which computes
no transform a second time. Kernels add bias, ReLU and pooling in the last transform; on the way back they are undone
while gradients are loaded. Tiles are constants of the kernel files: SMALL for layers of a few channels, else LARGE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from warpschool.errors import ArgumentError
from warpschool.nn.backward import TrainingGraph
from warpschool.nn.convolution import Convolution
from warpschool.nn.graph import Graph, Traced, Value
from warpschool.nn.layers import images
from warpschool.nn.winograd import matrices

EXACT = matrices(4, 3)
WINOGRAD, VGG16 = "lab09_winograd/", "lab13_vgg16/"
Constants = Mapping[str, int]


@dataclass(frozen=True)
class Tiles:
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
    Tiles(
        forward=_named(FORWARD_NAMES, 64, 128, 16, 32, 64, 8, 8, 4),
        filters=_named(FILTER_NAMES, 64, 64, 8, 32, 64, 8, 8, 8),
    ),
    Tiles(forward=_DEEP, data=_named(DATA_NAMES, 64, 128, 16, 32, 64, 8, 8, 3), filters=_WIDE),
    Tiles(forward=_DEEP, data=_FEW, filters=_WIDE),
    Tiles(forward=_named(FORWARD_NAMES, 128, 64, 8, 64, 32, 8, 8, 3), data=_FEW, filters=_WIDE),
    Tiles(forward=_DEEP, data=_FEW, filters=_WIDE),
)
"""For each stage of VGG16: what was found best at batch 32 on an H200; what is not named is the file's own."""
SMALL = (
    Tiles(
        forward=_named(FORWARD_NAMES, 16, 32, 8, 16, 32, 4, 4, 4), data=_named(DATA_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
        filters=_named(FILTER_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
        dense=_named(DENSE_NAMES, 16, 32, 8, 16, 32, 4, 4, 4),
    ),
) * 5  # fmt: skip
"""A warp to a block: for networks scaled down."""


def _places(problem: Convolution) -> int:
    """Tiles of all images."""
    return problem.batch * -(-problem.height // EXACT.m) * -(-problem.width // EXACT.m)


@dataclass(frozen=True, kw_only=True)
class _Padded:
    """A convolution of 3 x 3 with one pixel of padding."""

    name: str
    filters: int
    training: bool = False

    def problem(self, x: Value) -> Convolution:
        batch, channels, height, width = images(x, self.name)
        return Convolution(
            batch=batch, channels=channels, height=height, width=width, filters=self.filters, rows=3, cols=3, pad=1
        )

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
    tiles: Tiles = field(default_factory=Tiles, hash=False)

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
    tiles: Tiles = field(default_factory=Tiles, hash=False)

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
