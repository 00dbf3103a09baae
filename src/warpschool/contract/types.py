"""The C types that an Entry line knows, and what NumPy calls them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct", "register"}


@dataclass(frozen=True)
class CType:
    """A type: its name in messages, the NumPy type of one component, and the components of one value (4 for float4)."""

    name: str
    dtype: np.dtype
    lanes: int = 1

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * self.lanes


# One row a type: NumPy's name, then every way to spell it in C. The first spelling is the one in messages.
_SCALARS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("float32", ("float",)),
    ("float64", ("double",)),
    ("float16", ("half", "__half")),
    ("int32", ("int", "signed", "signed int", "int32_t")),
    ("uint32", ("unsigned", "unsigned int", "uint32_t")),
    ("int8", ("signed char", "int8_t", "char")),  # plain char is signed on every GPU
    ("uint8", ("unsigned char", "uint8_t")),
    ("int16", ("short", "short int", "signed short", "int16_t")),
    ("uint16", ("unsigned short", "unsigned short int", "uint16_t")),
    ("int64", ("long long", "long long int", "int64_t", "long", "long int", "ptrdiff_t")),
    ("uint64", ("unsigned long long", "unsigned long long int", "uint64_t", "size_t", "unsigned long")),
    ("bool", ("bool",)),
)
_VECTORS: tuple[tuple[str, str], ...] = (
    ("float32", "float"), ("float64", "double"), ("int32", "int"), ("uint32", "uint"), ("int8", "char"),
    ("uint8", "uchar"), ("int16", "short"), ("uint16", "ushort"), ("int64", "longlong"), ("uint64", "ulonglong"),
)  # fmt: skip


def _table() -> dict[str, CType]:
    types: dict[str, CType] = {}
    for dtype, spellings in _SCALARS:
        for spelling in spellings:
            types[spelling] = CType(spellings[0], np.dtype(dtype))
    for dtype, base in _VECTORS:
        for lanes in (1, 2, 3, 4):
            types[f"{base}{lanes}"] = CType(f"{base}{lanes}", np.dtype(dtype), lanes)
    for spelling in ("half2", "__half2"):
        types[spelling] = CType("half2", np.dtype("float16"), 2)
    return types


C_TYPES: dict[str, CType] = _table()
TYPE_WORDS = frozenset(word for name in C_TYPES for word in name.split())


def find_type(words: list[str]) -> CType | None:
    """Return the type that these words spell, qualifiers and `std::` ignored, or None when there is none."""
    kept = [word for word in words if word not in _QUALIFIERS and word not in ("std", "::")]
    direct = C_TYPES.get(" ".join(kept))
    return direct or C_TYPES.get(" ".join(_in_usual_order(kept)))


def _in_usual_order(words: list[str]) -> list[str]:
    """Sign, then length, then base: `int unsigned` and `long unsigned int long` are legal C too."""
    rank = {"unsigned": 0, "signed": 0, "short": 1, "long": 1}
    ordered = sorted(words, key=lambda word: rank.get(word, 2))
    return [word for word in ordered if word != "int"] if len(ordered) > 1 else ordered


def is_qualifier(word: str) -> bool:
    """Whether the word changes how a value may be used, but not what it is."""
    return word in _QUALIFIERS
