"""Texture and surface objects: what stands behind the 64-bit handles that a kernel gets for them.

An `Image` is memory with a shape and a format. A `Texture` says how to read one, a `Surface` that it is read and
written as bytes. `bind` gives an object's handle, which is passed as a parameter of type cudaTextureObject_t or
cudaSurfaceObject_t:

    picture = Image.array(memory, (height, width), "u1", channels=4)
    picture.view()[:] = pixels
    handle = bind(memory, Texture(picture, filter="linear", read="normalized"))

Here are descriptions alone, after CUDA's cudaResourceDesc and cudaTextureDesc. What an instruction makes of them is
said by those who execute it (CUDA C++ Programming Guide, "Texture and Surface Memory" and "Texture Fetching").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ptxsim.errors import TextureError
from ptxsim.memory import Allocation, Memory

FORMATS = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4")
"""Types of a texel's channels, as NumPy names them."""
CUBES = ("cube", "acube")
"""Geometries that are read by a direction: the face that it meets, and where."""
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
PITCH_BYTES = 32
"""Rows begin at multiples of it: the alignment that GPUs ask of the rows of pitched memory."""
LIMITS = {
    ("array", "1d"): (131072, 1, 1), ("array", "2d"): (131072, 65536, 1), ("array", "3d"): (16384, 16384, 16384),
    ("array", "a1d"): (32768, 1, 2048), ("array", "a2d"): (32768, 32768, 2048),
    ("array", "cube"): (32768, 32768, 6), ("array", "acube"): (32768, 32768, 2046),
    ("linear", "1d"): (1 << 28, 1, 1), ("pitched", "2d"): (131072, 65000, 1),
}  # fmt: skip
"""Kind and geometry -> most texels of a row, rows, and slices or layers, from compute capability 8.0 on (CUDA C++
Programming Guide, "Technical Specifications per Compute Capability")."""
FIRST_HANDLE = 0x7E57 << 48
"""The handle of a memory's first object; no address and no small number is taken for one."""


