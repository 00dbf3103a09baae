"""Tensor maps: what the tensor memory accelerator of Hopper and later GPUs must know of an array.

The driver writes them (CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col); a kernel gets one by
value, 128 bytes.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from warpschool.device.arrays import DeviceArray
from warpschool.errors import ArgumentError, DeviceFault

_BYTES = 128
_TYPES = {
    "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "uint8": "UINT8", "int8": "UINT8",
    "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
}  # fmt: skip
_SWIZZLES = {128: "128B", 64: "64B", 32: "32B"}
"""By a box's width in bytes: the swizzle that spreads eight of its rows over all banks."""


def tensor_map(array: DeviceArray, box: tuple[int, ...], window: tuple[int, ...] = ()) -> np.generic:
    """The tensor map of an array on the GPU, for boxes with these sides; outside the array is zero.

    An array with more axes than the box has sides counts its first axes as one. `window` makes a map of images in
    NHWC for windows with these rows, columns, stride and padding; its boxes are places x channels. Boxes of 128, 64 or
    32 bytes in width are swizzled accordingly. Raises ArgumentError for an array whose rows do not start on 16 bytes,
    or a type that no tensor map knows.
    """
    from cuda.bindings import driver

    rank = 4 if window else len(box)
    shape = (math.prod(array.shape[: len(array.shape) - rank + 1]), *array.shape[len(array.shape) - rank + 1 :])
    _check(array, shape)
    pitches = [math.prod(shape[axis:]) * array.dtype.itemsize for axis in range(rank - 1, 0, -1)]
    described = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[array.dtype.name]}"), rank, array.address,
        [driver.cuuint64_t(length) for length in reversed(shape)], [driver.cuuint64_t(pitch) for pitch in pitches],
    )  # fmt: skip
    swizzle = _SWIZZLES.get(box[-1] * array.dtype.itemsize, "NONE")
    modes = (
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    status, found = _encoded(driver, described, box, window, modes)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFault(f"the driver makes no tensor map of {array.dtype}{list(array.shape)}: {status.name}")
    return np.frombuffer(ctypes.string_at(found.getPtr(), _BYTES), np.dtype(f"V{_BYTES}"))[0]


def _check(array: DeviceArray, shape: tuple[int, ...]) -> None:
    name, pitch = array.name or "the array", shape[-1] * array.dtype.itemsize
    if array.dtype.name not in _TYPES:
        raise ArgumentError(f"a tensor map describes numbers; {name} holds {array.dtype}")
    if pitch % 16:
        raise ArgumentError(
            f"a tensor map needs rows of a multiple of 16 bytes; {name} has {pitch}",
            next_step=f"Say so in the header, // Needs: columns % {16 // array.dtype.itemsize} == 0, or pad the rows.",
        )


def _encoded(
    driver: Any, described: tuple[Any, ...], box: tuple[int, ...], window: tuple[int, ...], modes: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The driver's status and map. A window's corner lies in a rectangle that begins and ends off the image's own."""
    if not window:
        sides = [driver.cuuint32_t(side) for side in reversed(box)]
        return driver.cuTensorMapEncodeTiled(*described, sides, [driver.cuuint32_t(1)] * len(box), *modes)
    rows, columns, stride, pad = window
    places, channels = box
    steps = [driver.cuuint32_t(step) for step in (1, stride, stride, 1)]
    return driver.cuTensorMapEncodeIm2col(
        *described, [-pad, -pad], [pad - (columns - 1), pad - (rows - 1)], channels, places, steps, *modes
    )
