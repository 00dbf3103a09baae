"""Texture fetches, gathers, queries and surfaces (PTX ISA 9.7.10, 9.7.11), one lane after the other.

The formulas are those of the CUDA C++ Programming Guide, "Texture Fetching", in double precision. Where it says
nothing: a coordinate that is no number counts as 0, a layer outside is clamped, and channels that a texel does not have
are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import numpy as np

from ptxsim.errors import KernelTrap
from ptxsim.oracle.lanes import CANONICAL_NAN, ActiveLanes, first_of, handler, unsupported
from ptxsim.syntax.program import Address, Instruction, Operand, ResultPair, bytes_of, elements_of
from ptxsim.texture import CUBES, FIRST_HANDLE, Image, Surface, Texture, bound, is_live

Object = TypeVar("Object", Texture, Surface)
Taps = list[tuple[int | None, float]]
"""Texels along an axis, None for one outside, and their weights."""
_AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}


def _refuse(lanes: ActiveLanes, i: Instruction, row: int, lane: int, why: str) -> KernelTrap:
    where = lanes.state.place(int(lanes.row_numbers[row, 0]), lane)
    return KernelTrap(f"{i.full_name} in {where}: {why}", line=i.source.line)


def _object(lanes: ActiveLanes, i: Instruction, at: tuple[int, int], handle: Operand, kind: type[Object]) -> Object:
    """The object behind a lane's handle."""
    value = int(lanes.each(handle, "u64")[at])
    objects = bound(lanes.launch.memory)
    found = objects[value - FIRST_HANDLE] if 0 <= value - FIRST_HANDLE < len(objects) else None
    if not isinstance(found, kind):
        raise _refuse(lanes, i, *at, f"{value:#x} is no {kind.__name__.lower()} object")
    if not is_live(lanes.launch.memory, found.image):
        raise _refuse(lanes, i, *at, "its memory has been freed")
    return found


def _place(
    lanes: ActiveLanes, i: Instruction, at: tuple[int, int], where: Operand, type_name: str
) -> tuple[list[np.generic], int]:
    """A lane's coordinates, x first, and its layer."""
    assert isinstance(where, Address)
    geometry = next(m for m in i.modifiers if m in _AXES)
    first = int(geometry[0] == "a")
    layer = int(lanes.each(where.coordinates[0], "u32")[at]) if first else 0
    return [lanes.each(axis, type_name)[at] for axis in where.coordinates[first : first + _AXES[geometry]]], layer


def _hold_geometry(
    lanes: ActiveLanes, i: Instruction, at: tuple[int, int], image: Image, kinds: Sequence[str] = ("array",)
) -> None:
    faces = image.geometry in CUBES and i.has("a2d") and i.opcode in ("suld", "sust")  # a surface's layers
    if not (i.has(image.geometry) or faces) or image.kind not in kinds:
        raise _refuse(lanes, i, *at, f"the memory is {image.kind} .{image.geometry}")


# ---------------------------------------------------------------- fetches


@handler("tex", "tld4")
def _fetch(lanes: ActiveLanes, i: Instruction) -> None:
    target, where = i.operands
    assert isinstance(where, Address)
    lanes.launch.counts.add("texture_instructions", i.source.line, lanes.busy.sum())
    found = np.zeros((*lanes.mask.shape, 4), np.uint32)
    component = first_of(i, "r", "g", "b", "a")
    for row, lane in np.argwhere(lanes.mask):
        at = (int(row), int(lane))
        texture = _object(lanes, i, at, where.base, Texture)
        places, layer = _place(lanes, i, at, where, i.type)
        if i.type == "s32":
            _hold_geometry(lanes, i, at, texture.image, ("linear",))
            index = int(places[0])
            if 0 <= index < texture.image.extent[0]:
                found[at] = _bits(texture, (0, 0, index))
            continue
        _hold_geometry(lanes, i, at, texture.image, ("array",) if component else ("array", "pitched"))
        if component:
            found[at] = _gathered(texture, [float(p) for p in places], "rgba".index(component))
        else:
            found[at] = _sampled(texture, [float(p) for p in places], layer)
    if isinstance(target, ResultPair):
        lanes.write(target.second, np.ones(lanes.mask.shape, np.bool_), "pred")
        target = target.first
    for k, element in enumerate(elements_of(target)):
        lanes.write(element, found[..., k], "u32")