@dataclass(frozen=True, eq=False)
class Image:
    """Memory with a shape and a format.

    `kind` is "array" (a CUDA array), "pitched" or "linear" (memory of the kernel's, read as a texture too). `geometry`
    is PTX's: "1d", "2d", "3d", "a1d" and "a2d" with layers, "cube" with six layers, the faces +x, -x, +y, -y, +z, -z,
    and "acube" with six for each cube. `extent`: texels of a row, rows, slices or layers; 1 where there are none.
    `row_bytes` lie between the starts of two rows.
    """

    allocation: Allocation
    kind: str
    geometry: str
    extent: tuple[int, int, int]
    dtype: np.dtype
    channels: int
    row_bytes: int

    def __post_init__(self) -> None:
        most = LIMITS[self.kind, self.geometry]
        if any(n > limit for n, limit in zip(self.extent, most, strict=True)):
            raise TextureError(f"{self.extent} texels are too many: GPUs take {most} of .{self.geometry}")

    @staticmethod
    def array(
        memory: Memory,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike,
        *,
        channels: int = 1,
        layered: bool = False,
        cube: bool = False,
        name: str = "",
    ) -> Image:
        """A CUDA array of its own, as cudaMallocArray and cudaMalloc3DArray make it.

        `shape` is NumPy's: rows before columns, slices, layers or a `cube`'s faces before rows; with `layered` a cube
        has six faces for each layer. Raises TextureError, MemoryLimitExceeded.
        """
        lengths = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        geometry = f"a{len(lengths) - 1}d" if layered else f"{len(lengths)}d"
        if cube:
            geometry = "acube" if layered else "cube"
            faces, rows, columns = lengths if len(lengths) == 3 else (0, 0, 0)
            if rows != columns or not faces or faces % 6 or (faces != 6 and not layered):
                raise TextureError(f"a cube map has six square faces, or six for each layer: {lengths}")
        elif geometry not in ("1d", "2d", "3d", "a1d", "a2d"):
            layers = "with layers" if layered else "without layers"
            raise TextureError(f"there are no arrays of {len(lengths)} dimensions {layers}: {lengths}")
        kind, texel = _format(dtype, channels)
        if min(lengths) < 1:
            raise TextureError(f"an array of shape {lengths} has no texels")
        slices = lengths[0] if geometry in ("3d", "a1d", "a2d", *CUBES) else 1
        rows = lengths[-2] if geometry in ("2d", "3d", "a2d", *CUBES) else 1
        row_bytes = -(-lengths[-1] * texel // PITCH_BYTES) * PITCH_BYTES
        allocation = memory.allocate(row_bytes * rows * slices, name)
        return Image(allocation, "array", geometry, (lengths[-1], rows, slices), kind, channels, row_bytes)

    @staticmethod
    def linear(allocation: Allocation, dtype: npt.DTypeLike, *, channels: int = 1) -> Image:
        """An allocation as a row of texels, for tex1Dfetch. Raises TextureError."""
        kind, texel = _format(dtype, channels)
        width = allocation.nbytes // texel
        if not width:
            raise TextureError(f"{allocation.nbytes} bytes hold no texel of {texel} bytes")
        return Image(allocation, "linear", "1d", (width, 1, 1), kind, channels, width * texel)

    @staticmethod
    def pitched(
        allocation: Allocation, shape: Sequence[int], dtype: npt.DTypeLike, *, channels: int = 1, row_bytes: int
    ) -> Image:
        """An allocation as (rows, columns) of texels, a row every `row_bytes`. Raises TextureError."""
        kind, texel = _format(dtype, channels)
        rows, width = shape
        if rows < 1 or width < 1 or row_bytes % PITCH_BYTES or row_bytes < width * texel:
            raise TextureError(
                f"{rows} rows of {width} texels of {texel} bytes do not lie {row_bytes} bytes apart",
                next_step=f"Rows begin at multiples of {PITCH_BYTES} bytes and do not overlap.",
            )
        if (rows - 1) * row_bytes + width * texel > allocation.nbytes:
            raise TextureError(f"{rows} rows of {row_bytes} bytes are more than the {allocation.nbytes} there are")
        return Image(allocation, "pitched", "2d", (width, rows, 1), kind, channels, row_bytes)

    @property
    def texel_bytes(self) -> int:
        return self.dtype.itemsize * self.channels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape without channels, as NumPy has it."""
        width, rows, slices = self.extent
        return {"1d": (width,), "2d": (rows, width), "3d": (slices, rows, width), "a1d": (slices, width)}.get(
            self.geometry, (slices, rows, width)
        )

    def view(self) -> np.ndarray:
        """The texels, without a copy: shape with a last axis of channels where there are several."""
        width, rows, slices = self.extent
        strides = (self.row_bytes * rows, self.row_bytes, self.texel_bytes, self.dtype.itemsize)
        whole = np.ndarray((slices, rows, width, self.channels), self.dtype, self.allocation.view(), strides=strides)
        kept = {"1d": (0, 0), "2d": (0,), "a1d": (slice(None), 0)}.get(self.geometry, ())
        found = whole[kept]
        return found[..., 0] if self.channels == 1 else found


def _format(dtype: npt.DTypeLike, channels: int) -> tuple[np.dtype, int]:
    """The type of a channel, and the bytes of a texel. Raises TextureError."""
    kind = np.dtype(dtype)
    if kind not in [np.dtype(name) for name in FORMATS] or channels not in (1, 2, 4):
        raise TextureError(
            f"there are no texels of {channels} channels of {kind}",
            next_step="A texel has 1, 2 or 4 channels of 8, 16 or 32 bits, integers or (16, 32) floating point.",
        )
    return kind, kind.itemsize * channels


@dataclass(frozen=True)
class Texture:
    """How an image is read.

    `address`: one of ADDRESS_MODES, or one for each of x, y and z. `filter`: "point" or "linear". `read`: "element", or
    "normalized" for 8- and 16-bit integers as numbers of [0, 1] or [-1, 1]. `border` is the colour outside, where the
    address mode asks for one.
    """

    image: Image
    address: str | tuple[str, str, str] = "clamp"
    filter: str = "point"
    read: str = "element"
    normalized_coordinates: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for what, value, known in (
            ("address mode", self.modes, ADDRESS_MODES), ("filter", (self.filter,), ("point", "linear")),
            ("read mode", (self.read,), ("element", "normalized")),
        ):  # fmt: skip
            strange = [v for v in value if v not in known]
            if strange:
                raise TextureError(f"there is no {what} {strange[0]!r}: it is one of {', '.join(known)}")
        kind = self.image.dtype
        if self.read == "normalized" and (kind.kind == "f" or kind.itemsize == 4):
            raise TextureError(f"only 8- and 16-bit integers are read as normalized numbers, not {kind}")
        if self.filter == "linear" and not self.gives_floats:
            raise TextureError(
                f"integers ({kind}) are not filtered", next_step="Read them as normalized numbers, or take floats."
            )
        if len(self.modes) != 3 or len(self.border) != 4 or not all(map(math.isfinite, self.border)):
            raise TextureError("a texture has three address modes, for x, y and z, and a border colour of four numbers")
        if any(self.border) and not self.gives_floats:
            raise TextureError(f"the border of a texture of integers ({kind}) is 0")
        if self.image.geometry in CUBES and not self.normalized_coordinates:
            raise TextureError("a cube map is read by directions: its coordinates are normalized")
        plain = self.filter == "point" and not self.normalized_coordinates and self.modes == ("clamp",) * 3
        if self.image.kind == "linear" and not (plain and not any(self.border)):
            raise TextureError(
                "linear memory is read by integers alone: without filter, address modes, border and normalized "
                "coordinates",
                next_step="Take an array or pitched memory.",
            )

    @property
    def modes(self) -> tuple[str, ...]:
        """The address modes of x, y and z."""
        return (self.address,) * 3 if isinstance(self.address, str) else tuple(self.address)

    @property
    def gives_floats(self) -> bool:
        """Whether a fetch gives floating-point numbers."""
        return self.image.dtype.kind == "f" or self.read == "normalized"


@dataclass(frozen=True)
class Surface:
    """An array that a kernel reads and writes as bytes."""

    image: Image

    def __post_init__(self) -> None:
        if self.image.kind != "array":
            raise TextureError(f"a surface is an array, not {self.image.kind} memory", next_step="Use Image.array.")


Bound = Texture | Surface
_objects: WeakKeyDictionary[Memory, list[Bound | None]] = WeakKeyDictionary()


def bind(memory: Memory, of: Bound) -> np.uint64:
    """The handle of a new texture or surface object of a memory: what a kernel gets as its parameter."""
    if not is_live(memory, of.image):
        raise TextureError(f"'{of.image.allocation.name}' is not in this memory, or no longer")
    table = _objects.setdefault(memory, [])
    table.append(of)
    return np.uint64(FIRST_HANDLE + len(table) - 1)


def unbind(memory: Memory, handle: np.uint64) -> None:
    """Destroys an object; its handle is none from now on. The image stays."""
    table, number = _objects.get(memory, []), int(handle) - FIRST_HANDLE
    if not 0 <= number < len(table) or table[number] is None:
        raise TextureError(f"{int(handle):#x} is no handle of a texture or surface object of this memory")
    table[number] = None


def bound(memory: Memory) -> tuple[Bound | None, ...]:
    """The objects of a memory by number, that is their handle less FIRST_HANDLE; None for one that was destroyed."""
    return tuple(_objects.get(memory, ()))


def is_live(memory: Memory, image: Image) -> bool:
    """Whether an image's memory is still allocated."""
    return memory.find(image.allocation.address) is image.allocation
