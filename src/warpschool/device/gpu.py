"""An NVIDIA GPU as a device, through CuPy.

CuPy is imported when a GPU is first asked for. It compiles with its own NVRTC for the chip at hand; the PTX that our
own compiler makes of the same source serves to check arguments, and gives errors the same words on both devices.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpschool import model
from warpschool.compile import Compiled, find_toolchain
from warpschool.device.arrays import DeviceArray, checked_dtype, checked_shape, host_array
from warpschool.device.gpu_module import GpuBuffer, GpuModule
from warpschool.device.protocol import LaunchOptions, Shape
from warpschool.device.sampling import GpuSampler
from warpschool.device.tensor_map import tensor_map
from warpschool.errors import ArgumentError, DeviceFault, DeviceUnavailable, LaunchError

if TYPE_CHECKING:
    from warpschool.device.module import RawModule

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
        """See `warpschool.device.tensor_map`."""
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

    def load(self, module: RawModule) -> GpuModule:
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
