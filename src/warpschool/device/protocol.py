"""What a device is: what the simulator and the GPU share, arrays in its memory, what a launch reports.

The rest of the library talks to `Device` and to what it loads, and never asks which device it has, except through
`counts` and `measures_time`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from ptxsim.adders import ORDERED, TENSOR_SUMS
from warpschool.compile import Compiled
from warpschool.contract.model import Dim3
from warpschool.counters import NOT_MEASURED, Counters, UnmeasuredCounters
from warpschool.device.measurement import Sampler
from warpschool.errors import ArgumentError, NotMeasured
from warpschool.model import GpuSpec

if TYPE_CHECKING:
    from ptxsim import Module

Shape = int | Sequence[int]


@dataclass(frozen=True)
class LaunchOptions:
    """How a launch runs. A GPU looks at `cooperative` alone. None leaves the choice to the simulator."""

    check: bool = True
    """look for hazards: races, out-of-bounds, uninitialised reads, divergent barriers"""
    count: bool = True
    threads: int | None = None
    step_limit: int | None = None
    """loop iterations after which a block counts as endless"""
    print_limit: int = 1 << 20
    """bytes of printf output"""
    order: int | None = None
    """seed of an order in which blocks and warps take their turns; None: by number"""
    cooperative: bool = False
    """all blocks are resident from the start, and may meet in grid.sync()"""
    handoffs: bool = False
    """keep what warps hand to each other through barrier objects, with checks: `Launch.handoffs`"""
    tensor_sums: str = ORDERED
    """how tensor cores add: "ordered" along k, each step rounded to nearest, or as a "hopper" GPU does, bit for bit"""
    doubled: str = ""
    """a kind of product that counts twice, or of copy that brings zeros (`ptxsim.kernel.doubled`)"""
    tier: str = "auto"
    """which code runs (`ptxsim.run.tiers`): "frugal" is for many launches that run for a moment, "brief" for those that
    are stopped by their `step_limit`"""

    def __post_init__(self) -> None:
        if self.tensor_sums not in TENSOR_SUMS:
            raise ArgumentError(
                f"the launch option tensor_sums = {self.tensor_sums!r} is none of {', '.join(map(repr, TENSOR_SUMS))}"
            )
        for name in ("check", "count", "cooperative", "handoffs"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ArgumentError(f"the launch option {name} = {getattr(self, name)!r} is neither True nor False")
        for name, least in (("threads", 1), ("step_limit", 1), ("print_limit", 0), ("order", 0)):
            value = getattr(self, name)
            is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if (value is not None or name == "print_limit") and not (is_whole and value >= least):
                raise ArgumentError(f"the launch option {name} = {value!r} is no integer of at least {least}")


@dataclass(frozen=True)
class Outcome:
    """What a device reports of one launch; a device that does not measure something says so in its place."""

    counters: Counters
    lines: Mapping[int, Counters]
    hazards: Sequence[Any]
    printed: str
    notes: Sequence[Any] = ()
    """findings that are no hazards"""
    handoffs: Sequence[Any] = ()
    """what warps hand to each other (`ptxsim.record.Handoff`), where it was asked for"""
    stored_to: Sequence[str] = ()
    """names of the arrays that were stored to or updated, whatever they hold afterwards, with checks"""
    complete: bool = True
    """False where the launch was ended after too many accesses that went out of bounds"""


class ParameterInfo(Protocol):
    """One parameter of a compiled kernel, as the PTX declares it."""

    @property
    def type(self) -> str:
        """PTX's, "u32"; "b8" for a structure."""

    @property
    def size_bytes(self) -> int:
        """4 for "u32"."""

    @property
    def offset(self) -> int:
        """Where it stands in the parameter block."""


class Loadable(Protocol):
    """What a device must know of a `RawModule` to load it."""

    name: str
    options: tuple[str, ...]

    @property
    def compiled(self) -> Compiled:
        """The PTX and what it was made from. Raises CompileError."""


