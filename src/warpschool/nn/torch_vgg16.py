"""VGG16 of the course's kernels as one PyTorch module: its forward and backward pass are one autograd function.

    network = Vgg16(batch=32)                            # lives where its kernels run: on the GPU if there is one
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    loss = torch.nn.functional.cross_entropy(network(images), labels)
    loss.backward()
    optimizer.step()

All parameters are one tensor, `network.weights`, which shares its memory with the kernels' arena; `network.named()`
gives the parts by layer. Needs the extra `torch`; on a GPU also CuPy.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from warpschool.device import DeviceArray
from warpschool.errors import ArgumentError
from warpschool.nn.session import Kernels
from warpschool.nn.vgg16 import TrainingStep, VggForm


class Vgg16(torch.nn.Module):
    """A VGG16 for batches of one size. `parameters`: by name, as `VggForm.shapes` says; else random ones.

    Further keywords go to the session. Raises ArgumentError for parameters that do not fit.
    """

    def __init__(
        self, form: VggForm | None = None, *, batch: int, kernels: Kernels | None = None,
        parameters: dict[str, npt.ArrayLike] | None = None, seed: int = 0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.form, self.batch = form or VggForm(), batch
        start = parameters if parameters is not None else self.form.first_parameters(seed)
        self.step = TrainingStep(self.form, kernels or Kernels(), start, batch=batch, loss=False, **options)
        self.passes = 0
        """forward passes so far: each takes the place of what the one before it saved"""
        session = self.step.session
        self.arrays = {name: shared(session[name]) for name in ("x", "fc3", "fc3.slope", "gradients")}
        self.weights = torch.nn.Parameter(shared(session["parameters"]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores [BATCH,CLASSES] of images [BATCH,C,SIZE,SIZE]. Raises ArgumentError."""
        wanted = self.arrays["x"]
        if x.shape != wanted.shape or x.device != wanted.device or x.dtype != wanted.dtype:
            raise ArgumentError(
                f"images are {list(x.shape)} of {x.dtype} on {x.device}, this network takes {list(wanted.shape)} of "
                f"{wanted.dtype} on {wanted.device}"
            )
        return _Function.apply(x, self.weights, self)

    def named(self) -> dict[str, torch.Tensor]:
        """Return the parameters by name, as parts of `weights`."""
        places = self.step.graph.places
        flat = self.weights.detach()
        return {name: flat[p.first : p.first + p.size].view(p.shape) for name, p in places.items()}


class _Function(torch.autograd.Function):
    """The whole network."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, network: Vgg16) -> torch.Tensor:
        arrays, step = network.arrays, network.step
        arrays["x"].copy_(x)
        step.session.run(slice(0, step.forward_calls))
        network.passes += 1
        ctx.network, ctx.number = network, network.passes
        return arrays["fc3"].clone()

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        network = ctx.network
        if ctx.number != network.passes:
            raise RuntimeError(
                "a later forward pass has overwritten what this backward pass needs; "
                "call backward() before the network is used again"
            )
        network.arrays["fc3.slope"].copy_(slopes[0])
        step = network.step
        step.session.run(slice(step.forward_calls, None))
        return None, network.arrays["gradients"], None


def shared(array: DeviceArray) -> torch.Tensor:
    """Return a tensor of the same memory."""
    native = array.native
    return torch.from_dlpack(native) if hasattr(native, "__cuda_array_interface__") else torch.from_numpy(native)
