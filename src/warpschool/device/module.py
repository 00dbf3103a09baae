"""`RawModule` and `Kernel`: CUDA C++ source to something that can be called.

The names and manners are CuPy's; what differs: Python numbers are converted to the parameter's own type and checked,
and a call returns a `Launch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool import model
from warpschool.compile import DEFAULT_ARCH, Compiled, Resources, compile_cuda, resource_usage
from warpschool.device.arguments import Parameter, checked_dims, convert, parameters
from warpschool.device.arrays import DeviceArray, checked_dtype
from warpschool.device.find import get_device
from warpschool.device.launch import Call, Launch
from warpschool.device.protocol import Device, LaunchOptions, LoadedKernel, LoadedModule
from warpschool.device.signature import declared_parameters
from warpschool.errors import ArgumentError, EntryError, LaunchError
from warpschool.suggest import did_you_mean

_OLDEST_COMPILED = (7, 5)
"""The oldest compute capability that today's NVRTC compiles for."""


class RawModule:
    """CUDA C++ source, compiled when a kernel of it is first asked for.

    `constants` replaces the initialisers of top-level `constexpr int`s. `device` is "sim", "gpu", "auto" or a device
    object. C++17 and CUDA's include folders are the default. `path` may stand in for `code`.
    """

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | Path | None = None,
        options: Sequence[str] = (),
        constants: Mapping[str, int] | None = None,
        device: str | Device = "auto",
        name: str = "",
        arch: str = DEFAULT_ARCH,
    ) -> None:
        if (code is None) == (path is None):
            raise ArgumentError("RawModule takes either code= or path=")
        self.code = Path(path).read_text(encoding="utf-8") if path is not None else str(code)
        self.name = name or (Path(path).name if path is not None else "kernel.cu")
        self.options = (options,) if isinstance(options, str) else tuple(options)
        self.constants = dict(constants or {})
        self.arch = arch
        self.device = get_device(device)

    @cached_property
    def compiled(self) -> Compiled:
        """The PTX and what it was made from. Raises CompileError."""
        return compile_cuda(
            self.code, name=self.name, options=self.options, constants=self.constants or None, arch=self.arch
        )

    @property
    def ptx(self) -> str:
        return self.compiled.ptx

    @cached_property
    def _loaded(self) -> LoadedModule:
        return self.device.load(self)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels in the source."""
        return tuple(self._loaded.entries)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the `__device__` and `__constant__` variables in the source."""
        return tuple(self._loaded.variables)

    def compile(self) -> None:
        """Compiles now rather than at first use. Raises CompileError."""
        self._loaded  # noqa: B018 - the property does the work

    def get_function(self, name: str) -> Kernel:
        """The kernel `name`. Raises CompileError, or EntryError where there is no such kernel."""
        entries = self.entries
        if name not in entries:
            raise EntryError(f"there is no kernel {name!r}", file=self.name, next_step=self._hint(name, entries))
        return Kernel(self, name, self._loaded.kernel(name))

    def get_global(self, name: str, dtype: npt.DTypeLike = np.uint8) -> DeviceArray:
        """A `__device__` or `__constant__` variable as a one-dimensional array of `dtype`.

        Raises ContractError where there is no such variable.
        """
        return self._loaded.variable(name).view(checked_dtype(dtype))

    def resources(self, arch: str) -> dict[str, Resources]:
        """What ptxas reports for each kernel on a real architecture ("sm_80")."""
        return dict(
            resource_usage(self.code, name=self.name, options=self.options, constants=self.constants or None, arch=arch)
        )

    def _hint(self, name: str, entries: tuple[str, ...]) -> str:
        if any(name in entry and entry.startswith("_Z") for entry in entries):
            return f'Write extern "C" in front of __global__, so that its name stays {name}.'
        return did_you_mean(name, entries) or 'Kernels are written extern "C" __global__ void name(...).'

    def __repr__(self) -> str:
        return f"RawModule({self.name!r}, device={self.device.name!r})"


