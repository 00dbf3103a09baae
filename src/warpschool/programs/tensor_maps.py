"""Tensor maps that a program asks the driver for: its numbers in the simulator's terms, and why there is no such map.

The conditions are those of `ptxsim.tensormap`; here are those of the numbers that stand for types and modes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ptxsim.tensormap import ELEMENTS, INTERLEAVES, MAX_RANK, SWIZZLES, TensorMap, TensorMapError
from warpschool.model import GpuSpec
from warpschool.programs import errors
from warpschool.programs.wire import Fields

_TILED, _IM2COL = "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"
_ELEMENTS = {element.driver: name for name, element in ELEMENTS.items()}
_FILLS = {0: "zero", 1: "nan"}
_PROMOTIONS = dict.fromkeys(range(4), "")
"""What L2 fetches at once: a matter of time alone."""
_BLACKWELL_TYPES = {13: "16U4_ALIGN8B", 14: "16U4_ALIGN16B", 15: "16U6_ALIGN16B"}
_BLACKWELL_SWIZZLES = {4: "128B_ATOM_32B", 5: "128B_ATOM_32B_FLIP_8B", 6: "128B_ATOM_64B"}
_NEEDED = (9, 0)
"""The compute capability of the first GPUs that have a tensor memory accelerator."""


_Value = TypeVar("_Value")


class NoTensorMap(Exception):
    """A call that makes no map: the error that it returns, and why."""

    def __init__(self, message: str, error: int = errors.INVALID_VALUE) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True)
class Asked:
    """A request `TENSOR_MAP`, as the program made it; None for an array that it did not give."""

    call: str
    target: int
    data_type: int
    rank: int
    address: int
    interleave: int
    swizzle: int
    promotion: int
    fill: int
    arrays: Mapping[str, tuple[int, ...] | None]
    """by the driver's names for them, in elements and bytes as there"""

    @classmethod
    def of(cls, f: Fields) -> Asked:
        call = f.text()
        target, data_type, rank, address, interleave, swizzle, promotion, fill = f.many(8)
        names = ("globalDim", "globalStrides", "boxDim", "elementStrides", "pixelBoxLowerCorner", "pixelBoxUpperCorner")
        arrays = {name: _array(f, "q" if "Corner" in name else "Q") for name in names}
        return cls(call, target, data_type, rank, address, interleave, swizzle, promotion, fill, arrays)

    def encoded(self, spec: GpuSpec) -> bytes:
        """The map's 128 bytes. Raises NoTensorMap."""
        _has_accelerator(spec)
        self._check_pointers()
        if not 1 <= self.rank <= MAX_RANK:
            raise NoTensorMap(f"an array has 1 to {MAX_RANK} dimensions, and tensorRank is {self.rank}")
        if self.data_type in _BLACKWELL_TYPES:
            raise NoTensorMap(_later(f"CU_TENSOR_MAP_DATA_TYPE_{_BLACKWELL_TYPES[self.data_type]}"))
        if self.swizzle in _BLACKWELL_SWIZZLES:
            raise NoTensorMap(_later(f"CU_TENSOR_MAP_SWIZZLE_{_BLACKWELL_SWIZZLES[self.swizzle]}"))
        _known("l2Promotion", self.promotion, _PROMOTIONS)
        given = {name: numbers or () for name, numbers in self.arrays.items()}
        corners = given["pixelBoxLowerCorner"], given["pixelBoxUpperCorner"]
        found = TensorMap(
            self.address, _known("tensorDataType", self.data_type, _ELEMENTS), given["globalDim"],
            given["globalStrides"], given["boxDim"], given["elementStrides"],
            _known("interleave", self.interleave, dict(enumerate(INTERLEAVES))),
            _known("swizzle", self.swizzle, dict(enumerate(SWIZZLES))), _known("oobFill", self.fill, _FILLS),
            corners if self.call == _IM2COL else None,
        )  # fmt: skip
        data = _checked(found)
        if found.interleave:
            raise NoTensorMap(
                "the simulator has no interleaved layouts: describe NC/8HWC8 with the slice of channels as innermost "
                "dimension, CU_TENSOR_MAP_INTERLEAVE_NONE",
                errors.NOT_SUPPORTED,
            )
        return data

    def _check_pointers(self) -> None:
        """As the driver of an H200 does, which wants strides of one dimension too."""
        corners = () if self.call == _IM2COL else ("pixelBoxLowerCorner", "pixelBoxUpperCorner")
        absent = [name for name, numbers in self.arrays.items() if numbers is None and name not in corners]
        for name in ("tensorMap",) * (not self.target) + tuple(absent):
            raise NoTensorMap(f"{name} is a null pointer")


def moved(data: bytes, address: int, spec: GpuSpec) -> bytes:
    """A map's bytes with another address. Raises NoTensorMap."""
    _has_accelerator(spec)
    if not data:
        raise NoTensorMap("tensorMap is a null pointer")
    if not address:
        raise NoTensorMap("globalAddress is a null pointer")
    try:
        before = TensorMap.decode(data)
    except TensorMapError:
        raise NoTensorMap(f"{_TILED} or {_IM2COL} made no map at this address") from None
    return _checked(replace(before, address=address))


def _checked(tensor_map: TensorMap) -> bytes:
    try:
        return tensor_map.encode()
    except TensorMapError as error:
        raise NoTensorMap(str(error)) from None


def _has_accelerator(spec: GpuSpec) -> None:
    if spec.capability < _NEEDED:
        has, needs = (".".join(map(str, capability)) for capability in (spec.capability, _NEEDED))
        raise NoTensorMap(
            f"the {spec.name} has compute capability {has} and no tensor memory accelerator, which came with {needs}: "
            "run the program with --gpu h200",
            errors.NOT_SUPPORTED,
        )


def _later(name: str) -> str:
    return f"{name} needs compute capability 10.0: Hopper has no such mode"


def _array(f: Fields, letter: str) -> tuple[int, ...] | None:
    given, data = f.u64(), f.bytes()
    return struct.unpack(f"<{len(data) // 8}{letter}", data[: len(data) // 8 * 8]) if given else None


def _known(parameter: str, number: int, values: Mapping[int, _Value]) -> _Value:
    if number not in values:
        raise NoTensorMap(f"{parameter} is {number}, which stands for nothing: 0 to {max(values)} do")
    return values[number]
