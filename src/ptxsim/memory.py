"""The simulator's global memory: one arena of the host's memory with wide red zones between allocations.

A device pointer is a host address, so generated code loads and stores directly. Allocations lie far apart (the gap is
never touched, so it costs address space, not memory): an index that runs off an array meets a gap, not a neighbour.
Fresh memory is filled with 0xFF bytes, which read as NaN in every floating-point type.
"""

from __future__ import annotations

import bisect
import gc
import itertools
import os
import weakref
from dataclasses import dataclass, field

import numpy as np

from ptxsim import system
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.heap import DeviceHeap, HeapBlock
from ptxsim.limits import HEAP_BYTES

ALIGNMENT = 256
"""cudaMalloc's alignment in bytes."""
DEFAULT_CAPACITY = 4 << 30
"""Address space of the arena: below 4 GB, so that 32 bits tell any two addresses of one kind of access apart."""
_SMALLEST_GAP, _LARGEST_GAP = 4 << 10, 1 << 20
_FIRST_PLACE = 1 << 45
"""Where the first arena of a process lies: far from where systems put programs, libraries and stacks."""


@dataclass(frozen=True, eq=False)
class Allocation:
    """`nbytes` bytes of device memory at `address`; `name` is what hazard reports call it."""

    address: int
    nbytes: int
    name: str
    _bytes: np.ndarray = field(repr=False)

    def view(self) -> np.ndarray:
        """The memory itself as a uint8 array of shape (nbytes,), without a copy."""
        return self._bytes

    @property
    def end(self) -> int:
        return self.address + self.nbytes


