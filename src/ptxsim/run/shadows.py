"""Race shadows of global memory, which launches hand on to each other.

Large ones are new each time: a kernel may touch little of them, and memory that nobody touches costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ptxsim.run.spare import Spare

_LARGEST = 1 << 23
"""Bytes of a shadow that is handed on."""
_spare = Spare(1 << 25)


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
