"""Tensor maps of arrays: what the launcher of a kernel file describes to the tensor memory accelerator.

One description for both devices: the simulator encodes it itself, on a GPU the driver does.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ptxsim.tensormap import BYTES, TensorMap, TensorMapError
from warpschool.device.protocol import DeviceArray
from warpschool.errors import ArgumentError

_ELEMENTS = {
    np.dtype(name): element for name, element in {
        "float16": "f16", "float32": "f32", "float64": "f64", "uint8": "u8", "int8": "u8", "uint16": "u16",
        "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64",
    }.items()
}  # fmt: skip
"""By NumPy's type. A box is copied and never computed with: signed bytes go as unsigned ones."""
_SWIZZLES = (128, 64, 32)


def described(array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> TensorMap:
    """The map of an array, for boxes with these sides, last axis last; outside the array is zero.

    An array with more axes than the box has sides counts its first axes as one. `window` makes a map of images in NHWC
    for windows with these rows, columns, stride and padding; its boxes are places x channels. Boxes of 128, 64 or 32
    bytes in width are swizzled accordingly. Raises ArgumentError for what no tensor map describes.
    """
    return _described(*_what(array), tuple(box), tuple(window))


def encoded(array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
    """The same map as kernels on the simulator are given it."""
    return _encoded(*_what(array), tuple(box), tuple(window))


def _what(array: DeviceArray) -> tuple[int, tuple[int, ...], np.dtype, str]:
    return array.address, array.shape, array.dtype, array.name or "the array"


@lru_cache(maxsize=64)  # launches that are alike ask again and again
def _encoded(
    address: int, shape: tuple[int, ...], dtype: np.dtype, name: str, box: tuple[int, ...], window: tuple[int, ...]
) -> np.generic:
    found = _described(address, shape, dtype, name, box, window).encode()
    return np.frombuffer(found, np.dtype(f"V{BYTES}"))[0]


@lru_cache(maxsize=64)
def _described(
    address: int, shape: tuple[int, ...], dtype: np.dtype, name: str, box: tuple[int, ...], window: tuple[int, ...]
) -> TensorMap:
    rank = 4 if window else len(box)
    leading = len(shape) - rank + 1
    shape = (math.prod(shape[:leading]), *shape[leading:])
    size = dtype.itemsize
    if dtype not in _ELEMENTS:
        raise ArgumentError(f"a tensor map describes numbers; {name} holds {dtype}")
    pitch = shape[-1] * size
    if pitch % 16:
        raise ArgumentError(
            f"a tensor map needs rows of a multiple of 16 bytes; {name} has {pitch}",
            next_step=f"Say so in the header, // Needs: columns % {16 // size} == 0, or pad the rows.",
        )
    strides = tuple(math.prod(shape[axis:]) * size for axis in range(rank - 1, 0, -1))
    steps: tuple[int, ...] = ()
    corners = None
    if window:
        rows, columns, stride, pad = window
        steps = (1, stride, stride, 1)
        corners = (-pad, -pad), (pad - (columns - 1), pad - (rows - 1))
    width = box[-1] * size
    found = TensorMap(
        address, _ELEMENTS[dtype], shape[::-1], strides, box[::-1], steps,
        swizzle=width if width in _SWIZZLES else 0, corners=corners,
    )  # fmt: skip
    try:
        found.check()
    except TensorMapError as error:
        raise ArgumentError(f"there is no tensor map of {name} for boxes of {box}: {error}") from None
    return found
