"""The simulator as a device.

All its memory is one arena with red zones, so an index that runs off an array is found. Everything happens at once: a
launch has finished when the call returns, so streams and events only keep their rules.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

import ptxsim
from ptxsim import Allocation, Memory
from ptxsim.limits import STATIC_SHARED_LIMIT
from warpschool import model
from warpschool.counters import Counters, CountersByLine, UnmeasuredCounters
from warpschool.device.protocol import (
    Buffer,
    Device,
    DeviceArray,
    Dim3,
    LaunchOptions,
    Loadable,
    Outcome,
    Shape,
    UnmeasuredHazards,
    UnmeasuredLines,
    checked_dtype,
    checked_shape,
)
from warpschool.device.tensors import encoded
from warpschool.errors import ArgumentError, LaunchError, NotMeasured

if TYPE_CHECKING:
    from ptxsim import LaunchRecord, Module, SimKernel


class SimBuffer(Buffer):
    """One allocation of the arena, its `owner`."""

    def label(self, name: str) -> None:
        """Gives the allocation another name in hazard reports."""
        object.__setattr__(self.owner, "name", name)  # frozen for everyone else


@dataclass(eq=False)
class SimStream(AbstractContextManager):
    """A stream of the simulator. Work is done when it is put in, so there is never anything to wait for."""

    device: SimDevice
    done = True

    def synchronize(self) -> None:
        """Returns at once: all work of the stream is done."""

    def wait_event(self, event: SimEvent) -> None:
        """Later work of this stream starts after the event."""
        self.device._own(event)

    def record(self, event: SimEvent | None = None) -> SimEvent:
        """Marks this point of the stream."""
        event = event or SimEvent(self.device)
        event.record(self)
        return event

    def __exit__(self, *_: object) -> None:
        """Waits for nothing either."""


@dataclass(eq=False)
class SimEvent:
    """An event of the simulator. Recorded or not, it holds nothing up: CUDA counts an unrecorded event as done."""

    device: SimDevice
    done = True

    def record(self, stream: SimStream | None = None) -> None:
        self.device._own_stream(stream)

    def synchronize(self) -> None:
        """Returns at once."""


class SimDevice(Device):
    """A simulated GPU with memory of its own.

    `memory_limit_bytes` bounds its memory; the other options are defaults for every launch.
    """

    name = "sim"
    description = "the simulator"
    driver = ""
    counts = True
    measures_time = False

    def __init__(self, *, memory_limit_bytes: int = 4 << 30, **options: Any) -> None:
        self.options = LaunchOptions(**options)
        self.memory = Memory(limit_bytes=memory_limit_bytes)
        self._released: deque[Allocation] = deque()
        self._lock = RLock()
        self._numbers = count(1)

    @property
    def spec(self) -> model.GpuSpec:
        """The GPU that stands for the simulator where one must be named."""
        return model.find_gpu(model.DEFAULT_GPU)

    @property
    def arch(self) -> str:
        return self.spec.arch

    # ---------------------------------------------------------------- memory

    def allocate(self, nbytes: int, name: str, what: str) -> SimBuffer:
        """Memory of the arena, which is given back when the last array that refers to it is gone."""
        with self._lock:
            self._collect()
            allocation = self.memory.allocate(nbytes, name=name or f"array {next(self._numbers)} ({what})")
        buffer = SimBuffer(allocation.address, allocation.view(), allocation)
        self._release_with(buffer, allocation)
        return buffer

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None:
        self._own_stream(stream)
        out[...] = array.native

    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None:
        self._own_stream(stream)
        array.native[...] = source

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """An ordinary host array of zeros: the simulator has no copies to speed up."""
        return np.zeros(checked_shape(shape), checked_dtype(dtype))

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
        """See `tensors.described`."""
        return encoded(array, box, window)

    def _release_with(self, holder: object, allocation: Allocation) -> None:
        """Gives an allocation back when its holder is gone."""
        weakref.finalize(holder, self._released.append, allocation).atexit = False

    def _collect(self) -> None:
        """Frees the memory of arrays that are gone."""
        while self._released:
            self.memory.free(self._released.popleft())

    # ---------------------------------------------------------------- order

    def Stream(self, *, non_blocking: bool = False) -> SimStream:
        return SimStream(self)

    def Event(self) -> SimEvent:
        return SimEvent(self)

    def elapsed_ms(self, start: SimEvent, end: SimEvent) -> float:
        """Raises NotMeasured: the simulator's own speed says nothing about a GPU's."""
        raise NotMeasured(
            "the simulator has no clock that means anything for a GPU",
            next_step="Read launch.counters, or warpschool.benchmark's estimate.",
        )

    def sampler(self, *, flush: str, stream: Any = None) -> NoReturn:
        """Raises NotMeasured, as `elapsed_ms` does."""
        raise NotMeasured("the simulator has no clock that means anything for a GPU")

    def synchronize(self) -> None:
        """Returns at once: everything is done when its call returns."""

    def _own(self, thing: SimStream | SimEvent) -> None:
        if getattr(thing, "device", None) is not self:
            raise ArgumentError(f"{type(thing).__name__} does not belong to this device")

    def _own_stream(self, stream: Any) -> None:
        if stream is not None:
            self._own(stream)

    # ---------------------------------------------------------------- programs

    def loaded(self, module: SimModule, kernel: SimKernel) -> SimLoadedKernel:
        """What runs a kernel of a module."""
        return SimLoadedKernel(module, kernel)

    def load(self, module: Loadable) -> SimModule:
        """Makes a RawModule's PTX ready. Raises PtxSyntaxError."""
        return SimModule(self, ptxsim.parse(module.compiled.ptx), module.name)

    def __repr__(self) -> str:
        return f"SimDevice({self.memory.used_bytes:,} of {self.memory.limit_bytes:,} bytes in use)"


