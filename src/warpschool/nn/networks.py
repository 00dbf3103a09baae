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


def shares(layers: tuple[Layer, ...], batch: int, gpu: GpuSpec) -> Mapping[str, float]:
    """Return each layer's part of the network's time, by the lower bounds."""
    times = {layer.name: layer.time_ms(batch, gpu) for layer in layers}
    return {name: time / sum(times.values()) for name, time in times.items()}
