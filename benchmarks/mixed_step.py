"""A training step of VGG16 in mixed precision: the kernels of benchmarks/kernels/mixed, in their order.

Images, activations, slopes and the weights that kernels read are halfs in NHWC; sums, gradients of convolutions, the
weights that remember and their momentum are float32. The loss is multiplied by a scale that adapts (update.cu). All
convolutions are implicit products on tensor cores by wgmma, forward, back to the input and for the filters; dense
layers use mma.sync, and their weights' gradients are used where they are made. The first layer's windows are written
out. Everything is enqueued without a look at what was computed, so that a CUDA graph can hold a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.contract import parse_contract
from warpschool.device import Device, DeviceArray, repeated
from warpschool.harness.launcher import Program
from warpschool.nn.vgg16 import SmallBatchDense, VggForm

KERNELS = Path(__file__).parent / "kernels" / "mixed"
BATCH = 32
"""images: what the dense kernels are made for"""
COLS = 32
"""numbers of a window of the first layer, with zeros"""
FIRST_SCALE = 2.0**16
PATIENCE = 2000
"""PyTorch's GradScaler begins so, too, and doubles the scale after so many steps"""
SCALE, FOUND, GOOD, STEPS = range(4)
"""numbers of the state"""

Tiles = dict[str, int]
_PROGRAMS: dict[tuple[Any, ...], Program] = {}


def convolution_tiles(channels: int, filters: int) -> Tiles:
    """Tiles of convolution.cu, forward or back, for so many channels in and out: lab 08's, tuned on an H200."""
    if channels == COLS:
        return {"TSF": 64, "TSP": 256, "TSK": 32, "STAGES": 6, "CLUSTER": 2, "CLUSTER_F": 1}
    if filters == 64:
        return {"TSF": 64, "TSP": 256, "STAGES": 4, "CLUSTER": 2, "CLUSTER_F": 1}
    return {"TSF": 128, "TSP": 256, "STAGES": 3, "CLUSTER": 2, "CLUSTER_F": 1 if filters % 256 else 2}


def gradient_tiles(channels: int, filters: int) -> Tiles:
    """Tiles of filter_gradient.cu."""
    if channels == COLS:
        return {"TSF": 64, "BOXES": 1, "BOX": 32, "PLACES": 128, "CONSUMERS": 1, "STAGES": 8, "CLUSTER": 1,
                "CLUSTER_F": 1}  # fmt: skip
    if filters == 64:
        return {"TSF": 64, "BOXES": 9, "PLACES": 64, "CONSUMERS": 3, "KEPT": 152, "STAGES": 2, "CLUSTER": 1,
                "CLUSTER_F": 1}  # fmt: skip
    if channels % 256 == 0 and filters % 256 == 0:
        return {"TSF": 128, "BOXES": 4, "STAGES": 4, "CLUSTER": 2, "CLUSTER_F": 2}
    pairs = 2 if channels % 128 == 0 else 1  # nine boxes make three tiles: none is left for a second block
    return {"TSF": 128, "BOXES": 3, "STAGES": 5, "CLUSTER": pairs, "CLUSTER_F": 1}


def program(name: str, device: Device, constants: Mapping[str, int] | None = None) -> Program:
    """One of the kernel files, compiled once for each device."""
    key = name, device.name, tuple(sorted((constants or {}).items()))
    if key not in _PROGRAMS:
        text = (KERNELS / f"{name}.cu").read_text(encoding="utf-8")
        _PROGRAMS[key] = Program(parse_contract(text, name=f"{name}.cu"), device=device, constants=constants)
    return _PROGRAMS[key]


@dataclass(frozen=True)
class Layer:
    """A layer's sizes; a dense one has no `side`. `first` and `bias`: where its parameters begin in flat arrays."""

    name: str
    channels: int
    filters: int
    side: int
    window: int
    pool: bool
    first: int
    bias: int

    @property
    def weights(self) -> int:
        return self.filters * self.window**2 * self.channels


