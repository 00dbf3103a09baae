"""Runs a kernel of a PTX text on the translated simulator with NumPy arrays as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxsim import LaunchRecord, Memory
from ptxsim.memory import Allocation

from .parsed import module


@dataclass
class Outcome:
    """What a launch left in its arrays, and its record."""

    arrays: list[np.ndarray]
    record: LaunchRecord

    @property
    def counters(self) -> dict[str, int]:
        return self.record.counters


def launch(ptx: str, name: str, grid: Any, block: Any, *arguments: Any, **options: Any) -> Outcome:
    """Arguments are arrays (copied to memory and back), NumPy scalars, or bytes for structs."""
    kernel, memory = module(ptx).kernel(name), Memory()
    parameters = b""
    allocations: list[tuple[Allocation, np.ndarray]] = []
    for parameter, argument in zip(kernel.params, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            allocation = memory.allocate(argument.nbytes, f"argument {len(allocations)}")
            allocation.view()[:] = np.frombuffer(argument.tobytes(), np.uint8)
            allocations.append((allocation, argument))
            argument = np.uint64(allocation.address)
        data = argument if isinstance(argument, bytes) else argument.tobytes()
        parameters = parameters.ljust(parameter.offset, b"\0") + data
    record = kernel.launch(grid, block, parameters, memory, **options)
    arrays = [a.view().view(argument.dtype).reshape(argument.shape).copy() for a, argument in allocations]
    return Outcome(arrays, record)
