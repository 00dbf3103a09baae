"""What a kernel file promises, and the same with numbers in it: each shape and launch, within what a chip allows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptxsim.limits import LIMITS, MAX_BLOCK, MAX_GRID, SmLimits
from warpschool.compile import DEFAULT_ARCH
from warpschool.contract.expressions import EvaluationError, Expression, Name, evaluate, names_in
from warpschool.contract.source import CType, Declarations
from warpschool.errors import ContractError, LaunchError, LaunchLineError, NeedsError
from warpschool.suggest import did_you_mean

Dim3 = tuple[int, int, int]
DIRECTIONS = ("in", "out", "inout")
TARGETS = ("sm_90a",)
"""Architectures with instructions of their own that no later GPU keeps."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry: an array with `dims` and a direction, or a scalar (`dims` is None)."""

    name: str
    ctype: CType
    line: int = field(compare=False)
    dims: tuple[Expression, ...] | None = None
    direction: str = ""
    box: tuple[Expression, ...] = field(default=(), compare=False)
    """sides of the boxes of its tensor map, for an array that the kernel gets as one; each file's choice"""
    window: tuple[Expression, ...] = field(default=(), compare=False)
    """rows, columns, stride and padding of the windows that an im2col map walks through"""

    @property
    def is_array(self) -> bool:
        return self.dims is not None

    @property
    def is_size(self) -> bool:
        """Whether expressions may use it: an integer scalar."""
        return self.dims is None and self.ctype.is_integer

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.ctype.name} {self.name}"
        const = "const " if self.direction == "in" else ""
        kind = "im2col" if self.window else ""
        box = f" map={kind}({', '.join(map(_plain, (*self.box, *self.window)))})" if self.box else ""
        return f"{const}{self.ctype.name} {self.name}[{','.join(map(_plain, self.dims))}] {self.direction}{box}"


def _plain(tree: Expression) -> str:
    text = str(tree)
    return text[1:-1].replace(" ", "") if text.startswith("(") and text.endswith(")") else text


@dataclass(frozen=True)
class Entry:
    """A kernel of the file: its name and its parameters in order."""

    name: str
    parameters: tuple[Parameter, ...]
    line: int = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"


@dataclass(frozen=True)
class Size:
    """A derived size."""

    name: str
    tree: Expression
    line: int = field(compare=False)


@dataclass(frozen=True)
class Condition:
    """A condition over sizes, with the words of the file for the refusal."""

    text: str
    tree: Expression
    line: int = field(compare=False)


@dataclass(frozen=True)
class LaunchLine:
    """One launch: up to three expressions each for block and grid (x first), and dynamic shared memory in bytes."""

    entry: str
    block: tuple[Expression, ...]
    grid: tuple[Expression, ...]
    shared: Expression
    line: int = field(compare=False)


@dataclass(frozen=True)
class ConstantFill:
    """`symbol <- array`: a __constant__ symbol that the launcher fills before the first launch."""

    symbol: str
    array: str
    ctype: CType
    line: int = field(compare=False)


@dataclass(frozen=True)
class Contract:
    """A parsed header together with the source that it heads."""

    name: str
    source: str = field(repr=False)
    title: str
    entries: tuple[Entry, ...]
    sizes: tuple[Size, ...]
    needs: tuple[Condition, ...]
    launches: tuple[LaunchLine, ...]
    scratch: tuple[str, ...]
    zeroed: tuple[str, ...]
    constants: tuple[ConstantFill, ...]
    declarations: Declarations = field(repr=False)
    usual: Mapping[str, float] = field(default_factory=dict)
    """what scalars are where nobody says: in reports of one's own kernels"""
    target: str = ""
    """the architecture that the file is written for, "sm_90a"; "" for any"""

    @property
    def arch(self) -> str:
        """The PTX architecture to compile for: the target's, or the course's one."""
        return f"compute_{self.target.removeprefix('sm_')}" if self.target else DEFAULT_ARCH

    def entry(self, name: str) -> Entry:
        """Return the entry of that name; raises KeyError."""
        return {entry.name: entry for entry in self.entries}[name]

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of all entries, in the order of the file."""
        for entry in self.entries:
            yield from entry.parameters

    def array_directions(self) -> dict[str, str]:
        """Return each array's part in the whole file: "in", "out", "inout" or "scratch".

        An array that the first kernel writes and the second reads is "out": nobody has to bring it.
        """
        directions: dict[str, str] = {fill.array: "in" for fill in self.constants}
        for launch in self.launches:
            for parameter in self.entry(launch.entry).parameters:
                if parameter.is_array:
                    before = directions.setdefault(parameter.name, parameter.direction)
                    if before == "in" and parameter.direction != "in":  # it must be brought, and is a result too
                        directions[parameter.name] = "inout"
        return directions | dict.fromkeys(self.scratch, "scratch")

    def sizes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the sizes that plain dimensions such as `A[M,K]` give away."""
        sizes: dict[str, int] = {}
        scalars = {parameter.name for parameter in self.parameters() if parameter.is_size}
        for parameter in self.parameters():
            for tree, length in zip(parameter.dims or (), shapes.get(parameter.name, ()), strict=False):
                if isinstance(tree, Name) and tree.name in scalars:
                    sizes.setdefault(tree.name, int(length))
        return sizes

    def bind(self, sizes: Mapping[str, int | float], *, constants: Mapping[str, int] | None = None) -> Plan:
        """Evaluate the header for these sizes.

        Raises ContractError for a missing or unknown size, NeedsError (quoting the line) for sizes that the file
        refuses, LaunchError for a launch that no chip can do.
        """
        constants = dict(constants or {})
        _refuse_unknown_constants(self, constants)
        scalars = _scalars(self, sizes)
        values = self.declarations.constexpr_values(constants)
        values |= {name: value for name, value in scalars.items() if isinstance(value, int)}
        _derive_sizes(self, values, sizes)
        for condition in self.needs:
            if not _value(self, condition.tree, values, condition.line):
                raise NeedsError(
                    f"this kernel needs {condition.text}, and here {_used([condition.tree], values)}", file=self.name,
                    line=condition.line, next_step="Choose other sizes, or lift this limit in the kernel.",
                )  # fmt: skip
        arrays = _arrays(self, values)
        launches = tuple(_launch(self, launch, values) for launch in self.launches)
        own = {size.name for size in self.sizes} | set(scalars)
        known = {name: value for name, value in values.items() if name in own}
        for parameter in self.parameters():
            if not parameter.is_array and parameter.name in values:
                scalars[parameter.name] = _in_range(self, parameter, values[parameter.name])
        return Plan(self, known, scalars, arrays, launches, constants)


