"""Race shadows of global memory, which launches hand on to each other.

New memory costs a page fault every 4 KB when it is first touched, ten times what it costs to clear what is there. Large
shadows are new each time all the same: a kernel may touch little of them, and then they cost little.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

_LARGEST, _MOST_KEPT = 1 << 23, 1 << 25
"""Bytes of a shadow that is handed on, and of all that wait for a launch."""
_spare: list[np.ndarray] = []
_lock = threading.Lock()


def new_shadow(words: int) -> np.ndarray:
    """So many zeros of 64 bits, in memory of an earlier launch's where there is some of this size."""
    with _lock:
        fitting = [k for k, x in enumerate(_spare) if len(x) == words]
        found = _spare.pop(fitting[-1]) if fitting else None
    if found is None:
        return np.zeros(words, np.uint64)
    found.fill(0)
    return found


def hand_on(shadows: Iterable[np.ndarray]) -> None:
    """Takes shadows that nobody looks at any more."""
    with _lock:
        _spare.extend(x for x in shadows if x.nbytes <= _LARGEST)
        while sum(x.nbytes for x in _spare) > _MOST_KEPT:
            del _spare[0]
