"""Compiled modules on the GPU, through CuPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxsim import Module
from warpschool.device.arrays import DeviceArray
from warpschool.device.launch import not_measured
from warpschool.device.protocol import Dim3, LaunchOptions, Outcome, ParameterInfo
from warpschool.errors import ContractError, DeviceFault, DeviceLacks, LaunchError

if TYPE_CHECKING:
    from warpschool.device.gpu import GpuDevice


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
