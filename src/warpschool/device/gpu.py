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

from ptxsim.tensormap import BYTES, TensorMap
from warpschool import model
from warpschool.compile import Compiled, compile_cuda, find_toolchain
from warpschool.compile.beside import headers_within
from warpschool.compile.host_code import device_part, has_host_code
from warpschool.compile.source import blank, own_options
from warpschool.compile.toolchain import STANDARD
from warpschool.device.protocol import (
    Buffer,
    Device,
    DeviceArray,
    Dim3,
    LaunchOptions,
    Loadable,
    Outcome,
    ParameterInfo,
    Shape,
    checked_dtype,
    checked_shape,
    not_measured,
)
from warpschool.device.tensors import described
from warpschool.errors import ArgumentError, DeviceFault, DeviceLacks, DeviceUnavailable, LaunchError

if TYPE_CHECKING:
    from ptxsim import Module

_INSTALL = 'Install CuPy for your driver: pip install "warpschool[cuda13]" (or [cuda12]). Or run with device="sim".'
_NOT_FOUND = 500
"""the driver's CUDA_ERROR_NOT_FOUND"""
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


class GpuDevice(Device):
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

    def asarray(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None, *, name: str = "") -> DeviceArray:
        """Copies a host array to the GPU; an array of CuPy's is taken as it is, if it is contiguous."""
        if not isinstance(host, self.cupy.ndarray):
            return super().asarray(host, dtype, name=name)
        array = self.cupy.ascontiguousarray(host, dtype)
        return DeviceArray(self, _buffer(array.reshape(-1).view(np.uint8)), array.shape, array.dtype, name=name)

    def allocate(self, nbytes: int, name: str, what: str) -> Buffer:
        """Memory of CuPy's pool."""
        try:
            return _buffer(self.cupy.empty(max(nbytes, 1), np.uint8))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise ArgumentError(
                f"{name or 'an array'} of {nbytes:,} bytes does not fit on {self.description}"
            ) from error

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None:
        with self._faults("copying to the host"):
            array.native.get(out=out, stream=stream, blocking=stream is None)

    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None:
        with self._faults("copying from the host"):
            array.native.set(source, stream=stream)

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """A page-locked host array of zeros."""
        lengths, kind = checked_shape(shape), checked_dtype(dtype)
        count = math.prod(lengths)
        memory = self.cupy.cuda.alloc_pinned_memory(max(count * kind.itemsize, 1))
        array = np.frombuffer(memory, kind, count).reshape(lengths)
        array[...] = np.zeros((), kind)
        return array

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
        """See `tensors.described`."""
        return np.frombuffer(_encoded(described(array, box, window)), np.dtype(f"V{BYTES}"))[0]

    def pointer(self, value: Any) -> int | None:
        if isinstance(value, (DeviceArray, np.ndarray, np.generic)):
            return super().pointer(value)
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
        if not compiled.source:  # PTX that something else has made: the driver takes it as it is
            native = self._load_binary(compiled.ptx.encode())
            return GpuModule(self, native, parse(compiled.ptx), module.name)
        # CuPy brings some of CUDA's headers; mma.h and crt/ come from the toolkit or the pip packages.
        includes = (f"-I{folder}" for folder in find_toolchain().includes)
        # INFINITY, uint32_t and their like, as where NVRTC makes PTX for the simulator.
        ours = own_options(blank(compiled.source), folder=STANDARD)
        options = ("-std=c++17", "-lineinfo", *module.options, *includes, *ours)
        if compiled.arch.endswith("a"):
            native = self._load_specific(compiled, options)
        elif compiled.symbols or headers_within(compiled.source) or has_host_code(compiled.source):
            own = compile_cuda(
                compiled.source, name=compiled.name, options=module.options, arch=self.arch,
                expressions=tuple(compiled.symbols),
            )  # fmt: skip
            native = self._load_binary(own.cubin)
        else:
            native = self.cupy.RawModule(code=device_part(compiled.source), backend="nvrtc", options=options)
        return GpuModule(self, native, parse(compiled.ptx), module.name)

    def _load_specific(self, compiled: Compiled, options: tuple[str, ...]) -> Any:
        """A source for one architecture and no other, which CuPy's own compilation does not ask for."""
        target = compiled.arch.replace("compute_", "sm_")
        if target.removesuffix("a") != self.arch:
            raise DeviceLacks(f"{compiled.name} is written for {target}; {self.description} is {self.arch}")
        nvrtc = self.cupy.cuda.nvrtc
        program = nvrtc.createProgram(device_part(compiled.source), compiled.name, (), ())
        try:
            nvrtc.compileProgram(program, (f"-arch={target}", *options))
            binary = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise LaunchError(f"{compiled.name} does not compile for {target}: {error}\n{log}") from error
        finally:
            nvrtc.destroyProgram(program)
        return self._load_binary(binary)

    def _load_binary(self, binary: bytes) -> Any:
        """Machine code for the GPU at hand, or PTX."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary)
            file.flush()
            native = self.cupy.RawModule(path=file.name)
            _ = native.module  # reads the file
        return native

    def __repr__(self) -> str:
        return f"GpuDevice({self.description!r})"


# ---------------------------------------------------------------- programs


def _buffer(array: Any) -> Buffer:
    """The memory of a CuPy uint8 array."""
    return Buffer(int(array.data.ptr), array)


@dataclass(frozen=True)
class GpuModule:
    """A module on the GPU. `program` is the parsed PTX of the same source: names and parameters."""

    device: GpuDevice
    native: Any
    program: Module
    source_name: str

    def kernel(self, name: str) -> GpuKernel:
        try:
            function = self.native.get_function(name)
            _ = function.attributes  # compiles now
        except self.device.cupy.cuda.compiler.CompileException as error:
            where = f"{self.device.description}, {self.device.arch}"
            raise DeviceLacks(f"{self.source_name} does not compile for {where}: {_first_complaint(error)}") from error
        return GpuKernel(self.device, name, function, self.program.params(name))

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that the machine code has."""
        return tuple(name for name in self.program.variables if self._has(name))

    def _has(self, name: str) -> bool:
        try:
            self.native.get_global(name)
        except self.device.cupy.cuda.driver.CUDADriverError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def variable(self, name: str) -> DeviceArray:
        shape = (self.program.variables[name],)
        array = self.device.cupy.ndarray(shape, np.uint8, self.native.get_global(name))
        return DeviceArray(self.device, _buffer(array), shape, np.dtype(np.uint8), name=name)


