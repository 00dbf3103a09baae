"""The layers of networks: each appends its kernels' calls to a graph.

    x = graph.input("x", (BATCH, 1, 28, 28))
    for layer in (Convolve(name="conv1", filters=32, size=5), BiasRelu(name="relu1", of="conv1")):
        x = layer.forward(graph, x)

Images are [BATCH,C,H,W], features [BATCH,FEATURES]; a fully connected layer takes images too, channel by channel.
Parameters are called as their layer: `conv1.weight` [F,C,R,S], `fc1.weight` [IN,OUT], `conv1.bias` [F]. Convolutions of
the course know no bias, so it is added by what follows: a layer with `of` takes the bias of the layer of that name.
Every layer notes on the graph's tape what it read, wrote and saved.

The layers in half precision, for tensor cores, take images as [BATCH,H,W,C] and weights as [F,R,S,C], and sum in single
precision; there a fully connected layer is a convolution as large as its image. Biases stay float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.nn.graph import Graph, Value
from warpschool.nn.references import Convolution
from warpschool.nn.winograd import matrices, pooled_results, sources, tiles

LAB = "lab10_lenet/"
POOL = 2
"""Rows and columns of a pooling window."""


class Layer(Protocol):
    """Something that turns one value of a graph into the next."""

    @property
    def name(self) -> str: ...

    def forward(self, graph: Graph, x: Value) -> Value:
        """Append the calls and return the result. Raises ArgumentError for a value that does not fit."""


def forward(
    graph: Graph, layers: Iterable[Layer], batch: int, image_shape: Sequence[int], dtype: npt.DTypeLike = np.float32
) -> Value:
    """Append all layers, the first one on the input "x" [batch, *image_shape]; returns what the last one gives."""
    value = graph.input("x", (batch, *image_shape), dtype)
    for layer in layers:
        value = layer.forward(graph, value)
    return value


def images(value: Value, layer: str) -> tuple[int, int, int, int]:
    """Return BATCH, C, H, W; raises ArgumentError for a value that holds no images."""
    if len(value.shape) != 4:
        raise ArgumentError(f"{layer} needs images [BATCH,C,H,W], not {value.name} {list(value.shape)}")
    batch, channels, height, width = value.shape
    return batch, channels, height, width


@dataclass(frozen=True, kw_only=True)
class Windows:
    """What layers with filters share."""

    name: str
    filters: int
    size: int
    """rows and columns of a filter"""
    stride: int = 1
    pad: int = 0

    def problem(self, x: Value) -> Convolution:
        batch, channels, height, width = images(x, self.name)
        return Convolution(
            batch=batch, channels=channels, height=height, width=width, filters=self.filters, rows=self.size,
            cols=self.size, stride=self.stride, pad=self.pad,
        )  # fmt: skip

    def weight(self, graph: Graph, problem: Convolution, x: Value) -> Value:
        return graph.parameter(f"{self.name}.weight", problem.filter_shape, x.dtype)


@dataclass(frozen=True, kw_only=True)
class Convolve(Windows):
    """A convolution by one file of lab 08 with arrays x, w, y."""

    step: str = "lab08_convolution/07_implicit_gemm"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        problem = self.problem(x)
        w = self.weight(graph, problem, x)
        y = graph.array(self.name, problem.output_shape, x.dtype)
        graph.call(self.step, problem.sizes, {"x": x, "w": w, "y": y}, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, weight=w)


@dataclass(frozen=True, kw_only=True)
class ConvolvePool(Windows):
    """Convolution, bias, ReLU and the mean of windows of 2 x 2 by one kernel."""

    step: str = LAB + "09_conv_relu_pool"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        problem = self.problem(x)
        w = self.weight(graph, problem, x)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,), x.dtype)
        y = graph.array(self.name, _pooled(problem.output_shape), x.dtype)
        arrays = {"x": x, "w": w, "bias": bias, "y": y}
        if self.stride != 1:
            raise ArgumentError(f"{self.name}: {self.step} knows no stride", next_step="Use Convolve with BiasRelu.")
        sizes = {name: size for name, size in problem.sizes.items() if name != "STRIDE"}
        graph.call(self.step, sizes, arrays, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


@dataclass(frozen=True, kw_only=True)
class WinogradPool(Windows):
    """Convolution by F(tile x tile, size x size), bias, ReLU and the mean of windows of 2 x 2 in the last transform.

    The transforms are written from the exact matrices; the product is lab 09's, with `constants`. `at_a_time`: images
    whose transforms are in memory at once (None: all).
    """

    tile: int = 4
    product: str = "lab09_winograd/03_batched_gemm"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)
    at_a_time: int | None = None

    def forward(self, graph: Graph, x: Value) -> Value:
        problem, exact = self.problem(x), matrices(self.tile, self.size)
        w = self.weight(graph, problem, x)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,), x.dtype)
        y = graph.array(self.name, _pooled(problem.output_shape), x.dtype)
        of_filters, of_images, _ = (parse_contract(text, name=name) for name, text in sources(exact).items())
        of_results = parse_contract(pooled_results(exact), name="pooled_results.cu")
        channels, filters, positions = problem.channels, problem.filters, exact.positions
        U = graph.array(f"{self.name}.U", (positions, channels, filters), x.dtype)
        graph.call(of_filters, {"F": filters, "C": channels}, {"w": w, "U": U}, layer=self.name, once=True)
        count = min(self.at_a_time or problem.batch, problem.batch)
        down, across = tiles(problem, exact)
        for first in range(0, problem.batch, count):
            size = min(count, problem.batch - first)
            places = size * down * across
            V = graph.array(f"{self.name}.V{first}", (positions, channels, places), x.dtype)
            M = graph.array(f"{self.name}.M{first}", (positions, filters, places), x.dtype)
            sizes = {"BATCH": size, "C": channels, "H": problem.height, "W": problem.width, "PAD": problem.pad}
            graph.call(of_images, sizes, {"x": x.rows(first, size), "V": V}, layer=self.name)
            sizes = {"POSITIONS": positions, "C": channels, "F": filters, "P": places}
            graph.call(self.product, sizes, {"U": U, "V": V, "M": M}, constants=self.constants, layer=self.name)
            sizes = {"BATCH": size, "F": filters, "OH": problem.out_height, "OW": problem.out_width}
            arrays = {"M": M, "bias": bias, "y": y.rows(first, size)}
            graph.call(of_results, sizes, arrays, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


def _pooled(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-2] // POOL, shape[-1] // POOL)


@dataclass(frozen=True, kw_only=True)
class BiasRelu:
    """max(x + bias, 0) with the bias of each channel; `of`: the layer whose bias it is."""

    name: str
    of: str
    step: str = LAB + "01_relu"

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, channels, height, width = images(x, self.name)
        bias = graph.parameter(f"{self.of}.bias", (channels,), x.dtype)
        y = graph.array(self.name, x.shape, x.dtype)
        sizes = {"BATCH": batch, "C": channels, "P": height * width}
        graph.call(self.step, sizes, {"x": x, "bias": bias, "y": y}, layer=self.name)
        return graph.trace(self, x, y, bias=bias)


@dataclass(frozen=True, kw_only=True)
class AveragePool:
    """The mean of windows of 2 x 2. With `of`, that layer's bias and ReLU come first, in the same kernel."""

    name: str
    of: str = ""
    step: str = ""
    """the kernel; "": 02_average_pool, or 04_average_pool_tiled with a bias"""

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, channels, height, width = images(x, self.name)
        y = graph.array(self.name, _pooled(x.shape), x.dtype)
        arrays = {"x": x, "y": y}
        saved = {}
        if self.of:
            saved["bias"] = arrays["bias"] = graph.parameter(f"{self.of}.bias", (channels,), x.dtype)
        step = self.step or LAB + ("04_average_pool_tiled" if self.of else "02_average_pool")
        sizes = {"BATCH": batch, "C": channels, "H": height, "W": width}
        graph.call(step, sizes, arrays, layer=self.name)
        return graph.trace(self, x, y, **saved)


