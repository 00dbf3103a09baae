"""Layers of well-known networks, as far as the course measures them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpschool.model import GpuSpec
from warpschool.nn.convolution import Convolution


@dataclass(frozen=True)
class Layer:
    """What one layer computes and moves for a batch; amounts of float32 numbers."""

    name: str
    products: int
    """multiply-adds for one image"""
    activations: int
    """inputs and results of one image"""
    weights: int
    """read once for the whole batch"""

    def time_ms(self, batch: int, gpu: GpuSpec) -> float:
        """Lower bound: arithmetic at the peak rate, or memory at full bandwidth, whichever takes longer."""
        arithmetic = 2 * self.products * batch / (gpu.fp32_tflops * 1e9)
        memory = 4 * (self.activations * batch + self.weights) / (gpu.dram_gb_per_s * 1e6)
        return max(arithmetic, memory)


def _convolution(name: str, channels: int, size: int, filters: int, window: int, stride: int, pad: int) -> Layer:
    problem = Convolution(
        batch=1, channels=channels, height=size, width=size, filters=filters, rows=window, cols=window,
        stride=stride, pad=pad,
    )  # fmt: skip
    places = problem.out_height * problem.out_width
    return Layer(name, problem.products, channels * size * size + filters * places, filters * problem.terms)


def _dense(name: str, inputs: int, outputs: int) -> Layer:
    return Layer(name, inputs * outputs, inputs + outputs, inputs * outputs)


ALEXNET: tuple[Layer, ...] = (
    _convolution("conv1", 3, 227, 96, 11, 4, 0),
    _convolution("conv2", 96, 27, 256, 5, 1, 2),
    _convolution("conv3", 256, 13, 384, 3, 1, 1),
    _convolution("conv4", 384, 13, 384, 3, 1, 1),
    _convolution("conv5", 384, 13, 256, 3, 1, 1),
    _dense("fc6", 9216, 4096),
    _dense("fc7", 4096, 4096),
    _dense("fc8", 4096, 1000),
)
"""AlexNet (Krizhevsky, Sutskever, Hinton 2012) without its two groups; pooling and activations are left out."""


def _square(channels: int, size: int, filters: int, window: int, stride: int = 1) -> Convolution:
    return Convolution(
        batch=1, channels=channels, height=size, width=size, filters=filters, rows=window, cols=window,
        stride=stride, pad=window // 2,
    )  # fmt: skip


YOLO: Mapping[str, Convolution] = {
    "Y0": _square(3, 544, 32, 3),
    "Y2": _square(32, 272, 64, 3),
    "Y4": _square(64, 136, 128, 3),
    "Y5": _square(128, 136, 64, 1),
    "Y8": _square(128, 68, 256, 3),
    "Y9": _square(256, 68, 128, 1),
    "Y12": _square(256, 34, 512, 3),
    "Y13": _square(512, 34, 256, 1),
    "Y18": _square(512, 17, 1024, 3),
    "Y19": _square(1024, 17, 512, 1),
}
RESNET: Mapping[str, Convolution] = {
    "R1": _square(3, 224, 64, 7, 2),
    "R2": _square(64, 56, 64, 3),
    "R3": _square(64, 56, 64, 1),
    "R4": _square(64, 56, 128, 3, 2),
    "R5": _square(64, 56, 128, 1, 2),
    "R6": _square(128, 28, 128, 3),
    "R7": _square(128, 28, 256, 3, 2),
    "R8": _square(128, 28, 256, 1),
    "R9": _square(256, 14, 256, 3),
    "R10": _square(512, 14, 512, 3, 2),
    "R11": _square(256, 14, 512, 1, 2),
    "R12": _square(512, 7, 512, 3),
}
"""Table 9.1 of the thesis that lab 12 follows (Barton 2022): one image; its last layer, of 28269 filters, is left out.

The table gives the size of the image; PAD is half the filter's, so that stride 1 keeps the size.
"""


def shares(layers: tuple[Layer, ...], batch: int, gpu: GpuSpec) -> Mapping[str, float]:
    """Return each layer's part of the network's time, by the lower bounds."""
    times = {layer.name: layer.time_ms(batch, gpu) for layer in layers}
    return {name: time / sum(times.values()) for name, time in times.items()}