def _texels(image: Image) -> np.ndarray:
    """The texels with all axes: slice, row, column, channel."""
    width, rows, slices = image.extent
    return image.view().reshape(slices, rows, width, image.channels)


def _numbers(texture: Texture, place: tuple[int | None, ...]) -> np.ndarray:
    """The channels of a texel (slice, row, column) as a fetch gives them: f32, or integers of 32 bits."""
    channels = texture.image.channels
    if None in place:
        return np.array(texture.border[:channels]).astype(np.float32 if texture.gives_floats else np.uint32)
    texel = _texels(texture.image)[place]
    if texture.read == "normalized":
        largest = np.iinfo(texel.dtype).max
        return np.maximum(texel / np.float64(largest), -1.0).astype(np.float32)
    if texel.dtype.kind == "f":
        return texel.astype(np.float32)
    return texel.astype(np.uint32 if texel.dtype.kind == "u" else np.int32)


def _bits(texture: Texture, place: tuple[int | None, ...]) -> np.ndarray:
    """The same as four numbers of raw bits."""
    bits = np.zeros(4, np.uint32)
    numbers = _numbers(texture, place)
    bits[: len(numbers)] = numbers.view(np.uint32)
    if texture.image.dtype == np.float16:
        bits[: len(numbers)][np.isnan(numbers)] = CANONICAL_NAN["f32"]
    return bits


def _sampled(texture: Texture, places: list[float], layer: int) -> np.ndarray:
    """Four numbers at a place: those of the nearest texel, or filtered linearly."""
    linear = texture.filter == "linear"
    if texture.image.geometry in CUBES:
        places, face = _on_face(*places)
        layer = (6 * layer + face) % (1 << 32)
    axes = [_taps(texture, axis, x, linear) for axis, x in enumerate(places)]
    fixed: list[Taps] = [[(0, 1.0)], [(0, 1.0)], [(min(layer, texture.image.extent[2] - 1), 1.0)]]
    x, y, z = axes + fixed[len(axes) :]
    if not linear:
        return _bits(texture, (z[0][0], y[0][0], x[0][0]))
    total = np.zeros(texture.image.channels, np.float64)
    for (k, c), (j, b), (column, a) in product(z, y, x):
        total = total + _numbers(texture, (k, j, column)).astype(np.float64) * (a * b * c)
    result = np.zeros(4, np.uint32)
    filtered = total.astype(np.float32)
    result[: len(total)] = np.where(np.isnan(filtered), np.uint32(CANONICAL_NAN["f32"]), filtered.view(np.uint32))
    return result


def _on_face(x: float, y: float, z: float) -> tuple[list[float], int]:
    """The place on the face of a cube that a direction meets, each from 0 to 1 in single precision, and the face."""
    if abs(z) >= abs(x) and abs(z) >= abs(y):
        face, right, down, length = (5, -x, -y, abs(z)) if z < 0 else (4, x, -y, abs(z))
    elif abs(y) >= abs(x):
        face, right, down, length = (3, x, -z, abs(y)) if y < 0 else (2, x, z, abs(y))
    else:
        face, right, down, length = (1, z, -y, abs(x)) if x < 0 else (0, -z, -y, abs(x))
    with np.errstate(all="ignore"):
        places = [(np.float32(v) / np.float32(length) + np.float32(1)) * np.float32(0.5) for v in (right, down)]
    return [float(place) for place in places], face


def _gathered(texture: Texture, places: list[float], component: int) -> np.ndarray:
    """One component of the texels around a place, against the clock from the lower left."""
    (left, _), (right, _) = _taps(texture, 0, places[0], True)
    (upper, _), (lower, _) = _taps(texture, 1, places[1], True)
    around = ((lower, left), (lower, right), (upper, right), (upper, left))
    return np.array([_bits(texture, (0, *place))[component] for place in around], np.uint32)


def _taps(texture: Texture, axis: int, x: float, linear: bool) -> Taps:
    """The texels that a coordinate asks for along one axis."""
    size, mode = texture.image.extent[axis], texture.modes[axis]
    if mode in ("wrap", "mirror") and not texture.normalized_coordinates:
        mode = "clamp"
    if texture.normalized_coordinates:
        x = _repeated(x, mode) * size
    if math.isnan(x):
        x = 0.0
    x = min(max(x, -1.0), size + 1.0)  # it does not matter how far outside
    if not linear:
        return [(_texel(math.floor(x), size, mode), 1.0)]
    x -= 0.5
    first = math.floor(x)
    alpha = math.floor((x - first) * 256 + 0.5) / 256  # 1.8 fixed point
    return [(_texel(first, size, mode), 1 - alpha), (_texel(first + 1, size, mode), alpha)]


