"""Where operands of wgmma lie in shared memory, by their descriptors (PTX ISA 9.7.15.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ptxsim.syntax.program import Instruction
from ptxsim.syntax.warpgroup import ROWS, WarpgroupProduct, sources, warpgroup_product

GRANULE_LOG2 = 4
"""Granules of 16 bytes: the smallest piece that an engine moves."""
_SWIZZLE_OF_MODE = (0, 3, 2, 1)
"""By the two upper bits of a matrix descriptor: what a tensor map calls it."""


@dataclass(frozen=True, eq=False)
class Operands:
    """What a product reads: granules, and of each operand which of them these are, and its swizzle."""

    granules: npt.NDArray[np.int64]
    parts: tuple[slice, ...]
    swizzles: tuple[int, ...]
    """as a tensor map names them"""


def operands(i: Instruction, descriptors: Sequence[int], count: int) -> Operands:
    """What a product reads of so many granules of shared memory, by the descriptors of A and B."""
    p, s = warpgroup_product(i), sources(i)
    a, b = (d & 0xFFFFFFFFFFFFFFFF for d in descriptors)
    named = [] if s.a_in_registers else [(a, ROWS, s.turned[0])]
    named.append((b, p.columns, s.turned[1]))
    found = [_below(_operand(p, d, rows, turned), count) for d, rows, turned in named]
    ends = np.cumsum([0, *map(len, found)]).tolist()
    parts = tuple(slice(start, end) for start, end in pairwise(ends))
    return Operands(np.concatenate(found), parts, tuple(_SWIZZLE_OF_MODE[d >> 62] for d, *_ in named))


def _below(granules: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Those of some granules, in their order, that there are."""
    return granules if len(granules) and granules[-1] < count else granules[granules < count]


@lru_cache(1024)
def _operand(p: WarpgroupProduct, descriptor: int, rows: int, turned: bool) -> npt.NDArray[np.int64]:
    """Granules of an operand of so many rows (A) or columns (B), by its descriptor (PTX ISA 9.7.15.5.1)."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    base, mode = descriptor >> 49 & 7, descriptor >> 62
    width = (16, 128, 64, 32)[mode]
    if turned:  # pieces of 8 along M or N, for each k
        r, k = np.meshgrid(np.arange(0, rows, 8), np.arange(p.depth), indexing="ij")
        if mode:
            at = 2 * r % width + 2 * r // width * leading + k % 8 * width + k // 8 * stride
        else:
            at = r // 8 * stride + k % 8 * 16 + k // 8 * leading
    else:  # 32 bytes of k, for each row
        r, piece = np.meshgrid(np.arange(rows), np.arange(2), indexing="ij")
        at = r % 8 * width + r // 8 * stride + piece * (16 if mode else leading)
    at = start + at
    at ^= (at // 128 - base & (0, 7, 3, 1)[mode]) * 16
    return np.unique(at >> GRANULE_LOG2)
