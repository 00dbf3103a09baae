"""Register bits as typed NumPy arrays and back.

Registers hold unsigned integers of their width, predicates booleans. A typed value is an array of the matching NumPy
type; bfloat16 and tf32 values are float32 arrays whose low bits are zero; packed types have a last axis of length 2.
"""

from __future__ import annotations

import numpy as np

from ptxsim.syntax.program import WIDTH_BITS

UNSIGNED: dict[int, type] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.object_}
"""NumPy types by width; 128 bits are Python's integers."""
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}
"""Packed types and the type of their two elements."""

CANONICAL_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x7FFFE000, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
"""The NaN that arithmetic gives. The payload of a NaN source is not preserved (PTX ISA 9.7.3, 9.7.4); an H200 does
preserve it in f64, where PTX leaves it open, and gives this f64 NaN where no source is one."""


def register_dtype(type_name: str) -> type:
    """NumPy type of a register."""
    return np.bool_ if type_name == "pred" else UNSIGNED[WIDTH_BITS[type_name]]


def decode(bits: np.ndarray, type_name: str) -> np.ndarray:
    """Register bits read as `type_name`; a wider register gives its low bits."""
    if type_name == "pred":
        return bits.astype(np.bool_)
    width = WIDTH_BITS[type_name]
    bits = bits.astype(UNSIGNED[width])
    if type_name in PACKED:
        return decode(np.ascontiguousarray(bits[..., None]).view(np.uint16), PACKED[type_name])
    if type_name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if type_name in _FLOAT:
        return bits.view(_FLOAT[type_name])
    return bits.view(_SIGNED[width]) if type_name[0] == "s" else bits


def encode(value: np.ndarray, type_name: str) -> np.ndarray:
    """The bits of a typed value, as an unsigned array of the type's width."""
    value = np.asarray(value)
    if type_name == "pred":
        return value.astype(np.bool_)
    if type_name in PACKED:
        halves = np.ascontiguousarray(encode(value, PACKED[type_name]))
        return halves.view(np.uint32)[..., 0]
    if type_name == "bf16":
        return (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if type_name in _FLOAT:
        return value.astype(_FLOAT[type_name]).view(UNSIGNED[WIDTH_BITS[type_name]])
    return value.astype(UNSIGNED[WIDTH_BITS[type_name]])


def canonical(value: np.ndarray, type_name: str) -> np.ndarray:
    """`value` with every NaN replaced by the canonical one."""
    type_name = PACKED.get(type_name, type_name)
    nan = decode(np.array(CANONICAL_NAN[type_name], np.uint64), type_name)
    return np.where(np.isnan(value), nan, value).astype(value.dtype)
