"""How the course's two networks are trained: their layers, with the kernels that suit a device, and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from warpschool.errors import ArgumentError
from warpschool.nn.layers import Convolve, Layer
from warpschool.nn.network import digits_layers, lenet5_layers
from warpschool.nn.optimizers import Sgd
from warpschool.nn.training import Settings
from warpschool.suggest import did_you_mean

NETWORKS = ("digits", "lenet5")
RECIPE = Settings(epochs=40, batch=64, seed=1, optimizer=Sgd(rate=0.05, momentum=0.9, decay=2e-4), shift=2)
"""The settings of the weights that the course ships."""

_CONVOLUTIONS: Mapping[str, tuple[str, Mapping[str, Mapping[str, int]]]] = {
    "sim": ("lab08_convolution/01_direct", {}),  # short code: translated in no time
    "gpu": ("lab08_convolution/12_register_tiles", {"lenet5.conv1": {"IMAGES": 2}}),  # four of 28 x 28 are too many
}
"""By device: the kernel of the convolutions, and constants by network and layer."""


def training_network(name: str, device: str) -> tuple[Layer, ...]:
    """Return a network's layers, up to the scores, for training on "sim" or "gpu". Raises ArgumentError."""
    if name not in NETWORKS:
        raise ArgumentError(f"there is no network {name!r}", next_step=did_you_mean(name, NETWORKS))
    layers = digits_layers("plain", labels=False) if name == "digits" else lenet5_layers(labels=False)
    step, constants = _CONVOLUTIONS[device]
    return tuple(
        _with(layer, step=step, constants=constants.get(f"{name}.{layer.name}", {}))
        if isinstance(layer, Convolve) else layer
        for layer in layers
    )  # fmt: skip


def _with(layer: Convolve, **changes: Any) -> Convolve:
    return replace(layer, **changes)
