"""Optimizers: settings, the state they keep for each weight, and the launch that makes one step of all weights.

    optimizer = Sgd(rate=0.05, momentum=0.9)            # or Adam(rate=1e-3)
    updater = Updater(optimizer, kernels, parameters, gradients)     # arrays on the device
    updater.step(1, rate=0.05)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from warpschool.device import DeviceArray
from warpschool.nn.graph import Call
from warpschool.nn.session import Kernels


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Gradient descent with momentum: v = momentum v + (g + decay w), w = w - rate v."""

    rate: float = 0.05
    momentum: float = 0.9
    decay: float = 0.0
    STEP: ClassVar[str] = "lab11_training/06_sgd_momentum"
    STATE: ClassVar[tuple[str, ...]] = ("v",)

    def scalars(self, step: int, rate: float) -> dict[str, float]:
        return {"rate": rate, "momentum": self.momentum, "decay": self.decay}


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma, Ba 2015)."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    STEP: ClassVar[str] = "lab11_training/07_adam"
    STATE: ClassVar[tuple[str, ...]] = ("m", "v")

    def scalars(self, step: int, rate: float) -> dict[str, float]:
        return {
            "rate": rate, "beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon,
            "correction1": 1 / (1 - self.beta1**step), "correction2": 1 / (1 - self.beta2**step),
        }  # fmt: skip


Optimizer = Sgd | Adam


class Updater:
    """An optimizer with its state on a device. Further keywords, `stream` among them, go to each launch."""

    def __init__(
        self, optimizer: Optimizer, kernels: Kernels, parameters: DeviceArray, gradients: DeviceArray, **launching: Any
    ) -> None:
        self.optimizer, self.launching = optimizer, launching
        self.program = kernels.program(Call(optimizer.STEP, {}, {}))
        self.state = {
            name: kernels.device.zeros(parameters.shape, np.float32, name=name) for name in optimizer.STATE
        }
        self.arrays: Mapping[str, DeviceArray] = {"w": parameters, "g": gradients, **self.state}
        self._last: tuple[dict[str, float], Any] = ({}, ())

    def step(self, number: int, *, rate: float) -> None:
        """Change all parameters once, without waiting; `number` counts from 1."""
        scalars = self.optimizer.scalars(number, rate)
        if self._last[0] == scalars:
            for launch in self._last[1]:
                launch.again()
            return
        sizes = {"N": self.arrays["w"].size, **scalars}
        self._last = scalars, self.program.enqueue(sizes, self.arrays, **self.launching)

    def relax(self) -> None:
        """Let the simulator neither check nor count later steps."""
        self.launching |= {"check": False, "count": False}
        self._last = {}, ()

    @property
    def hazards(self) -> tuple[Any, ...]:
        """The hazards of the last step. Raises NotMeasured on a device that looks for none."""
        return tuple(hazard for launch in self._last[1] for hazard in launch.hazards)
