"""An NVIDIA GPU as a device, through CuPy.

CuPy is imported when a GPU is first asked for. It compiles with its own NVRTC for the chip at hand; the PTX that our
own compiler makes of the same source serves to check arguments, and gives errors the same words on both devices.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpschool import model
from warpschool.compile import Compiled, find_toolchain
from warpschool.device.protocol import (
    DeviceArray,
    Dim3,
    LaunchOptions,
    Loadable,
    Outcome,
    ParameterInfo,
    Shape,
    checked_dtype,
    checked_shape,
    host_array,
    not_measured,
)
from warpschool.errors import (
    ArgumentError,
    ContractError,
    DeviceFault,
    DeviceLacks,
    DeviceUnavailable,
    LaunchError,
)

if TYPE_CHECKING:
    from ptxsim import Module

_INSTALL = 'Install CuPy for your driver: pip install "warpschool[cuda13]" (or [cuda12]). Or run with device="sim".'
_NO_GPU = 'Run with device="sim", which needs no GPU.'


def _import_cupy() -> Any:
    """CuPy, on a machine whose driver answers. Raises DeviceUnavailable with what is missing."""
    if importlib.util.find_spec("cupy") is None:
        raise DeviceUnavailable("no GPU can be used: CuPy is not installed", next_step=_INSTALL)
    try:
        import cupy
    except Exception as error:  # a broken installation raises whatever its missing library raises
        raise DeviceUnavailable(f"no GPU can be used: CuPy cannot be imported: {error}", next_step=_INSTALL) from error
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = "there is no NVIDIA driver, or it is too old" if "InsufficientDriver" in str(error) else "no GPU"
        raise DeviceUnavailable(f"no GPU can be used: {reason} ({error})", next_step=_NO_GPU) from error
    if not devices:
        raise DeviceUnavailable("no GPU can be used: the driver reports none", next_step=_NO_GPU)
    return cupy


class GpuDevice:
    """The current CUDA device. Raises DeviceUnavailable, with the reason, where there is none."""

    name = "gpu"
    counts = False
    measures_time = True
    options = LaunchOptions()

    def __init__(self) -> None:
        self.cupy = _import_cupy()
        try:
            self._device = self.cupy.cuda.Device()
            self._properties = self.cupy.cuda.runtime.getDeviceProperties(self._device.id)
            self.cupy.zeros(1, np.float32).get()
        except Exception as error:  # whatever a broken driver raises, the reason is what the user needs
            raise DeviceUnavailable(f"no GPU can be used: {error}", next_step=_NO_GPU) from error

    @cached_property
    def description(self) -> str:
        """The product's name, "NVIDIA H200"."""
        return self._properties["name"].decode()

    @cached_property
    def driver(self) -> str:
        """The CUDA version that the driver supports, "13.0"."""
        version = self.cupy.cuda.runtime.driverGetVersion()
        return f"{version // 1000}.{version % 1000 // 10}"

    @property
    def l2_bytes(self) -> int:
        return int(self._properties["l2CacheSize"])

    @property
    def arch(self) -> str:
        return "sm_{major}{minor}".format(**self._properties)

    @cached_property
    def spec(self) -> model.GpuSpec:
        """The chip as the driver describes it. Raises WarpschoolError for a compute capability newer than the table."""
        attributes = self._device.attributes
        capability = (self._properties["major"], self._properties["minor"])
        if capability not in model.LIMITS:
            raise DeviceUnavailable(
                f"there is no table of limits for compute capability {capability[0]}.{capability[1]}"
            )
        bits, memory_khz = attributes["GlobalMemoryBusWidth"], attributes["MemoryClockRate"]
        return model.GpuSpec(
            key="this",
            name=self.description,
            sm=model.LIMITS[capability],
            sms=attributes["MultiProcessorCount"],
            clock_mhz=attributes["ClockRate"] // 1000,
            dram_gb_per_s=2 * bits / 8 * memory_khz * 1e-6,  # two transfers per clock
            l2_bytes=self.l2_bytes,
            source="the driver",
        )

    # ---------------------------------------------------------------- memory

    def _wrap(self, array: Any, name: str) -> DeviceArray:
        return DeviceArray(self, GpuBuffer(array.reshape(-1).view(np.uint8)), array.shape, array.dtype, name=name)

    def asarray(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None, *, name: str = "") -> DeviceArray:
        """Copies a host array to the GPU."""
        if isinstance(host, self.cupy.ndarray):
            return self._wrap(self.cupy.ascontiguousarray(host, dtype), name)
        source = host_array(host, dtype)
        array = self.empty(source.shape, source.dtype, name=name)
        array.set(source)
        return array

    def empty(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        """A new array with arbitrary contents."""
        lengths, kind = checked_shape(shape), checked_dtype(dtype)
        nbytes = int(np.prod(lengths, dtype=np.int64)) * kind.itemsize
        try:
            owner = self.cupy.empty(max(nbytes, 1), np.uint8)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise ArgumentError(
                f"{name or 'an array'} of {nbytes:,} bytes does not fit on {self.description}"
            ) from error
        return DeviceArray(self, GpuBuffer(owner), lengths, kind, name=name)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        array = self.empty(shape, dtype, name=name)
        array.view(np.uint8).fill(0) if array.shape else array.native.fill(0)
        return array

    def asnumpy(self, array: DeviceArray, *, stream: Any = None) -> np.ndarray:
        return array.get(stream=stream)

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None:
        with self._faults("copying to the host"):
            array.native.get(out=out, stream=stream, blocking=stream is None)

    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None:
        with self._faults("copying from the host"):
            array.native.set(source, stream=stream)

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """A page-locked host array of zeros."""
        lengths, kind = checked_shape(shape), checked_dtype(dtype)
        count = int(np.prod(lengths, dtype=np.int64))
        memory = self.cupy.cuda.alloc_pinned_memory(max(count * kind.itemsize, 1))
        array = np.frombuffer(memory, kind, count).reshape(lengths)
        array[...] = np.zeros((), kind)
        return array

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
        """See `tensor_map`."""
        return tensor_map(array, box, window)

    def pointer(self, value: Any) -> int | None:
        if isinstance(value, DeviceArray):
            return value.address if value.device is self else None
        if isinstance(value, (np.ndarray, np.generic)):
            return None
        interface = getattr(value, "__cuda_array_interface__", None)  # CuPy, PyTorch, Numba
        if interface is None:
            return None
        if interface.get("strides") is not None and not self.cupy.asarray(value).flags.c_contiguous:
            raise ArgumentError("a kernel takes C-contiguous arrays only", next_step="Use cupy.ascontiguousarray(...).")
        return int(interface["data"][0])

    # ---------------------------------------------------------------- order

    def Stream(self, *, non_blocking: bool = False) -> Any:
        return self.cupy.cuda.Stream(non_blocking=non_blocking)

    def Event(self) -> Any:
        return self.cupy.cuda.Event()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds of GPU time between two recorded events; waits for the second one."""
        with self._faults("waiting for an event"):
            end.synchronize()
            return float(self.cupy.cuda.get_elapsed_time(start, end))

    def synchronize(self) -> None:
        """Waits for all work. Raises DeviceFault where a kernel failed."""
        with self._faults("waiting for the GPU"):
            self._device.synchronize()

    def sampler(self, *, flush: str, stream: Any = None) -> GpuSampler:
        """Takes timed samples; see GpuSampler."""
        return GpuSampler(self, flush=flush, stream=stream)

    @contextmanager
    def _faults(self, doing: str) -> Iterator[None]:
        """CUDA's errors as DeviceFault."""
        try:
            yield
        except (self.cupy.cuda.runtime.CUDARuntimeError, self.cupy.cuda.driver.CUDADriverError) as error:
            raise DeviceFault(
                f"{self.description} reported an error while {doing}: {error}",
                next_step='Run the kernel with device="sim": it names the line. A GPU that has faulted serves this '
                "process no more: restart it.",
            ) from error

    # ---------------------------------------------------------------- programs

    def load(self, module: Loadable) -> GpuModule:
        """Compiles for the GPU at hand. Raises CompileError with our compiler's diagnostics first."""
        from ptxsim import parse

        compiled = module.compiled
        options = ("-std=c++17", "-lineinfo", *module.options, *self._include_options())
        if compiled.arch.endswith("a"):
            native = self._load_specific(compiled, options)
        else:
            native = self.cupy.RawModule(code=compiled.source, backend="nvrtc", options=options)
        return GpuModule(self, native, parse(compiled.ptx), module.name)

    def _load_specific(self, compiled: Compiled, options: tuple[str, ...]) -> Any:
        """A source for one architecture and no other, which CuPy's own compilation does not ask for."""
        target = compiled.arch.replace("compute_", "sm_")
        if target.removesuffix("a") != self.arch:
            raise DeviceUnavailable(
                f"{compiled.name} is written for {target}; {self.description} is {self.arch}", next_step=_NO_GPU
            )
        nvrtc = self.cupy.cuda.nvrtc
        program = nvrtc.createProgram(compiled.source, compiled.name, (), ())
        try:
            nvrtc.compileProgram(program, (f"-arch={target}", *options))
            binary = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise LaunchError(f"{compiled.name} does not compile for {target}: {error}\n{log}") from error
        finally:
            nvrtc.destroyProgram(program)
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary)
            file.flush()
            native = self.cupy.RawModule(path=file.name)
            _ = native.module  # reads the file
        return native

    def _include_options(self) -> tuple[str, ...]:
        """CuPy brings some of CUDA's headers; mma.h and crt/ come from the toolkit or the pip packages."""
        return tuple(f"-I{folder}" for folder in find_toolchain().includes)

    def __repr__(self) -> str:
        return f"GpuDevice({self.description!r})"


