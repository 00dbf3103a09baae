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
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.nn.flipped import flip
from warpschool.nn.graph import Graph, GraphArray, Traced, TrainingGraph
from warpschool.nn.references import Convolution
from warpschool.nn.winograd import Matrices, kernel_sizes, matrices, pooled_results, sources

LAB, TRAINING = "lab10_lenet/", "lab11_training/"
POOL = 2
"""Rows and columns of a pooling window."""
Constants = Mapping[str, int]


class Layer(Protocol):
    """Something that turns one value of a graph into the next."""

    @property
    def name(self) -> str: ...

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        """Append the calls and return the result. Raises ArgumentError for a value that does not fit."""


def forward(
    graph: Graph, layers: Iterable[Layer], batch: int, image_shape: Sequence[int], dtype: npt.DTypeLike = np.float32
) -> GraphArray:
    """Append all layers, the first one on the input "x" [batch, *image_shape]; returns what the last one gives."""
    value = graph.input("x", (batch, *image_shape), dtype)
    for layer in layers:
        value = layer.forward(graph, value)
    return value


def backward(graph: TrainingGraph, tape: Sequence[Traced], slope: GraphArray) -> GraphArray:
    """Append the way back through layers, given the slope of what the last gives; returns that of the input."""
    for traced, before in zip(reversed(tape), [*reversed(tape[:-1]), None], strict=True):
        slope = traced.layer.backward(graph, traced, slope, before)
    return slope


def image_sizes(value: GraphArray, layer: str) -> dict[str, int]:
    """Return BATCH, C, H, W as kernels call them; raises ArgumentError for a value that holds no images."""
    if len(value.shape) != 4:
        raise ArgumentError(f"{layer} needs images [BATCH,C,H,W], not {value.name} {list(value.shape)}")
    return dict(zip(("BATCH", "C", "H", "W"), value.shape, strict=True))


@dataclass(frozen=True, kw_only=True)
class KernelLayer:
    """What layers of one kernel share: its step, and values for its constants."""

    name: str
    step: str = ""
    constants: Constants = field(default_factory=dict, hash=False)

    @property
    def kernel(self) -> str | Contract:
        """What is called: the step, or a file that a program wrote."""
        return self.step

    def apply(
        self, graph: Graph, sizes: Mapping[str, float], constants: Constants | None = None, /, **arrays: GraphArray
    ) -> GraphArray:
        """Append the call, which makes y of x, and note the layer with all its arrays; returns y."""
        chosen = {**(constants or {}), **self.constants}
        graph.call(self.kernel, sizes, arrays, constants=chosen, layer=self.name)
        return graph.trace(self, **arrays)


@dataclass(frozen=True, kw_only=True)
class Windows:
    """What layers with filters share."""

    name: str
    filters: int
    size: int
    """rows and columns of a filter"""
    stride: int = 1
    pad: int = 0

    def problem(self, x: GraphArray) -> Convolution:
        sizes = image_sizes(x, self.name)
        return Convolution(
            batch=sizes["BATCH"], channels=sizes["C"], height=sizes["H"], width=sizes["W"], filters=self.filters,
            rows=self.size, cols=self.size, stride=self.stride, pad=self.pad,
        )  # fmt: skip

    def parameters(self, graph: Graph, x: GraphArray) -> dict[str, GraphArray]:
        """The weights "w" and the bias."""
        return {
            "w": graph.parameter(f"{self.name}.weight", self.problem(x).filter_shape, x.dtype),
            "bias": graph.parameter(f"{self.name}.bias", (self.filters,), x.dtype),
        }


