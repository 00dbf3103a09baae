"""Tensor maps: what the tensor memory accelerator (TMA) is told of an array, in the 128 bytes that a kernel is given.

The driver keeps the meaning of a `CUtensorMap`'s bytes to itself. Here it is this module's: `TensorMap.encode` writes
them and everything that executes a TMA instruction reads them at the same places (`FIELDS`), so that
`tensormap.replace` changes one field of a map in memory as it does on a GPU. The conditions are those of
`cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` (CUDA driver API, section Tensor Map Object Management), and what
the driver of an H200 (13.0) refuses or takes besides: strides of 0, sizes of 2^32, and no box of more than 228 KiB.

    >>> import numpy as np
    >>> array = np.arange(12 * 8, dtype=np.float32).reshape(12, 8)
    >>> tiles = TensorMap(array.ctypes.data, "f32", (8, 12), (32,), box=(8, 4))
    >>> TensorMap.decode(tiles.encode()) == tiles
    True
"""

from __future__ import annotations

import math
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

BYTES = 128
ALIGNMENT = 64
"""of a map in memory"""
MAX_RANK, MAX_BOX, MAX_STEP = 5, 256, 8
MAX_BYTES = 228 << 10
"""of a box, as the driver of an H200 has it: all shared memory of an SM"""
MAGIC = 0x7E50
"""In every map: bytes that are none are told from those that are."""


class Element(NamedTuple):
    """A type of element: its number in PTX (`tensormap.replace.elemtype`, PTX ISA 9.7.9.28), its size, and the driver's
    number (`CUtensorMapDataType`), which is another."""

    number: int
    nbytes: int
    driver: int
    is_float: bool = False


ELEMENTS = {
    "u8": Element(0, 1, 0), "u16": Element(1, 2, 1), "u32": Element(2, 4, 2), "s32": Element(3, 4, 3),
    "u64": Element(4, 8, 4), "s64": Element(5, 8, 5), "f16": Element(6, 2, 6, True), "f32": Element(7, 4, 7, True),
    "f32.ftz": Element(8, 4, 10, True), "f64": Element(9, 8, 8, True), "bf16": Element(10, 2, 9, True),
    "tf32": Element(11, 4, 11, True), "tf32.ftz": Element(12, 4, 12, True),
}  # fmt: skip
INTERLEAVES = (0, 16, 32)
"""Bytes of a slice of channels in the interleaved layouts NC/8HWC8 and NC/16HWC16; 0: none."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a row within which 16-byte pieces change places; 0: none. The index is PTX's number of the mode."""


NAN_FILL = 0x7FF7
"""Every half of what `fill="nan"` gives: so an H200 fills, elements of any size."""
TF32_NAN = 0x7FFFE000
"""What every NaN becomes when it is loaded as tf32."""


class Field(NamedTuple):
    """Where something stands in the bytes: the offset of the first, the bytes of one, how many there are."""

    offset: int
    nbytes: int
    times: int = 1


FIELDS = {
    "global_address": Field(0, 8),
    "magic": Field(8, 2),
    "rank": Field(10, 1),
    "elemtype": Field(11, 1),
    "interleave_layout": Field(12, 1),
    "swizzle_mode": Field(13, 1),
    "fill_mode": Field(14, 1),
    "im2col": Field(15, 1),
    "global_stride": Field(16, 8, 4),
    "global_dim": Field(48, 4, 5),
    "box_dim": Field(68, 2, 5),
    "element_stride": Field(78, 1, 5),
    "lower": Field(84, 2, 3),
    "upper": Field(90, 2, 3),
    "channels": Field(96, 2),
    "places": Field(98, 2),
}  # fmt: skip
"""Names as in `tensormap.replace`, and those of im2col: corners of the rectangle of windows, a box's two sides."""
_FORMAT = struct.Struct("<QHBBBBBB4Q5I5H5Bx3h3hHH28x")
assert _FORMAT.size == BYTES


class TensorMapError(ValueError):
    """No driver makes such a tensor map; the message says why."""


