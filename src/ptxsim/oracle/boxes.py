"""Boxes of tensors between global and shared memory, element by element (PTX ISA 5.5, 9.7.9.25.5).

A box is a list of places: for each of its elements, innermost dimension first, where it stands in the array. From that
everything follows: which elements there are, and where in shared memory each goes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

import numpy as np

from ptxsim.memory import Memory
from ptxsim.oracle import exact
from ptxsim.oracle.floating import flush, narrow, wide
from ptxsim.oracle.lanes import canonical, decode, encode
from ptxsim.tensormap import NAN_FILL, TF32_NAN, TensorMap, row_pitch


def places(tensor_map: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> np.ndarray:
    """Coordinates of all elements of a box, shape (elements, rank), in the order in which they lie in shared memory."""
    steps = tensor_map.steps or (1,) * tensor_map.rank
    if tensor_map.corners is None:
        sides = [
            np.arange(0, side, step if axis else 1)
            for axis, (side, step) in enumerate(zip(tensor_map.box, steps, strict=True))
        ]
        grid = np.stack(np.meshgrid(*reversed(sides), indexing="ij")[::-1], axis=-1)
        return grid.reshape(-1, tensor_map.rank) + np.array(coordinates)
    lower, upper = tensor_map.corners
    first, *at = coordinates
    found = []
    for _ in range(tensor_map.box[1]):
        shifted = [p + o for p, o in zip_longest(at, offsets, fillvalue=0)]  # none for images, none in stores
        found += [(first + c, *shifted) for c in range(tensor_map.box[0])]
        for axis in range(len(at)):
            is_image = axis == len(at) - 1
            at[axis] += 1 if is_image else steps[1 + axis]
            if is_image or at[axis] <= tensor_map.sizes[1 + axis] - 1 + upper[axis]:
                break
            at[axis] = lower[axis]
    return np.array(found)


def byte_places(
    tensor_map: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...], to: int, *, padded: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(global address, offset in shared memory, whether it is in the array) of each element of a box.

    `padded`: what stands behind a row up to a multiple of 16 bytes counts as of the array.
    """
    at = places(tensor_map, coordinates, offsets)
    sizes = np.array(tensor_map.sizes)
    if padded:
        sizes[0] = -(-sizes[0] * tensor_map.nbytes // 16) * 16 // tensor_map.nbytes
    inside = np.all((at >= 0) & (at < sizes), axis=1)
    pitches = np.array((tensor_map.nbytes, *tensor_map.strides))
    address = tensor_map.address + (at * pitches).sum(axis=1)
    row, place = np.divmod(np.arange(len(at)), tensor_map.box[0])
    linear = to + row * row_pitch(tensor_map) + place * tensor_map.nbytes
    rows = {0: 0, 32: 1, 64: 3, 128: 7}[tensor_map.swizzle]
    return address, linear ^ (linear // 128 & rows) * 16, np.asarray(inside)


def load_box(
    memory: Memory,
    tensor_map: TensorMap,
    coordinates: tuple[int, ...],
    offsets: tuple[int, ...],
    shared: np.ndarray,
    to: int,
) -> None:
    """Global to shared memory; what is outside of the array is zero or NaN."""
    size = tensor_map.nbytes
    fill = np.frombuffer(NAN_FILL.to_bytes(2, "little") * 4, np.uint8)[:size] if tensor_map.fill == "nan" else 0
    for address, offset, inside in zip(*byte_places(tensor_map, coordinates, offsets, to), strict=True):
        data = _bytes(memory, int(address), size) if inside else None
        if data is not None and tensor_map.element.startswith("tf32"):
            data = _as_tf32(data)
        shared[offset : offset + size] = fill if data is None else data


def _as_tf32(data: np.ndarray) -> np.ndarray:
    """The bytes of a float32 rounded to nearest even in the bits that tf32 has."""
    bits = int(np.ascontiguousarray(data).view(np.uint32)[0])
    is_nan = bits & 0x7FFFFFFF > 0x7F800000
    found = TF32_NAN if is_nan else bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000
    return np.array([found], np.uint32).view(np.uint8)


def store_box(
    memory: Memory, tensor_map: TensorMap, coordinates: tuple[int, ...], shared: np.ndarray, to: int, operation: str
) -> None:
    """Shared to global memory: what is in the array, a row's last 16 bytes whole; `operation` combines with what is
    there, or is ""."""
    size, type_name = tensor_map.nbytes, tensor_map.element
    for address, offset, inside in zip(*byte_places(tensor_map, coordinates, (), to, padded=True), strict=True):
        target = _bytes(memory, int(address), size) if inside else None
        if target is not None and len(target) == size:
            data = shared[offset : offset + size]
            target[:] = reduced(operation, type_name, target, data) if operation else data


def _bytes(memory: Memory, address: int, size: int) -> np.ndarray | None:
    found = memory.find(address)
    return None if found is None else found.view()[address - found.address :][:size]


_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
}  # fmt: skip


def reduced(operation: str, type_name: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Bytes of `old op new` for elements of a type."""
    base, flushes = type_name.removesuffix(".ftz"), type_name.endswith(".ftz")
    bits = [np.ascontiguousarray(x).view(f"u{_width(base)}") for x in (old, new)]
    x, y = (decode(b, base) for b in bits)
    if flushes:
        x, y = flush(x, base), flush(y, base)
    if operation == "add" and base == "bf16":
        result = narrow(exact.sum_to_odd(*wide(x, y)), "bf16", "rn")
    else:
        result = _OPERATIONS[operation](x, y)
    if flushes:
        result = flush(result, base)
    if base in ("f16", "f32", "f64", "bf16"):
        result = canonical(result, base)
    return np.ascontiguousarray(encode(result, base)).view(np.uint8)


def _width(type_name: str) -> int:
    return {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u64": 8, "s64": 8, "f64": 8, "b64": 8}.get(type_name, 4)