class Kernel:
    """One kernel of a module. Call it: `kernel(grid, block, arguments, shared_mem=0, stream=None)`."""

    def __init__(self, module: RawModule, name: str, loaded: LoadedKernel) -> None:
        self.module = module
        self.name = name
        self._loaded = loaded

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the kernel takes."""
        return parameters(self._loaded.params, declared_parameters(self.module.code, self.name))

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any] = (),
        *,
        shared_mem: int = 0,
        stream: Any = None,
        **simulator: Any,
    ) -> Launch:
        """Launches the kernel.

        Arguments: device arrays, NumPy scalars (which fix the type), Python numbers, structures as bytes or np.void.
        `shared_mem` is dynamic shared memory in bytes. Further keywords are fields of `LaunchOptions`; only the
        simulator looks at them. Raises ArgumentError, LaunchError, and SimulationError where the simulator stops.
        """
        device = self.module.device
        options = self._options(simulator)
        dims = checked_dims(self.name, "grid", grid), checked_dims(self.name, "block", block)
        self._check_shared(shared_mem)
        scalars = convert(self.name, self.parameters, arguments, device)

        def run() -> Launch:
            for parameter, argument in zip(self.parameters, arguments, strict=True):
                if parameter.declared and isinstance(argument, DeviceArray):
                    argument.label(parameter.declared.name)
            outcome = self._loaded.launch(*dims, scalars, shared_bytes=shared_mem, stream=stream, options=options)
            return Launch(
                kernel=self.name,
                grid=dims[0],
                block=dims[1],
                shared_mem=shared_mem,
                device=device,
                source_name=self.module.name,
                array_bytes=_array_bytes(arguments),
                outcome=outcome,
                _again=run,
                _resources=lambda: self.resources,
                call=Call(self, arguments, scalars),
            )

        return run()

    def prepare(self, grid: int | Sequence[int], block: int | Sequence[int], **simulator: Any) -> None:
        """Translates for this shape of blocks now rather than at the first launch; threads may do so side by side.

        Keywords are fields of `LaunchOptions`. Raises as a launch does.
        """
        dims = checked_dims(self.name, "grid", grid), checked_dims(self.name, "block", block)
        self._loaded.prepare(*dims, self._options(simulator))

    def _options(self, simulator: Mapping[str, Any]) -> LaunchOptions:
        unknown = simulator.keys() - LaunchOptions.__dataclass_fields__.keys()
        if unknown:
            raise ArgumentError(
                f"{self.name}: {', '.join(sorted(unknown))} is no launch option", next_step="Options: " + _OPTION_NAMES
            )
        return replace(self.module.device.options, **simulator)

    def _check_shared(self, shared_mem: int) -> None:
        """Dynamic shared memory beyond the kernel's limit is refused, as on a GPU."""
        if shared_mem < 0:
            raise LaunchError(f"{self.name}: shared_mem = {shared_mem} is negative")
        limit = self.max_dynamic_shared_size_bytes
        if shared_mem > limit:
            raise LaunchError(
                f"{self.name}: {shared_mem:,} bytes of dynamic shared memory; {limit:,} are allowed",
                next_step=f"Ask for more first: kernel.max_dynamic_shared_size_bytes = {shared_mem}.",
            )

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Most dynamic shared memory that a launch may ask for; assign to raise it up to the chip's limit."""
        return self._loaded.max_dynamic_shared_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        self._loaded.allow_dynamic_shared(int(nbytes))

    @property
    def attributes(self) -> dict[str, int]:
        """What the device says of the kernel, under CuPy's names."""
        return self._loaded.attributes

    @property
    def resources(self) -> Resources:
        """Registers, shared, local and constant bytes and spills on the device's architecture (simulator: sm_80)."""
        return self.module.resources(self.module.device.arch)[self.name]

    def occupancy(
        self, block: int | Sequence[int], *, gpu: str | model.GpuSpec | None = None, shared_mem: int = 0
    ) -> model.Occupancy:
        """Resident warps per SM for a block shape on `gpu` (default: the GPU at hand, else the A100).

        The kernel is compiled for that GPU; for one older than sm_75, which NVRTC does not know any more, sm_75's
        register count is used and the result's note says so. Raises LaunchError where no block fits.
        """
        spec = model.find_gpu(gpu) if gpu is not None else self.module.device.spec
        note, arch = "", spec.arch
        if spec.capability < _OLDEST_COMPILED:
            arch = "sm_{}{}".format(*_OLDEST_COMPILED)
            note = f"registers as on {arch}"
        found = self.module.resources(arch)[self.name]
        x, y, z = checked_dims(self.name, "block", block)
        return model.occupancy(
            x * y * z,
            registers=found.registers,
            shared_bytes=found.shared_bytes + shared_mem,
            gpu=spec,
            note=note,
        )

    def __repr__(self) -> str:
        return f"Kernel({self.name!r} of {self.module.name!r}, device={self.module.device.name!r})"


_OPTION_NAMES = ", ".join(LaunchOptions.__dataclass_fields__)


def _array_bytes(arguments: Sequence[Any]) -> int:
    """Bytes of the distinct arrays among the arguments."""
    arrays = {(a.address, a.nbytes): a.nbytes for a in arguments if isinstance(a, DeviceArray)}
    return sum(arrays.values())