def _repeated(x: float, mode: str) -> float:
    """A normalized coordinate in the repetition that it lies in."""
    if mode not in ("wrap", "mirror"):
        return x
    if not math.isfinite(x):
        return math.nan
    whole = math.floor(x)
    fraction = x - whole
    return 1.0 - fraction if mode == "mirror" and whole % 2 else fraction


def _texel(k: int, size: int, mode: str) -> int | None:
    """The texel that number k is, which may lie outside."""
    if mode == "wrap":
        return k % size
    if mode == "mirror":
        return [*range(size), *reversed(range(size))][k % (2 * size)]
    if mode == "clamp":
        return min(max(k, 0), size - 1)
    return k if 0 <= k < size else None


# ---------------------------------------------------------------- queries


@handler("txq", "suq")
def _query(lanes: ActiveLanes, i: Instruction) -> None:
    target, where = i.operands
    assert isinstance(where, Address)
    found = np.zeros(lanes.mask.shape, np.uint32)
    for row, lane in np.argwhere(lanes.mask):
        at = (int(row), int(lane))
        if i.opcode == "txq":
            of: Texture | Surface = _object(lanes, i, at, where.base, Texture)
        else:
            of = _object(lanes, i, at, where.base, Surface)
        found[at] = _told(of, i)
    lanes.write(target, found, "u32")


def _told(of: Texture | Surface, i: Instruction) -> int:
    width, rows, slices = of.image.extent
    geometry = of.image.geometry
    told = {
        "width": width,
        "height": rows if "2" in geometry or "3" in geometry or geometry in CUBES else 0,
        "depth": slices if geometry == "3d" else 0,
        "array_size": slices if geometry[0] == "a" or geometry in CUBES else 0,
        "normalized_coords": int(isinstance(of, Texture) and of.normalized_coordinates),
    }
    name = first_of(i, *told)
    if name is None:
        raise unsupported(i)
    return told[name]


# ---------------------------------------------------------------- surfaces


@handler("suld", "sust")
def _surface(lanes: ActiveLanes, i: Instruction) -> None:
    loads = i.opcode == "suld"
    what, where = i.operands if loads else i.operands[::-1]
    assert isinstance(where, Address)
    kind = "load" if loads else "store"
    lanes.launch.counts.add(f"surface_{kind}_instructions", i.source.line, lanes.busy.sum())
    elements, width = elements_of(what), bytes_of(i.type)
    data = np.zeros((*lanes.mask.shape, len(elements)), f"u{width}")
    if not loads:
        for k, element in enumerate(elements):
            data[..., k] = lanes.each(element, f"u{8 * width}")
    for row, lane in np.argwhere(lanes.mask):
        at = (int(row), int(lane))
        image = _object(lanes, i, at, where.base, Surface).image
        _hold_geometry(lanes, i, at, image)
        place = _surface_place(lanes, i, at, where, image, width * len(elements))
        if place is None:
            continue
        memory = image.allocation.view()[place : place + width * len(elements)]
        if loads:
            data[at] = memory.view(f"u{width}")
        else:
            memory[:] = data[at].view(np.uint8)
    if loads:
        for k, element in enumerate(elements):
            lanes.write(element, data[..., k], f"u{8 * width}")


def _surface_place(
    lanes: ActiveLanes, i: Instruction, at: tuple[int, int], where: Address, image: Image, size: int
) -> int | None:
    """Byte of the image's memory that a lane accesses; None where it accesses nothing."""
    places, layer = _place(lanes, i, at, where, "s32")
    x, y, z = (*map(int, places), 0, 0)[:3]
    if i.has("a1d") or i.has("a2d"):
        z = layer - (1 << 32) if layer >> 31 else layer
    width, rows, slices = image.extent
    room = width * image.texel_bytes
    if i.has("clamp") and room >= size:  # the nearest place for so many bytes
        x = min(max(x, 0), (room - size) // size * size)
        y, z = min(max(y, 0), rows - 1), min(max(z, 0), slices - 1)
    if x >= 0 and x + size <= room and 0 <= y < rows and 0 <= z < slices:
        return (z * rows + y) * image.row_bytes + x
    if not i.has("zero"):
        raise _refuse(lanes, i, *at, f"({x}, {y}, {z}) lies outside of {room} x {rows} x {slices}")
    return None
