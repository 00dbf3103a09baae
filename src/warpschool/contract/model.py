"""What a kernel file promises: entries, sizes, conditions and launches, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpschool.compile import DEFAULT_ARCH
from warpschool.contract.expressions import Expression, Name
from warpschool.contract.source import Declarations
from warpschool.contract.types import CType

if TYPE_CHECKING:
    from warpschool.contract.plan import Plan

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
class Launch:
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
    idea: str
    follows: str
    limits: str
    entries: tuple[Entry, ...]
    sizes: tuple[Size, ...]
    needs: tuple[Condition, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[str, ...]
    zeroed: tuple[str, ...]
    constants: tuple[ConstantFill, ...]
    declarations: Declarations = field(repr=False)
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
                    before = directions.get(parameter.name, parameter.direction)
                    directions[parameter.name] = _combined(before, parameter.direction)
        return directions | dict.fromkeys(self.scratch, "scratch")

    def sizes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the sizes that plain dimensions such as `A[M,K]` give away."""
        sizes: dict[str, int] = {}
        scalars = {parameter.name for parameter in self.parameters() if parameter.is_size}
        for parameter in self.parameters():
            shape = shapes.get(parameter.name, ())
            for tree, length in zip(parameter.dims or (), shape, strict=False):
                if isinstance(tree, Name) and tree.name in scalars:
                    sizes.setdefault(tree.name, int(length))
        return sizes

    def bind(self, sizes: Mapping[str, int | float], *, constants: Mapping[str, int] | None = None) -> Plan:
        """Put numbers into the contract; see `warpschool.contract.plan.make_plan`."""
        from warpschool.contract.plan import make_plan

        return make_plan(self, sizes, constants=constants or {})


def _combined(before: str, now: str) -> str:
    """The part of an array in a sequence: who reads it first needs it brought, whoever writes it makes it a result."""
    if before == "in" and now != "in":
        return "inout"
    return before
