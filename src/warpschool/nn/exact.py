"""A network's loss in float64, layer by layer, for whoever compares a training step with finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn import gradients
from warpschool.nn.backward import BiasReluPool, training_layers
from warpschool.nn.convolution import convolve
from warpschool.nn.layers import Convolve, FullyConnected, Layer


def scores(layers: Sequence[Layer], parameters: Mapping[str, npt.ArrayLike], images: npt.ArrayLike) -> np.ndarray:
    """Return what the last layer gives. Raises ArgumentError for layers that cannot be trained here."""
    value = np.asarray(images, np.float64)
    exact = {name: np.asarray(values, np.float64) for name, values in parameters.items()}
    for layer in training_layers(layers):
        if isinstance(layer, Convolve):
            value = convolve(value, exact[f"{layer.name}.weight"], stride=layer.stride, pad=layer.pad)
        elif isinstance(layer, BiasReluPool):
            value = gradients.bias_relu_pool(value, exact[f"{layer.of}.bias"], average=layer.average)[0]
        elif isinstance(layer, FullyConnected):
            flat = value.reshape(len(value), -1)
            value = flat @ exact[f"{layer.name}.weight"] + exact[f"{layer.name}.bias"]
            value = np.maximum(value, 0) if layer.relu else value
        else:
            raise ArgumentError(f"{layer.name} is not known here")
    return value


def mean_loss(
    layers: Sequence[Layer], parameters: Mapping[str, npt.ArrayLike], images: npt.ArrayLike, labels: npt.ArrayLike
) -> float:
    """Return the mean cross entropy of a batch."""
    return float(gradients.cross_entropy(scores(layers, parameters, images), labels)[0].mean())
