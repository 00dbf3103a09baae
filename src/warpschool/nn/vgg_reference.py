"""VGG16 in float64 by the definitions: scores, loss and all gradients, which kernels are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpschool.nn.convolution import Convolution, convolve
from warpschool.nn.gradients import conv_backward_data, conv_backward_filter, cross_entropy, fc_backward
from warpschool.nn.vgg16 import Form, VggLayer
from warpschool.nn.vgg_layers import SmallBatchDense
from warpschool.nn.winograd_backward import choose, unpool


@dataclass(frozen=True, eq=False)
class Reference:
    """What one pass forward and backward gives."""

    scores: np.ndarray
    loss: np.ndarray
    """of each image"""
    gradients: Mapping[str, np.ndarray]
    """of the mean loss, by parameter"""


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer as it was applied; `z`: its results before ReLU and pooling."""

    layer: VggLayer
    x: np.ndarray
    z: np.ndarray
    choice: np.ndarray | None = None

    @property
    def pool(self) -> int:
        return getattr(self.layer, "pool", 1)


def reference(form: Form, parameters: Mapping[str, npt.ArrayLike], x: npt.ArrayLike, label: npt.ArrayLike) -> Reference:
    """Return scores, losses and gradients of a batch of images [BATCH,C,SIZE,SIZE] with labels [BATCH]."""
    values = {name: np.asarray(array, np.float64) for name, array in parameters.items()}
    tape: list[_Layer] = []
    value = np.asarray(x, np.float64)
    for layer in form.layers():
        tape.append(_forward(layer, values, value))
        value = _result(tape[-1])
    loss, slope = cross_entropy(value, label)
    gradients: dict[str, np.ndarray] = {}
    for applied in reversed(tape):
        dw, db, slope = _backward(applied, values, slope)
        gradients |= {f"{applied.layer.name}.weight": dw, f"{applied.layer.name}.bias": db}
    return Reference(value, loss, gradients)


def _forward(layer: VggLayer, values: Mapping[str, np.ndarray], x: np.ndarray) -> _Layer:
    w, bias = values[f"{layer.name}.weight"], values[f"{layer.name}.bias"]
    if isinstance(layer, SmallBatchDense):
        flat = x.reshape(len(x), -1)
        return _Layer(layer, flat, flat @ w + bias)
    z = convolve(x, w, pad=1) + bias[:, None, None]
    return _Layer(layer, x, z, choose(z, getattr(layer, "pool", 1))[1])


def _result(applied: _Layer) -> np.ndarray:
    if not isinstance(applied.layer, SmallBatchDense):
        return choose(applied.z, applied.pool)[0]
    return np.maximum(applied.z, 0) if applied.layer.relu else applied.z


def _backward(
    applied: _Layer, values: Mapping[str, np.ndarray], slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of weights, bias and input."""
    layer, w = applied.layer, values[f"{applied.layer.name}.weight"]
    if isinstance(layer, SmallBatchDense):
        dz = slope * (applied.z > 0) if layer.relu else slope
        return fc_backward(applied.x, w, dz)
    shape = applied.z.shape
    assert applied.choice is not None
    dy = slope.reshape(applied.choice.shape)
    dz = unpool(dy, applied.choice, height=shape[2], width=shape[3], pool=applied.pool)
    problem = Convolution.of(applied.x, w, pad=1)
    return (*conv_backward_filter(applied.x, dz, problem), conv_backward_data(dz, w, problem))
