"""Launch arguments: checked against what the kernel declares, converted to what it receives.

Every argument becomes a NumPy scalar of the parameter's exact size; arrays become their address. Errors name the
parameter as the source does, or by position where the source's declaration cannot be read.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ptxsim.limits import MAX_BLOCK, MAX_GRID, MAX_THREADS
from warpschool.contract.source import SourceParameter
from warpschool.device.protocol import Device, DeviceArray, Dim3, ParameterInfo
from warpschool.errors import ArgumentError, LaunchError

_FLOAT_TYPES: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a compiled kernel: its place in the parameter block and what is known of its type.

    PTX keeps neither names nor what pointers point to: `declared` is what the source says, where it can be read.
    """

    index: int
    info: ParameterInfo
    declared: SourceParameter | None

    @property
    def label(self) -> str:
        """How messages call it: "argument 2 (n)"."""
        return f"argument {self.index + 1}" + (f" ({self.declared.name})" if self.declared else "")

    @cached_property
    def is_struct(self) -> bool:
        return self.info.type == "b8"

    @cached_property
    def is_float(self) -> bool:
        return self.info.type in _FLOAT_TYPES

    @cached_property
    def may_be_pointer(self) -> bool:
        is_address = self.info.size_bytes == 8 and not (self.is_float or self.is_struct)
        return is_address and (self.declared is None or self.declared.is_pointer)

    @property
    def wants(self) -> str:
        """What the kernel takes here, in words."""
        size = self.info.size_bytes
        if self.declared:
            return f"`{self.declared.type} {self.declared.name}`"
        if self.is_struct:
            return f"a structure of {size} bytes"
        return f"a {8 * size}-bit " + ("float" if self.is_float else "integer" + " or a pointer" * (size == 8))


def parameters(infos: Sequence[ParameterInfo], declared: Sequence[SourceParameter]) -> tuple[KernelParameter, ...]:
    """Joins the compiled parameters with the declared ones; the latter are dropped where they do not match."""
    fits = len(declared) == len(infos) and all(
        not d.is_pointer or i.size_bytes == 8 for d, i in zip(declared, infos, strict=True)
    )
    return tuple(KernelParameter(k, info, declared[k] if fits else None) for k, info in enumerate(infos))


@dataclass(frozen=True)
class Converted:
    """The arguments of a launch and what they became, for later launches with the same: most are like the one before.

    It does not keep arrays alive.
    """

    scalars: tuple[np.generic, ...]
    _ids: tuple[int, ...]
    _arrays: tuple[weakref.ref[DeviceArray], ...]
    _others: tuple[Any, ...]
    """which nobody can change"""

    @classmethod
    def of(cls, arguments: Sequence[Any], scalars: tuple[np.generic, ...]) -> Converted | None:
        """None where an argument may be another one next time although it is the same object."""
        arrays = [a for a in arguments if type(a) is DeviceArray]
        others = [a for a in arguments if type(a) is not DeviceArray]
        if not all(_never_changes(a) for a in others):
            return None
        return cls(scalars, tuple(map(id, arguments)), tuple(map(weakref.ref, arrays)), tuple(others))

    def are(self, arguments: Sequence[Any]) -> bool:
        """Whether these are the same objects."""
        given = isinstance(arguments, (tuple, list)) and self._ids == tuple(map(id, arguments))
        return given and None not in [array() for array in self._arrays]


def _never_changes(argument: Any) -> bool:
    if isinstance(argument, np.void):
        return argument.dtype.names is None
    return argument is None or isinstance(argument, (np.generic, int, float, bytes))