@dataclass(frozen=True, kw_only=True)
class MaxPool:
    """The largest of windows of 2 x 2; which one it was is saved as a byte."""

    name: str
    step: str = LAB + "05_max_pool"

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, channels, height, width = images(x, self.name)
        y = graph.array(self.name, _pooled(x.shape), x.dtype)
        index = graph.array(f"{self.name}.index", y.shape, np.uint8)
        sizes = {"BATCH": batch, "C": channels, "H": height, "W": width}
        graph.call(self.step, sizes, {"x": x, "y": y, "index": index}, layer=self.name)
        return graph.trace(self, x, y, index=index)


@dataclass(frozen=True, kw_only=True)
class FullyConnected:
    """x times the weights [IN,OUT] plus the bias; with `relu`, at least 0."""

    name: str
    outputs: int
    relu: bool = False
    step: str = LAB + "06_fully_connected"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, inputs = x.shape[0], math.prod(x.shape[1:])
        w = graph.parameter(f"{self.name}.weight", (inputs, self.outputs), x.dtype)
        bias = graph.parameter(f"{self.name}.bias", (self.outputs,), x.dtype)
        y = graph.array(self.name, (batch, self.outputs), x.dtype)
        sizes = {"BATCH": batch, "IN": inputs, "OUT": self.outputs, "RELU": int(self.relu)}
        arrays = {"x": x, "w": w, "bias": bias, "y": y}
        graph.call(self.step, sizes, arrays, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Probabilities of the classes."""

    name: str = "probabilities"
    step: str = LAB + "07_softmax"

    def forward(self, graph: Graph, x: Value) -> Value:
        y = graph.array(self.name, x.shape, x.dtype)
        graph.call(self.step, {"BATCH": x.shape[0], "CLASSES": x.shape[1]}, {"x": x, "y": y}, layer=self.name)
        return graph.trace(self, x, y)


@dataclass(frozen=True, kw_only=True)
class Argmax:
    """The class with the largest score, the first one of equals; int32."""

    name: str = "labels"
    step: str = LAB + "08_argmax"

    def forward(self, graph: Graph, x: Value) -> Value:
        y = graph.array(self.name, x.shape[:1], np.int32)
        graph.call(self._kernel(), {"BATCH": x.shape[0], "CLASSES": x.shape[-1]}, {"x": x, "label": y}, layer=self.name)
        return graph.trace(self, x, y)

    def _kernel(self) -> str | Contract:
        return self.step


# ---------------------------------------------------------------- half precision, on tensor cores


@dataclass(frozen=True, kw_only=True)
class _HalfWindows:
    """What half-precision layers with filters share."""

    name: str
    filters: int
    size: int
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def _append(
        self, graph: Graph, step: str, x: Value, shape: Sequence[int], problem: Convolution, sizes: Mapping[str, int],
        *, edge: int, **constants: int,
    ) -> Value:  # fmt: skip
        """Call the kernel for weights of that shape; results are the means of edge x edge."""
        w = graph.parameter(f"{self.name}.weight", shape, np.float16)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,))
        places = (problem.out_height // edge, problem.out_width // edge)
        y = graph.array(self.name, (problem.batch, *places, self.filters), np.float16)
        arrays = {"x": x, "w": w, "bias": bias, "y": y}
        graph.call(step, sizes, arrays, constants={**constants, **self.constants}, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


@dataclass(frozen=True, kw_only=True)
class FirstHalfPool(_HalfWindows):
    """A convolution of images with one channel [BATCH,H,W], bias, ReLU and the mean of 2 x 2."""

    pad: int = 0
    step: str = LAB + "12_fp16_first_layer"

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, height, width = x.shape
        problem = Convolution(
            batch=batch, channels=1, height=height, width=width, filters=self.filters, rows=self.size, cols=self.size,
            pad=self.pad,
        )  # fmt: skip
        sizes = {name: problem.sizes[name] for name in ("BATCH", "H", "W", "F", "R", "S", "PAD")}
        return self._append(graph, self.step, x, (self.filters, self.size, self.size), problem, sizes, edge=POOL)


@dataclass(frozen=True, kw_only=True)
class HalfConvolve(_HalfWindows):
    """A convolution of [BATCH,H,W,C] with bias; `relu` and `pool` (the mean of 2 x 2) where they are asked for."""

    relu: bool = True
    pool: bool = True
    step: str = LAB + "11_fp16_conv_relu_pool"

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, height, width, channels = x.shape
        problem = Convolution(
            batch=batch, channels=channels, height=height, width=width, filters=self.filters, rows=self.size,
            cols=self.size,
        )  # fmt: skip
        shape, edge = (self.filters, self.size, self.size, channels), POOL if self.pool else 1
        sizes = {name: size for name, size in problem.sizes.items() if name != "STRIDE"}
        return self._append(
            graph, self.step, x, shape, problem, sizes, edge=edge, POOL=edge, RELU=int(self.relu)
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HalfArgmax(Argmax):
    """The class with the largest score: the course's kernel with another type for its scores."""

    def _kernel(self) -> Contract:
        found = Course.find().step(self.step)
        assert found.solution is not None
        text = found.solution.read_text(encoding="utf-8")
        text = text.replace("const float x[", "const half x[").replace("const float* __restrict__ x", "const half* x")
        text = text.replace("const float* scores", "const half* scores")
        text = text.replace("\n\nconstexpr", "\n\n#include <cuda_fp16.h>\n\nconstexpr", 1)
        return parse_contract(text, name="half_argmax.cu")


def half_digits_layers(
    constants: Mapping[str, Mapping[str, int]] | None = None, *, labels: bool = True
) -> tuple[Layer, ...]:
    """The digits' network; `constants`: tile sizes of a layer's kernel, by the layer's name."""
    given = {name: dict((constants or {}).get(name, {})) for name in ("conv1", "conv2", "fc1", "fc2")}
    layers: tuple[Layer, ...] = (
        FirstHalfPool(name="conv1", filters=32, size=5, constants=given["conv1"]),
        HalfConvolve(name="conv2", filters=64, size=5, constants=given["conv2"]),
        HalfConvolve(name="fc1", filters=128, size=4, pool=False, constants=given["fc1"]),
        HalfConvolve(name="fc2", filters=10, size=1, pool=False, relu=False, constants=given["fc2"]),
    )
    return (*layers, HalfArgmax()) if labels else layers


def half_parameters(parameters: Mapping[str, npt.ArrayLike]) -> dict[str, np.ndarray]:
    """Return the digits' parameters in the shapes that these layers take."""
    own = {name: np.asarray(values) for name, values in parameters.items()}
    features = own["conv2.bias"].size
    edge = round((own["fc1.weight"].shape[0] / features) ** 0.5)
    return own | {
        "conv1.weight": own["conv1.weight"][:, 0],
        "conv2.weight": own["conv2.weight"].transpose(0, 2, 3, 1),
        "fc1.weight": own["fc1.weight"].reshape(features, edge, edge, -1).transpose(3, 1, 2, 0),
        "fc2.weight": own["fc2.weight"].T[:, None, None, :],
    }
