"""A transformer that reads characters: its layers, its first weights, and what it computes in float64.

    form = Transformer(vocabulary=40, length=256, cols=256, heads=4, blocks=4)
    graph = build_training(form.layers(), batch=32, image_shape=(form.length,), dtype=np.int32)
    parameters = form.first_parameters(seed=1)
    scores, looks = form.exact(parameters, codes)               # float64 [BATCH,LENGTH,VOCAB], a table a head

Norms come before what they are for, and what was there before is added behind it (GPT-2: Radford et al. 2019).
Products, attention, norms, loss and optimizer are steps of the course; what is left is in the folder `kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract, parse_contract
from warpschool.errors import ArgumentError
from warpschool.nn.graph import Graph, GraphArray, Traced, TrainingGraph
from warpschool.nn.layers import Constants, FullyConnected, Layer, backward

LAB = "lab16_attention/"
HEAD_SIZES = (64, 128)
"""Numbers of a head that the course's attention in float32 can have."""
EPSILON = 1e-5
"""What lab 16's norms add to a variance."""
SPREAD = 0.02
"""Of the first weights, as in GPT-2."""
Float64 = npt.NDArray[np.float64]


@cache
def _own(name: str) -> Contract:
    """One of this package's own kernels."""
    path = Path(__file__).parent / "kernels" / f"{name}.cu"
    return parse_contract(path.read_text(encoding="utf-8"), name=path.name)


def _add(graph: Graph, a: GraphArray, b: GraphArray, name: str, layer: str) -> GraphArray:
    total = graph.array(name, a.shape)
    graph.call(_own("add"), {"N": a.size}, {"a": a, "b": b, "y": total}, layer=layer)
    return total


# ---------------------------------------------------------------- layers


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """A row for each character of texts [BATCH,LENGTH] (int32), plus one for its place: [BATCH*LENGTH,COLS]."""

    name: str
    vocabulary: int
    cols: int

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        if len(x.shape) != 2 or x.dtype != np.int32:
            raise ArgumentError(f"{self.name} needs texts [BATCH,LENGTH] of int32, not {list(x.shape)} of {x.dtype}")
        table = graph.parameter(f"{self.name}.weight", (self.vocabulary, self.cols))
        places = graph.parameter(f"{self.name}.places", (x.shape[1], self.cols))
        y = graph.array(self.name, (x.size, self.cols))
        arrays = {"x": x, "table": table, "places": places, "y": y}
        graph.call(_own("embedding"), self._sizes(x), arrays, layer=self.name)
        return graph.trace(self, x, y)

    def _sizes(self, x: GraphArray) -> dict[str, int]:
        return {"BATCH": x.shape[0], "LENGTH": x.shape[1], "VOCAB": self.vocabulary, "COLS": self.cols}

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradients of both tables; nobody asks for the slope of characters."""
        table, places = (graph.gradient(f"{self.name}.{what}") for what in ("weight", "places"))
        arrays = {"x": traced.x, "dy": dy, "dtable": table, "dplaces": places}
        graph.call(_own("embedding_backward"), self._sizes(traced.x), arrays, layer=self.name)
        return dy


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """Each row less its mean, divided by its standard deviation, times the weight plus the bias."""

    name: str

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        rows, cols = x.shape
        gamma = graph.parameter(f"{self.name}.weight", (cols,))
        beta = graph.parameter(f"{self.name}.bias", (cols,))
        y = graph.array(self.name, x.shape)
        mean, rstd = (graph.array(f"{self.name}.{what}", (rows,)) for what in ("mean", "rstd"))
        arrays = {"x": x, "gamma": gamma, "beta": beta, "y": y, "mean": mean, "rstd": rstd}
        graph.call(LAB + "02_layer_norm", self._sizes(x), arrays, layer=self.name)
        return graph.trace(self, x, y, gamma=gamma, mean=mean, rstd=rstd)

    def _sizes(self, x: GraphArray) -> dict[str, int]:
        return {"centred": 1, "ROWS": x.shape[0], "COLS": x.shape[1]}

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradients of the parameters, and of the input, which is returned."""
        dx = graph.array(f"{traced.x.name}.slope", traced.x.shape)
        gradients = {f"d{own}": graph.gradient(f"{self.name}.{what}")
                     for own, what in (("gamma", "weight"), ("beta", "bias"))}  # fmt: skip
        arrays = {"x": traced.x, "dy": dy, "dx": dx, **traced.saved, **gradients}
        graph.call(LAB + "03_norm_backward", self._sizes(traced.x), arrays, layer=self.name)
        return dx