def convert(
    kernel: str, params: Sequence[KernelParameter], arguments: Sequence[Any], device: Device
) -> tuple[np.generic, ...]:
    """One NumPy scalar per parameter. Raises ArgumentError."""
    if not isinstance(arguments, (tuple, list)):
        raise ArgumentError(f"{kernel}: arguments are given as a tuple, not as {_named(arguments)}")
    if len(arguments) != len(params):
        names = ", ".join(p.declared.name if p.declared else f"#{p.index + 1}" for p in params)
        raise ArgumentError(f"{kernel} takes {len(params)} arguments ({names}), {len(arguments)} were given")
    converted = []
    for parameter, argument in zip(params, arguments, strict=True):
        try:
            converted.append(_convert(parameter, argument, device))
        except ArgumentError as error:
            raise ArgumentError(f"{kernel}, {parameter.label}: {error.message}", next_step=error.next_step) from None
    return tuple(converted)


# ---------------------------------------------------------------- one argument


def _convert(parameter: KernelParameter, argument: Any, device: Device) -> np.generic:
    address = device.pointer(argument)
    if address is not None:
        _check_array(parameter, argument)
        return np.uint64(address)
    if isinstance(argument, DeviceArray):
        raise ArgumentError(
            f"the array is on {argument.device.description}, the kernel runs on {device.description}",
            next_step="Copy it there: module.device.asarray(array.get()).",
        )
    if isinstance(argument, (bytes, bytearray, np.void)):
        return _structure(parameter, bytes(argument) if not isinstance(argument, np.void) else argument.tobytes())
    if isinstance(argument, np.ndarray):
        raise ArgumentError(
            f"a NumPy array of shape {argument.shape} is in the host's memory, where the kernel cannot read",
            next_step="Copy it to the device first: module.device.asarray(array).",
        )
    if parameter.declared and parameter.declared.is_pointer and not isinstance(argument, np.uint64):
        if argument is None:
            return np.uint64(0)  # the null pointer
        raise ArgumentError(
            f"the kernel takes a pointer, {parameter.wants}; {_named(argument)} was given",
            next_step="Pass a device array: module.device.asarray(host_array).",
        )
    if isinstance(argument, np.generic):
        return _numpy_scalar(parameter, argument)
    if isinstance(argument, (int, float)):
        return _python_number(parameter, argument)
    raise ArgumentError(
        f"{_named(argument)} cannot be passed to a kernel; it takes {parameter.wants}",
        next_step="Pass device arrays, NumPy scalars, Python numbers, or structures as bytes or np.void.",
    )


def _check_array(parameter: KernelParameter, array: Any) -> None:
    """Refuses an array where a value is wanted, and one whose elements are of another kind or size than declared."""
    if not parameter.may_be_pointer:
        raise ArgumentError(f"the kernel takes a value, {parameter.wants}; an array was given")
    wanted = parameter.declared.element if parameter.declared else None
    dtype = getattr(array, "dtype", None)
    if dtype is wanted:
        return
    if wanted is None or not isinstance(dtype, np.dtype) or dtype.kind not in "fiub" or dtype.itemsize == 1:
        return  # nothing is known, or raw bytes
    if (dtype.kind == "f") != (wanted.kind == "f") or (dtype.itemsize != wanted.itemsize and wanted.itemsize != 1):
        raise ArgumentError(
            f"the kernel takes {parameter.wants}, an array of {wanted}; an array of {dtype} was given",
            next_step=f"Convert it on the host: array.astype(np.{wanted}).",
        )


def _structure(parameter: KernelParameter, raw: bytes) -> np.generic:
    if len(raw) != parameter.info.size_bytes:
        raise ArgumentError(
            f"{len(raw)} bytes were given for {parameter.wants}, which has {parameter.info.size_bytes}",
            next_step="Mind the padding: np.dtype([...], align=True) lays a structure out as C++ does.",
        )
    return np.frombuffer(raw, np.dtype(f"V{len(raw)}"))[0]


def _numpy_scalar(parameter: KernelParameter, value: np.generic) -> np.generic:
    """NumPy scalars fix the type: size and kind must match."""
    size_fits = value.dtype.itemsize == parameter.info.size_bytes
    kinds = "f" if parameter.is_float else "iub"
    kind_fits = parameter.is_struct or value.dtype.kind in kinds  # half and bfloat16 are structures to the compiler
    if not (size_fits and kind_fits):
        raise ArgumentError(
            f"the kernel takes {parameter.wants} ({parameter.info.size_bytes} bytes); "
            f"{_named(value)} ({value.dtype.itemsize} bytes) was given",
            next_step="NumPy scalars fix an argument's type; a plain Python number is converted.",
        )
    return value


