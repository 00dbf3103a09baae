"""Memory that launches hand on to each other: new pages cost a fault each when they are first touched, which is ten
times what it costs to write over old ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np


class Spare:
    """Memory of arrays that nobody looks at any more, up to so many bytes; the oldest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._blocks: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> np.ndarray | None:
        """So many bytes of a block that is at most twice as large, with whatever it held; None where there is none."""
        with self._lock:
            fitting = [k for k, block in enumerate(self._blocks) if nbytes <= block.nbytes <= 2 * nbytes]
            return self._blocks.pop(fitting[-1])[:nbytes] if fitting else None

    def give(self, arrays: Iterable[np.ndarray]) -> None:
        """Take the memory of arrays, all of the block that each is a part of."""
        given = [*arrays]
        if not given:
            return
        with self._lock:
            for array in given:
                whole = array if array.base is None else array.base
                self._blocks.append(whole.view(np.uint8))
            while sum(block.nbytes for block in self._blocks) > self._most:
                del self._blocks[0]
