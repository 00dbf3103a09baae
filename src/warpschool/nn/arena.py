"""One allocation for everything that a network needs on a device; what is never needed at once shares its place.

    wanted = [Span("x", 4096, first=0, last=0), Span("hidden", 8192, first=0, last=1), Span("y", 4096, first=1, last=2)]
    layout = plan(wanted)                       # layout.offsets["y"] == layout.offsets["x"]
    arena = Arena(device, layout)
    x = arena.array("x", (1024,), np.float32)

`first` and `last` are the numbers of the steps that use an array first and last. Every offset is a multiple of 256
bytes, as those of cudaMalloc are: float4s and whole sectors stay aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpschool.device import DeviceArray
from warpschool.device.protocol import Device
from warpschool.errors import ArgumentError

ALIGN_BYTES = 256


@dataclass(frozen=True)
class Span:
    """An array's size and the steps between which its contents matter, both included."""

    name: str
    nbytes: int
    first: int
    last: int

    @property
    def room(self) -> int:
        """Bytes up to the next array that is aligned."""
        return max(1, -(-self.nbytes // ALIGN_BYTES)) * ALIGN_BYTES

    def meets(self, other: Span) -> bool:
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


def plan(spans: Iterable[Span]) -> Layout:
    """Place the largest arrays first, each at the lowest offset where nothing lies that it meets.

    Raises ArgumentError for two arrays of one name.
    """
    placed: list[tuple[int, Span]] = []
    order = sorted(spans, key=lambda span: (-span.room, span.first, span.name))
    for span in order:
        offset = 0
        for start, other in sorted((at for at in placed if at[1].meets(span)), key=lambda at: at[0]):
            if offset + span.room <= start:
                break
            offset = max(offset, start + other.room)
        placed.append((offset, span))
    offsets = {span.name: offset for offset, span in placed}
    if len(offsets) < len(placed):
        raise ArgumentError("two arrays of an arena have the same name")
    steps = {step for span in order for step in (span.first, span.last)}
    busiest = (sum(span.room for span in order if span.first <= step <= span.last) for step in steps)
    return Layout(
        offsets, nbytes=max((offset + span.room for offset, span in placed), default=0),
        separate_bytes=sum(span.room for span in order), least_bytes=max(busiest, default=0),
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
