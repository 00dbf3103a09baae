"""Kernels as PTX on a GPU, by the driver alone: loading, launching, and what the driver makes of a tensor map.

Needs the driver's library and NumPy, nothing else, so that a record can be made on any machine with the GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ptxsim.tensormap import ELEMENTS, INTERLEAVES, SWIZZLES, TensorMap

_LOG_BUFFER, _LOG_BYTES, _LEVEL = 5, 6, 7
"""CU_JIT_ERROR_LOG_BUFFER, its size and CU_JIT_OPTIMIZATION_LEVEL (CUDA driver API, CUjit_option)."""
_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


Shape = tuple[int, int, int]


class DriverError(RuntimeError):
    """A call of the driver's failed."""


class Gpu:
    """The first GPU of the machine."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.call("cuDeviceGetName", name, 100, device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.name, self.driver = name.value.decode(), version.value

    def call(self, name: str, *arguments: object) -> None:
        """Calls the driver; raises DriverError."""
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()}")

    def module(self, code: bytes, *, level: int = 4) -> ctypes.c_void_p:
        """PTX or machine code, loaded; `level` is how much ptxas optimises: 0 not at all, 4 as usual."""
        log = ctypes.create_string_buffer(1 << 14)
        options = (ctypes.c_int * 3)(_LOG_BUFFER, _LOG_BYTES, _LEVEL)
        values = (ctypes.c_void_p * 3)(ctypes.addressof(log), len(log), level)
        module = ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), code + b"\0", 3, options, values)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode()}") from None
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def kernel(self, code: bytes, name: str) -> ctypes.c_void_p:
        """A function of a module that stays loaded."""
        return self.function(self.module(code), name)

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def array(self, data: np.ndarray) -> ctypes.c_uint64:
        """A copy of `data` on the GPU."""
        raw = np.ascontiguousarray(data)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(raw.nbytes, 16)))
        self.put(address, raw)
        return address

    def put(self, address: ctypes.c_uint64, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data)
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(raw.ctypes.data), ctypes.c_size_t(raw.nbytes))

    def get(self, address: ctypes.c_uint64, like: np.ndarray) -> np.ndarray:
        """What an array holds now, as an array like another."""
        found = np.empty_like(np.ascontiguousarray(like))
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), address, ctypes.c_size_t(found.nbytes))
        return found

    def free(self, address: ctypes.c_uint64) -> None:
        self.call("cuMemFree_v2", address)

    def launch(
        self, function: ctypes.c_void_p, grid: int | Shape, block: int | Shape, params: Sequence[bytes], *,
        shared_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Launches and waits. A cluster's shape is the kernel's own (`.reqnctapercluster`)."""
        if shared_bytes > 48 << 10:
            self.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared_bytes)
        kept = []
        for raw in params:  # a tensor map wants its alignment on the host, too
            buffer = ctypes.create_string_buffer(len(raw) + 64)
            start = -ctypes.addressof(buffer) % 64
            ctypes.memmove(ctypes.addressof(buffer) + start, raw, len(raw))
            kept.append((buffer, ctypes.addressof(buffer) + start))
        pointers = (ctypes.c_void_p * max(1, len(kept)))(*(at for _, at in kept))
        sides = [(n, 1, 1) if isinstance(n, int) else n for n in (grid, block)]
        shape = [ctypes.c_uint(n) for n in (*sides[0], *sides[1], shared_bytes)]
        self.call("cuLaunchKernel", function, *shape, None, pointers, None)
        self.call("cuCtxSynchronize")

    def tensor_map(self, m: TensorMap) -> bytes:
        """The driver's 128 bytes of a map; raises DriverError where it refuses it."""
        buffer = ctypes.create_string_buffer(192)
        start = ctypes.addressof(buffer) + -ctypes.addressof(buffer) % 64
        sizes = (ctypes.c_uint64 * 5)(*m.sizes)
        strides = (ctypes.c_uint64 * 4)(*m.strides)
        steps = (ctypes.c_uint32 * 5)(*(m.steps or (1,) * m.rank))
        head = (
            ctypes.c_void_p(start), ELEMENTS[m.element].driver, ctypes.c_uint32(m.rank), ctypes.c_void_p(m.address),
            sizes, strides,
        )  # fmt: skip
        tail = (INTERLEAVES.index(m.interleave), SWIZZLES.index(m.swizzle), 0, int(m.fill == "nan"))
        if m.corners is None:
            box = (ctypes.c_uint32 * 5)(*m.box)
            self.call("cuTensorMapEncodeTiled", *head, box, steps, *tail)
        else:
            lower, upper = ((ctypes.c_int * 3)(*corner) for corner in m.corners)
            channels, places = (ctypes.c_uint32(n) for n in m.box)
            self.call("cuTensorMapEncodeIm2col", *head, lower, upper, channels, places, steps, *tail)
        return ctypes.string_at(start, 128)
