"""What memory held before a launch, for a launch that may have to be made again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.memory import Allocation
from ptxsim.run.spare import Spare

_SNAPSHOT_LIMIT = 512 << 20
"""Most memory of a snapshot."""
_spare = Spare(64 << 20)


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
        _spare.give(data for _, data in self.copies)


def _copied(view: np.ndarray) -> np.ndarray:
    """A copy of bytes, in memory of an earlier one that fits, if there is one."""
    part = _spare.take(view.nbytes)
    if part is None:
        return view.copy()
    part[:] = view
    return part