class LoadedKernel(Protocol):
    """A kernel that is ready to run on one device."""

    @property
    def params(self) -> Sequence[ParameterInfo]:
        """What it takes, in order."""

    @property
    def attributes(self) -> dict[str, int]:
        """What the device says of it, under CuPy's names."""

    @property
    def max_dynamic_shared_bytes(self) -> int:
        """Most dynamic shared memory that a launch may ask for."""

    @property
    def order_may_show(self) -> bool:
        """Whether the launch option `order` may give other results; always False on a GPU, which takes its own."""

    @property
    def undefined_lines(self) -> tuple[int, ...]:
        """Source lines where a variable may be read before it has a value; none are known on a GPU."""

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
    ) -> Outcome:
        """Runs it, or on the GPU enqueues it. `arguments` are as `warpschool.device.arguments.convert` makes them."""


class LoadedModule(Protocol):
    """A compiled source on one device."""

    @property
    def program(self) -> Module:
        """The parsed PTX of the source: names and parameters of its kernels, its variables."""

    def kernel(self, name: str) -> LoadedKernel:
        """One of the program's entries."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that it has."""
        ...

    def variable(self, name: str) -> DeviceArray:
        """One of the program's variables as a byte array."""


class Device(Protocol):
    """A place to run kernels, with its own memory."""

    options: LaunchOptions
    """what holds for launches that say nothing else"""

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
    def measures_time(self) -> bool:
        """Whether `elapsed_ms` and `sampler` do."""

    @property
    def spec(self) -> GpuSpec:
        """The chip; on the simulator the one that stands for "a GPU"."""

    @property
    def arch(self) -> str:
        """The real architecture whose resource use is reported, "sm_80"."""

    def asarray(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None, *, name: str = "") -> DeviceArray:
        """Copies a host array to the device. `name` is what hazard reports call it."""
        source = host_array(host, dtype)
        array = self.empty(source.shape, source.dtype, name=name)
        array.set(source)
        return array

    def empty(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        """An array with arbitrary contents (the simulator's read as NaN: every byte is 0xFF)."""
        lengths, kind = checked_shape(shape), checked_dtype(dtype)
        buffer = self.allocate(math.prod(lengths) * kind.itemsize, name, f"{kind}{list(lengths)}")
        return DeviceArray(self, buffer, lengths, kind, name=name)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike, *, name: str = "") -> DeviceArray:
        """An array of zeros."""
        array = self.empty(shape, dtype, name=name)
        array._buffer.content.fill(0)
        return array

    def allocate(self, nbytes: int, name: str, what: str) -> Buffer:
        """Memory for an array that messages call `name`, or describe by `what` it holds."""

    def asnumpy(self, array: DeviceArray, *, stream: Any = None) -> np.ndarray:
        """Copies a device array to the host."""
        return array.get(stream=stream)

    def tensor_map(self, array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
        """What the tensor memory accelerator must know of an array; DeviceUnavailable on the simulator."""

    def copy_to_host(self, array: DeviceArray, out: np.ndarray, stream: Any) -> None:
        """Fills `out`, which has the array's shape and dtype; with a stream, when its work so far is done."""

    def copy_from_host(self, array: DeviceArray, source: np.ndarray, stream: Any) -> None:
        """Fills the array from `source`, in the same way."""

    def pinned(self, shape: Shape, dtype: npt.DTypeLike) -> np.ndarray:
        """A host array from which copies to the device are fast and may overlap with kernels."""

    def Stream(self, *, non_blocking: bool = False) -> Any:
        """A queue of work: what is put into one stream happens in order."""

    def Event(self) -> Any:
        """A mark in a stream, to wait for or to take the time at."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two recorded events; NotMeasured on the simulator."""

    def sampler(self, *, flush: str, stream: Any = None) -> Sampler:
        """Takes timed samples; NotMeasured on the simulator."""

    def synchronize(self) -> None:
        """Waits for all work on the device."""

    def load(self, module: Loadable) -> LoadedModule:
        """Makes a RawModule's program ready to run."""

    def pointer(self, value: Any) -> int | None:
        """The device address of an array of this device; None for anything else."""
        return value.address if isinstance(value, DeviceArray) and value.device is self else None


# ---------------------------------------------------------------- what is not measured


class _Unmeasured:
    """Stands for what a device does not measure: its text says so, looking inside raises NotMeasured."""

    measured = False

    def __init__(self, what: str, reason: str = NOT_MEASURED) -> None:
        self.what = what
        self.reason = reason

    def _refuse(self, *_: object) -> NoReturn:
        raise NotMeasured(f"{self.what}: {self.reason}", next_step='Run the kernel with device="sim".')

    __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = _refuse

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.what!r}, {self.reason!r})"

    def __str__(self) -> str:
        return self.reason