# ---------------------------------------------------------------- programs


class GpuBuffer:
    """GPU memory that a CuPy array owns."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner  # a CuPy uint8 array

    @property
    def address(self) -> int:
        return int(self._owner.data.ptr)

    def label(self, name: str) -> None:
        """Nothing on a GPU reports names."""

    def native(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._owner[offset : offset + nbytes].view(dtype).reshape(shape)


@dataclass(frozen=True)
class GpuModule:
    """A module on the GPU. `program` is the parsed PTX of the same source: names and parameters."""

    device: GpuDevice
    native: Any
    program: Module
    source_name: str

    @property
    def entries(self) -> Sequence[str]:
        return self.program.entries

    @property
    def variables(self) -> Sequence[str]:
        return tuple(self.program.variables)

    def kernel(self, name: str) -> GpuKernel:
        cupy = self.device.cupy
        try:
            function = self.native.get_function(name)
            _ = function.attributes  # compiles now
        except cupy.cuda.compiler.CompileException as error:
            where = f"{self.device.description}, {self.device.arch}"
            raise DeviceLacks(f"{self.source_name} does not compile for {where}: {_first_complaint(error)}") from error
        return GpuKernel(self.device, name, function, self.program.params(name))

    def variable(self, name: str) -> DeviceArray:
        cupy = self.device.cupy
        try:
            pointer = self.native.get_global(name)
        except cupy.cuda.driver.CUDADriverError as error:
            raise ContractError(
                f"there is no __device__ or __constant__ variable {name!r}", file=self.source_name
            ) from error
        size = self.program.variables[name]
        owner = cupy.ndarray((size,), np.uint8, pointer)
        return DeviceArray(self.device, GpuBuffer(owner), (size,), np.dtype(np.uint8), name=name)


class GpuKernel:
    """A kernel on the GPU."""

    def __init__(self, device: GpuDevice, name: str, function: Any, params: Sequence[ParameterInfo]) -> None:
        self.device = device
        self.name = name
        self.function = function
        self.params = params

    @property
    def attributes(self) -> dict[str, int]:
        return dict(self.function.attributes)

    @property
    def max_dynamic_shared_bytes(self) -> int:
        return int(self.function.max_dynamic_shared_size_bytes)

    def allow_dynamic_shared(self, nbytes: int) -> None:
        cupy = self.device.cupy
        try:
            self.function.max_dynamic_shared_size_bytes = nbytes
        except cupy.cuda.driver.CUDADriverError as error:
            static = self.attributes["shared_size_bytes"]
            most = self.device.spec.sm.shared_bytes_per_block - static
            raise DeviceLacks(
                f"{nbytes:,} bytes of dynamic shared memory; {self.device.description} allows {most:,} "
                f"beside the kernel's {static:,} static bytes"
            ) from error

    def prepare(self, grid: Dim3, block: Dim3, options: LaunchOptions) -> None:
        """The driver has done it when the kernel was loaded."""

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
        """Enqueues the kernel and returns; a fault shows at the next copy or `synchronize`."""
        cupy = self.device.cupy
        try:
            self.function(grid, block, tuple(arguments), shared_mem=shared_bytes, stream=stream)
        except cupy.cuda.driver.CUDADriverError as error:
            if "INVALID_VALUE" in str(error) or "OUT_OF_RESOURCES" in str(error):
                raise LaunchError(f"{self.name} cannot be launched on {self.device.description}: {error}") from error
            raise DeviceFault(
                f"{self.device.description} reported an error at a launch of {self.name}: {error}",
                next_step='Run the kernel with device="sim": it names the line.',
            ) from error
        return not_measured()


def _first_complaint(error: Exception) -> str:
    """The first error of a compiler's log."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line.strip() for line in lines if "error" in line), lines[0])


