"""A contract with numbers in it: every shape, every launch, checked against what a chip allows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from warpschool.contract.expressions import EvaluationError, Expression, evaluate, names_in
from warpschool.contract.model import Contract, Launch, Parameter
from warpschool.contract.types import CType
from warpschool.errors import ContractError, LaunchError, LaunchLineError, NeedsError
from warpschool.suggest import did_you_mean

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class ChipLimits:
    """What one launch may ask for on compute capability 8.0 (CUDA C++ Programming Guide, technical specifications)."""

    block: Dim3 = (1024, 1024, 64)
    threads_per_block: int = 1024
    grid: Dim3 = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 163 * 1024


CHIP_LIMITS = ChipLimits()
_TARGET_LIMITS = {"sm_90a": ChipLimits(shared_bytes=227 * 1024)}


@dataclass(frozen=True)
class ArrayPlan:
    """One array of a run; `direction` is "in", "out", "inout" or "scratch"; `shape` counts components of `dtype`.

    `shape` is None for an array that only fills a __constant__ symbol: any shape that fits will do.
    """

    name: str
    ctype: CType
    shape: tuple[int, ...] | None
    direction: str
    zeroed: bool = False
    line: int = field(default=0, compare=False)
    """of its Entry or Constant line"""

    @property
    def dtype(self) -> np.dtype:
        return self.ctype.dtype

    @property
    def is_given(self) -> bool:
        """Whether the caller brings it."""
        return self.direction in ("in", "inout")

    @property
    def is_result(self) -> bool:
        """Whether the caller gets it back."""
        return self.direction in ("out", "inout")


@dataclass(frozen=True)
class LaunchPlan:
    """One launch in numbers; `arguments` are the entry's parameters in order."""

    entry: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Parameter, ...]
    line: int
    boxes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """sides of the boxes of arrays that the kernel gets as tensor maps"""
    windows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """rows, columns, stride and padding of the windows of im2col maps"""


@dataclass(frozen=True)
class Plan:
    """All that a launcher needs to know; `constants` are the constexprs that the caller replaces."""

    contract: Contract = field(repr=False)
    sizes: Mapping[str, int]
    scalars: Mapping[str, int | float]
    arrays: Mapping[str, ArrayPlan]
    launches: tuple[LaunchPlan, ...]
    constants: Mapping[str, int]


def make_plan(contract: Contract, sizes: Mapping[str, int | float], *, constants: Mapping[str, int]) -> Plan:
    """Evaluate the header for these sizes.

    Raises ContractError for a missing or unknown size, NeedsError (quoting the line) for sizes that the file refuses,
    LaunchError for a launch that no chip can do.
    """
    _refuse_unknown_constants(contract, constants)
    scalars = _scalars(contract, sizes)
    values = contract.declarations.constexpr_values(constants)
    values |= {name: value for name, value in scalars.items() if isinstance(value, int)}
    _derive_sizes(contract, values, sizes)
    for condition in contract.needs:
        if not _value(contract, condition.tree, values, condition.line):
            numbers_used = _used(condition.tree, values)
            raise NeedsError(
                f"this kernel needs {condition.text}, and here {numbers_used}", file=contract.name,
                line=condition.line, next_step="Choose other sizes, or lift this limit in the kernel.",
            )  # fmt: skip
    arrays = _arrays(contract, values)
    launches = tuple(_launch(contract, launch, values) for launch in contract.launches)
    own = {size.name for size in contract.sizes} | set(scalars)
    known = {name: value for name, value in values.items() if name in own}
    for parameter in contract.parameters():
        if not parameter.is_array and parameter.name in values:
            scalars[parameter.name] = _in_range(contract, parameter, values[parameter.name])
    return Plan(contract, known, scalars, arrays, launches, dict(constants))


def _refuse_unknown_constants(contract: Contract, constants: Mapping[str, int]) -> None:
    for name in constants:
        if name not in contract.declarations.constexprs:
            raise ContractError(
                f"there is no top-level 'constexpr int {name}' to replace", file=contract.name,
                next_step=did_you_mean(name, contract.declarations.constexprs),
            )  # fmt: skip


