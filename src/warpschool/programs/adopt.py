"""Headers for kernel files out of what a program launched: Entry, Launch and Usual lines for every kernel of a source.

Each kernel is described by its largest launch. The length of an array is written with the kernel's own sizes where one
expression fits all launches that were seen (`x[n]`, `A[M,K]`), else as a number; so is the grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from warpschool.contract.source import Declarations, Signature, SourceParameter, scan_source

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Argument:
    """What a launch passed: for a pointer the bytes from there to the end of its allocation, else the value's bytes."""

    value: bytes
    nbytes: int | None = None


@dataclass(frozen=True)
class LaunchRecord:
    """One launch as it was asked for; `kernel` is the name in the source, with arguments of templates."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared: int
    arguments: tuple[Argument, ...]

    @property
    def threads(self) -> int:
        return math.prod(self.grid) * math.prod(self.block)


@dataclass
class Adopted:
    """Lines of the header, and why kernels are missing from it: name -> reason."""

    lines: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def header_of(source: str, records: Sequence[LaunchRecord], *, name: str) -> Adopted:
    """The header of a source for the launches that a program made of its kernels."""
    declared = scan_source(source, name=name)
    found = Adopted()
    header = _Names()
    by_kernel: dict[str, list[LaunchRecord]] = {}
    for record in records:
        by_kernel.setdefault(plain_name(record.kernel), []).append(record)
    launches = []
    for kernel in dict.fromkeys([*declared.kernels, *by_kernel]):
        signature = declared.kernels.get(kernel)
        reason = _obstacle(kernel, signature, by_kernel, declared)
        if reason or signature is None:
            found.left_out[kernel] = reason
            continue
        described = _Described(signature, by_kernel[kernel], header)
        found.lines.append(f"// Entry:   {kernel}({', '.join(described.parameters())})")
        launches.append(f"// Launch:  {kernel} {described.launch()}")
    found.lines += launches
    if header.usual:
        found.lines.append("// Usual:   " + ", ".join(f"{key} = {value}" for key, value in header.usual.items()))
    return found


def plain_name(readable: str) -> str:
    """A kernel's name without result, parameters, namespaces and arguments of templates."""
    before = readable.split("(")[0].split("<")[0].split()
    return before[-1].split("::")[-1] if before else readable


def _obstacle(
    kernel: str, signature: Signature | None, launched: dict[str, list[LaunchRecord]], declared: Declarations
) -> str:
    """Why a kernel cannot have an Entry line; "" where it can."""
    if signature is None:
        return "its source is in another file, or in a namespace"
    if kernel in declared.templates:
        return "it is a template: an Entry line names one kernel"
    if not signature.is_extern_c:
        return "there are several kernels of this name"
    if kernel not in launched:
        return "the program never launched it"
    if len(signature.parameters) != len(launched[kernel][0].arguments):
        return "its parameters cannot be read from the source"
    for parameter in signature.parameters:
        if parameter.ctype is None or parameter.depth > 1:
            return f"its parameter '{parameter.text}' has a type that no Entry line has"
    return ""


@dataclass
class _Names:
    """Names that the header has given so far: one name is one array, or one size, in the whole file."""

    meaning: dict[str, object] = field(default_factory=dict)
    usual: dict[str, str] = field(default_factory=dict)

    def give(self, wanted: str, kernel: str, meaning: object) -> str:
        """`wanted`, or another name where it means something else already."""
        several = (f"{wanted}_{kernel}{number or ''}" for number in itertools.count())
        for name in itertools.chain([wanted], several):
            if self.meaning.setdefault(name, meaning) == meaning:
                return name
        raise AssertionError


class _Described:
    """A kernel in the words of a header."""

    def __init__(self, signature: Signature, records: list[LaunchRecord], names: _Names) -> None:
        self.signature, self.names = signature, names
        self.largest = max(records, key=lambda record: record.threads)
        self.records = records
        self.sizes: dict[str, list[int]] = {}
        """name in the header of each whole number -> its value in every launch"""
        self.given: dict[str, str] = {}
        for at, parameter in enumerate(signature.parameters):
            if not parameter.is_pointer:
                self._scalar(at, parameter)

    def _scalar(self, at: int, parameter: SourceParameter) -> None:
        assert parameter.ctype is not None
        values = [_number(record.arguments[at].value, parameter) for record in self.records]
        here = _number(self.largest.arguments[at].value, parameter)
        name = self.names.give(parameter.name, self.signature.name, (parameter.ctype.name, here))
        self.given[parameter.name] = name
        self.names.usual[name] = repr(here)
        if parameter.ctype.is_integer:
            self.sizes[name] = [int(value) for value in values]

    def parameters(self) -> Iterator[str]:
        """Each parameter as an Entry line has it."""
        for at, parameter in enumerate(self.signature.parameters):
            assert parameter.ctype is not None
            if not parameter.is_pointer:
                yield f"{parameter.ctype.name} {self.given[parameter.name]}"
                continue
            lengths = [(record.arguments[at].nbytes or 0) // parameter.ctype.nbytes for record in self.records]
            shape = self._length(lengths)
            name = self.names.give(parameter.name, self.signature.name, (parameter.ctype.name, "array", shape))
            const, direction = ("const ", "in") if parameter.is_const else ("", "inout")
            lanes = f"*{parameter.ctype.lanes}" if parameter.ctype.lanes > 1 else ""
            yield f"{const}{parameter.ctype.name} {name}[{shape}{lanes}] {direction}"

    def _length(self, lengths: list[int]) -> str:
        """An expression of the sizes that is this length in every launch, the simplest one, or the largest launch's."""
        for count in (1, 2, 3):
            for names in itertools.combinations_with_replacement(self.sizes, count):
                products = [math.prod(values) for values in zip(*(self.sizes[name] for name in names), strict=True)]
                if products == lengths:
                    return ",".join(names)
        return str(max(lengths[self.records.index(self.largest)], 1))

    def launch(self) -> str:
        """Block, grid and dynamic shared memory."""
        block = ", ".join(map(str, _shortened(self.largest.block)))
        grid = [self._blocks(axis) for axis in range(len(_shortened(self.largest.grid)))]
        shared = f" shared={self.largest.shared}" if self.largest.shared else ""
        return f"block=({block}) grid=({', '.join(grid)}){shared}"

    def _blocks(self, axis: int) -> str:
        """How many blocks along an axis: of a size and the block's threads, where that fits every launch."""
        counts = [record.grid[axis] for record in self.records]
        thread_counts = [record.block[axis] for record in self.records]
        threads = self.largest.block[axis]
        here = self.largest.grid[axis]
        rules: tuple[tuple[str, Callable[[int, int], int]], ...] = (
            (f"cdiv({{}}, {threads})", lambda size, block: -(-size // block)),
            ("{}", lambda size, block: size),
        )
        for form, rule in rules if here > 1 else ():
            for name, values in self.sizes.items():
                asked = [rule(size, block) for size, block in zip(values, thread_counts, strict=True)]
                if asked == counts:
                    return form.format(name)
        return str(here)


def _shortened(dims: Dim3) -> tuple[int, ...]:
    """Without the ones at its end."""
    return dims if dims[2] != 1 else dims[:2] if dims[1] != 1 else dims[:1]


def _number(value: bytes, parameter: SourceParameter) -> int | float:
    assert parameter.ctype is not None
    number = np.frombuffer(value, dtype=parameter.ctype.dtype)[0]
    return int(number) if parameter.ctype.is_integer else float(number)