# ---------------------------------------------------------------- timed samples

_MIN_FLUSH_BYTES = 64 << 20
_MIN_DELAY_US, _MAX_DELAY_US = 20.0, 1000.0
_SPIN = """
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


class GpuSampler:
    """Takes samples in batches: all of a batch is enqueued before the first event is read.

    Each sample is preceded by a memset that evicts the L2 cache (`flush="l2"`) and by a kernel that keeps the GPU busy
    while the host enqueues the work; without it, the gap between start event and kernel would count as the kernel's.
    """

    def __init__(self, device: GpuDevice, *, flush: str, stream: Any = None) -> None:
        self.device = device
        self.cupy = device.cupy
        self.stream = stream if stream is not None else self.cupy.cuda.get_current_stream()
        size = max(2 * device.l2_bytes, _MIN_FLUSH_BYTES)
        self._junk = self.cupy.empty(size, self.cupy.uint8) if flush == "l2" else None
        self._spin = self.cupy.RawKernel(_SPIN, "spin")
        self._host_us = 0.0
        _reset_persisting_l2()

    def run(self, work: Callable[[], Any]) -> None:
        """Runs once and waits; notes how long the host took to enqueue it."""
        started = time.perf_counter()
        work()
        self._host_us = (time.perf_counter() - started) * 1e6
        self.device.synchronize()

    def sample(self, works: Sequence[Callable[[], Any]]) -> list[float]:
        """Milliseconds of GPU time of each of `works`, in order."""
        events = [self._enqueue(work) for work in works]
        return [self.device.elapsed_ms(start, end) for start, end in events]

    def _enqueue(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        event = self.cupy.cuda.Event
        start, end = event(), event()
        if self._junk is not None:
            self._junk.data.memset_async(0, self._junk.nbytes, self.stream)
        self._spin((1,), (1,), (self._delay_cycles(),), stream=self.stream)
        start.record(self.stream)
        work()
        end.record(self.stream)
        return start, end

    def _delay_cycles(self) -> int:
        delay_us = min(max(1.5 * self._host_us, _MIN_DELAY_US), _MAX_DELAY_US)
        return int(delay_us * self.device.spec.clock_mhz)


def _reset_persisting_l2() -> None:
    """Gives lines that a former kernel pinned in L2 back; needs compute capability 8.0, elsewhere nothing is pinned."""
    from cuda.bindings import driver

    driver.cuCtxResetPersistingL2Cache()


# ---------------------------------------------------------------- tensor maps

_BYTES = 128
_TYPES = {
    "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "uint8": "UINT8", "int8": "UINT8",
    "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
}  # fmt: skip
_SWIZZLES = {128: "128B", 64: "64B", 32: "32B"}
"""By a box's width in bytes: the swizzle that spreads eight of its rows over all banks."""


