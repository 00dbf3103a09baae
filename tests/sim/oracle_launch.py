"""Runs a kernel of a PTX text on the oracle with NumPy arrays as arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.kernel.calls import function_number
from ptxsim.kernel.cfg import build_kernel
from ptxsim.memory import Memory
from ptxsim.oracle import OracleResult, run
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import Module


@dataclass
class Outcome:
    """What a launch left in its arrays, and what it counted and printed."""

    arrays: list[np.ndarray]
    result: OracleResult

    @property
    def counters(self) -> dict[str, int]:
        return self.result.counters


def bind(module: Module, memory: Memory) -> dict[str, int]:
    """Allocates a module's variables with their initial values; name -> address."""
    found = {}
    for v in module.globals.values():
        if v.space in ("global", "const"):
            found[v.name] = memory.allocate(max(1, v.size_bytes), v.name)
            found[v.name].view()[:] = 0
            found[v.name].view()[: len(v.initial)] = np.frombuffer(v.initial, np.uint8)
    for v in module.globals.values():
        for offset, symbol, addend in v.relocations:
            address = function_number(module, symbol) if symbol in module.functions else found[symbol].address + addend
            found[v.name].view()[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
    return {name: a.address for name, a in found.items()}


def launch(ptx: str, name: str, grid, block, *arguments, **options) -> Outcome:
    """Arguments are arrays (copied to memory and back), NumPy scalars, or bytes for structs."""
    module, memory = parse(ptx), Memory()
    kernel = build_kernel(module, name)
    block_of_parameters, allocations = b"", []
    for parameter, argument in zip(kernel.params, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            allocation = memory.allocate(argument.nbytes)
            allocation.view()[:] = np.frombuffer(argument.tobytes(), np.uint8)
            allocations.append((allocation, argument))
            argument = np.uint64(allocation.address)
        data = argument if isinstance(argument, bytes) else argument.tobytes()
        block_of_parameters = block_of_parameters.ljust(parameter.offset, b"\0") + data
    result = run(kernel, memory, grid, block, block_of_parameters, globals=bind(module, memory), **options)
    arrays = [allocation.view().view(argument.dtype).reshape(argument.shape) for allocation, argument in allocations]
    return Outcome(arrays, result)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, *, params: str = ".param .u64 out", name: str = "k", declarations: str = "") -> str:
    """A PTX text with one kernel."""
    return f"{HEAD}{declarations}\n.visible .entry {name}({params})\n{{\n{body}\n}}\n"