@dataclass
class GpuKernel:
    """A kernel on the GPU."""

    device: GpuDevice
    name: str
    function: Any
    params: Sequence[ParameterInfo]

    @property
    def attributes(self) -> dict[str, int]:
        return dict(self.function.attributes)

    @property
    def max_dynamic_shared_bytes(self) -> int:
        return int(self.function.max_dynamic_shared_size_bytes)

    def allow_dynamic_shared(self, nbytes: int) -> None:
        try:
            self.function.max_dynamic_shared_size_bytes = nbytes
        except self.device.cupy.cuda.driver.CUDADriverError as error:
            static = self.attributes["shared_size_bytes"]
            most = self.device.spec.sm.shared_bytes_per_block - static
            raise DeviceLacks(
                f"{nbytes:,} bytes of dynamic shared memory; {self.device.description} allows {most:,} "
                f"beside the kernel's {static:,} static bytes"
            ) from error

    order_may_show = False
    undefined_lines = ()

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
        together = {"enable_cooperative_groups": True} if options.cooperative else {}
        function = self.function.kernel if options.cooperative else self.function
        try:
            function(grid, block, tuple(arguments), shared_mem=shared_bytes, stream=stream, **together)
        except self.device.cupy.cuda.driver.CUDADriverError as error:
            if any(what in str(error) for what in ("INVALID_VALUE", "OUT_OF_RESOURCES", "TOO_LARGE")):
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
_MOST_TRIES = 4
"""of one sample, on a host that is busy with something else"""
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
        from cuda.bindings import driver

        # Lines that a former kernel pinned in L2 are given back; before compute capability 8.0 nothing is pinned.
        driver.cuCtxResetPersistingL2Cache()

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
        """Enqueues a sample, and anew where a busy host took longer than the GPU was kept waiting for it."""
        for _ in range(_MOST_TRIES):
            event = self.cupy.cuda.Event
            start, end = event(), event()
            if self._junk is not None:
                self._junk.data.memset_async(0, self._junk.nbytes, self.stream)
            delay_us = min(max(1.5 * self._host_us, _MIN_DELAY_US), _MAX_DELAY_US)
            self._spin((1,), (1,), (int(delay_us * self.device.spec.clock_mhz),), stream=self.stream)
            began = time.perf_counter()
            start.record(self.stream)
            work()
            end.record(self.stream)
            took_us = (time.perf_counter() - began) * 1e6
            if took_us <= delay_us or delay_us == _MAX_DELAY_US:
                break
            self._host_us = max(self._host_us, took_us)
        return start, end


# ---------------------------------------------------------------- tensor maps

_TYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64", "f16": "FLOAT16",
    "f32": "FLOAT32", "f64": "FLOAT64",
}  # fmt: skip


def _encoded(tensor_map: TensorMap) -> bytes:
    """The driver's 128 bytes for a map."""
    from cuda.bindings import driver

    m, rank = tensor_map, tensor_map.rank
    what = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[m.element]}"), rank, m.address,
        [driver.cuuint64_t(size) for size in m.sizes], [driver.cuuint64_t(stride) for stride in m.strides],
    )  # fmt: skip
    steps = [driver.cuuint32_t(step) for step in m.steps or (1,) * rank]
    modes = (
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{f'{m.swizzle}B' if m.swizzle else 'NONE'}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if m.corners is None:
        sides = [driver.cuuint32_t(side) for side in m.box]
        status, found = driver.cuTensorMapEncodeTiled(*what, sides, steps, *modes)
    else:
        lower, upper = (list(corner) for corner in m.corners)
        status, found = driver.cuTensorMapEncodeIm2col(*what, lower, upper, *m.box, steps, *modes)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFault(f"the driver makes no tensor map of {m.element}{list(m.sizes)}: {status.name}")
    return ctypes.string_at(found.getPtr(), BYTES)
