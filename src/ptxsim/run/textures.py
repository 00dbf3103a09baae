"""A memory's texture and surface objects as generated code reads them, and what is said where one does not fit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.memory import Memory
from ptxsim.texture import CUBES, FIRST_HANDLE, Bound, Image, Texture, bound, is_live

_READINGS = {
    ("u", "element"): L.Reading.UNSIGNED, ("i", "element"): L.Reading.SIGNED,
    ("u", "normalized"): L.Reading.UNSIGNED_NORMALIZED, ("i", "normalized"): L.Reading.SIGNED_NORMALIZED,
}  # fmt: skip


def records(memory: Memory) -> ctypes.Array[L.TextureRecord]:
    """The objects by number; at least one record, which may be that of nothing."""
    objects = bound(memory)
    table = (L.TextureRecord * max(1, len(objects)))()
    for record, of in zip(table, objects, strict=False):
        if of is not None:
            _fill(record, of, is_live(memory, of.image))
    return table


def _geometry(image: Image) -> str:
    return image.geometry if image.kind == "array" else image.kind


def _fill(record: L.TextureRecord, of: Bound, live: bool) -> None:
    image = of.image
    width, rows, slices = image.extent
    geometry = image.geometry
    record.role = L.TextureRole.TEXTURE if isinstance(of, Texture) else L.TextureRole.SURFACE
    record.role = record.role if live else L.TextureRole.FREED
    record.geometry = L.GEOMETRIES.index(_geometry(image))
    record.base = image.allocation.address
    record.row_bytes, record.slice_bytes = image.row_bytes, image.row_bytes * rows
    record.extent[:] = image.extent
    record.texel_bytes, record.channels, record.channel_bytes = image.texel_bytes, image.channels, image.dtype.itemsize
    record.width, record.height = width, rows if geometry in ("2d", "3d", "a2d", *CUBES) else 0
    record.depth = slices if geometry == "3d" else 0
    record.array_size = slices if geometry in ("a1d", "a2d", *CUBES) else 0
    if isinstance(of, Texture):
        _fill_reading(record, of)


def _fill_reading(record: L.TextureRecord, of: Texture) -> None:
    kind = of.image.dtype
    if kind.kind == "f":
        record.reading = L.Reading.HALF if kind.itemsize == 2 else L.Reading.FLOAT
    else:
        record.reading = _READINGS[kind.kind, of.read]
        record.scale = np.iinfo(kind).max
    periodic = ("wrap", "mirror")  # only of normalized coordinates: others are clamped
    modes = ["clamp" if mode in periodic and not of.normalized_coordinates else mode for mode in of.modes]
    record.modes[:] = [L.AddressMode[mode.upper()] for mode in modes]
    record.filters, record.normalized_coordinates = of.filter == "linear", of.normalized_coordinates
    record.border[:] = [int(bits) for bits in np.array(of.border, np.float32).view(np.uint32)]


def complaint(state: L.WorkerState, memory: Memory) -> str:
    """What a thread cannot do with an object, as the rest of a sentence: "reads ..."."""
    problem, handle = L.TextureProblem(state.texture_problem), int(state.texture_handle)
    number, objects = handle - FIRST_HANDLE, bound(memory)
    of: Any = objects[number] if 0 <= number < len(objects) else None
    if of is None or problem is L.TextureProblem.NO_OBJECT:
        return f"uses {handle:#x}, which is no texture or surface object"
    role = "texture" if isinstance(of, Texture) else "surface"
    name = of.image.allocation.name or "an array"
    if problem is L.TextureProblem.WRONG_ROLE:
        return f"uses the {role} object of {name} as a {'surface' if role == 'texture' else 'texture'}"
    if problem is L.TextureProblem.FREED:
        return f"uses a {role} object whose memory has been freed"
    if problem is L.TextureProblem.WRONG_GEOMETRY:
        return f"uses the {role} object of {name} as what it is not: its memory is {_described(of.image)}"
    place = [f"{what} {at}" for what, at, _ in _axes(of.image, state.texture_place)]
    room = [f"{count:,} {what}s" for what, _, count in _axes(of.image, state.texture_place)]
    return f"accesses {name} outside its surface, at {', '.join(place)}: it has {', '.join(room)}"


_KINDS = {
    "1d": "a 1D array", "2d": "a 2D array", "3d": "a 3D array",
    "a1d": "a layered 1D array", "a2d": "a layered 2D array",
    "cube": "a cube map", "acube": "a layered cube map", "linear": "linear memory", "pitched": "pitched memory",
}  # fmt: skip


def _axes(image: Image, place: Sequence[int]) -> list[tuple[str, int, int]]:
    """(what, where along it, how many there are) for each coordinate of a surface."""
    width, rows, slices = image.extent
    last = "layer" if image.geometry[0] == "a" or image.geometry in CUBES else "slice"
    lengths = ("byte", width * image.texel_bytes), ("row", rows), (last, slices)
    used = {"1d": (0,), "2d": (0, 1), "a1d": (0, 2)}.get(image.geometry, (0, 1, 2))
    return [(lengths[k][0], int(place[k]), lengths[k][1]) for k in used]


def _described(image: Image) -> str:
    return f"{_KINDS[_geometry(image)]} of shape {image.shape}"