@dataclass(frozen=True, kw_only=True)
class CausalAttention:
    """Attention of all heads: of queries, keys and values in rows [BATCH*LENGTH,3*COLS], to [BATCH*LENGTH,COLS]."""

    name: str
    heads: int
    length: int

    def _head(self, cols: int) -> int:
        """Numbers of a head. Raises ArgumentError."""
        if cols % self.heads or cols // self.heads not in HEAD_SIZES:
            told = " or ".join(str(size) for size in HEAD_SIZES)
            raise ArgumentError(
                f"{self.name}: rows of {cols} numbers for {self.heads} heads",
                next_step=f"Take {told} numbers for each head.",
            )
        return cols // self.heads

    def _rearranged(self, graph: Graph, x: GraphArray, name: str, *, d: int, back: bool) -> GraphArray:
        """Rows to heads [SHARES,BATCH*HEADS,LENGTH,D], or back."""
        if back:
            shares, texts = x.shape[0], x.shape[1] // self.heads
            shape: Sequence[int] = (texts * self.length, shares * self.heads * d)
        else:
            shares, texts = x.shape[1] // (self.heads * d), x.shape[0] // self.length
            shape = (shares, texts * self.heads, self.length, d)
        y = graph.array(name, shape)
        sizes = {"BATCH": texts, "LENGTH": self.length, "SHARES": shares, "HEADS": self.heads, "back": int(back)}
        graph.call(_own("heads"), sizes, {"x": x, "y": y}, constants={"D": d}, layer=self.name)
        return y

    def _sizes(self, heads: GraphArray) -> dict[str, int]:
        return {"causal": 1, "HEADS": heads.shape[1], "N": self.length}

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        d = self._head(x.shape[1] // 3)
        heads = self._rearranged(graph, x, f"{self.name}.heads", d=d, back=False)
        out = graph.array(f"{self.name}.out", (1, *heads.shape[1:]))
        log = graph.array(f"{self.name}.log", heads.shape[1:3])
        arrays = dict(zip("QKV", _shares(heads), strict=True)) | {"O": out, "L": log}
        graph.call(LAB + "05_fused", self._sizes(heads), arrays, constants={"D": d}, layer=self.name)
        y = self._rearranged(graph, out, self.name, d=d, back=True)
        return graph.trace(self, x, y, heads=heads, out=out, log=log)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradient of the input, which is returned."""
        heads, out = traced.saved["heads"], traced.saved["out"]
        d = heads.shape[-1]
        change = self._rearranged(graph, dy, f"{out.name}.slope", d=d, back=False)
        slopes = graph.array(f"{heads.name}.slope", heads.shape)
        arrays = {**dict(zip("QKV", _shares(heads), strict=True)), "O": out, "dO": change, "L": traced.saved["log"]}
        arrays |= {f"d{name}": part for name, part in zip("QKV", _shares(slopes), strict=True)}
        graph.call(LAB + "07_backward", self._sizes(heads), arrays, constants={"D": d}, layer=self.name)
        return self._rearranged(graph, slopes, f"{traced.x.name}.slope", d=d, back=True)


def _shares(heads: GraphArray) -> list[GraphArray]:
    """Queries, keys and values of a table that has them one after the other."""
    shape = heads.shape[1:]
    return [replace(heads, shape=shape, first=n * math.prod(shape)) for n in range(heads.shape[0])]


@dataclass(frozen=True, kw_only=True)
class Linear(FullyConnected):
    """A fully connected layer for thousands of rows: its way back by lab 05's and lab 09's tiles.

    The gradient of the weights has few tiles and long sums, so the rows are shared out and the products added.
    """

    DATA: ClassVar[str] = "lab05_work_per_thread/09_transposes"
    PARTS: ClassVar[str] = "lab09_winograd/03_batched_gemm"
    TILES: ClassVar[Constants] = {
        "TSM": 64, "TSN": 128, "TSK": 8, "WSM": 32, "WSN": 64, "WPTM": 8, "WPTN": 8, "TRANSPOSE_B": 1,
    }  # fmt: skip
    """of the product for the slope of the input"""
    TILE: ClassVar[tuple[int, int]] = (64, 128)
    """rows and columns of a tile of the weights' gradient"""
    BLOCKS: ClassVar[int] = 512
    """that fill a GPU: there are to be as many tiles, if rows suffice"""
    LEAST: ClassVar[int] = 64
    """rows of a share"""

    def shares(self, rows: int, inputs: int) -> int:
        """Into how many parts the rows go: a power of two by which they can be divided."""
        tiles = -(-inputs // self.TILE[0]) * -(-self.outputs // self.TILE[1])
        count = 1
        while count * tiles < self.BLOCKS and rows % (2 * count) == 0 and rows // (2 * count) >= self.LEAST:
            count *= 2
        return count

    def backward(
        self, graph: TrainingGraph, traced: Traced, dy: GraphArray, before: Traced | None = None
    ) -> GraphArray:
        """Append what computes the gradients of the input, which is returned, and of the parameters."""
        x, (rows, inputs) = traced.x, traced.x.shape
        dx = graph.array(f"{x.name}.slope", x.shape)
        sizes = {"M": rows, "N": inputs, "K": self.outputs}
        arrays = {"A": dy, "B": traced.saved["w"], "C": dx}
        graph.call(self.DATA, sizes, arrays, constants=self.TILES, layer=self.name)
        count = self.shares(rows, inputs)
        parts = graph.array(f"{self.name}.parts", (count, inputs, self.outputs))
        sizes = {"POSITIONS": count, "C": rows // count, "F": inputs, "P": self.outputs}
        graph.call(self.PARTS, sizes, {"U": x, "V": dy, "M": parts}, layer=self.name)
        sizes = {"ROWS": rows, "SHARES": count, "IN": inputs, "OUT": self.outputs}
        arrays = {"dy": dy, "parts": parts, **graph.gradients(self.name)}
        graph.call(_own("linear_sums"), sizes, arrays, layer=self.name)
        return dx


@dataclass(frozen=True, kw_only=True)
class Gelu:
    """x times the probability that a normal number is below x."""

    name: str

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        y = graph.array(self.name, x.shape)
        graph.call(_own("gelu"), {"N": x.size}, {"x": x, "y": y}, layer=self.name)
        return graph.trace(self, x, y)

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append what computes the gradient of the input, which is returned."""
        dx = graph.array(f"{traced.x.name}.slope", traced.x.shape)
        graph.call(_own("gelu_backward"), {"N": dx.size}, {"x": traced.x, "dy": dy, "dx": dx}, layer=self.name)
        return dx


@dataclass(frozen=True, kw_only=True)
class Residual:
    """x plus what some layers make of it."""

    name: str
    layers: tuple[Layer, ...]

    def forward(self, graph: Graph, x: GraphArray) -> GraphArray:
        outside, graph.tape = graph.tape, []
        value = x
        for layer in self.layers:
            value = layer.forward(graph, value)
        inside, graph.tape = tuple(graph.tape), outside
        graph.tape.append(Traced(self, x, _add(graph, x, value, self.name, self.name), {}, inside))
        return graph.tape[-1].y

    def backward(self, graph: TrainingGraph, traced: Traced, dy: GraphArray, _: Traced | None = None) -> GraphArray:
        """Append the layers' way back; the slope of the input, which is returned, came by two ways."""
        by_layers = backward(graph, traced.inside, dy)
        return _add(graph, dy, by_layers, f"{self.name}.slopes", self.name)


# ---------------------------------------------------------------- the network


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """What makes a network: characters it knows, the longest text, numbers of a row, heads, blocks."""

    vocabulary: int
    length: int
    cols: int
    heads: int
    blocks: int

    def layers(self, linear: type[FullyConnected] = FullyConnected) -> tuple[Layer, ...]:
        """All layers, up to the scores of what comes next; `linear`: Linear for thousands of characters at a time."""
        found: list[Layer] = [Embedding(name="embedding", vocabulary=self.vocabulary, cols=self.cols)]
        for number in range(1, self.blocks + 1):
            block = f"block{number}"
            found += [
                Residual(name=f"{block}.looked", layers=(
                    LayerNorm(name=f"{block}.norm1"), linear(name=f"{block}.qkv", outputs=3 * self.cols),
                    CausalAttention(name=f"{block}.attention", heads=self.heads, length=self.length),
                    linear(name=f"{block}.joined", outputs=self.cols),
                )),
                Residual(name=f"{block}.thought", layers=(
                    LayerNorm(name=f"{block}.norm2"), linear(name=f"{block}.wide", outputs=4 * self.cols),
                    Gelu(name=f"{block}.gelu"), linear(name=f"{block}.narrow", outputs=self.cols),
                )),
            ]  # fmt: skip
        return (*found, LayerNorm(name="norm"), linear(name="scores", outputs=self.vocabulary))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' shapes, in the order of the layers."""
        cols = self.cols
        found: dict[str, tuple[int, ...]] = {
            "embedding.weight": (self.vocabulary, cols), "embedding.places": (self.length, cols)
        }  # fmt: skip

        def linear(name: str, inputs: int, outputs: int) -> None:
            found.update({f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)})

        def norm(name: str) -> None:
            found.update({f"{name}.weight": (cols,), f"{name}.bias": (cols,)})

        for block in (f"block{number}" for number in range(1, self.blocks + 1)):
            norm(f"{block}.norm1")
            linear(f"{block}.qkv", cols, 3 * cols)
            linear(f"{block}.joined", cols, cols)
            norm(f"{block}.norm2")
            linear(f"{block}.wide", cols, 4 * cols)
            linear(f"{block}.narrow", 4 * cols, cols)
        norm("norm")
        linear("scores", cols, self.vocabulary)
        return found

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def first_parameters(self, seed: int) -> dict[str, np.ndarray]:
        """Small, normal weights as GPT-2's; those before a sum smaller, the more sums there are; norms do nothing."""
        rng = np.random.default_rng([seed, 0])
        values = {}
        for name, shape in self.shapes.items():
            if len(shape) == 1:
                values[name] = np.full(shape, float("norm" in name and name.endswith(".weight")), np.float32)
                continue
            summed = name.split(".")[1] in ("joined", "narrow")
            spread = SPREAD / math.sqrt(2 * self.blocks) if summed else SPREAD
            values[name] = (rng.standard_normal(shape) * spread).astype(np.float32)
        return values

    # ------------------------------------------------------------ the same in float64

    def exact(
        self, parameters: Mapping[str, npt.ArrayLike], codes: npt.ArrayLike
    ) -> tuple[Float64, list[Float64]]:
        """Scores [BATCH,LENGTH,VOCAB] of texts, and what each block's heads look at: [BATCH,HEADS,LENGTH,LENGTH]."""
        p = {name: np.asarray(values, np.float64) for name, values in parameters.items()}
        codes = np.asarray(codes)

        def linear(value: Float64, name: str) -> Float64:
            return value @ p[f"{name}.weight"] + p[f"{name}.bias"]

        def norm(value: Float64, name: str) -> Float64:
            middle = value - value.mean(axis=-1, keepdims=True)
            deviation = np.sqrt((middle**2).mean(axis=-1, keepdims=True) + EPSILON)
            return middle / deviation * p[f"{name}.weight"] + p[f"{name}.bias"]

        x = p["embedding.weight"][codes] + p["embedding.places"][: codes.shape[1]]
        looks = []
        for block in (f"block{number}" for number in range(1, self.blocks + 1)):
            seen, look = self._attend(linear(norm(x, f"{block}.norm1"), f"{block}.qkv"))
            looks.append(look)
            x = x + linear(seen, f"{block}.joined")
            wide = linear(norm(x, f"{block}.norm2"), f"{block}.wide")
            below = 0.5 * (1 + np.asarray(_erf(wide / math.sqrt(2)), np.float64))
            x = x + linear(wide * below, f"{block}.narrow")
        return linear(norm(x, "norm"), "scores"), looks

    def _attend(self, qkv: Float64) -> tuple[Float64, Float64]:
        batch, length, _ = qkv.shape
        q, k, v = qkv.reshape(batch, length, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        look = powers / powers.sum(axis=-1, keepdims=True)
        return (look @ v).swapaxes(1, 2).reshape(batch, length, -1), look


_erf = np.frompyfunc(math.erf, 1, 1)
