"""Race shadows of global memory: what they tell of each granule, and how launches hand them on to each other.

Large ones are new each time: a kernel may touch little of them, and memory that nobody touches costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.memory import Allocation
from ptxsim.run.spare import Spare

_LARGEST = 1 << 23
"""Bytes of a shadow that is handed on."""
_spare = Spare(1 << 25)
_FIRST_PIECE, _LARGEST_PIECE = 1 << 8, 1 << 13
"""Granules that are looked at together."""


def new_shadow(words: int) -> np.ndarray:
    """So many zeros of 64 bits."""
    found = _spare.take(8 * words) if 8 * words <= _LARGEST else None
    if found is None:
        return np.zeros(words, np.uint64)
    found.fill(0)
    return found.view(np.uint64)


def hand_on(shadows: Iterable[np.ndarray]) -> None:
    """Take shadows that nobody looks at any more."""
    _spare.give(shadow for shadow in shadows if shadow.nbytes <= _LARGEST)


def accesses(shadow: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each granule: whether it was accessed, how last, and the flags of what its own block did there before."""
    accessed, kind = shadow >> np.uint64(32), shadow >> np.uint64(L.KIND_SHIFT) & np.uint64(3)
    return accessed != 0, kind, accessed & np.uint64(L.WROTE_BEFORE | L.PLAIN_BEFORE)


def names_stored_to(written: list[Allocation], shadows: Mapping[int, np.ndarray]) -> tuple[str, ...]:
    """Names of the allocations of which some granule was stored to or updated, whatever it holds afterwards."""
    return tuple(a.name for a in written if a.address in shadows and _shows_a_store(shadows[a.address]))


def _shows_a_store(shadow: np.ndarray) -> bool:
    """Whether some granule was stored to or updated: in pieces, for most arrays tell that in the first."""
    first, count = 0, _FIRST_PIECE
    while first < len(shadow):
        piece = shadow[first : first + count]
        if piece.any() and ((piece & _WHAT_WAS_DONE != _READ_ONLY) & (piece > _UNTOUCHED)).any():
            return True
        first, count = first + count, min(4 * count, _LARGEST_PIECE)
    return False


_WHAT_WAS_DONE, _READ_ONLY = np.uint64(3 << L.KIND_SHIFT | L.WROTE_BEFORE << 32), np.uint64(L.READ << L.KIND_SHIFT)
_UNTOUCHED = np.uint64(0xFFFFFFFF)
"""No granule that somebody accessed holds so little."""
