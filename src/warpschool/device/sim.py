"""The simulator as a device.

All its memory is one arena with red zones, so an index that runs off an array is found. Everything happens at once: a
launch has finished when the call returns, so streams and events only keep their rules.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from itertools import count
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

import ptxsim
from ptxsim import Allocation, Memory
from ptxsim.limits import STATIC_SHARED_LIMIT
from warpschool import model
from warpschool.counters import Counters, UnmeasuredCounters
from warpschool.device.protocol import (
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
    host_array,
)
from warpschool.errors import ArgumentError, ContractError, DeviceUnavailable, LaunchError, NotMeasured
from warpschool.suggest import did_you_mean

if TYPE_CHECKING:
    from ptxsim import LaunchRecord, Module, SimKernel

class SimBuffer:
    """One allocation of the arena; it is given back when the last array that refers to it is gone."""

    def __init__(self, device: SimDevice, allocation: Allocation) -> None:
        self._allocation = allocation
        weakref.finalize(self, device._released.append, allocation).atexit = False

    @property
    def address(self) -> int:
        return self._allocation.address

    def label(self, name: str) -> None:
        """Gives the allocation another name in hazard reports."""
        object.__setattr__(self._allocation, "name", name)  # frozen for everyone but its owner

    def native(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.ndarray(shape, dtype, buffer=self._allocation.view(), offset=offset)


class SimStream:
    """A stream of the simulator. Work is done when it is put in, so there is never anything to wait for."""

    done = True

    def __init__(self, device: SimDevice) -> None:
        self.device = device

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

    def __enter__(self) -> SimStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.synchronize()


class SimEvent:
    """An event of the simulator. Recorded or not, it holds nothing up: CUDA counts an unrecorded event as done."""

    done = True

    def __init__(self, device: SimDevice) -> None:
        self.device = device
        self.recorded = False

    def record(self, stream: SimStream | None = None) -> None:
        if stream is not None:
            self.device._own(stream)
        self.recorded = True

    def synchronize(self) -> None:
        """Returns at once."""


class SimDevice:
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

    def asarray(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None, *, name: str = "") -> DeviceArray:
        """Copies a host array into simulated memory. `name` is what hazard reports call it."""
        source = host_array(host, dtype)
        array = self.empty(source.shape, source.dtype, name=name)
        array.native[...] = source
        return array

    def empty(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        """A new array, every byte of it 0xFF: floating-point elements read as NaN."""
        lengths, kind = checked_shape(shape), checked_dtype(dtype)
        nbytes = int(np.prod(lengths, dtype=np.int64)) * kind.itemsize
        with self._lock:
            self._collect()
            label = name or f"array {next(self._numbers)} ({kind}{list(lengths)})"
            allocation = self.memory.allocate(nbytes, name=label)
        return DeviceArray(self, SimBuffer(self, allocation), lengths, kind, name=name)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        array = self.empty(shape, dtype, name=name)
        array.native[...] = np.zeros((), array.dtype)
        return array

    def asnumpy(self, array: DeviceArray, *, stream: Any = None) -> np.ndarray:
        return array.get(stream=stream)

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None:
        self._own_stream(stream)
        out[...] = array.native

    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None:
        self._own_stream(stream)
        array.native[...] = source

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """An ordinary host array of zeros: the simulator has no copies to speed up."""
        return np.zeros(checked_shape(shape), checked_dtype(dtype))

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> NoReturn:
        """Raises DeviceUnavailable: the simulator has no tensor memory accelerator."""
        raise DeviceUnavailable(
            "the simulator has no tensor memory accelerator (TMA)",
            next_step='Run this kernel on an sm_90 or newer GPU, with device="gpu".',
        )

    def pointer(self, value: Any) -> int | None:
        if isinstance(value, DeviceArray) and value.device is self:
            return value.address
        return None

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
            return self.device.loaded(self, self.program.kernel(name, file=self.source_name))

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
        self.static_bytes = sim.body.shared_bytes
        self.max_dynamic_shared_bytes = max(0, STATIC_SHARED_LIMIT - self.static_bytes)

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
            record = self.sim.launch(
                grid,
                block,
                arguments,
                self.device.memory,
                shared_bytes=shared_bytes,
                check=options.check,
                count=options.count,
                threads=options.threads,
                print_limit=options.print_limit,
                **limits,
            )
        return _outcome(record, options)


def _outcome(record: LaunchRecord, options: LaunchOptions) -> Outcome:
    off = "switched off for this launch"
    x, y, z = record.grid
    return Outcome(
        counters=Counters(record.counters, blocks=x * y * z)
        if options.count
        else UnmeasuredCounters(f"counting was {off}"),
        lines={line: Counters(counts) for line, counts in sorted(record.lines.items())}
        if options.count
        else UnmeasuredLines("counters per line", f"counting was {off}"),
        hazards=record.hazards if options.check else UnmeasuredHazards("hazards", f"checks were {off}"),
        printed=record.printed,
    )
