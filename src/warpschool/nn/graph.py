"""Kernel calls in order on named arrays: what a network's layers write down, and one allocation for all of it.

    graph = Graph()
    x = graph.input("x", (8, 1, 28, 28))
    w = graph.parameter("conv1.weight", (32, 1, 5, 5))
    y = graph.array("conv1", (8, 32, 24, 24))
    graph.call("lab08_convolution/01_direct", {"BATCH": 8, ...}, {"x": x, "w": w, "y": y})
    graph.output(y)

    layout = plan(lifetimes(graph))             # what is never needed at once shares its place
    arena = Arena(device, layout)
    arena.array("x", (8, 1, 28, 28), np.float32)

A graph knows no kernel: it names steps of the course, or carries the contract of a kernel that a program wrote. How
long each array is needed follows from the calls, so whoever appends further calls (a backward pass) changes nothing
else: an array that a later call reads is kept until then. `warpschool.nn.session` runs a graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from warpschool.contract import Contract
from warpschool.device import DeviceArray
from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError

ALIGN_BYTES = 256


@dataclass(frozen=True)
class Lifetime:
    """An array's size and the steps between which its contents matter, both included."""

    name: str
    nbytes: int
    first: int
    last: int

    @property
    def room(self) -> int:
        """Bytes up to the next array that is aligned."""
        return max(1, -(-self.nbytes // ALIGN_BYTES)) * ALIGN_BYTES

    def meets(self, other: Lifetime) -> bool:
        """Whether both are needed at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Layout:
    """Where each array begins, and the bytes of the whole."""

    offsets: Mapping[str, int]
    nbytes: int
    separate_bytes: int
    """what the arrays would take if each had a place of its own"""
    least_bytes: int
    """what the busiest step needs at once: no layout takes less"""


def plan(lifetimes: Iterable[Lifetime]) -> Layout:
    """Place the largest arrays first, each at the lowest offset where nothing lies that it meets.

    Raises ArgumentError for two arrays of one name.
    """
    placed: list[tuple[int, Lifetime]] = []
    order = sorted(lifetimes, key=lambda life: (-life.room, life.first, life.name))
    for life in order:
        offset = 0
        for start, other in sorted((at for at in placed if at[1].meets(life)), key=lambda at: at[0]):
            if offset + life.room <= start:
                break
            offset = max(offset, start + other.room)
        placed.append((offset, life))
    offsets = {life.name: offset for offset, life in placed}
    if len(offsets) < len(placed):
        raise ArgumentError("two arrays of an arena have the same name")
    steps = {step for life in order for step in (life.first, life.last)}
    busiest = (sum(life.room for life in order if life.first <= step <= life.last) for step in steps)
    return Layout(
        offsets, nbytes=max((offset + life.room for offset, life in placed), default=0),
        separate_bytes=sum(life.room for life in order), least_bytes=max(busiest, default=0),
    )  # fmt: skip


@dataclass(eq=False)
class Arena:
    """A device's memory for a layout. Raises ArgumentError, from the device, where it does not fit."""

    device: Device
    layout: Layout
    memory: DeviceArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Rows of ALIGN_BYTES: an offset is a row, and a view of rows shares the memory.
        rows = max(1, self.layout.nbytes // ALIGN_BYTES)
        self.memory = self.device.empty((rows, ALIGN_BYTES), np.uint8, name="arena")

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
        """Return the array of that name as a view of the arena's memory. Raises ArgumentError for an unknown name."""
        if name not in self.layout.offsets:
            raise ArgumentError(f"the arena has no array {name!r}")
        kind, first = np.dtype(dtype), self.layout.offsets[name] // ALIGN_BYTES
        nbytes = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        rows = self.memory[first : first - (-nbytes // ALIGN_BYTES)]
        return rows.reshape(rows.nbytes)[:nbytes].view(kind).reshape(*shape)


# ---------------------------------------------------------------- calls


Role = Literal["input", "parameter", "array", "output"]


@dataclass(frozen=True)
class GraphArray:
    """An array of a graph. `role`: inputs and parameters keep their place for ever, outputs until the end."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    role: Role = "array"
    first: int = 0
    """where in the array of that name it begins, in elements: a part of one has the whole's name"""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class KernelCall:
    """One kernel file run once: its step or its contract, scalars, and the values for its arrays."""

    kernel: str | Contract
    sizes: Mapping[str, float]
    arrays: Mapping[str, GraphArray]
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
    x: GraphArray
    y: GraphArray
    saved: Mapping[str, GraphArray]
    inside: tuple[Traced, ...] = ()
    """the layers that it is made of, in order"""


class Graph:
    """Values by name, and calls in order."""

    def __init__(self) -> None:
        self.values: dict[str, GraphArray] = {}
        self.calls: list[KernelCall] = []
        self.tape: list[Traced] = []
        """the layers in order, for whoever goes through them backwards"""

    # ---------------------------------------------------------------- values

    def array(
        self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32, *, role: Role = "array"
    ) -> GraphArray:
        """Add a value. Raises ArgumentError for a name that exists already."""
        if name in self.values:
            raise ArgumentError(f"the graph has an array {name!r} already", next_step="Give layers different names.")
        self.values[name] = GraphArray(name, tuple(int(n) for n in shape), np.dtype(dtype), role)
        return self.values[name]

    def input(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> GraphArray:
        """Add a value that the host brings before a run."""
        return self.array(name, shape, dtype, role="input")

    def parameter(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> GraphArray:
        """Add a value that outlives runs: weights, an optimiser's state."""
        return self.array(name, shape, dtype, role="parameter")

    def output(self, value: GraphArray) -> GraphArray:
        """Keep a value until the host has fetched it."""
        if value.role == "array":
            value = replace(value, role="output")
            self.values[value.name] = value
        return value

    @property
    def parameters(self) -> dict[str, GraphArray]:
        """The values that outlive runs."""
        return {name: value for name, value in self.values.items() if value.role == "parameter"}

    # ---------------------------------------------------------------- calls

    def call(
        self, kernel: str | Contract, sizes: Mapping[str, float], arrays: Mapping[str, GraphArray], *,
        constants: Mapping[str, int] | None = None, layer: str = "", once: bool = False,
    ) -> None:  # fmt: skip
        """Append a call. Raises ArgumentError for a value of another graph."""
        for value in arrays.values():
            if value.name not in self.values or value.first + value.size > self.values[value.name].size:
                raise ArgumentError(f"{value.name!r} is no array of this graph")
        chosen = tuple(sorted((constants or {}).items()))
        self.calls.append(KernelCall(kernel, dict(sizes), dict(arrays), chosen, layer, once))

    def trace(self, layer: Any, x: GraphArray, y: GraphArray, **saved: GraphArray) -> GraphArray:
        """Note a layer on the tape; returns its result."""
        self.tape.append(Traced(layer, x, y, saved))
        return y


class TrainingGraph(Graph):
    """A graph whose parameters are parts of one array, with a second one of the same form for gradients."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.places: dict[str, GraphArray] = {}
        """the parameters, as parts of the array "parameters" """
        self.size = 0
        for name, shape in shapes.items():
            place = GraphArray("parameters", shape, np.dtype(np.float32), "parameter", self.size)
            self.places[name] = place
            # Every parameter begins where an allocation of its own might.
            self.size += -(-place.nbytes // ALIGN_BYTES) * ALIGN_BYTES // place.dtype.itemsize
        super().parameter("parameters", (self.size,))
        super().parameter("gradients", (self.size,))

    def parameter(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> GraphArray:
        """Return a parameter's part. Raises ArgumentError for another shape or type than was said."""
        place = self.places.get(name)
        if place is None or place.shape != tuple(shape) or np.dtype(dtype) != np.float32:
            raise ArgumentError(f"training keeps no parameter {name!r} {list(shape)} of {np.dtype(dtype)}")
        return place

    def gradients(self, layer: str) -> dict[str, GraphArray]:
        """Return the parts of the gradients of a layer's weights, "dw", and of its bias, "db"."""
        return {own: self.gradient(f"{layer}.{what}") for own, what in (("dw", "weight"), ("db", "bias"))}

    def gradient(self, parameter: str) -> GraphArray:
        """Return the gradient's part for a parameter."""
        return replace(self.places[parameter], name="gradients")

    def flat(self, values: Mapping[str, npt.ArrayLike]) -> np.ndarray:
        """Return values by parameter as one array; what lies between them is 0. Raises ArgumentError."""
        if set(values) != set(self.places):
            told = ", ".join(sorted(set(values) ^ set(self.places)))
            raise ArgumentError(f"these are not the network's parameters: missing or unknown {told}")
        whole = np.zeros(self.size, np.float32)
        for name, place in self.places.items():
            part = np.asarray(values[name])
            if part.shape != place.shape:
                raise ArgumentError(f"{name} has shape {list(part.shape)}, the network's has {list(place.shape)}")
            whole[place.first : place.first + place.size] = part.reshape(-1)
        return whole

    def named(self, whole: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of such an array by parameter."""
        return {
            name: whole[place.first : place.first + place.size].reshape(place.shape).copy()
            for name, place in self.places.items()
        }


def lifetimes(graph: Graph, scratch: Sequence[Sequence[GraphArray]] = ()) -> list[Lifetime]:
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
        first = 0 if name in forever else min(used[name], default=0)
        kept = name in forever or value.role == "output"
        last = end if kept else max(used[name], default=end)
        found.append(Lifetime(name, value.nbytes, first, last))
    for number, values in enumerate(scratch):
        found += [Lifetime(scratch_name(number, value), value.nbytes, number, number) for value in values]
    return found


def scratch_name(number: int, value: GraphArray) -> str:
    """Return the name of an array that belongs to one call only."""
    return f"{value.name} of call {number}"