def _scalars(contract: Contract, sizes: Mapping[str, int | float]) -> dict[str, int | float]:
    """Return the given scalars as Python numbers, each checked against its parameter."""
    parameters = {parameter.name: parameter for parameter in contract.parameters() if not parameter.is_array}
    derived = {size.name for size in contract.sizes}
    for name in sizes:
        if name not in parameters and name not in derived:
            raise ContractError(
                f"'{name}' is no scalar of this kernel", file=contract.name,
                next_step=did_you_mean(name, sorted(parameters)),
            )  # fmt: skip
    missing = [name for name in parameters if name not in sizes and name not in derived]
    if missing:
        entry = next(entry for entry in contract.entries if missing[0] in {p.name for p in entry.parameters})
        raise ContractError(
            f"no value for {', '.join(missing)}", file=contract.name, line=entry.line,
            next_step=f"Give a number for each scalar of {entry}",
        )  # fmt: skip
    return {name: _number(contract, parameters[name], sizes[name]) for name in parameters if name in sizes}


def _number(contract: Contract, parameter: Parameter, value: float) -> int | float:
    wanted = numbers.Integral if parameter.ctype.is_integer else numbers.Real
    is_number = isinstance(value, wanted | np.bool_) if parameter.ctype.name == "bool" else isinstance(value, wanted)
    if not is_number or (isinstance(value, bool) and parameter.ctype.name != "bool"):
        kind = "an integer" if parameter.ctype.is_integer else "a number"
        raise ContractError(f"'{parameter}' needs {kind}, not {value!r}", file=contract.name, line=parameter.line)
    return _in_range(contract, parameter, int(value)) if parameter.ctype.is_integer else float(value)


def _in_range(contract: Contract, parameter: Parameter, value: int) -> int:
    info = np.iinfo(parameter.ctype.dtype) if parameter.ctype.is_integer else None
    if info and not info.min <= value <= info.max:
        raise ContractError(f"{value} does not fit into '{parameter}'", file=contract.name, line=parameter.line)
    return value


def _derive_sizes(contract: Contract, values: dict[str, int], given: Mapping[str, int | float]) -> None:
    for size in contract.sizes:
        value = _value(contract, size.tree, values, size.line)
        if size.name in given and given[size.name] != value:
            raise ContractError(
                f"{size.name} = {given[size.name]} was asked for, but the Sizes line computes {value}",
                file=contract.name, line=size.line, next_step=f"Leave {size.name} out: it is derived.",
            )  # fmt: skip
        values[size.name] = value


def _value(
    contract: Contract, tree: Expression, values: Mapping[str, int], line: int,
    *, error: type[ContractError] = ContractError,
) -> int:  # fmt: skip
    try:
        return evaluate(tree, values)
    except EvaluationError as reason:
        raise error(f"{tree}: {reason} ({_used(tree, values)})", file=contract.name, line=line) from None


def _used(tree: Expression, values: Mapping[str, int]) -> str:
    names = dict.fromkeys(name.name for name in names_in(tree))
    return ", ".join(f"{name} = {values.get(name, '?')}" for name in names)


def _arrays(contract: Contract, values: Mapping[str, int]) -> dict[str, ArrayPlan]:
    directions = contract.array_directions()
    arrays: dict[str, ArrayPlan] = {}
    for parameter in contract.parameters():
        if not parameter.is_array:
            continue
        shape = _shape(contract, parameter, values)
        before = arrays.get(parameter.name)
        if before is None or before.shape is None:
            is_zeroed = parameter.name in contract.zeroed
            arrays[parameter.name] = ArrayPlan(
                parameter.name, parameter.ctype, shape, directions[parameter.name], is_zeroed, parameter.line
            )
        elif math.prod(before.shape) != math.prod(shape):
            raise ContractError(
                f"'{parameter.name}' has shape {list(shape)} here and {list(before.shape)} in another Entry",
                file=contract.name, line=parameter.line, next_step="Both must hold the same number of elements.",
            )  # fmt: skip
    for fill in contract.constants:
        arrays.setdefault(fill.array, ArrayPlan(fill.array, fill.ctype, None, "in", line=fill.line))
    return arrays


