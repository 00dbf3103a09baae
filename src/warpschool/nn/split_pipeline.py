"""A convolution by the kernels of lab 12, as a pipeline, and its time on a GPU with given tiles."""

from __future__ import annotations

import numpy as np

from warpschool.contract import Contract
from warpschool.device import DeviceArray
from warpschool.harness.launcher import Program
from warpschool.nn.convolution import Convolution
from warpschool.nn.pipelines import Convolved, array_library, require_device
from warpschool.nn.split_channels import Tiles


class SplitChannels:
    """A kernel file of lab 12: takes filters as [F,C,R,S], like every pipeline, and turns them to [C,R,S,F] first."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = require_device(program)

    def turned(self, w: DeviceArray) -> DeviceArray:
        """The filters as the kernels want them; a network would store them so."""
        library = array_library(self.device)
        return self.device.asarray(library.ascontiguousarray(w.native.transpose(1, 2, 3, 0)), name="w")

    def __call__(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        return self.on_turned(problem, x, self.turned(w))

    def on_turned(self, problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
        """The same for filters [C,R,S,F]. A second launch that would have nothing to add is left out."""
        plan = self.program.contract.bind(problem.sizes, constants=self.program.constants)
        y = self.device.empty(problem.output_shape, np.float32, name="y")
        launches = self.program.enqueue(problem.sizes, {"x": x, "w": w, "y": y})
        parts = self._parts()
        scratch = sum(4 * int(np.prod(plan.arrays[name].shape or ())) for name in plan.contract.scratch)
        return Convolved(y, launches[:1] if parts == 1 else launches, scratch if parts > 1 else 0)

    def _parts(self) -> int:
        return self.program.contract.declarations.constexpr_values(self.program.constants).get("SPLITS", 1)


def with_tiles(contract: Contract, problem: Convolution, tiles: Tiles, *, device: str = "auto") -> SplitChannels:
    """The pipeline of a kernel file with these tiles. Raises CompileError, ContractError."""
    return SplitChannels(Program(contract, device=device, constants=tiles.constants(problem)))
