"""The device heap as one host thread's blocks see it: bounds and race shadow of its blocks, and who gets which."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.heap import HEAP_ALIGNMENT, DeviceHeap, HeapBlock
from ptxsim.limits import WARP
from ptxsim.run.ordering import LISTENER

_STEPS = 16
"""Loop iterations that a thread's malloc or free costs: so the budget bounds the time that they take."""
_SITE_WORDS = ctypes.sizeof(L.Site) // 8


class HeapView:
    """What generated code needs of a heap.

    `sites` are the worker's, each with the bounds that an access hit last; `shadow` is that of the whole stretch in
    words of 8 bytes, None where nothing is tracked. `wrong(site, warp, lane, address)` hears of a free that frees
    nothing.
    """

    def __init__(
        self, heap: DeviceHeap, worker: L.WorkerState, unit: Unit, sites: ctypes.Array[L.Site],
        shadow: np.ndarray | None, wrong: Callable[[int, int, int, int], None],
    ) -> None:  # fmt: skip
        self.heap, self.worker, self.unit, self.wrong = heap, worker, unit, wrong
        self.hit: np.ndarray = np.ctypeslib.as_array(sites).view(np.uint64).reshape(-1, _SITE_WORDS)
        self.shadow, self.granule_log2 = shadow, unit.global_granule_log2
        self.shadow_words = L.EXACT_CELL_BYTES // 8 if unit.options.exact else 1
        self.table = np.zeros((len(heap.owners), _SITE_WORDS), np.uint64)  # by the units in which blocks begin
        for block in heap.blocks:
            self._enter(block)
        worker.heap_low, worker.heap_high = heap.address, heap.end
        worker.heap_owners, worker.heap_sites = heap.owners.ctypes.data, self.table.ctypes.data
        worker.heap_moment = heap.moment

        self.listener = LISTENER(self.hear)
        worker.on_heap = ctypes.cast(self.listener, ctypes.c_void_p).value

    def hear(self, frees: int, warp: int, lanes_and_site: int, _data: int | None) -> None:
        """Lanes of a warp call malloc or free."""
        site, lanes = lanes_and_site >> 32, lanes_and_site & 0xFFFFFFFF
        line, values = self.unit.sites[site].line, self.worker.heap_values
        for lane in range(WARP):
            if lanes >> lane & 1:
                self.worker.budget -= _STEPS
                if not frees:
                    values[lane] = self._allocate(lane, line)
                elif not self._free(int(values[lane]), line):
                    self.wrong(site, warp, lane, int(values[lane]))
        self.worker.heap_moment = self.heap.moment

    def _allocate(self, lane: int, line: int) -> int:
        alignment = int(self.worker.heap_alignments[lane]) or HEAP_ALIGNMENT
        block = self.heap.allocate(int(self.worker.heap_values[lane]), line, alignment)
        if block is None:
            return 0
        self._enter(block)
        if self.shadow is not None:
            first, last = ((a - self.heap.address >> self.granule_log2) for a in (block.address, block.end + 3))
            self.shadow[first * self.shadow_words : (last + 1) * self.shadow_words] = 0
        return block.address

    def _free(self, address: int, line: int) -> bool:
        """Whether there was a block to free, or nothing to do."""
        if address and self.heap.free(address, line) is None:
            return False
        self.hit[self.hit[:, 0] == address] = 0
        return True

    def _enter(self, block: HeapBlock) -> None:
        offset = block.address - self.heap.address
        shadow = 0
        if self.shadow is not None:
            shadow = self.shadow.ctypes.data + (offset >> self.granule_log2) * 8 * self.shadow_words
        self.table[offset // HEAP_ALIGNMENT] = block.address, block.end, shadow