# ---------------------------------------------------------------- programs


class SimModule:
    """A PTX module in the simulator, its variables in the device's memory."""

    def __init__(self, device: SimDevice, program: Module, source_name: str) -> None:
        self.device = device
        self.program = program
        self.source_name = source_name
        with device._lock:
            self._placed = program.place(device.memory)
        for allocation in self._placed.values():
            device._release_with(self, allocation)

    def kernel(self, name: str) -> SimLoadedKernel:
        """Raises UnsupportedInstruction where the kernel uses one that the simulator does not know."""
        with self.device._lock:
            return self.device.loaded(self, self.program.kernel(name, file=self.source_name))

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(self.program.variables)

    def variable(self, name: str) -> DeviceArray:
        found = self._placed[name]
        buffer = Buffer(found.address, found.view(), self)
        return DeviceArray(self.device, buffer, (found.nbytes,), np.dtype(np.uint8), name=name)


class SimLoadedKernel:
    """A kernel in the simulator."""

    def __init__(self, module: SimModule, sim: SimKernel) -> None:
        self.module = module
        self.device = module.device
        self.sim = sim
        self.params = sim.params
        self.static_bytes = sim.body.shared_bytes
        self.max_dynamic_shared_bytes = max(0, STATIC_SHARED_LIMIT - self.static_bytes)
        self._packed: tuple[Sequence[np.generic], bytes] = (), b""

    def allow_dynamic_shared(self, nbytes: int) -> None:
        most = self.sim.shared_limit - self.static_bytes
        if not 0 <= nbytes <= most:
            raise LaunchError(
                f"{nbytes:,} bytes of dynamic shared memory; a block on {self.sim.module.target} may have "
                f"{most:,} beside the kernel's {self.static_bytes:,} static bytes",
                next_step="Use smaller tiles, or compile for a GPU with more shared memory.",
            )
        self.max_dynamic_shared_bytes = nbytes

    @property
    def attributes(self) -> dict[str, int]:
        return {
            "shared_size_bytes": self.static_bytes,
            "local_size_bytes": self.sim.body.local_bytes,
            "max_threads_per_block": self.sim.body.max_threads or self.device.spec.sm.threads_per_block,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_bytes,
        }

    @property
    def order_may_show(self) -> bool:
        return self.sim.order_may_show

    @property
    def undefined_lines(self) -> tuple[int, ...]:
        return self.sim.body.undefined

    def prepare(self, grid: Dim3, block: Dim3, options: LaunchOptions) -> None:
        self.sim.prepare(grid, block, check=options.check, count=options.count)

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
        limits: dict[str, Any] = {} if options.step_limit is None else {"step_limit": options.step_limit}
        with self.device._lock:
            self.device._collect()
            if arguments is not self._packed[0]:  # as `convert` has made them: for good
                self._packed = arguments, self.sim.packed(arguments)
            record = self.sim.launch(
                grid,
                block,
                self._packed[1],
                self.device.memory,
                shared_bytes=shared_bytes,
                check=options.check,
                count=options.count,
                threads=options.threads,
                print_limit=options.print_limit,
                cooperative=options.cooperative,
                tensor_sums=options.tensor_sums,
                order=options.order,
                handoffs=options.handoffs,
                doubled=options.doubled,
                tier=options.tier,
                **limits,
            )
        return _outcome(record, options)


_OFF = "switched off for this launch"
_NO_COUNTERS = UnmeasuredCounters(f"counting was {_OFF}")
_NO_LINES = UnmeasuredLines("counters per line", f"counting was {_OFF}")
_NO_HAZARDS = UnmeasuredHazards("hazards", f"checks were {_OFF}")


def _outcome(record: LaunchRecord, options: LaunchOptions) -> Outcome:
    return Outcome(
        counters=Counters(record.counters, blocks=math.prod(record.grid)) if options.count else _NO_COUNTERS,
        lines=CountersByLine(record.lines) if options.count else _NO_LINES,
        hazards=record.hazards if options.check else _NO_HAZARDS,
        printed=record.printed,
        notes=record.notes,
        handoffs=record.handoffs,
        stored_to=record.stored_to,
        complete=record.complete,
    )
