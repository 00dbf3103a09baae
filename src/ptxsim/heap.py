"""The device heap: what a kernel's `malloc` and `new` give, and `free` and `delete` take back.

The heap lies in a stretch of the arena twice its size, so that a gap follows each block. Where a block comes to lie
depends on the calls before it alone: from the last one's end on, and once that has come to the stretch's end, from its
beginning. So a block that was freed stays recognisable for long. Blocks live until they are freed, across launches;
they begin as other fresh memory does, with bytes 0xFF.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

HEAP_ALIGNMENT = 16
"""Of every block, in bytes."""
_LARGEST_GAP = 4096
_REMEMBERED = 1 << 16
"""Blocks of the past that a finding may name."""


@dataclass(eq=False)
class HeapBlock:
    """`nbytes` bytes at `address`, given in source line `line`; `born` and `died` count the heap's changes."""

    address: int
    nbytes: int
    line: int
    born: int
    reach: int
    """bytes up to the end of the gap behind it"""
    memory: np.ndarray = field(repr=False)
    died: int = 0
    """0 while it lives"""
    freed_line: int = 0

    @property
    def name(self) -> str:
        return f"the heap block of line {self.line}"

    @property
    def end(self) -> int:
        return self.address + self.nbytes

    def view(self) -> np.ndarray:
        """The memory itself as a uint8 array of shape (nbytes,), without a copy."""
        return self.memory


@dataclass(frozen=True)
class HeapState:
    """A heap at one moment."""

    live: tuple[HeapBlock, ...]
    past: tuple[tuple[HeapBlock, int, int], ...]
    """with when and where each was freed"""
    used_bytes: int
    following: int
    moment: int


class DeviceHeap:
    """Blocks of at most `nbytes` bytes in all, within `memory`: uint8 of shape (>= `stretch(nbytes)`,) at `address`."""

    def __init__(self, nbytes: int, address: int, memory: np.ndarray) -> None:
        self.nbytes, self.address, self.memory = nbytes, address, memory
        self.used_bytes = 0
        self.moment = 1
        """one more with each block that is given or freed"""
        self.owners = np.zeros(len(memory) // HEAP_ALIGNMENT, np.uint32)
        """for every 16 bytes: where the live block that has them begins, in units of 16 bytes and plus 1; or 0"""
        self._live: list[HeapBlock] = []  # by address
        self._past: deque[HeapBlock] = deque(maxlen=_REMEMBERED)
        self._following = 0

    @staticmethod
    def stretch(nbytes: int) -> int:
        """Bytes of address space that a heap takes."""
        return 2 * nbytes + _LARGEST_GAP

    @property
    def end(self) -> int:
        return self.address + len(self.memory)

    @property
    def blocks(self) -> tuple[HeapBlock, ...]:
        """Those that live, by address."""
        return tuple(self._live)

    def allocate(self, nbytes: int, line: int, alignment: int = HEAP_ALIGNMENT) -> HeapBlock | None:
        """A block; None for one of no bytes, where the heap is exhausted, and for an alignment that is none."""
        size = -(-nbytes // HEAP_ALIGNMENT) * HEAP_ALIGNMENT
        if not 0 < size <= self.nbytes - self.used_bytes or alignment & (alignment - 1):
            return None
        gap = min(size, _LARGEST_GAP)
        alignment = max(alignment, HEAP_ALIGNMENT)
        at = self._place(self._following, size + gap, alignment)
        if at < 0 and self._following:
            at = self._place(0, size + gap, alignment)
        if at < 0:
            return None
        self.moment += 1
        block = HeapBlock(self.address + at, nbytes, line, self.moment, size + gap, self.memory[at : at + nbytes])
        block.memory[:] = 0xFF
        bisect.insort(self._live, block, key=lambda b: b.address)
        self._past.append(block)
        self._own(block, at // HEAP_ALIGNMENT + 1)
        self.used_bytes += size
        self._following = at + size + gap
        return block

    def free(self, address: int, line: int) -> HeapBlock | None:
        """Gives the block at an address back; None, with nothing done, where no live block begins."""
        k = bisect.bisect_left(self._live, address, key=lambda b: b.address)
        if k == len(self._live) or self._live[k].address != address:
            return None
        block = self._live.pop(k)
        self.moment += 1
        block.died, block.freed_line = self.moment, line
        self._own(block, 0)
        self.used_bytes -= -(-block.nbytes // HEAP_ALIGNMENT) * HEAP_ALIGNMENT
        return block

    def holds(self, address: int) -> bool:
        """Whether an address lies in the heap's stretch."""
        return self.address <= address < self.end

    def find(self, address: int) -> HeapBlock | None:
        """The live block that holds an address."""
        k = bisect.bisect_right(self._live, address, key=lambda b: b.address) - 1
        return self._live[k] if k >= 0 and address < self._live[k].end else None

    def meant(self, address: int, moment: int = 0) -> HeapBlock | None:
        """The block, or the gap behind it, in which an address lay at a moment (0: now); of a freed one the last."""
        moment = moment or self.moment
        there = (b for b in reversed(self._past) if b.address <= address < b.address + b.reach and b.born <= moment)
        return next(there, None)

    # -- as it was --------------------------------------------------------------------------------------------------
    def state(self) -> HeapState:
        past = tuple((b, b.died, b.freed_line) for b in self._past)
        return HeapState(tuple(self._live), past, self.used_bytes, self._following, self.moment)

    def restore(self, state: HeapState) -> None:
        """Everything as it was but the memory itself."""
        for block in self._live:
            self._own(block, 0)
        self._live = list(state.live)
        self.used_bytes, self._following, self.moment = state.used_bytes, state.following, state.moment
        self._past = deque((b for b, _, _ in state.past), maxlen=_REMEMBERED)
        for block, died, line in state.past:
            block.died, block.freed_line = died, line
        for block in self._live:
            self._own(block, (block.address - self.address) // HEAP_ALIGNMENT + 1)

    @contextmanager
    def back_at(self, state: HeapState) -> Iterator[None]:
        """As it was, and afterwards as it is now; the memory itself stays."""
        now = self.state()
        self.restore(state)
        try:
            yield
        finally:
            self.restore(now)

    def _own(self, block: HeapBlock, owner: int) -> None:
        first = (block.address - self.address) // HEAP_ALIGNMENT
        self.owners[first : first + -(-block.nbytes // HEAP_ALIGNMENT)] = owner

    def _place(self, start: int, nbytes: int, alignment: int) -> int:
        """The first offset from `start` on at which so many bytes are free; -1 where there is none."""
        candidate = self._aligned(start, alignment)
        k = bisect.bisect_right(self._live, self.address + candidate, key=lambda b: b.address) - 1
        if k >= 0:
            candidate = max(candidate, self._aligned(self._past_of(self._live[k]), alignment))
        for block in self._live[k + 1 :]:
            if candidate + nbytes <= block.address - self.address:
                return candidate
            candidate = self._aligned(self._past_of(block), alignment)
        return candidate if candidate + nbytes <= len(self.memory) else -1

    def _past_of(self, block: HeapBlock) -> int:
        return block.address + block.reach - self.address

    def _aligned(self, offset: int, alignment: int) -> int:
        return -(-(self.address + offset) // alignment) * alignment - self.address
