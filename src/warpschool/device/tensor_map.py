"""Tensor maps: what the tensor memory accelerator of Hopper and later GPUs must know of a matrix.

The driver writes them (CUDA driver API, cuTensorMapEncodeTiled); a kernel gets one by value, 128 bytes.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..errors import ArgumentError, DeviceFault
from .arrays import DeviceArray

_BYTES = 128
_TYPES = {
    "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "uint8": "UINT8", "int8": "UINT8",
    "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
}  # fmt: skip
_SWIZZLES = {128: "128B", 64: "64B", 32: "32B"}
"""By a box's width in bytes: the swizzle that spreads eight of its rows over all banks."""


def tensor_map(array: DeviceArray, box: tuple[int, int]) -> np.generic:
    """The tensor map of a matrix on the GPU, for boxes of so many rows and columns; outside the matrix is zero.

    Boxes of 128, 64 or 32 bytes in width are swizzled accordingly. Raises ArgumentError for a matrix whose rows do not
    start on 16 bytes, or a type that no tensor map knows.
    """
    from cuda.bindings import driver

    rows, columns = array.shape
    pitch = columns * array.dtype.itemsize
    if array.dtype.name not in _TYPES:
        raise ArgumentError(f"a tensor map describes numbers; {array.name or 'the array'} holds {array.dtype}")
    if pitch % 16:
        raise ArgumentError(
            f"a tensor map needs rows of a multiple of 16 bytes; {array.name or 'the array'} has {pitch}",
            next_step=f"Say so in the header, // Needs: columns % {16 // array.dtype.itemsize} == 0, or pad the rows.",
        )
    data_type = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[array.dtype.name]}")
    swizzle = _SWIZZLES.get(box[1] * array.dtype.itemsize, "NONE")
    status, found = driver.cuTensorMapEncodeTiled(
        data_type, 2, array.address,
        [driver.cuuint64_t(columns), driver.cuuint64_t(rows)], [driver.cuuint64_t(pitch)],
        [driver.cuuint32_t(box[1]), driver.cuuint32_t(box[0])], [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )  # fmt: skip
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFault(f"the driver makes no tensor map of {array.dtype}{list(array.shape)}: {status.name}")
    return np.frombuffer(ctypes.string_at(found.getPtr(), _BYTES), np.dtype(f"V{_BYTES}"))[0]