@dataclass(frozen=True)
class TensorMap:
    """An array as the TMA sees it, innermost dimension first.

    `sizes` in elements, `strides` in bytes of all dimensions but the first, `box` and `steps` (every how many elements)
    in elements. With `corners`, the lower and upper corner of the windows' places in (W, H, D), it is an im2col map:
    `box` is then (channels, places). Outside of the array there is zero, or with `fill="nan"` a NaN.
    """

    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: int = 0
    fill: str = "zero"
    corners: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return ELEMENTS[self.element].nbytes

    def check(self) -> None:
        """Raises TensorMapError with the condition of the driver's that does not hold."""
        _check(self)

    def _conditions(self) -> list[tuple[bool, str]]:
        rank, steps = self.rank, self.steps or (1,) * self.rank
        whole = 32 if self.interleave == 32 else 16
        inner = self.box[0] * self.nbytes
        conditions = [
            (1 <= rank <= MAX_RANK, f"an array has 1 to {MAX_RANK} dimensions, not {rank}"),
            (len(self.strides) == rank - 1, "there is a stride for every dimension but the innermost"),
            (len(steps) == rank, "there is an element stride for every dimension"),
            (
                self.address % whole == 0,
                f"the array must start at a multiple of {whole} bytes, not at {self.address:#x}",
            ),
            (all(0 < n <= 1 << 32 for n in self.sizes), f"sizes are 1 to 2^32, not {self.sizes}"),
            (
                all(0 <= s < 1 << 40 and s % whole == 0 for s in self.strides),
                f"strides are multiples of {whole} bytes below 2^40, not {self.strides}",
            ),
            (all(1 <= s <= MAX_STEP for s in steps), f"element strides are 1 to {MAX_STEP}, not {steps}"),
            (self.fill == "zero" or ELEMENTS[self.element].is_float, "only floating-point arrays are filled with NaN"),
            (not self.interleave or rank >= 3, f"an interleaved array has at least 3 dimensions, not {rank}"),
            (self.interleave != 32 or self.swizzle == 32, "the 32-byte interleaved layout needs the 32-byte swizzle"),
            *(self._of_boxes() if self.corners is None else self._of_windows(*self.corners)),
            (inner % 16 == 0, f"the inner side of a box is a multiple of 16 bytes, not {inner}"),
            (
                bool(self.interleave) or not self.swizzle or inner <= self.swizzle,
                f"the inner side of a box is {inner} bytes and may have {self.swizzle} with this swizzle",
            ),
        ]
        if all(holds for holds, _ in conditions):  # else its bytes may not be counted
            nbytes = box_bytes(self)
            conditions.append((nbytes <= MAX_BYTES, f"a box has at most {MAX_BYTES:,} bytes, not {nbytes:,}"))
        return conditions

    def _of_boxes(self) -> list[tuple[bool, str]]:
        return [
            (len(self.box) == self.rank, "the box has a side for every dimension"),
            (
                all(1 <= side <= MAX_BOX for side in self.box),
                f"the sides of a box are 1 to {MAX_BOX} elements, not {self.box}",
            ),
        ]

    def _of_windows(self, lower: tuple[int, ...], upper: tuple[int, ...]) -> list[tuple[bool, str]]:
        limit = 1 << {3: 15, 4: 7, 5: 4}.get(self.rank, 0)
        among = zip(self.sizes[1:], lower, upper, strict=False)
        return [
            (3 <= self.rank <= MAX_RANK, f"im2col needs 3 to 5 dimensions, not {self.rank}"),
            (
                all(len(c) == self.rank - 2 for c in (lower, upper)),
                "corners have a number for each of W, H, D",
            ),
            (
                all(-limit <= c < limit for c in (*lower, *upper)),
                f"corners are {-limit} to {limit - 1}, not {lower} and {upper}",
            ),
            (
                all(size + high - low > 0 for size, low, high in among),
                f"corners {lower} and {upper} leave no place in {self.sizes[1:-1]}",
            ),
            (
                1 <= self.box[0] <= MAX_BOX and 1 <= self.box[1] <= 1024,
                f"a box has 1 to 256 channels and 1 to 1024 places, not {self.box[0]} and {self.box[1]}",
            ),
        ]

    def encode(self) -> bytes:
        """The 128 bytes; raises TensorMapError."""
        return _encoded(self)

    @classmethod
    def decode(cls, data: bytes) -> TensorMap:
        """The map that 128 bytes are; raises TensorMapError for bytes that are none."""
        address, magic, rank, number, interleave, swizzle, fill, im2col, *rest = _FORMAT.unpack(data[:BYTES])
        if magic != MAGIC or not 1 <= rank <= MAX_RANK or number >= len(ELEMENTS) or interleave >= 3 or swizzle >= 4:
            raise TensorMapError("these 128 bytes are no tensor map")
        strides, sizes, box, steps = rest[:4], rest[4:9], rest[9:14], rest[14 : 14 + rank]
        return cls(
            address, list(ELEMENTS)[number], tuple(n or 1 << 32 for n in sizes[:rank]), tuple(strides[: rank - 1]),
            tuple(rest[25:27]) if im2col else tuple(box[:rank]), () if {*steps} == {1} else tuple(steps),
            INTERLEAVES[interleave], SWIZZLES[swizzle], "nan" if fill else "zero",
            (tuple(rest[19 : 19 + rank - 2]), tuple(rest[22 : 22 + rank - 2])) if im2col else None,
        )  # fmt: skip


