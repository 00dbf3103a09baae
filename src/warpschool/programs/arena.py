"""The device's memory as a program sees it: what was allocated where, by whom, and what a copy or a free is about."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxsim import Allocation, Memory
from warpschool.programs.hosts import Place
from warpschool.programs.wire import MemoryKind

_REMEMBERED = 4096
_NAME = "allocation {}"
FREED_BY_FREE = (MemoryKind.DEVICE, MemoryKind.MANAGED, MemoryKind.POOL)
_MOST_WATCHED = 16 << 20
"""Bytes of an allocation of which each is followed until something is written there."""
HOST_VISIBLE = (MemoryKind.MANAGED, MemoryKind.PINNED, MemoryKind.REGISTERED)


@dataclass(eq=False)
class Piece:
    """One allocation of the program; `number` counts them from 1."""

    number: int
    kind: MemoryKind
    allocation: Allocation
    start: int
    nbytes: int
    origin: tuple[Place, ...]
    filled: bool = False
    """whether anything was ever put in"""
    born: int = 0
    """launches before it"""
    freed: tuple[Place, ...] = ()
    name: str = ""
    """of a variable of the program's"""
    untouched: bool = False
    """whether it is known that nothing was ever written to it"""
    _holes: npt.NDArray[np.bool_] | None = None
    """where it is not untouched: which bytes nothing was written to; None where that is not known, or there are none"""

    @property
    def end(self) -> int:
        return self.start + self.nbytes

    @property
    def has_holes(self) -> bool:
        """Whether there are bytes that nothing was ever written to."""
        return self.untouched or self._holes is not None

    @property
    def holes(self) -> npt.NDArray[np.bool_]:
        """Which they are."""
        if self.untouched:
            return np.ones(self.nbytes, np.bool_)
        return self._holes if self._holes is not None else np.zeros(self.nbytes, np.bool_)

    def fill(self, start: int, end: int) -> None:
        """Something is written there, or may be."""
        self.filled = True
        if self.untouched and start <= self.start and end >= self.end:
            self.untouched = False
        elif self.has_holes:
            holes = self.holes
            holes[max(0, start - self.start) : max(0, end - self.start)] = False
            self.keep(holes)

    def keep(self, holes: npt.NDArray[np.bool_] | None) -> None:
        """Notes what nothing has been written to up to now."""
        self.untouched = False
        self._holes = holes if holes is not None and holes.any() else None


@dataclass
class Arena:
    """All pieces, those that live and the last of those that were freed."""

    memory: Memory
    live: dict[int, Piece] = field(default_factory=dict)
    """by start"""
    past: deque[Piece] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    count: int = 0
    by_name: dict[str, Piece] = field(default_factory=dict)
    """by what the simulator calls their memory"""

    def allocate(
        self, kind: MemoryKind, nbytes: int, alignment: int, origin: tuple[Place, ...], launches: int
    ) -> Piece:
        """Raises MemoryLimitExceeded."""
        self.count += 1
        room = nbytes + alignment if alignment > 1 else nbytes
        allocation = self.memory.allocate(room, _NAME.format(self.count))
        start = -(-allocation.address // alignment) * alignment
        follows = kind in (MemoryKind.DEVICE, MemoryKind.POOL) and nbytes <= _MOST_WATCHED
        piece = Piece(self.count, kind, allocation, start, nbytes, origin, born=launches, untouched=follows)
        return self._keep(piece)

    def adopt(self, kind: MemoryKind, allocation: Allocation, name: str, origin: tuple[Place, ...] = ()) -> Piece:
        """Something that the simulator has allocated itself: a variable, an array."""
        self.count += 1
        start, nbytes = allocation.address, allocation.nbytes
        return self._keep(Piece(self.count, kind, allocation, start, nbytes, origin, filled=True, name=name))

    def is_ours(self, allocation: Allocation) -> bool:
        """Whether the program's own code cannot write there without a call."""
        piece = self.by_name.get(allocation.name)
        return piece is not None and piece.kind not in HOST_VISIBLE

    def _keep(self, piece: Piece) -> Piece:
        self.live[piece.start] = piece
        self.by_name[piece.allocation.name] = piece
        return piece

    def free(self, piece: Piece, by: tuple[Place, ...]) -> None:
        del self.live[piece.start]
        piece.freed = by
        piece.keep(None)
        if len(self.past) == _REMEMBERED:
            self.by_name.pop(self.past[0].allocation.name, None)
        self.past.append(piece)
        self.memory.free(piece.allocation)

    def at(self, address: int) -> Piece | None:
        """The piece that lives at an address."""
        found = self.memory.containing(address)
        piece = self.by_name.get(found.name) if found is not None else None
        return piece if piece is not None and piece.allocation is found and piece.start <= address < piece.end else None

    def was_at(self, address: int) -> Piece | None:
        """The last piece that lay there and was freed."""
        return next((p for p in reversed(self.past) if p.start <= address < p.end), None)

    def nearest(self, address: int) -> Piece | None:
        """The piece that an address outside all of them most likely meant."""
        found = self.memory.nearest(address)
        return self.by_name.get(found.name) if found is not None else None