def _shape(contract: Contract, parameter: Parameter, values: Mapping[str, int]) -> tuple[int, ...]:
    trees = parameter.dims or ()
    shape = tuple(_value(contract, tree, values, parameter.line) for tree in trees)
    for tree, length in zip(trees, shape, strict=True):
        if length < 1:
            raise ContractError(
                f"'{parameter}' would have length {length} along {tree} ({_used(tree, values)})", file=contract.name,
                line=parameter.line, next_step="Every length is 1 or more: choose other sizes.",
            )  # fmt: skip
    if math.prod(shape) % parameter.ctype.lanes:
        raise NeedsError(
            f"'{parameter}' has {math.prod(shape)} elements, which is no multiple of {parameter.ctype.lanes}",
            file=contract.name, line=parameter.line, next_step="Arrays are counted in elements.",
        )  # fmt: skip
    return shape


def _launch(contract: Contract, launch: Launch, values: Mapping[str, int]) -> LaunchPlan:
    block = _dim3(contract, launch, launch.block, values)
    grid = _dim3(contract, launch, launch.grid, values)
    shared = _value(contract, launch.shared, values, launch.line, error=LaunchLineError)
    problem = launch_problem(grid, block, shared, limits=_TARGET_LIMITS.get(contract.target, CHIP_LIMITS))
    if problem:
        trees = (*launch.block, *launch.grid, launch.shared)
        used = dict.fromkeys(name.name for tree in trees for name in names_in(tree))
        with_values = ", ".join(f"{name} = {values[name]}" for name in used)
        suffix = f" (with {with_values})" if with_values else ""
        raise LaunchError(
            f"{contract.name}:{launch.line}: the launch of '{launch.entry}' asks for {problem}{suffix}",
            line=launch.line,
            next_step="Change block, grid or shared in the Launch line, or the constexprs that it uses.",
        )
    parameters = contract.entry(launch.entry).parameters
    boxes = {parameter.name: _box(contract, parameter, values) for parameter in parameters if parameter.box}
    windows = {
        parameter.name: tuple(_value(contract, tree, values, parameter.line) for tree in parameter.window)
        for parameter in parameters
        if parameter.window
    }
    return LaunchPlan(launch.entry, grid, block, shared, parameters, launch.line, boxes, windows)


def _box(contract: Contract, parameter: Parameter, values: Mapping[str, int]) -> tuple[int, ...]:
    box = tuple(_value(contract, tree, values, parameter.line) for tree in parameter.box)
    most = 1024 if parameter.window else 256
    if not all(1 <= side <= most for side in box[:-1]) or not 1 <= box[-1] <= 256 or _width(parameter, box) % 16:
        raise ContractError(
            f"'{parameter}' has boxes of {' x '.join(map(str, box))} elements", file=contract.name,
            line=parameter.line,
            next_step="A box has sides of 1 to 256 (im2col: 1,024 places), and rows of a multiple of 16 bytes.",
        )  # fmt: skip
    return box


def _width(parameter: Parameter, box: tuple[int, ...]) -> int:
    """Bytes of a row of a box."""
    return box[-1] * parameter.ctype.nbytes


def _dim3(contract: Contract, launch: Launch, trees: tuple[Expression, ...], values: Mapping[str, int]) -> Dim3:
    x, y, z = (
        _value(contract, trees[axis], values, launch.line, error=LaunchLineError) if axis < len(trees) else 1
        for axis in range(3)
    )
    return x, y, z


def launch_problem(grid: Dim3, block: Dim3, shared_bytes: int, *, limits: ChipLimits = CHIP_LIMITS) -> str:
    """Say what a launch asks for beyond the limits, or return ""."""
    for name, numbers_asked, allowed in (("block", block, limits.block), ("grid", grid, limits.grid)):
        for axis, asked, most in zip("xyz", numbers_asked, allowed, strict=True):
            if not 1 <= asked <= most:
                return f"{name} {axis} = {asked}; it must be 1 to {most}"
    if math.prod(block) > limits.threads_per_block:
        return f"{math.prod(block)} threads in a block; at most {limits.threads_per_block} are possible"
    if not 0 <= shared_bytes <= limits.shared_bytes:
        return f"{shared_bytes} bytes of shared memory; it must be 0 to {limits.shared_bytes}"
    return ""
