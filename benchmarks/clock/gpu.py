"""Cubins on a GPU by the driver alone: events, graphs and many launches beside what `hopper_gpu` has.

Needs the driver's library and NumPy, nothing else: the machine with the GPU may have none of our dependencies.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

for folder in (Path(__file__).parents[1], Path(__file__).parents[2] / "src"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
from hopper_gpu import DriverError, Gpu

__all__ = ["Clockwork", "DriverError", "Launchable"]

_DYNAMIC_SHARED, _CARVEOUT = 8, 9
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and _PREFERRED_SHARED_MEMORY_CARVEOUT."""
_ATTRIBUTES = {
    "sms": 16, "clock_khz": 13, "memory_khz": 36, "bus_bits": 37, "l2_bytes": 38, "major": 75, "minor": 76,
    "shared_per_sm": 81,
}  # fmt: skip
"""CUdevice_attribute"""
_FUNCTION = {"shared": 1, "constant": 2, "local": 3, "registers": 4}
"""CUfunction_attribute"""


class Launchable:
    """One kernel with its arguments, ready to be launched any number of times."""

    def __init__(
        self, gpu: Clockwork, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int],
        params: Sequence[bytes], shared_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.gpu, self.function = gpu, function
        self._kept = [_aligned(raw) for raw in params]
        pointers = (ctypes.c_void_p * max(1, len(params)))(*(at for _, at in self._kept))
        shape = [ctypes.c_uint(n) for n in (*_three(grid), *_three(block), shared_bytes)]
        if shared_bytes > 48 << 10:
            gpu.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared_bytes)
        self._arguments = (function, *shape, gpu.stream, pointers, None)

    def __call__(self) -> None:
        """Enqueues it."""
        status = self.gpu.library.cuLaunchKernel(*self._arguments)
        if status:
            self.gpu.call("cuLaunchKernel", *self._arguments)


def _three(shape: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*shape, 1, 1)[:3]
    return int(x), int(y), int(z)


def _aligned(raw: bytes) -> tuple[ctypes.Array, int]:
    """A copy at a multiple of 64: a tensor map wants it on the host, too."""
    buffer = ctypes.create_string_buffer(len(raw) + 64)
    start = ctypes.addressof(buffer) + -ctypes.addressof(buffer) % 64
    ctypes.memmove(start, raw, len(raw))
    return buffer, start


class Clockwork(Gpu):
    """The first GPU, with a stream, events and graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        device = ctypes.c_int(0)
        self.facts = {name: self._attribute(number, device) for name, number in _ATTRIBUTES.items()}
        self._modules: dict[int, ctypes.c_void_p] = {}
        self._events: list[ctypes.c_void_p] = []
        self._graphs: list[ctypes.c_void_p] = []

    def _attribute(self, number: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    # ------------------------------------------------------------ code

    def loaded(self, code: bytes) -> ctypes.c_void_p:
        """A cubin, loaded once."""
        key = hash(code)
        if key not in self._modules:
            module = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(module), code)
            self._modules[key] = module
        return self._modules[key]

    def kernel_of(self, code: bytes, name: str, *, carveout: int = -1) -> ctypes.c_void_p:
        """A kernel of a cubin; `carveout`: percent of L1 that is to be shared memory."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.loaded(code), name.encode())
        if carveout >= 0:
            self.call("cuFuncSetAttribute", function, _CARVEOUT, carveout)
        return function

    def resources(self, function: ctypes.c_void_p) -> dict[str, int]:
        """Bytes of shared, constant and local memory and registers of a kernel, as the driver says."""
        found = {}
        for name, number in _FUNCTION.items():
            value = ctypes.c_int()
            self.call("cuFuncGetAttribute", ctypes.byref(value), number, function)
            found[name] = value.value
        return found

    def symbol(self, code: bytes, name: str) -> tuple[ctypes.c_uint64, int]:
        """Address and size of a variable of a module."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self.loaded(code), name.encode()
        )  # fmt: skip
        return address, size.value

    def forget(self, code: bytes) -> None:
        """Gives a module back."""
        self.call("cuModuleUnload", self._modules.pop(hash(code)))

    # ------------------------------------------------------------ memory

    def room(self, nbytes: int) -> ctypes.c_uint64:
        """Uninitialised memory."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(nbytes, 256)))
        return address

    def copy(self, to: ctypes.c_uint64, source: ctypes.c_uint64, nbytes: int) -> None:
        """Copies on the GPU, in order with launches."""
        self.call("cuMemcpyDtoDAsync_v2", to, source, ctypes.c_size_t(nbytes), self.stream)

    def fill(self, address: ctypes.c_uint64, value: int, nbytes: int) -> None:
        """Sets bytes, in order with launches."""
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(value), ctypes.c_size_t(nbytes), self.stream)

    def wait(self) -> None:
        self.call("cuStreamSynchronize", self.stream)

    # ------------------------------------------------------------ time

    def mark(self) -> ctypes.c_void_p:
        """An event recorded now."""
        event = self._events.pop() if self._events else ctypes.c_void_p()
        if not event.value:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", event, self.stream)
        return event

    def between_us(self, start: ctypes.c_void_p, end: ctypes.c_void_p, *, keep: bool = False) -> float:
        """Microseconds between two events, which are given back unless they are to be kept."""
        self.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        try:
            self.call("cuEventElapsedTime_v2", ctypes.byref(milliseconds), start, end)
        except AttributeError:
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        if not keep:
            self.give([start, end])
        return milliseconds.value * 1e3

    def give(self, events: Sequence[ctypes.c_void_p]) -> None:
        """Events that nobody asks for any more: others will be recorded with them."""
        self._events += events

    def captured(self, works: Sequence[Launchable]) -> ctypes.c_void_p:
        """A graph of launches, one after the other, instantiated."""
        self.call("cuStreamBeginCapture_v2", self.stream, 1)
        for work in works:
            work()
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return ready

    def replay(self, graph: ctypes.c_void_p) -> None:
        self.call("cuGraphLaunch", graph, self.stream)


def summary(values: Sequence[float]) -> tuple[float, float]:
    """Median, and half the distance between the quartiles as a fraction of it."""
    middle = statistics.median(values)
    low, high = np.percentile(values, [25, 75])
    return middle, float((high - low) / 2 / abs(middle)) if middle else 0.0
