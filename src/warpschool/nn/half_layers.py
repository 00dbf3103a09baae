"""The digits' network in half precision on tensor cores: images as [BATCH,H,W,C], sums in single precision.

    network = Network(half_digits_layers(), kernels, parameters=half_parameters(weights("digits")),
                      image_shape=(28, 28), dtype=np.float16)

Weights are [F,R,S,C]; a fully connected layer is a convolution as large as its image. Biases stay float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.nn.convolution import Convolution
from warpschool.nn.graph import Graph, Value
from warpschool.nn.layers import LAB, POOL, Layer


@dataclass(frozen=True, kw_only=True)
class FirstHalfPool:
    """A convolution of images with one channel [BATCH,H,W], bias, ReLU and the mean of 2 x 2."""

    name: str
    filters: int
    size: int
    pad: int = 0
    step: str = LAB + "12_fp16_first_layer"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, height, width = x.shape
        problem = Convolution(
            batch=batch, channels=1, height=height, width=width, filters=self.filters, rows=self.size, cols=self.size,
            pad=self.pad,
        )  # fmt: skip
        w = graph.parameter(f"{self.name}.weight", (self.filters, self.size, self.size), np.float16)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,))
        shape = (batch, problem.out_height // POOL, problem.out_width // POOL, self.filters)
        y = graph.array(self.name, shape, np.float16)
        sizes = {name: problem.sizes[name] for name in ("BATCH", "H", "W", "F", "R", "S", "PAD")}
        arrays = {"x": x, "w": w, "bias": bias, "y": y}
        graph.call(self.step, sizes, arrays, constants=self.constants, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


@dataclass(frozen=True, kw_only=True)
class HalfConvolve:
    """A convolution of [BATCH,H,W,C] with bias; `relu` and `pool` (the mean of 2 x 2) where they are asked for."""

    name: str
    filters: int
    size: int
    relu: bool = True
    pool: bool = True
    step: str = LAB + "11_fp16_conv_relu_pool"
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forward(self, graph: Graph, x: Value) -> Value:
        batch, height, width, channels = x.shape
        problem = Convolution(
            batch=batch, channels=channels, height=height, width=width, filters=self.filters, rows=self.size,
            cols=self.size,
        )  # fmt: skip
        shape = (self.filters, self.size, self.size, channels)
        w = graph.parameter(f"{self.name}.weight", shape, np.float16)
        bias = graph.parameter(f"{self.name}.bias", (self.filters,))
        edge = POOL if self.pool else 1
        places = (problem.out_height // edge, problem.out_width // edge)
        y = graph.array(self.name, (batch, *places, self.filters), np.float16)
        sizes = {name: size for name, size in problem.sizes.items() if name != "STRIDE"}
        constants = {"POOL": edge, "RELU": int(self.relu), **self.constants}
        graph.call(self.step, sizes, {"x": x, "w": w, "bias": bias, "y": y}, constants=constants, layer=self.name)
        return graph.trace(self, x, y, weight=w, bias=bias)


@dataclass(frozen=True, kw_only=True)
class HalfArgmax:
    """The class with the largest score: the course's kernel with another type for its scores."""

    name: str = "labels"
    step: str = LAB + "08_argmax"

    def forward(self, graph: Graph, x: Value) -> Value:
        y = graph.array(self.name, x.shape[:1], np.int32)
        sizes = {"BATCH": x.shape[0], "CLASSES": x.shape[-1]}
        graph.call(_with_half_scores(self.step), sizes, {"x": x, "label": y}, layer=self.name)
        return graph.trace(self, x, y)


def _with_half_scores(step: str) -> Contract:
    found = Course.find().step(step)
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