@dataclass(frozen=True, kw_only=True)
class Convolve(KernelLayer, Windows):
    """A convolution by one file of lab 08 with arrays x, w, y."""

    step: str = "lab08_convolution/07_implicit_gemm"
    backward_step: str = TRAINING + "04_conv_backward_data"
    """that file, or one of lab 08 with arrays x, w, y, which gets the filters turned round"""

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        problem = self.problem(x)
        w = graph.parameter(f"{self.name}.weight", problem.filter_shape, x.dtype)
        y = graph.array(self.name, problem.output_shape, x.dtype)
        return self.apply(graph, problem.sizes, x=x, w=w, y=y)

    def backward(
        self, graph: TrainingGraph, traced: Traced, dy: GraphArray, before: Traced | None = None
    ) -> GraphArray:
        """Append what computes the gradients of the parameters, and of the input, which is returned."""
        x, sizes = traced.x, self.problem(traced.x).sizes
        arrays = {"x": x, "dy": dy, **graph.gradients(self.name)}
        graph.call(TRAINING + "05_conv_backward_filter", sizes, arrays, layer=self.name)
        if before is None:
            return dy  # nobody asks for the slope of the images
        dx = graph.array(f"{x.name}.slope", x.shape)
        if self.backward_step == type(self).backward_step:
            arrays = {"dy": dy, "w": traced.saved["w"], "dx": dx}
            graph.call(self.backward_step, sizes, arrays, layer=self.name)
        else:
            self._convolve_back(graph, traced.saved["w"], dy, dx)
        return dx

    def _convolve_back(self, graph: TrainingGraph, w: GraphArray, dy: GraphArray, dx: GraphArray) -> None:
        """The slopes of the images as a convolution of those of the results."""
        if self.stride != 1 or self.pad >= self.size:
            raise ArgumentError(
                f"{self.name}: a convolution with stride {self.stride} and pad {self.pad} is no convolution backwards",
                next_step=f"Leave backward_step at {type(self).backward_step}.",
            )
        filters, channels, rows, cols = w.shape
        flipped = graph.array(f"{self.name}.flipped", (channels, filters, rows, cols))
        sizes = {"F": filters, "C": channels, "R": rows, "S": cols}
        graph.call(flip(), sizes, {"w": w, "flipped": flipped}, layer=self.name)
        batch, _, height, width = dy.shape
        back = Convolution(
            batch=batch, channels=filters, height=height, width=width, filters=channels, rows=rows, cols=cols,
            pad=rows - 1 - self.pad,
        )  # fmt: skip
        graph.call(self.backward_step, back.sizes, {"x": dy, "w": flipped, "y": dx}, layer=self.name)


@dataclass(frozen=True, kw_only=True)
class ConvolvePool(KernelLayer, Windows):
    """Convolution, bias, ReLU and the mean of windows of 2 x 2 by one kernel."""

    step: str = LAB + "09_conv_relu_pool"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        if self.stride != 1:
            raise ArgumentError(f"{self.name}: {self.step} knows no stride", next_step="Use Convolve with BiasRelu.")
        problem = self.problem(x)
        own = self.parameters(graph, x)
        y = graph.array(self.name, _pooled(problem.output_shape), x.dtype)
        return self.apply(graph, _without_stride(problem), x=x, y=y, **own)


def _without_stride(problem: Convolution) -> dict[str, int]:
    return {name: size for name, size in problem.sizes.items() if name != "STRIDE"}


@dataclass(frozen=True, kw_only=True)
class WinogradWindows(Windows):
    """What convolutions by Winograd's method share: all but the last transform, appended kernel by kernel."""

    def transform_filters(
        self, graph: Graph, x: GraphArray, exact: Matrices, kernel: str | Contract, *, once: bool = True
    ) -> dict[str, GraphArray]:
        """Return weights, bias, and the transformed weights "U"; `once`: in the first run alone."""
        problem, own = self.problem(x), self.parameters(graph, x)
        U = graph.array(f"{self.name}.U", (exact.positions, problem.channels, self.filters), x.dtype)
        sizes = kernel_sizes(problem, exact)["filters"]
        graph.call(kernel, sizes, {"w": own["w"], "U": U}, layer=self.name, once=once)
        return own | {"U": U}

    def multiply(
        self, graph: Graph, x: GraphArray, U: GraphArray, exact: Matrices, images: str | Contract, product: str,
        constants: Constants,
    ) -> tuple[GraphArray, GraphArray]:  # fmt: skip
        """Return the transformed images V and their products M with U."""
        sizes = kernel_sizes(self.problem(x), exact)
        positions, places = exact.positions, sizes["product"]["P"]
        V = graph.array(f"{self.name}.V", (positions, x.shape[1], places), x.dtype)
        M = graph.array(f"{self.name}.M", (positions, self.filters, places), x.dtype)
        graph.call(images, sizes["images"], {"x": x, "V": V}, layer=self.name)
        graph.call(product, sizes["product"], {"U": U, "V": V, "M": M}, constants=constants, layer=self.name)
        return V, M


@dataclass(frozen=True, kw_only=True)
class WinogradPool(WinogradWindows):
    """Convolution by F(tile x tile, size x size), bias, ReLU and the mean of windows of 2 x 2 in the last transform.

    The transforms are written from the exact matrices; the product is lab 09's, with `constants`.
    """

    tile: int = 4
    product: str = "lab09_winograd/03_batched_gemm"
    constants: Constants = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        problem, exact = self.problem(x), matrices(self.tile, self.size)
        of_filters, of_images, _ = (parse_contract(text, name=name) for name, text in sources(exact).items())
        of_results = parse_contract(pooled_results(exact), name="pooled_results.cu")
        own = self.transform_filters(graph, x, exact, of_filters)
        _, M = self.multiply(graph, x, own["U"], exact, of_images, self.product, self.constants)
        y = graph.array(self.name, _pooled(problem.output_shape), x.dtype)
        arrays = {"M": M, "bias": own["bias"], "y": y}
        graph.call(of_results, kernel_sizes(problem, exact)["results"], arrays, layer=self.name)
        return graph.trace(self, x, y, **own)


