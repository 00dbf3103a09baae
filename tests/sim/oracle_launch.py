"""Runs a kernel of a PTX text on the oracle with NumPy arrays as arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim import Memory, SimKernel
from ptxsim.oracle import OracleResult, run

from .parsed import module


@dataclass
class Outcome:
    """What a launch left in its arrays, and what it counted and printed."""

    arrays: list[np.ndarray]
    result: OracleResult

    @property
    def counters(self) -> dict[str, int]:
        return self.result.counters


def launch(ptx: str, name: str, grid, block, *arguments, kernel: SimKernel | None = None, **options) -> Outcome:
    """Arguments are arrays (copied to memory and back), NumPy scalars, or bytes for structs. `kernel`: in the place of
    the one that the text has."""
    kernel, memory = kernel or module(ptx).kernel(name), Memory()
    block_of_parameters, allocations = b"", []
    for parameter, argument in zip(kernel.params, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            allocation = memory.allocate(argument.nbytes)
            allocation.view()[:] = np.frombuffer(argument.tobytes(), np.uint8)
            allocations.append((allocation, argument))
            argument = np.uint64(allocation.address)
        data = argument if isinstance(argument, bytes) else argument.tobytes()
        block_of_parameters = block_of_parameters.ljust(parameter.offset, b"\0") + data
    result = run(kernel, grid, block, block_of_parameters, memory, **options)
    arrays = [allocation.view().view(argument.dtype).reshape(argument.shape) for allocation, argument in allocations]
    return Outcome(arrays, result)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, *, params: str = ".param .u64 out", name: str = "k", declarations: str = "") -> str:
    """A PTX text with one kernel."""
    return f"{HEAD}{declarations}\n.visible .entry {name}({params})\n{{\n{body}\n}}\n"