def tensor_map(array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
    """The tensor map of an array on the GPU, for boxes with these sides; outside the array is zero.

    An array with more axes than the box has sides counts its first axes as one. `window` makes a map of images in
    NHWC for windows with these rows, columns, stride and padding; its boxes are places x channels. Boxes of 128, 64 or
    32 bytes in width are swizzled accordingly. Raises ArgumentError for an array whose rows do not start on 16 bytes,
    or a type that no tensor map knows.
    """
    from cuda.bindings import driver

    rank = 4 if window else len(box)
    shape = (math.prod(array.shape[: len(array.shape) - rank + 1]), *array.shape[len(array.shape) - rank + 1 :])
    _check(array, shape)
    pitches = [math.prod(shape[axis:]) * array.dtype.itemsize for axis in range(rank - 1, 0, -1)]
    described = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[array.dtype.name]}"), rank, array.address,
        [driver.cuuint64_t(length) for length in reversed(shape)], [driver.cuuint64_t(pitch) for pitch in pitches],
    )  # fmt: skip
    swizzle = _SWIZZLES.get(box[-1] * array.dtype.itemsize, "NONE")
    modes = (
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    status, found = _encoded(driver, described, box, window, modes)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFault(f"the driver makes no tensor map of {array.dtype}{list(array.shape)}: {status.name}")
    return np.frombuffer(ctypes.string_at(found.getPtr(), _BYTES), np.dtype(f"V{_BYTES}"))[0]


def _check(array: DeviceArray, shape: tuple[int, ...]) -> None:
    name, pitch = array.name or "the array", shape[-1] * array.dtype.itemsize
    if array.dtype.name not in _TYPES:
        raise ArgumentError(f"a tensor map describes numbers; {name} holds {array.dtype}")
    if pitch % 16:
        raise ArgumentError(
            f"a tensor map needs rows of a multiple of 16 bytes; {name} has {pitch}",
            next_step=f"Say so in the header, // Needs: columns % {16 // array.dtype.itemsize} == 0, or pad the rows.",
        )


def _encoded(
    driver: Any, described: tuple[Any, ...], box: tuple[int, ...], window: tuple[int, ...], modes: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The driver's status and map. A window's corner lies in a rectangle that begins and ends off the image's own."""
    if not window:
        sides = [driver.cuuint32_t(side) for side in reversed(box)]
        return driver.cuTensorMapEncodeTiled(*described, sides, [driver.cuuint32_t(1)] * len(box), *modes)
    rows, columns, stride, pad = window
    places, channels = box
    steps = [driver.cuuint32_t(step) for step in (1, stride, stride, 1)]
    return driver.cuTensorMapEncodeIm2col(
        *described, [-pad, -pad], [pad - (columns - 1), pad - (rows - 1)], channels, places, steps, *modes
    )
