"""What a device is: the interface that the simulator and the GPU share.

The rest of the library talks to these protocols and never asks which device it has, except through `counts` and
`measures_time`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from warpschool.counters import Counters
from warpschool.errors import ArgumentError

if TYPE_CHECKING:
    from warpschool.device.arrays import DeviceArray
    from warpschool.device.measurement import Sampler
    from warpschool.device.module import RawModule
    from warpschool.model import GpuSpec

Dim3 = tuple[int, int, int]
Shape = int | Sequence[int]


class Stream(Protocol):
    """A queue of work: what is put into one stream happens in order."""

    def synchronize(self) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def record(self, event: Any = None) -> Any: ...


class Event(Protocol):
    """A mark in a stream."""

    @property
    def done(self) -> bool: ...
    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...


@dataclass(frozen=True)
class LaunchOptions:
    """How the simulator runs a launch; a GPU has no use for them. None leaves the choice to the simulator."""

    check: bool = True
    """look for hazards: races, out-of-bounds, uninitialised reads, divergent barriers"""
    count: bool = True
    threads: int | None = None
    step_limit: int | None = None
    """loop iterations after which a block counts as endless"""
    print_limit: int = 1 << 20
    """bytes of printf output"""

    def __post_init__(self) -> None:
        for name in ("check", "count"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ArgumentError(f"the launch option {name} = {getattr(self, name)!r} is neither True nor False")
        for name, least in (("threads", 1), ("step_limit", 1), ("print_limit", 0)):
            value = getattr(self, name)
            if value is None and name != "print_limit":
                continue
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise ArgumentError(f"the launch option {name} = {value!r} is no integer of at least {least}")


@dataclass(frozen=True)
class Outcome:
    """What a device reports of one launch; a device that does not measure something says so in its place."""

    counters: Counters
    lines: Mapping[int, Counters]
    hazards: Sequence[Any]
    printed: str


class ParameterInfo(Protocol):
    """One parameter of a compiled kernel, as the PTX declares it."""

    @property
    def type(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def align(self) -> int: ...
    @property
    def offset(self) -> int: ...


class LoadedKernel(Protocol):
    """A kernel that is ready to run on one device."""

    @property
    def params(self) -> Sequence[ParameterInfo]: ...
    @property
    def attributes(self) -> dict[str, int]: ...
    @property
    def max_dynamic_shared_bytes(self) -> int: ...

    def allow_dynamic_shared(self, nbytes: int) -> None:
        """Raises the limit for dynamic shared memory; LaunchError where the chip has less."""

    def prepare(self, grid: Dim3, block: Dim3, options: LaunchOptions) -> None:
        """Does now what the first launch of this shape would do before it runs; several threads may at once."""

    def launch(
        self,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[np.generic],
        *,
        shared_bytes: int,
        stream: Any,
        options: LaunchOptions,
    ) -> Outcome: ...


class LoadedModule(Protocol):
    """A compiled source on one device."""

    @property
    def entries(self) -> Sequence[str]:
        """Names of the kernels."""

    @property
    def variables(self) -> Iterable[str]:
        """Names of the `__device__` and `__constant__` variables."""

    def kernel(self, name: str) -> LoadedKernel: ...

    def variable(self, name: str) -> DeviceArray:
        """A `__device__` or `__constant__` variable as a byte array."""


class Device(Protocol):
    """A place to run kernels, with its own memory."""

    @property
    def name(self) -> str:
        """ "sim" or "gpu"."""

    @property
    def description(self) -> str:
        """The product's name, or "the simulator"."""

    @property
    def driver(self) -> str:
        """The CUDA version that the driver supports; "" on the simulator."""

    @property
    def counts(self) -> bool:
        """Whether launches report counters and hazards."""

    @property
    def measures_time(self) -> bool: ...

    @property
    def spec(self) -> GpuSpec:
        """The chip; on the simulator the one that stands for "a GPU"."""

    @property
    def arch(self) -> str:
        """The real architecture whose resource use is reported, "sm_80"."""

    @property
    def options(self) -> LaunchOptions: ...

    def asarray(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None, *, name: str = "") -> DeviceArray:
        """Copies a host array to the device. `name` is what hazard reports call it."""

    def empty(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        """An array with arbitrary contents (the simulator's read as NaN)."""

    def zeros(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray: ...

    def asnumpy(self, array: DeviceArray, *, stream: Any = None) -> np.ndarray:
        """Copies a device array to the host."""

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
        """What the tensor memory accelerator must know of an array; DeviceUnavailable on the simulator."""

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None: ...
    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None: ...

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """A host array from which copies to the device are fast and may overlap with kernels."""

    def Stream(self, *, non_blocking: bool = False) -> Any: ...

    def Event(self) -> Any: ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two recorded events; NotMeasured on the simulator."""

    def sampler(self, *, flush: str, stream: Any = None) -> Sampler:
        """Takes timed samples; NotMeasured on the simulator."""

    def synchronize(self) -> None:
        """Waits for all work on the device."""

    def load(self, module: RawModule) -> LoadedModule:
        """Makes a RawModule's program ready to run."""

    def pointer(self, value: Any) -> int | None:
        """The device address of an array of this device; None for anything else."""
