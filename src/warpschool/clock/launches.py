"""Launches as the clock needs them: of one that ran on the simulator, or of a kernel file that is only planned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from warpschool.clock.trace import KernelLaunch
from warpschool.device.arguments import convert
from warpschool.device.protocol import DeviceArray

if TYPE_CHECKING:
    from warpschool.contract import Plan
    from warpschool.device import Launch, RawModule
    from warpschool.harness.launcher import Program

_IN_FULL_BYTES = 256 << 20
"""Arrays that together are larger are not filled with inputs where nothing reads them."""


def of_launch(launch: Launch) -> KernelLaunch:
    """A launch on the simulator, on its arrays as they are now."""
    call = launch.call
    arrays = [argument for argument in call.arguments if isinstance(argument, DeviceArray)]
    return KernelLaunch(
        grid=launch.grid, block=launch.block, arguments=call.scalars, shared_bytes=launch.shared_mem,
        arrays=[(array.address, array.native) for array in arrays], **_variables(call.kernel.module),
    )  # fmt: skip


def _variables(module: RawModule) -> dict[str, Any]:
    """What a module's variables hold, and where they lie."""
    found = {name: module.get_global(name) for name in module.variables}
    return {
        "constants": {name: array.get().tobytes() for name, array in found.items()},
        "addresses": {name: array.address for name, array in found.items()},
    }


def of_plan(
    program: Program, plan: Plan, inputs: Mapping[str, np.ndarray] | None = None
) -> list[tuple[str, KernelLaunch]]:
    """The launches of a kernel file, by kernel, without running it: on arrays of these inputs, others being empty."""
    device = program.module.device
    arrays = {}
    for name, array in plan.arrays.items():
        if inputs is not None and name in inputs:
            arrays[name] = device.asarray(inputs[name], name=name)
        else:
            arrays[name] = device.zeros(array.shape or (), array.dtype, name=name)
    for fill in plan.contract.constants:
        source = arrays[fill.array]
        symbol = program.module.get_global(fill.symbol, source.dtype)
        symbol[: source.size].set(source.get().reshape(-1))
    found: list[tuple[str, KernelLaunch]] = []
    filled: set[int] = set()
    for launch in plan.launches:
        kernel = program.kernel(launch.entry)
        arguments = tuple(program.argument(parameter, launch, plan, arrays) for parameter in launch.arguments)
        scalars = convert(kernel.name, kernel.parameters, arguments, device)
        passed = [argument for argument in arguments if isinstance(argument, DeviceArray)]
        found.append(
            (
                launch.entry,
                KernelLaunch(
                    grid=launch.grid, block=launch.block, arguments=scalars, shared_bytes=launch.shared_bytes,
                    arrays=[(array.address, array.native) for array in passed], unknown=frozenset(filled),
                    **_variables(program.module),
                ),
            )
        )  # fmt: skip
        filled |= {arrays[p.name].address for p in launch.arguments if p.is_array and p.direction != "in"}
    return found


def planned_bytes(plan: Plan) -> int:
    """Bytes of all arrays of a plan."""
    return sum(math.prod(array.shape or ()) * array.dtype.itemsize for array in plan.arrays.values())
