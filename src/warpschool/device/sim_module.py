"""Compiled modules in the simulator: variables in its memory, kernels that run, launches that report."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxsim import Allocation, LaunchRecord, SimKernel, bind
from ptxsim.analysis.lanes import MAX_GRID_X
from ptxsim.codegen.translation import Options
from ptxsim.run.engine import STATIC_SHARED_LIMIT
from ptxsim.syntax.program import Module
from warpschool.counters import Counters, UnmeasuredCounters
from warpschool.device.arguments import pack
from warpschool.device.arrays import DeviceArray
from warpschool.device.launch import UnmeasuredHazards, UnmeasuredLines
from warpschool.device.protocol import Dim3, LaunchOptions, Outcome
from warpschool.device.sim import SimBuffer, SimDevice
from warpschool.errors import ContractError, LaunchError
from warpschool.suggest import did_you_mean


class SimModule:
    """A PTX module in the simulator, its variables in the device's memory."""

    def __init__(self, device: SimDevice, program: Module, source_name: str) -> None:
        self.device = device
        self.program = program
        self.source_name = source_name
        with device._lock:
            self._placed = bind(program, device.memory)
        for allocation in self._placed.values():
            weakref.finalize(self, device._released.append, allocation).atexit = False

    @property
    def entries(self) -> Sequence[str]:
        return self.program.entries

    @property
    def variables(self) -> Sequence[str]:
        return tuple(self._placed)

    def kernel(self, name: str) -> SimLoadedKernel:
        """Raises UnsupportedInstruction where the kernel uses one that the simulator does not know."""
        with self.device._lock:
            kernel = SimKernel(self.program, name, self.device.memory, self._placed, file=self.source_name)
        return SimLoadedKernel(self, kernel)

    def variable(self, name: str) -> DeviceArray:
        if name not in self._placed:
            raise ContractError(
                f"there is no __device__ or __constant__ variable {name!r}",
                file=self.source_name,
                next_step=did_you_mean(name, self._placed),
            )
        found = self._placed[name]
        return DeviceArray(self.device, _Borrowed(self, found), (found.nbytes,), np.dtype(np.uint8), name=name)


class _Borrowed(SimBuffer):
    """Memory that belongs to a module, which it keeps alive."""

    def __init__(self, module: SimModule, allocation: Allocation) -> None:
        self._module = module
        self._allocation = allocation


class SimLoadedKernel:
    """A kernel in the simulator."""

    def __init__(self, module: SimModule, sim: SimKernel) -> None:
        self.module = module
        self.device = module.device
        self.sim = sim
        self.params = sim.params
        self.static_bytes = sim.kernel.shared_bytes
        self.max_dynamic_shared_bytes = max(0, STATIC_SHARED_LIMIT - self.static_bytes)

    def allow_dynamic_shared(self, nbytes: int) -> None:
        most = self.sim.shared_limit - self.static_bytes
        if not 0 <= nbytes <= most:
            raise LaunchError(
                f"{nbytes:,} bytes of dynamic shared memory; a block on {self.sim.kernel.module.target} may have "
                f"{most:,} beside the kernel's {self.static_bytes:,} static bytes",
                next_step="Use smaller tiles, or compile for a GPU with more shared memory.",
            )
        self.max_dynamic_shared_bytes = nbytes

    @property
    def attributes(self) -> dict[str, int]:
        return {
            "shared_size_bytes": self.static_bytes,
            "local_size_bytes": self.sim.kernel.local_bytes,
            "max_threads_per_block": self.sim.kernel.max_threads or self.device.spec.sm.threads_per_block,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_bytes,
        }

    def prepare(self, grid: Dim3, block: Dim3, options: LaunchOptions) -> None:
        self.sim.prepare(block, Options(options.check, options.count), wide_grid=grid[0] > MAX_GRID_X)

    def launch(
        self,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[np.generic],
        *,
        shared_bytes: int,
        stream: Any,
        options: LaunchOptions,
    ) -> Outcome:
        self.device._own_stream(stream)
        limits = {} if options.step_limit is None else {"step_limit": options.step_limit}
        with self.device._lock:
            self.device._collect()
            record = self.sim.launch(
                grid,
                block,
                pack(self.params, arguments),
                shared_bytes=shared_bytes,
                check=options.check,
                count=options.count,
                threads=options.threads,
                print_limit=options.print_limit,
                **limits,  # type: ignore[arg-type]
            )
        return _outcome(record, options)


def _outcome(record: LaunchRecord, options: LaunchOptions) -> Outcome:
    off = "switched off for this launch"
    x, y, z = record.grid
    return Outcome(
        counters=Counters(record.totals, blocks=x * y * z)
        if options.count
        else UnmeasuredCounters(f"counting was {off}"),
        lines={line: Counters(counts) for line, counts in sorted(record.lines.items())}
        if options.count
        else UnmeasuredLines("counters per line", f"counting was {off}"),
        hazards=record.hazards if options.check else UnmeasuredHazards("hazards", f"checks were {off}"),
        printed=record.printed,
    )