class UnmeasuredHazards(_Unmeasured, Sequence[Any]):
    """`hazards` of a device that looks for none."""

    index = count = __reversed__ = _Unmeasured._refuse


class UnmeasuredLines(_Unmeasured, Mapping[int, Counters]):
    """`lines` of a device that counts nothing."""

    keys = items = values = get = _Unmeasured._refuse


class UnmeasuredText(str):
    """Stands for printed text that went elsewhere; `measured` tells it from real text."""

    measured = False


def not_measured(reason: str = NOT_MEASURED) -> Outcome:
    """The outcome of a launch on a device that only runs and does not look."""
    return Outcome(
        counters=UnmeasuredCounters(reason),
        lines=UnmeasuredLines("counters per line", reason),
        hazards=UnmeasuredHazards("hazards", reason),
        printed=UnmeasuredText(reason),
    )


# ---------------------------------------------------------------- arrays


@dataclass(eq=False)
class Buffer:
    """A piece of device memory that begins at `address`; alive as long as an array refers to it."""

    address: int
    content: Any
    """its bytes, as a flat array of the device's own library: NumPy's on the simulator, CuPy's on the GPU"""
    owner: Any = None
    """what must live as long"""

    def label(self, name: str) -> None:
        """Names the memory in hazard reports, which the simulator alone has."""

    def native(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The bytes from `offset` on as an array."""
        return self.content[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class DeviceArray:
    """An array in device memory: `shape`, `dtype`, `nbytes`; `get` and `set` copy to and from the host.

    Basic slices along the first axis (`a[3:8]`, `a[5]`), `reshape` and `view` share memory with the array.
    NumPy functions do not work on it: copy to the host first.
    """

    device: Device
    _buffer: Buffer
    shape: tuple[int, ...]
    dtype: np.dtype
    name: str = field(default="", kw_only=True)
    _offset: int = 0

    __array_ufunc__ = None
    __iter__ = None

    # ---------------------------------------------------------------- facts

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def address(self) -> int:
        """The device pointer that a kernel receives."""
        return self._buffer.address + self._offset

    @property
    def native(self) -> Any:
        """The same memory as the device's own array type: a NumPy array on the simulator, a CuPy array on the GPU."""
        return self._buffer.native(self._offset, self.shape, self.dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Lets CuPy and PyTorch use the memory without a copy; only on the GPU."""
        return self.native.__cuda_array_interface__

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        label = f"{self.name!r}, " if self.name else ""
        return f"DeviceArray({label}shape={self.shape}, dtype={self.dtype}, device={self.device.name!r})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise ArgumentError(
            f"{self!r} lives in device memory; NumPy cannot read it there",
            next_step="Copy it to the host first: device.asnumpy(array) or array.get().",
        )

    def label(self, name: str) -> None:
        """Lends an array without a name of its own the name of the parameter that it is passed for."""
        if not self.name:
            self._buffer.label(name)

    # ---------------------------------------------------------------- copies

    def get(self, *, stream: Any = None, out: np.ndarray | None = None) -> np.ndarray:
        """Copies to the host: a new array, or `out`, which must have the same shape and dtype."""
        if out is None:
            out = np.empty(self.shape, self.dtype)
        self._require_same(out, "out")
        if not out.flags.c_contiguous:
            raise ArgumentError("out must be C-contiguous")
        self.device.copy_to_host(self, out, stream)
        return out

    def set(self, host: npt.ArrayLike, *, stream: Any = None) -> None:
        """Copies a host array of the same shape and dtype into this one."""
        source = np.ascontiguousarray(host).reshape(np.shape(host))
        self._require_same(source, "the host array")
        self.device.copy_from_host(self, source, stream)

    def fill(self, value: Any) -> None:
        """Sets every element to `value`."""
        self.native.fill(value)

    def _require_same(self, host: np.ndarray, what: str) -> None:
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ArgumentError(
                f"{what} has shape {host.shape} and dtype {host.dtype}; "
                f"{self.name or 'the device array'} has shape {self.shape} and dtype {self.dtype}",
                next_step="Convert it first: host.astype(...), host.reshape(...).",
            )

    # ---------------------------------------------------------------- views

    def _part(self, shape: tuple[int, ...], dtype: np.dtype, offset: int = 0) -> DeviceArray:
        return DeviceArray(self.device, self._buffer, shape, dtype, self._offset + offset, name=self.name)

    def __getitem__(self, key: int | slice) -> DeviceArray:
        """`a[i]` and `a[i:j]`: a view of rows; other keys raise ArgumentError."""
        if not self.shape:
            raise IndexError("an array without dimensions cannot be indexed")
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise ArgumentError(f"device arrays can be sliced with step 1 only, not {step}")
            return self._part((max(0, stop - start), *self.shape[1:]), self.dtype, start * row_bytes)
        try:
            index = operator.index(key)
        except TypeError:
            raise ArgumentError(
                f"device arrays are indexed along the first axis, by an integer or a slice, not by {key!r}",
                next_step="Copy to the host first for anything else: array.get()[...].",
            ) from None
        if not -self.shape[0] <= index < self.shape[0]:
            raise IndexError(f"index {index} is out of range for {self.shape[0]} rows")
        return self._part(self.shape[1:], self.dtype, index % self.shape[0] * row_bytes)

    def reshape(self, *shape: Any) -> DeviceArray:
        """The same memory in another shape; one length may be -1."""
        wanted = shape[0] if len(shape) == 1 else shape
        return self._part(_reshaped(self.shape, wanted), self.dtype)

    def view(self, dtype: npt.DTypeLike) -> DeviceArray:
        """The same bytes read as another dtype; the last axis shrinks or grows accordingly."""
        new = np.dtype(dtype)
        last = self.shape[-1] if self.shape else 1
        if last * self.dtype.itemsize % new.itemsize or (self._offset % new.itemsize):
            raise ArgumentError(f"{last} elements of {self.dtype} cannot be read as {new}")
        if not self.shape and new.itemsize != self.dtype.itemsize:
            raise ArgumentError(f"one element of {self.dtype} cannot be read as {new}")
        shape = (*self.shape[:-1], last * self.dtype.itemsize // new.itemsize) if self.shape else ()
        return self._part(shape, new)


def checked_shape(shape: Shape) -> tuple[int, ...]:
    """A shape as a tuple of non-negative ints. Raises ArgumentError."""
    try:
        lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        lengths = tuple(operator.index(n) for n in lengths)
    except TypeError:
        raise ArgumentError(f"a shape consists of integers, not {shape!r}") from None
    if any(n < 0 for n in lengths):
        raise ArgumentError(f"a shape cannot be negative: {lengths}")
    return lengths


def _reshaped(old: tuple[int, ...], wanted: Shape) -> tuple[int, ...]:
    """The shape `wanted`, in which one length may be -1, for as many elements as `old` has. Raises ArgumentError."""
    lengths = [operator.index(n) for n in ((wanted,) if isinstance(wanted, (int, np.integer)) else wanted)]
    size, known = math.prod(old), math.prod(n for n in lengths if n != -1)
    if lengths.count(-1) == 1 and known and size % known == 0:
        lengths[lengths.index(-1)] = size // known
    if math.prod(lengths) != size or any(n < 0 for n in lengths):
        raise ArgumentError(f"shape {old} cannot become {tuple(lengths)}")
    return tuple(lengths)


def checked_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """A dtype that a device can hold: no Python objects, no foreign byte order. Raises ArgumentError."""
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentError(f"{dtype!r} is no dtype") from error
    if found.hasobject or found.kind in "USmM":
        raise ArgumentError(f"arrays of dtype {found} cannot live on a device")
    if not found.isnative:
        raise ArgumentError(f"dtype {found} has the wrong byte order for a device")
    return found


def host_array(host: npt.ArrayLike, dtype: npt.DTypeLike | None) -> np.ndarray:
    """A C-contiguous host array that a device can hold. Raises ArgumentError."""
    if isinstance(host, DeviceArray):
        raise ArgumentError(f"{host!r} is on a device already; copy it to the host first: array.get()")
    try:
        array = np.asarray(host, dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"this cannot become an array: {error}") from error
    checked_dtype(array.dtype)
    return np.ascontiguousarray(array).reshape(array.shape)
