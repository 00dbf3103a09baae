"""Kernel calls in order on named arrays: what a network's layers write down.

    graph = Graph()
    x = graph.input("x", (8, 1, 28, 28))
    w = graph.parameter("conv1.weight", (32, 1, 5, 5))
    y = graph.array("conv1", (8, 32, 24, 24))
    graph.call("lab08_convolution/01_direct", {"BATCH": 8, ...}, {"x": x, "w": w, "y": y})
    graph.output(y)

A graph knows no kernel: it names steps of the course, or carries the contract of a kernel that a program wrote. How
long each array is needed follows from the calls, so whoever appends further calls (a backward pass) changes nothing
else: an array that a later call reads is kept until then. `warpschool.nn.session` runs a graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract
from warpschool.errors import ArgumentError
from warpschool.nn.arena import Span

ROLES = ("input", "parameter", "array", "output")


@dataclass(frozen=True)
class Value:
    """An array of a graph. `role`: inputs and parameters keep their place for ever, outputs until the end."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    role: str = "array"
    first: int = 0
    """where in the array of that name it begins, in elements: a part of one has the whole's name"""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def rows(self, first: int, count: int) -> Value:
        """Return `count` rows along the first axis: a part that shares the memory."""
        row = math.prod(self.shape[1:])
        return replace(self, shape=(count, *self.shape[1:]), first=self.first + first * row)

    def part(self, shape: Sequence[int]) -> Value:
        """Return the beginning of the array in another shape."""
        return replace(self, shape=tuple(shape))


@dataclass(frozen=True)
class Call:
    """One kernel file run once: its step or its contract, scalars, and the values for its arrays."""

    kernel: str | Contract
    sizes: Mapping[str, float]
    arrays: Mapping[str, Value]
    """by the kernel's name of an array"""
    constants: tuple[tuple[str, int], ...] = ()
    layer: str = ""
    once: bool = False
    """whether it depends on parameters only: such calls run when parameters are new"""

    @property
    def step(self) -> str:
        """The step's name, or that of the file."""
        return self.kernel if isinstance(self.kernel, str) else self.kernel.name


@dataclass(frozen=True, eq=False)
class Traced:
    """A layer as it was applied: what it read and wrote, and what else of it a backward pass may want."""

    layer: Any
    x: Value
    y: Value
    saved: Mapping[str, Value] = field(default_factory=dict)


class Graph:
    """Values by name, and calls in order."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.calls: list[Call] = []
        self.tape: list[Traced] = []
        """the layers in order, for whoever goes through them backwards"""

    # ---------------------------------------------------------------- values

    def array(
        self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32, *, role: str = "array"
    ) -> Value:
        """Add a value. Raises ArgumentError for a name that exists already."""
        if name in self.values:
            raise ArgumentError(f"the graph has an array {name!r} already", next_step="Give layers different names.")
        if role not in ROLES:
            raise ArgumentError(f"{role!r} is no role of an array", next_step=f"There are {', '.join(ROLES)}.")
        self.values[name] = Value(name, tuple(int(n) for n in shape), np.dtype(dtype), role)
        return self.values[name]

    def input(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Value:
        """Add a value that the host brings before a run."""
        return self.array(name, shape, dtype, role="input")

    def parameter(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Value:
        """Add a value that outlives runs: weights, an optimiser's state."""
        return self.array(name, shape, dtype, role="parameter")

    def output(self, value: Value) -> Value:
        """Keep a value until the host has fetched it."""
        if value.role == "array":
            value = replace(value, role="output")
            self.values[value.name] = value
        return value

    @property
    def parameters(self) -> dict[str, Value]:
        """The values that outlive runs."""
        return {name: value for name, value in self.values.items() if value.role == "parameter"}

    # ---------------------------------------------------------------- calls

    def call(
        self, kernel: str | Contract, sizes: Mapping[str, float], arrays: Mapping[str, Value], *,
        constants: Mapping[str, int] | None = None, layer: str = "", once: bool = False,
    ) -> None:  # fmt: skip
        """Append a call. Raises ArgumentError for a value of another graph."""
        for value in arrays.values():
            if value.name not in self.values or value.first + value.size > self.values[value.name].size:
                raise ArgumentError(f"{value.name!r} is no array of this graph")
        chosen = tuple(sorted((constants or {}).items()))
        self.calls.append(Call(kernel, dict(sizes), dict(arrays), chosen, layer, once))

    def trace(self, layer: Any, x: Value, y: Value, **saved: Value) -> Value:
        """Note a layer on the tape; returns its result."""
        self.tape.append(Traced(layer, x, y, saved))
        return y


def spans(graph: Graph, scratch: Sequence[Sequence[Value]] = ()) -> list[Span]:
    """Return how long each array is needed, in numbers of calls; `scratch` are the calls' own arrays.

    Inputs, parameters, and what is computed from parameters alone, keep their places: a graph is run again and again.
    """
    end = len(graph.calls)
    used: dict[str, list[int]] = {name: [] for name in graph.values}
    forever = {name for name, value in graph.values.items() if value.role in ("input", "parameter")}
    for number, call in enumerate(graph.calls):
        names = {value.name for value in call.arrays.values()}
        for name in names:
            used[name].append(number)
        if call.once:
            forever |= names
    found = []
    for name, value in graph.values.items():
        first, last = (min(used[name], default=0), max(used[name], default=end))
        first = 0 if name in forever else first
        last = end if name in forever or value.role == "output" else last
        found.append(Span(name, value.nbytes, first, last))
    for number, values in enumerate(scratch):
        found += [Span(scratch_name(number, value), value.nbytes, number, number) for value in values]
    return found


def scratch_name(number: int, value: Value) -> str:
    """Return the name of an array that belongs to one call only."""
    return f"{value.name} of call {number}"