def _pooled(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-2] // POOL, shape[-1] // POOL)


@dataclass(frozen=True, kw_only=True)
class BiasRelu(KernelLayer):
    """max(x + bias, 0) with the bias of each channel; `of`: the layer whose bias it is."""

    of: str
    step: str = LAB + "01_relu"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes = image_sizes(x, self.name)
        bias = graph.parameter(f"{self.of}.bias", (sizes["C"],), x.dtype)
        y = graph.array(self.name, x.shape, x.dtype)
        sizes = {"BATCH": sizes["BATCH"], "C": sizes["C"], "P": sizes["H"] * sizes["W"]}
        return self.apply(graph, sizes, x=x, bias=bias, y=y)


@dataclass(frozen=True, kw_only=True)
class AveragePool(KernelLayer):
    """The mean of windows of 2 x 2. With `of`, that layer's bias and ReLU come first, in the same kernel."""

    of: str = ""
    step: str = ""
    """the kernel; "": 02_average_pool, or 04_average_pool_tiled with a bias"""

    @property
    def kernel(self) -> str:
        return self.step or LAB + ("04_average_pool_tiled" if self.of else "02_average_pool")

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes = image_sizes(x, self.name)
        y = graph.array(self.name, _pooled(x.shape), x.dtype)
        bias = {"bias": graph.parameter(f"{self.of}.bias", (sizes["C"],), x.dtype)} if self.of else {}
        return self.apply(graph, sizes, x=x, y=y, **bias)


@dataclass(frozen=True, kw_only=True)
class MaxPool(KernelLayer):
    """The largest of windows of 2 x 2; which one it was is saved as a byte."""

    step: str = LAB + "05_max_pool"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes = image_sizes(x, self.name)
        y = graph.array(self.name, _pooled(x.shape), x.dtype)
        index = graph.array(f"{self.name}.index", y.shape, np.uint8)
        return self.apply(graph, sizes, x=x, y=y, index=index)


