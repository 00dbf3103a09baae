"""The arrays of a plan of fidelity.py, each once and by its digest: many cases begin with the same.

Random inputs are not stored: they are pieces of what one seeded generator draws, which is drawn again where they are
read. So a plan is small enough to be sent to a machine with a GPU.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

SEED = 3
"""of every reference's random inputs"""
_DRAWN = 5_000_000
_PIECE = "drawn/"


def digest(data: str | np.ndarray) -> str:
    """A short name for a text or an array of bytes."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data.tobytes()).hexdigest()[:16]


class Store(dict[str, np.ndarray]):
    """digest -> array of bytes."""

    def keep(self, array: np.ndarray) -> str:
        """The array's digest, under which it is in the store from now on."""
        key = digest(array)
        self.setdefault(key, array)
        return key

    def write(self, path: Path) -> None:
        """Writes an .npz file; a piece of the generator's numbers as its place and length."""
        stored: dict[str, Any] = {}
        for key, array in self.items():
            place = _place(array)
            stored |= {key: array} if place is None else {_PIECE + key: np.array([place, array.size // 4])}
        np.savez_compressed(path, **stored)

    @classmethod
    def read(cls, path: Path) -> Store:
        """What `write` wrote. Raises ValueError where NumPy's generator draws other numbers than it did then."""
        found = cls()
        with np.load(path) as stored:
            for name in stored.files:
                key = name.removeprefix(_PIECE)
                found[key] = stored[name]
                if key != name:
                    place, count = stored[name]
                    found[key] = _drawn()[place : place + count].view(np.uint8)
                    if digest(found[key]) != key:
                        raise ValueError(f"NumPy {np.__version__} draws other numbers: make the plan anew with it")
        return found


@functools.cache
def _drawn() -> np.ndarray:
    """What `random_inputs` draws for one array after the other, as float32."""
    return np.random.default_rng(SEED).uniform(-1, 1, _DRAWN).astype(np.float32)


def _place(array: np.ndarray) -> int | None:
    """Where in the generator's numbers the array begins; None for an array of other values."""
    if not array.size or array.size % 4:
        return None
    values = array.view(np.float32)
    for place in np.flatnonzero(_drawn() == values[0]):
        if np.array_equal(_drawn()[place : place + values.size], values):
            return int(place)
    return None