@lru_cache(maxsize=256)
def maps_in(data: bytes) -> tuple[TensorMap, ...]:
    """All that may be maps among bytes, whatever lies around them."""
    found = []
    for at in range(0, len(data) - BYTES + 1, 8):
        with suppress(TensorMapError):
            found.append(TensorMap.decode(data[at : at + BYTES]))
    return tuple(found)


@lru_cache(maxsize=256)
def _check(m: TensorMap) -> None:
    for holds, condition in m._conditions():
        if not holds:
            raise TensorMapError(condition)


@lru_cache(maxsize=256)
def _encoded(m: TensorMap) -> bytes:
    """Launch after launch asks for the same maps."""
    m.check()
    rank, corners = m.rank, m.corners or ((), ())
    plain = m.corners is None
    return _FORMAT.pack(
        m.address, MAGIC, rank, ELEMENTS[m.element].number, INTERLEAVES.index(m.interleave),
        SWIZZLES.index(m.swizzle), int(m.fill == "nan"), int(not plain),
        *_filled(m.strides, 4, 0), *(n & 0xFFFFFFFF for n in _filled(m.sizes, 5, 1)),
        *_filled(m.box if plain else (), 5, 1), *_filled(m.steps, 5, 1),
        *_filled(corners[0], 3, 0), *_filled(corners[1], 3, 0), *((0, 0) if plain else m.box),
    )  # fmt: skip


def _filled(numbers: tuple[int, ...], count: int, default: int) -> tuple[int, ...]:
    return (*numbers, *(default,) * (count - len(numbers)))


def swizzled(offset: int, swizzle: int) -> int:
    """Where the byte at an address of shared memory is put: 16-byte pieces of a row of 32, 64 or 128 bytes change
    places with the number of the row (of 128 bytes) among eight, four or two (PTX ISA 5.5.5)."""
    bits = {0: 0, 32: 1, 64: 2, 128: 3}[swizzle]
    return offset ^ (offset >> 7 & (1 << bits) - 1) << 4


def row_pitch(tensor_map: TensorMap) -> int:
    """Bytes from row to row of a box in shared memory: those of a row, or the whole width of the swizzle."""
    return tensor_map.swizzle or tensor_map.box[0] * tensor_map.nbytes


def box_bytes(tensor_map: TensorMap) -> int:
    """Bytes of a whole box in shared memory, what lies outside of the array included: so many a copy announces.

    The innermost dimension has no element stride: its number is ignored.
    """
    sides = tensor_map.box
    if tensor_map.corners is None and tensor_map.steps:
        steps = (1, *tensor_map.steps[1:])
        sides = tuple(-(-side // step) for side, step in zip(sides, steps, strict=True))
    return math.prod(sides) * tensor_map.nbytes