class Memory:
    """An arena of device memory.

    `limit_bytes` bounds the bytes that are allocated at one time; more raises MemoryLimitExceeded. `heap_bytes` is what
    kernels may have by `malloc` and `new` (cudaLimitMallocHeapSize). `file` is the descriptor of an empty memory file
    to lay the arena in: another process that maps it at `base` sees the same bytes. What was freed is then given anew
    as late as may be, so that a pointer to it meets nothing. `capacity`: address
    space to reserve; never more than the default.
    """

    def __init__(
        self, *, limit_bytes: int = 3 << 30, heap_bytes: int = HEAP_BYTES, file: int | None = None,
        capacity: int = DEFAULT_CAPACITY,
    ) -> None:  # fmt: skip
        self.limit_bytes, self.heap_bytes = limit_bytes, heap_bytes
        self._shared = file is not None
        self.others_write = False
        """whether somebody else may write there while a kernel runs"""
        self.heap: DeviceHeap | None = None
        """None until a kernel is launched that allocates"""
        self.heap_memory: Allocation | None = None
        """the stretch of the arena in which the heap lies"""
        self.used_bytes = 0
        capacity = min(capacity, DEFAULT_CAPACITY)
        collected = False
        while True:  # a process with an address-space limit gets a smaller arena
            try:
                self._arena = np.asarray(_Reserved(capacity, file))
                break
            except OSError:
                if not collected:  # arenas of programs that have ended: what knows of each other waits for that
                    gc.collect()
                    collected = True
                    continue
                capacity //= 2
                if capacity < 1 << 20:
                    raise MemoryLimitExceeded("this process may not reserve even 1 MB of simulated memory") from None
        base = self._arena.ctypes.data
        self.base, self.capacity = base, capacity
        self._start, self._stop = base + _LARGEST_GAP, base + capacity
        self._following = self._start
        self._full: dict[int, tuple[int, int]] = {}
        """log2 of a size -> (size, address): nothing as large fits before"""
        self._allocations: list[Allocation] = []  # by address
        self._listed: tuple[Allocation, ...] | None = None

    def allocate(self, nbytes: int, name: str = "") -> Allocation:
        """Allocates `nbytes` (at least one) bytes, filled with 0xFF."""
        nbytes = max(1, int(nbytes))
        if self.used_bytes + nbytes > self.limit_bytes:
            raise MemoryLimitExceeded(
                f"{name or 'an array'} of {nbytes:,} bytes does not fit: {self.used_bytes:,} of "
                f"{self.limit_bytes:,} bytes of simulated memory are in use",
                next_step="Use a smaller problem, or free arrays that are no longer needed.",
            )
        address = self._place(nbytes)
        offset = address - self._arena.ctypes.data
        self._commit(address, nbytes, name)
        view = self._arena[offset : offset + nbytes]
        view[:] = 0xFF
        allocation = Allocation(address, nbytes, name, view)
        bisect.insort(self._allocations, allocation, key=lambda a: a.address)
        self._listed = None
        self.used_bytes += nbytes
        return allocation

    @staticmethod
    def _commit(address: int, nbytes: int, name: str) -> None:
        try:
            system.commit(address, nbytes)
        except OSError:
            raise MemoryLimitExceeded(
                f"the system has no memory for {name or 'an array'} of {nbytes:,} bytes",
                next_step="Close other programs, or use a smaller problem.",
            ) from None

    def device_heap(self) -> DeviceHeap:
        """The heap, made when first asked for. Raises MemoryLimitExceeded."""
        if self.heap is None:
            self.heap_memory = self.allocate(DeviceHeap.stretch(self.heap_bytes), "the device heap")
            self._listed = None
            self.heap = DeviceHeap(self.heap_bytes, self.heap_memory.address, self.heap_memory.view())
        return self.heap

    def free(self, allocation: Allocation) -> None:
        """Gives an allocation back; pointers into it are out of bounds from now on."""
        k = bisect.bisect_left(self._allocations, allocation.address, key=lambda a: a.address)
        if k == len(self._allocations) or self._allocations[k] is not allocation:
            raise ValueError(f"{allocation.name or 'the array'} is not allocated here")
        del self._allocations[k]
        self._listed = None
        room = self._allocations[k - 1].address if k else self._start
        self._full = {size: (of, min(address, room)) for size, (of, address) in self._full.items()}
        self.used_bytes -= allocation.nbytes
        if self._shared and allocation.nbytes >= _LARGE:  # nobody reads it again: its pages go back to the system
            system.discard(allocation.address, allocation.nbytes)

    def find(self, address: int) -> Allocation | HeapBlock | None:
        """The allocation, or block of the heap, that holds `address`."""
        if self.heap is not None and self.heap.holds(address):
            return self.heap.find(address)
        return self.containing(address)

    def containing(self, address: int) -> Allocation | None:
        """The stretch of the arena that holds `address`: an allocation, or the heap as a whole."""
        k = bisect.bisect_right(self._allocations, address, key=lambda a: a.address) - 1
        if k >= 0 and address < self._allocations[k].end:
            return self._allocations[k]
        return None

    def nearest(self, address: int) -> Allocation | None:
        """The allocation closest to `address`, not in the heap: what an out-of-bounds access most likely meant."""
        return min(
            self.allocations,
            key=lambda a: max(a.address - address, address - a.end + 1, 0),
            default=None,
        )

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """All live allocations in address order; the heap is none. The same tuple for as long as they are the same."""
        listed = self._listed
        if listed is None:
            listed = self._listed = tuple(a for a in self._allocations if a is not self.heap_memory)
        return listed

    @property
    def arrays(self) -> tuple[Allocation | HeapBlock, ...]:
        """All that a kernel may access: allocations, and the blocks of the heap."""
        return (*self.allocations, *(self.heap.blocks if self.heap is not None else ()))

    def _place(self, nbytes: int) -> int:
        """First address at which `nbytes` fit with a gap on both sides; of a shared arena the first behind the last."""
        first = max((at for size, at in self._full.values() if size <= nbytes), default=self._start)
        for start in (self._following, first) if self._shared else (first,):
            found = self._fitting(nbytes, start)
            if found:
                self._following = found + nbytes
                if start == first:
                    self._full[nbytes.bit_length()] = nbytes, found
                return found
        raise MemoryLimitExceeded(
            f"no room for {nbytes:,} bytes in the simulator's {self._stop - self._start:,}-byte arena",
            next_step="Use a smaller problem, or free arrays that are no longer needed.",
        )

    def _fitting(self, nbytes: int, start: int) -> int:
        """The first such address from `start` on; 0 where there is none."""
        k = bisect.bisect_right(self._allocations, start, key=lambda a: a.address)
        candidate = -(-start // ALIGNMENT) * ALIGNMENT
        for a in self._allocations[max(k - 1, 0) :]:
            gap = _gap(max(nbytes, a.nbytes))
            if candidate + nbytes + gap <= a.address:
                return candidate
            candidate = max(candidate, -(-(a.end + gap) // ALIGNMENT) * ALIGNMENT)
        return candidate if candidate + nbytes + _gap(nbytes) <= self._stop else 0


def _gap(nbytes: int) -> int:
    """Bytes that stay free beside an array."""
    return min(max(nbytes, _SMALLEST_GAP), _LARGEST_GAP)


_LARGE = 1 << 20
_places = itertools.count(_FIRST_PLACE, 2 * DEFAULT_CAPACITY)


class _Reserved:
    """Address space, at the same place in every process where that is free: a kernel that prints or compares pointers
    then does so alike in every run. Given back when the last array on it is gone; `file` backs it. Raises OSError."""

    def __init__(self, nbytes: int, file: int | None = None) -> None:
        if file is not None:
            os.ftruncate(file, nbytes)
        place = system.reserve(nbytes, next(_places), file)
        weakref.finalize(self, system.release, place, nbytes).atexit = False  # at the end the process gives it back
        self.__array_interface__ = {"data": (place, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}