def _python_number(parameter: KernelParameter, value: float) -> np.generic:
    """Python numbers become the parameter's type if they fit."""
    if parameter.is_struct:
        raise ArgumentError(
            f"the kernel takes {parameter.wants}; the number {value!r} was given",
            next_step="For half, pass np.float16(x); other structures as bytes or np.void.",
        )
    if parameter.is_float:
        return _to_float(parameter, value)
    if isinstance(value, float):
        raise ArgumentError(
            f"the kernel takes an integer, {parameter.wants}; {value!r} was given",
            next_step="Use int(...), or // instead of / where the number is computed.",
        )
    size = parameter.info.size_bytes
    smallest, largest = -(1 << (8 * size - 1)), (1 << 8 * size) - 1
    if parameter.declared and parameter.declared.element is not None and parameter.declared.element.kind in "iu":
        limits = np.iinfo(parameter.declared.element)
        smallest, largest = int(limits.min), int(limits.max)
    if not smallest <= value <= largest:
        raise ArgumentError(f"{value} does not fit into {parameter.wants}: {smallest} to {largest}")
    return np.frombuffer((int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little"), f"<u{size}")[0]


def _to_float(parameter: KernelParameter, value: float) -> np.generic:
    kind = _FLOAT_TYPES[parameter.info.type]
    number: Any
    try:
        with np.errstate(over="ignore"):
            number = kind(value)
    except OverflowError:
        number = kind(np.inf)
    if np.isinf(number) and value not in (np.inf, -np.inf):
        raise ArgumentError(f"{value} is too large for {parameter.wants}")
    if isinstance(value, int) and int(number) != value:
        raise ArgumentError(
            f"the integer {value} has no exact value as {parameter.wants}",
            next_step=f"Write np.{np.dtype(kind)}({value}) if the nearest one will do.",
        )
    return number


def _named(value: Any) -> str:
    """A value's type with its article, for messages."""
    name = "None" if value is None else type(value).__name__
    return name if value is None else f"a{'n' * (name[0] in 'aeiou')} {name}"


# ---------------------------------------------------------------- grid and block


def checked_dims(kernel: str, what: str, given: Any) -> Dim3:
    """A grid or block as three positive integers within CUDA's limits. Raises LaunchError."""
    lengths = (given,) if isinstance(given, (int, np.integer)) else given
    try:
        return _checked(kernel, what, *lengths)
    except TypeError:
        raise LaunchError(
            f"{kernel}: {what} is a tuple of up to three integers, not {given!r}",
            next_step="Divide with // (or warpschool's cdiv rule, -(-n // b)): / gives a float.",
        ) from None


@lru_cache(maxsize=256, typed=True)
def _checked(kernel: str, what: str, *lengths: Any) -> Dim3:
    """The same for lengths one by one. Raises LaunchError, and TypeError for what is no integer."""
    dims = [operator.index(n) for n in lengths]
    if not 1 <= len(dims) <= 3:
        raise LaunchError(f"{kernel}: {what} has 1 to 3 dimensions, not {len(dims)}: {lengths!r}")
    limits = MAX_GRID if what == "grid" else MAX_BLOCK
    for axis, length, limit in zip("xyz", dims, limits, strict=False):
        if not 1 <= length <= limit:
            raise LaunchError(f"{kernel}: {what}.{axis} = {length:,} is outside 1 to {limit:,}")
    x, y, z = (*dims, 1, 1)[:3]
    if what == "block" and x * y * z > MAX_THREADS:
        raise LaunchError(f"{kernel}: a block of {x} x {y} x {z} = {x * y * z:,} threads; {MAX_THREADS:,} is the limit")
    return x, y, z