# ---------------------------------------------------------------- with numbers

_CHIP = LIMITS[8, 0]
_TARGET_CHIPS = {"sm_90a": LIMITS[9, 0]}


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
    _numbers: dict[tuple[str, str], np.generic] = field(default_factory=dict, init=False, repr=False, compare=False)

    def number(self, parameter: Parameter) -> np.generic:
        """What is passed for a scalar parameter: the same object each time."""
        key = parameter.name, parameter.ctype.name
        if key not in self._numbers:
            self._numbers[key] = parameter.ctype.dtype.type(self.scalars[parameter.name])
        return self._numbers[key]


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
    if missing := [name for name in parameters if name not in sizes and name not in derived]:
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
        raise error(f"{tree}: {reason} ({_used([tree], values)})", file=contract.name, line=line) from None


def _used(trees: Iterable[Expression], values: Mapping[str, int]) -> str:
    """The names that expressions use, with their values."""
    names = dict.fromkeys(name.name for tree in trees for name in names_in(tree))
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
            arrays[parameter.name] = ArrayPlan(
                parameter.name, parameter.ctype, shape, directions[parameter.name],
                parameter.name in contract.zeroed, parameter.line,
            )  # fmt: skip
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
                f"'{parameter}' would have length {length} along {tree} ({_used([tree], values)})", file=contract.name,
                line=parameter.line, next_step="Every length is 1 or more: choose other sizes.",
            )  # fmt: skip
    if math.prod(shape) % parameter.ctype.lanes:
        raise NeedsError(
            f"'{parameter}' has {math.prod(shape)} elements, which is no multiple of {parameter.ctype.lanes}",
            file=contract.name, line=parameter.line, next_step="Arrays are counted in elements.",
        )  # fmt: skip
    return shape


def _launch(contract: Contract, launch: LaunchLine, values: Mapping[str, int]) -> LaunchPlan:
    block = _dim3(contract, launch, launch.block, values)
    grid = _dim3(contract, launch, launch.grid, values)
    shared = _value(contract, launch.shared, values, launch.line, error=LaunchLineError)
    if problem := launch_problem(grid, block, shared, _TARGET_CHIPS.get(contract.target, _CHIP)):
        used = _used((*launch.block, *launch.grid, launch.shared), values)
        suffix = f" (with {used})" if used else ""
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
    width_bytes = box[-1] * parameter.ctype.nbytes
    if not all(1 <= side <= most for side in box[:-1]) or not 1 <= box[-1] <= 256 or width_bytes % 16:
        raise ContractError(
            f"'{parameter}' has boxes of {' x '.join(map(str, box))} elements", file=contract.name,
            line=parameter.line,
            next_step="A box has sides of 1 to 256 (im2col: 1,024 places), and rows of a multiple of 16 bytes.",
        )  # fmt: skip
    return box


def _dim3(contract: Contract, launch: LaunchLine, trees: tuple[Expression, ...], values: Mapping[str, int]) -> Dim3:
    lengths = (_value(contract, tree, values, launch.line, error=LaunchLineError) for tree in trees)
    x, y, z = (*lengths, 1, 1)[:3]
    return x, y, z


def launch_problem(grid: Dim3, block: Dim3, shared_bytes: int, chip: SmLimits = _CHIP) -> str:
    """Say what a launch asks for beyond what CUDA and a chip (by default of compute capability 8.0) allow, or ""."""
    for name, numbers_asked, allowed in (("block", block, MAX_BLOCK), ("grid", grid, MAX_GRID)):
        for axis, asked, most in zip("xyz", numbers_asked, allowed, strict=True):
            if not 1 <= asked <= most:
                return f"{name} {axis} = {asked}; it must be 1 to {most}"
    if math.prod(block) > chip.threads_per_block:
        return f"{math.prod(block)} threads in a block; at most {chip.threads_per_block} are possible"
    if not 0 <= shared_bytes <= chip.shared_bytes_per_block:
        return f"{shared_bytes} bytes of shared memory; it must be 0 to {chip.shared_bytes_per_block}"
    return ""