def layers(form: VggForm) -> tuple[tuple[Layer, ...], int]:
    """All layers, and how long flat arrays are: convolutions' weights, then all biases, each at a multiple of eight."""
    found: list[dict[str, Any]] = []
    channels, side, first = form.channels, form.size, 0
    for layer in form.layers():
        if isinstance(layer, SmallBatchDense):
            inputs = channels * side**2 if side else channels
            found.append({"name": layer.name, "channels": inputs, "filters": layer.outputs, "side": 0, "window": 1,
                          "pool": False, "first": 0})  # fmt: skip
            channels, side = layer.outputs, 0
            continue
        pool, is_first = getattr(layer, "pool", 1) == 2, not found
        columns, window = (COLS, 1) if is_first else (channels, 3)
        found.append({"name": layer.name, "channels": columns, "filters": layer.filters, "side": side,
                      "window": window, "pool": pool, "first": first})  # fmt: skip
        first += layer.filters * window**2 * columns
        channels, side = layer.filters, side // 2 if pool else side
    for values in found:
        values["bias"] = first
        first += -(-values["filters"] // 8) * 8
    return tuple(Layer(**values) for values in found), first


def to_ours(form: VggForm, layer: Layer, weight: np.ndarray, channels: int) -> np.ndarray:
    """A weight as warpschool and PyTorch have it (dense ones: inputs x outputs), in the order of our kernels."""
    if layer.side == 0:
        if layer.name == "fc1":  # inputs of the first come as channels x rows x columns
            side = form.size // 32
            weight = weight.reshape(-1, side, side, weight.shape[1]).transpose(1, 2, 0, 3).reshape(weight.shape)
        return np.ascontiguousarray(weight.T)
    weight = weight.transpose(0, 2, 3, 1)
    if layer.window == 1:
        weight = weight.reshape(layer.filters, 9 * channels)
        weight = np.pad(weight, ((0, 0), (0, COLS - 9 * channels)))
    return np.ascontiguousarray(weight)


def to_theirs(form: VggForm, layer: Layer, weight: np.ndarray, channels: int) -> np.ndarray:
    """The way back."""
    if layer.side == 0:
        weight = weight.reshape(layer.filters, layer.channels).T
        if layer.name == "fc1":
            side = form.size // 32
            weight = weight.reshape(side, side, -1, layer.filters).transpose(2, 0, 1, 3)
        return np.ascontiguousarray(weight.reshape(layer.channels, layer.filters))
    if layer.window == 1:
        weight = weight.reshape(layer.filters, COLS)[:, : 9 * channels].reshape(layer.filters, 3, 3, channels)
    return np.ascontiguousarray(weight.reshape(layer.filters, 3, 3, -1).transpose(0, 3, 1, 2))


@dataclass(frozen=True)
class Call:
    """One file's launches with their arrays; `part` says what for, `layer` for whom."""

    part: str
    layer: str
    program: Program
    sizes: Mapping[str, float]
    arrays: Mapping[str, DeviceArray]

    def enqueue(self, stream: Any = None) -> Callable[[], None]:
        """Launch it; returns what launches it again."""
        return repeated(self.program.enqueue(self.sizes, self.arrays, **({} if stream is None else {"stream": stream})))


class MixedStep:
    """Weights, momentum and all arrays of a step on a device, and the calls that make it."""

    def __init__(
        self, form: VggForm, start: Mapping[str, np.ndarray], *, device: Device, rate: float, momentum: float,
        blocks: int = 132, scale: float = FIRST_SCALE,
    ) -> None:  # fmt: skip
        self.form, self.device, self.rate, self.momentum, self.blocks = form, device, rate, momentum, blocks
        self.layers, self.flat = layers(form)
        self.dense = [layer for layer in self.layers if layer.side == 0]
        self.convolutions = [layer for layer in self.layers if layer.side]
        self.arrays: dict[str, DeviceArray] = {}
        self._allocate(start, scale)
        self.calls = tuple(self._calls())

    def _new(self, name: str, shape: Any, dtype: Any) -> DeviceArray:
        self.arrays[name] = self.device.zeros(shape, dtype, name=name)
        return self.arrays[name]

    def _allocate(self, start: Mapping[str, np.ndarray], scale: float) -> None:
        form, new = self.form, self._new
        host = np.zeros(self.flat, np.float32)
        for layer in self.layers:
            weight = to_ours(form, layer, start[f"{layer.name}.weight"], form.channels)
            host[layer.bias : layer.bias + layer.filters] = start[f"{layer.name}.bias"]
            if layer.side:
                host[layer.first : layer.first + layer.weights] = weight.ravel()
            else:
                for kind, values in (("weight", weight), ("half", weight.astype(np.float16))):
                    self.arrays[f"{layer.name} {kind}"] = self.device.asarray(values, name=f"{layer.name} {kind}")
                new(f"{layer.name} velocity", weight.shape, np.float32)
        self.arrays["weights"] = self.device.asarray(host, name="weights")
        self.arrays["halfs"] = self.device.asarray(host.astype(np.float16), name="halfs")
        new("gradients", self.flat, np.float32)
        new("velocity", self.flat, np.float32)
        state = np.zeros(8, np.float32)
        state[SCALE] = scale
        self.arrays["state"] = self.device.asarray(state, name="state")
        new("loss", 1, np.float32)
        new("images", (BATCH, form.size, form.size, form.channels), np.float32)
        new("label", BATCH, np.int32)
        new("columns", BATCH * form.size**2 * COLS, np.float16)
        for layer in self.convolutions:
            count = BATCH * layer.side**2 * layer.filters
            new(f"{layer.name} y", count, np.float16)
            new(f"{layer.name} dy", count, np.float16)
            if layer.pool:
                new(f"{layer.name} dp", count // 4, np.float16)
                if layer is not self.convolutions[-1]:
                    new(f"{layer.name} p", count // 4, np.float16)
        self._allocate_dense()

    def _allocate_dense(self) -> None:
        """Inputs of all dense layers lie side by side: finite.cu looks at them."""
        inputs = self._new("dense inputs", BATCH * sum(layer.channels for layer in self.dense), np.float16)
        begin = 0
        for layer in self.dense:
            end = begin + BATCH * layer.channels
            self.arrays[f"{layer.name} x"] = inputs[begin:end]
            self._new(f"{layer.name} dy", BATCH * layer.filters, np.float16)
            begin = end
        self._new("scores", BATCH * self.dense[-1].filters, np.float32)
        self.arrays[f"{self.convolutions[-1].name} p"] = self.arrays[f"{self.dense[0].name} x"]

    def _part(self, name: str, layer: Layer, *, bias: bool = False) -> DeviceArray:
        """A layer's part of a flat array."""
        first, count = (layer.bias, layer.filters) if bias else (layer.first, layer.weights)
        return self.arrays[name][first : first + count]

    def _call(
        self, part: str, layer: str, name: str, sizes: Mapping[str, float], arrays: Mapping[str, DeviceArray],
        tiles: Mapping[str, int] | None = None,
    ) -> Call:  # fmt: skip
        constants = dict(tiles or {})
        if name in ("convolution", "filter_gradient"):
            constants["BLOCKS"] = self.blocks // constants["CLUSTER"] * constants["CLUSTER"]
        return Call(part, layer, program(name, self.device, constants), sizes, arrays)

    def _input(self, number: int) -> DeviceArray:
        """What a convolution reads."""
        if number == 0:
            return self.arrays["columns"]
        before = self.convolutions[number - 1]
        return self.arrays[f"{before.name} {'p' if before.pool else 'y'}"]

    def _calls(self) -> Iterator[Call]:
        yield from self._forward()
        yield from self._dense_forward()
        yield from self._dense_backward()
        yield from self._backward()
        yield from self._updates()

    def _forward(self) -> Iterator[Call]:
        form, a = self.form, self.arrays
        sizes = {"BATCH": BATCH, "H": form.size, "W": form.size}
        arrays = {"x": a["images"], "cols": a["columns"]}
        yield self._call("windows", "conv1", "first_windows", sizes, arrays, {"C": form.channels})
        for number, layer in enumerate(self.convolutions):
            y = a[f"{layer.name} y"]
            bias = self._part("weights", layer, bias=True)
            arrays = {"x": self._input(number), "w": self._part("halfs", layer), "kept": y, "bias": bias, "y": y,
                      "sums": self._part("gradients", layer, bias=True)}  # fmt: skip
            tiles = convolution_tiles(layer.channels, layer.filters) | {"TURNED": 0, "END": 1}
            yield self._call("forward", layer.name, "convolution", _sizes(layer), arrays, tiles)
            if layer.pool:
                image = {"BATCH": BATCH, "H": layer.side, "W": layer.side, "C": layer.filters}
                yield self._call("pool", layer.name, "pool", image, {"y": y, "p": a[f"{layer.name} p"]})

    def _dense_forward(self) -> Iterator[Call]:
        a = self.arrays
        for layer, after in zip(self.dense, (*self.dense[1:], None), strict=True):
            y = a[f"{after.name} x"] if after else a[f"{layer.name} dy"]
            arrays = {"x": a[f"{layer.name} x"], "w": a[f"{layer.name} half"],
                      "bias": self._part("weights", layer, bias=True), "y": y,
                      "scores": a["scores"] if not after else a["gradients"][: BATCH * layer.filters]}  # fmt: skip
            sizes = {"IN": layer.channels, "OUT": layer.filters}
            yield self._call("forward", layer.name, "dense", sizes, arrays, {"LAST": int(after is None)})

    def _dense_backward(self) -> Iterator[Call]:
        a, last = self.arrays, self.dense[-1]
        yield self._call(
            "loss", last.name, "loss", {"BATCH": BATCH, "N": last.filters},
            {"scores": a["scores"], "label": a["label"], "slopes": a[f"{last.name} dy"],
             "sums": self._part("gradients", last, bias=True), "mean": a["loss"], "state": a["state"]},
        )  # fmt: skip
        for layer, before in zip(self.dense[::-1], (*self.dense[-2::-1], None), strict=True):
            dx = a[f"{before.name} dy"] if before else a[f"{self.convolutions[-1].name} dp"]
            sums = self._part("gradients", before, bias=True) if before else a["gradients"][: layer.channels]
            arrays = {"dy": a[f"{layer.name} dy"], "w": a[f"{layer.name} half"], "kept": a[f"{layer.name} x"],
                      "dx": dx, "sums": sums}  # fmt: skip
            sizes = {"IN": layer.channels, "OUT": layer.filters}
            yield self._call("back", layer.name, "dense_backward", sizes, arrays, {"PASSES": int(before is None)})

    def _backward(self) -> Iterator[Call]:
        a = self.arrays
        for number in reversed(range(len(self.convolutions))):
            layer = self.convolutions[number]
            y, dy = a[f"{layer.name} y"], a[f"{layer.name} dy"]
            if layer.pool:
                image = {"BATCH": BATCH, "H": layer.side, "W": layer.side, "C": layer.filters}
                arrays = {"dp": a[f"{layer.name} dp"], "y": y, "dy": dy,
                          "sums": self._part("gradients", layer, bias=True)}  # fmt: skip
                yield self._call("back through pooling", layer.name, "pool_backward", image, arrays)
            arrays = {"dy": dy, "x": self._input(number), "dw": self._part("gradients", layer)}
            tiles = gradient_tiles(layer.channels, layer.filters)
            yield self._call("filters", layer.name, "filter_gradient", _sizes(layer), arrays, tiles)
            if number == 0:
                return
            before = self.convolutions[number - 1]
            dx = a[f"{before.name} {'dp' if before.pool else 'dy'}"]
            arrays = {"x": dy, "w": self._part("halfs", layer), "kept": self._input(number),
                      "bias": self._part("weights", before, bias=True), "y": dx,
                      "sums": self._part("gradients", before, bias=True)}  # fmt: skip
            turned = _sizes(layer) | {"C": layer.filters, "F": layer.channels}
            tiles = convolution_tiles(layer.filters, layer.channels) | {"TURNED": 1, "END": 0 if before.pool else 2}
            yield self._call("back", layer.name, "convolution", turned, arrays, tiles)

    def _updates(self) -> Iterator[Call]:
        a = self.arrays
        inputs = a["dense inputs"]
        arrays = {"gradients": a["gradients"], "activations": inputs, "state": a["state"]}
        yield self._call("finite", "all", "finite", {"N": self.flat, "M": inputs.size}, arrays)
        how = {"rate": self.rate, "momentum": self.momentum}
        for layer in self.dense:
            arrays = {"dy": a[f"{layer.name} dy"], "x": a[f"{layer.name} x"], "w": a[f"{layer.name} weight"],
                      "velocity": a[f"{layer.name} velocity"], "copy": a[f"{layer.name} half"],
                      "state": a["state"]}  # fmt: skip
            sizes = {"IN": layer.channels, "OUT": layer.filters}
            yield self._call("update", layer.name, "dense_update", sizes | how, arrays)
        arrays = {"gradients": a["gradients"], "w": a["weights"], "velocity": a["velocity"], "copy": a["halfs"],
                  "state": a["state"]}  # fmt: skip
        yield self._call("update", "all", "update", {"N": self.flat, "patience": PATIENCE} | how, arrays)

    def enqueue(self, stream: Any = None) -> None:
        """A step on the images and labels that the device holds."""
        self.arrays["gradients"].fill(0)
        self.arrays["loss"].fill(0)
        for call in self.calls:
            call.enqueue(stream)

    def give(self, images: np.ndarray, label: np.ndarray) -> None:
        """Images as channels x rows x columns, and their labels, for the next steps."""
        self.arrays["images"].set(np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
        self.arrays["label"].set(label.astype(np.int32))

    @property
    def state(self) -> np.ndarray:
        return self.arrays["state"].get()

    @property
    def loss(self) -> float:
        return float(self.arrays["loss"].get()[0])

    def parameters(self, kind: str = "weight") -> dict[str, np.ndarray]:
        """All parameters ("weight"), or their momentum ("velocity"), in PyTorch's layout, by warpschool's names."""
        flat = self.arrays["weights" if kind == "weight" else kind].get()
        found = {}
        for layer in self.layers:
            values = flat[layer.first : layer.first + layer.weights] if layer.side else None
            if values is None:
                values = self.arrays[f"{layer.name} {kind}"].get()
            found[f"{layer.name}.weight"] = to_theirs(self.form, layer, values, self.form.channels)
            found[f"{layer.name}.bias"] = flat[layer.bias : layer.bias + layer.filters]
        return found


def _sizes(layer: Layer) -> dict[str, float]:
    return {"BATCH": BATCH, "C": layer.channels, "H": layer.side, "W": layer.side, "F": layer.filters,
            "R": layer.window, "S": layer.window}  # fmt: skip
