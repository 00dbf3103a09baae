"""The simulator as a device.

All its memory is one arena with red zones, so an index that runs off an array is found. Everything happens at once: a
launch has finished when the call returns, so streams and events only keep their rules.
"""

from __future__ import annotations

import weakref
from collections import deque
from itertools import count
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from ptxsim import Allocation, Memory
from warpschool import model
from warpschool.device.arrays import DeviceArray, checked_dtype, checked_shape, host_array
from warpschool.device.protocol import LaunchOptions, Shape
from warpschool.errors import ArgumentError, DeviceUnavailable, NotMeasured

if TYPE_CHECKING:
    from warpschool.device.module import RawModule
    from warpschool.device.sim_module import SimModule


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

    def load(self, module: RawModule) -> SimModule:
        """Makes a RawModule's PTX ready. Raises PtxSyntaxError."""
        from ptxsim import parse
        from warpschool.device.sim_module import SimModule

        return SimModule(self, parse(module.ptx), module.name)

    def __repr__(self) -> str:
        return f"SimDevice({self.memory.used_bytes:,} of {self.memory.limit_bytes:,} bytes in use)"
