"""What memory held before a launch, for a launch that may have to be made again."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from ptxsim.memory import Allocation

_SNAPSHOT_LIMIT, _MOST_KEPT = 512 << 20, 64 << 20
"""Most memory of a snapshot, and of those that are kept for the next launch: touching new pages costs more than the
copy."""


@dataclass(frozen=True)
class Snapshot:
    """Copies of allocations; a context manager that hands their memory on at its end."""

    copies: tuple[tuple[Allocation, np.ndarray], ...]
    complete: bool
    """False where nothing was asked for or it was too much: there are no copies then"""

    @classmethod
    def of(cls, allocations: list[Allocation] | None) -> Snapshot:
        """Copies of these allocations, if they are not too large."""
        if allocations is None or sum(a.nbytes for a in allocations) > _SNAPSHOT_LIMIT:
            return cls((), False)
        return cls(tuple((a, _copied(a.view())) for a in allocations), True)

    def restore(self) -> None:
        for allocation, data in self.copies:
            allocation.view()[:] = data

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            _spare.extend(data for _, data in self.copies)
            while sum(map(_room, _spare)) > _MOST_KEPT:
                del _spare[0]


_spare: list[np.ndarray] = []
_lock = threading.Lock()


def _room(data: np.ndarray) -> int:
    """Size of the memory of which an array is a part."""
    return data.base.nbytes if isinstance(data.base, np.ndarray) else data.nbytes


def _copied(view: np.ndarray) -> np.ndarray:
    """A copy, in memory of an earlier one that fits, if there is one."""
    with _lock:
        fitting = [k for k, x in enumerate(_spare) if view.nbytes <= _room(x) <= 2 * view.nbytes]
        spare = _spare.pop(fitting[-1]) if fitting else None
    whole = spare.base if spare is not None and isinstance(spare.base, np.ndarray) else spare
    if whole is None:
        return view.copy()
    part = whole[: view.nbytes]
    part[:] = view
    return part