@dataclass(frozen=True, kw_only=True)
class BiasReluPool:
    """max(x + bias, 0) and the largest, or the mean, of windows of 2 x 2; bits say what passed, for the way back.

    `of`: the layer whose bias it is. There are four bits for each window.
    """

    name: str
    of: str
    average: bool

    @property
    def constants(self) -> Constants:
        return {"AVERAGE": int(self.average), "PACKED": 1}

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes = image_sizes(x, self.name)
        windows = sizes["BATCH"] * sizes["C"] * -(-sizes["H"] // POOL) * -(-sizes["W"] // POOL)
        bias = graph.parameter(f"{self.of}.bias", (sizes["C"],), x.dtype)
        y = graph.array(self.name, _pooled(x.shape), x.dtype)
        saved = graph.array(f"{self.name}.saved", (4 * -(-windows // 32),), np.uint32)
        arrays = {"z": x, "bias": bias, "y": y, "saved": saved}
        graph.call(TRAINING + "08_bias_relu_pool", sizes, arrays, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, saved=saved)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradient of the input, which is returned."""
        dz = graph.array(f"{traced.x.name}.slope", traced.x.shape)
        sizes = image_sizes(traced.x, self.name)
        arrays = {"dy": dy, "saved": traced.saved["saved"], "dz": dz}
        graph.call(TRAINING + "03_pool_relu_backward", sizes, arrays, constants=self.constants, layer=self.name)
        return dz


@dataclass(frozen=True, kw_only=True)
class FullyConnected(KernelLayer):
    """x times the weights [IN,OUT] plus the bias; with `relu`, at least 0."""

    outputs: int
    relu: bool = False
    step: str = LAB + "06_fully_connected"
    back_constants: Constants = field(default_factory=dict, hash=False)
    """of the kernel of the way back"""
    BACK: ClassVar[str] = TRAINING + "02_fc_backward"
    MASK: ClassVar[str] = "RELU"
    """its scalar that says whether x came out of a ReLU, where the gradient of x is zero where x is"""

    def sizes(self, x: GraphArray) -> dict[str, int]:
        return {"BATCH": x.shape[0], "IN": math.prod(x.shape[1:]), "OUT": self.outputs}

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        sizes = self.sizes(x) | {"RELU": int(self.relu)}
        w = graph.parameter(f"{self.name}.weight", (sizes["IN"], self.outputs), x.dtype)
        bias = graph.parameter(f"{self.name}.bias", (self.outputs,), x.dtype)
        y = graph.array(self.name, (sizes["BATCH"], self.outputs), x.dtype)
        return self.apply(graph, sizes, x=x, w=w, bias=bias, y=y)

    def backward(
        self, graph: TrainingGraph, traced: Traced, dy: GraphArray, before: Traced | None = None
    ) -> GraphArray:
        """Append what computes the gradients of the input, which is returned, and of the parameters."""
        x = traced.x
        dx = graph.array(f"{x.name}.slope", x.shape)
        # A convolution's results left a ReLU, too, but its own kernels undo that.
        after_relu = before is not None and isinstance(before.layer, FullyConnected) and before.layer.relu
        sizes = self.sizes(x) | {self.MASK: int(after_relu)}
        arrays = {"x": x, "w": traced.saved["w"], "dy": dy, "dx": dx, **graph.gradients(self.name)}
        graph.call(self.BACK, sizes, arrays, constants=self.back_constants, layer=self.name)
        return dx


@dataclass(frozen=True, kw_only=True)
class Argmax(KernelLayer):
    """The class with the largest score, the first one of equals; int32."""

    name: str = "labels"
    step: str = LAB + "08_argmax"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        y = graph.array(self.name, x.shape[:1], np.int32)
        sizes = {"BATCH": x.shape[0], "CLASSES": x.shape[-1]}
        graph.call(self.kernel, sizes, {"x": x, "label": y}, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y)


# ---------------------------------------------------------------- half precision, on tensor cores


@dataclass(frozen=True, kw_only=True)
class _HalfWindows(KernelLayer):
    """What half-precision layers with filters share."""

    filters: int
    size: int
    pad: int = 0

    def _append(self, graph: Graph, x: GraphArray, *, edge: int, **constants: int) -> GraphArray:
        """Append the call; results are the means of edge x edge. Images with one channel have no axis for it."""
        batch, height, width, *channels = x.shape
        problem = Convolution(
            batch=batch, channels=math.prod(channels), height=height, width=width, filters=self.filters,
            rows=self.size, cols=self.size, pad=self.pad,
        )  # fmt: skip
        w = graph.parameter(f"{self.name}.weight", (self.filters, self.size, self.size, *channels), np.float16)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,))
        places = (problem.out_height // edge, problem.out_width // edge)
        y = graph.array(self.name, (batch, *places, self.filters), np.float16)
        sizes = _without_stride(problem)
        if not channels:
            del sizes["C"]
        return self.apply(graph, sizes, constants, x=x, w=w, bias=bias, y=y)


@dataclass(frozen=True, kw_only=True)
class FirstHalfPool(_HalfWindows):
    """A convolution of images with one channel [BATCH,H,W], bias, ReLU and the mean of 2 x 2."""

    step: str = LAB + "12_fp16_first_layer"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        return self._append(graph, x, edge=POOL)


@dataclass(frozen=True, kw_only=True)
class HalfConvolve(_HalfWindows):
    """A convolution of [BATCH,H,W,C] with bias; `relu` and `pool` (the mean of 2 x 2) where they are asked for."""

    relu: bool = True
    pool: bool = True
    step: str = LAB + "11_fp16_conv_relu_pool"

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        edge = POOL if self.pool else 1
        return self._append(graph, x, edge=edge, POOL=edge, RELU=int(self.relu))


@dataclass(frozen=True, kw_only=True)
class HalfArgmax(Argmax):
    """The class with the largest score: the course's kernel with another type for its scores."""

    @property
    def kernel(self) -> Contract:
        found = Course.find().step(self.step)
        assert found.solution is not None
        text = found.solution.read_text(encoding="utf-8")
        text = text.replace("const float x[", "const half x[").replace("const float* __restrict__ x", "const half* x")
        text = text.replace("const float* scores", "const half* scores")
        text = text.replace("\n\nconstexpr", "\n\n#include <cuda_fp16.h>\n\nconstexpr", 1)
        return parse_contract(text, name="half_argmax.cu")


def half_digits_layers(constants: Mapping[str, Constants] | None = None, *, labels: bool = True) -> tuple[Layer, ...]:
    """The digits' network; `constants`: tile sizes of a layer's kernel, by the layer's name."""
    layers = (
        FirstHalfPool(name="conv1", filters=32, size=5), HalfConvolve(name="conv2", filters=64, size=5),
        HalfConvolve(name="fc1", filters=128, size=4, pool=False),
        HalfConvolve(name="fc2", filters=10, size=1, pool=False, relu=False),
    )  # fmt: skip
    tiled = tuple(replace(layer, constants=(constants or {}).get(layer.name, {})) for layer in layers)
    return (*tiled, HalfArgmax()) if labels else tiled


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
