"""Hazard records of generated code, as findings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.finding import Finding, Triple
from ptxsim.heap import HeapBlock
from ptxsim.limits import WARP
from ptxsim.memory import DEFAULT_CAPACITY, Allocation, Memory
from ptxsim.syntax.program import Barrier, Instruction, SourceLine, WarpBarrier, source_name

KINDS = {
    L.RACE: "race", L.SHARED_RACE: "race", L.OUT_OF_BOUNDS: "out-of-bounds", L.SHARED_OUT_OF_BOUNDS: "out-of-bounds",
    L.LOCAL_OUT_OF_BOUNDS: "out-of-bounds", L.UNINITIALIZED: "uninitialized", L.DIVERGENT_BARRIER: "divergent-barrier",
    L.MISALIGNED: "misaligned", L.SHARED_MISALIGNED: "misaligned", L.WARP_SYNC: "warp-sync",
    L.WARP_MATRIX: "warp-sync", L.WARP_MEMBER: "warp-sync", L.PARAM_OUT_OF_BOUNDS: "out-of-bounds",
    L.NO_TENSOR_MAP: "out-of-bounds", L.BOX_MISALIGNED: "misaligned", L.BOX_BEFORE: "out-of-bounds", **dict.fromkeys(
        (L.ASYNC_EARLY, L.ASYNC_OVERWRITTEN, L.ASYNC_NO_FENCE, L.ASYNC_SWIZZLE, L.ASYNC_SUMS, L.ASYNC_PEER,
         L.ASYNC_REGISTERS, L.ASYNC_CONFLICT),
        "async-order",
    ), L.SAME_VALUE: "same-value", L.UNORDERED: "unordered", L.LOCKSTEP: "lockstep",
}  # fmt: skip
"""Numbers of generated code -> names of people; one name for all spaces."""
_IN_SHARED = (
    L.UNINITIALIZED, L.SHARED_RACE, L.SHARED_OUT_OF_BOUNDS, L.SHARED_MISALIGNED, L.SAME_VALUE, L.UNORDERED, L.LOCKSTEP,
)  # fmt: skip
_PAIRS = (L.SAME_VALUE, L.UNORDERED, L.LOCKSTEP)
"""Kinds that only the exact shadow tells from races, in shared memory (an offset) and in global (an address)."""
_SPACES = {
    "shared": "shared memory", "local": "local memory", "param": "the kernel's parameters", "const": "constant memory",
    "global": "global memory", "generic": "global memory",
}  # fmt: skip
_ASYNC = {
    L.ASYNC_EARLY: "early", L.ASYNC_OVERWRITTEN: "overwritten", L.ASYNC_NO_FENCE: "fence", L.ASYNC_SWIZZLE: "swizzle",
    L.ASYNC_SUMS: "sums", L.ASYNC_PEER: "peer", L.ASYNC_REGISTERS: "registers",
    L.ASYNC_CONFLICT: "conflict",
}  # fmt: skip
_FAR = DEFAULT_CAPACITY  # no pointer of the kernel, moved by any index, gets there
_DID = {L.WRITE: "write", L.READ: "read", L.ATOMIC: "atomic", L.READ_AFTER_WRITE: "read and write"}


def note(
    worker: L.WorkerState, hazards: ctypes.Array[L.HazardRecord], seen: np.ndarray, record: L.HazardRecord
) -> None:
    """Notes a hazard among those of generated code, once for each site and kind."""
    place, count = record.site * L.HAZARD_KINDS + record.kind, int(worker.hazard_count)
    if not seen[place] and count < L.HAZARD_CAPACITY:
        seen[place] = 1
        hazards[count] = record
        worker.hazard_count = count + 1


def unravel(index: int, shape: Triple) -> Triple:
    """A linear index as (x, y, z)."""
    return index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1])


@dataclass(frozen=True)
class Reporter:
    """Turns HazardRecords into findings for one launch."""

    unit: Unit
    memory: Memory
    grid: Triple
    file: str
    constants: Sequence[Allocation] = ()
    """variables in constant memory"""

    def finding(self, record: L.HazardRecord) -> Finding:
        """What a record says."""
        thread = self.thread(record.warp, record.lane)
        block = unravel(record.block, self.grid)
        if record.kind == L.DIVERGENT_BARRIER:
            return self._divergence(record, block, thread)
        site = self.unit.sites[record.site]
        in_shared = record.kind in _PAIRS and record.address < L.SHARED_LIMIT
        access, space = site.access, site.space
        if record.kind in (L.OUT_OF_BOUNDS, L.MISALIGNED, L.RACE) or (record.kind in _PAIRS and not in_shared):
            if space == "shared":  # what a bulk copy does there, it does in global memory the other way round
                access, space = "read" if access == "write" else "write", "global"
            array, offset = self.locate(record.address, space)
        else:
            space = "shared" if record.kind in _ASYNC else space
            array, offset = _SPACES.get(space, space), ctypes.c_int64(record.address).value
            if record.kind in _IN_SHARED:
                array = self.shared_array(offset)
        found = Finding(
            KINDS[record.kind], site.line, self.file, block, thread, access, space, array, offset,
            calls=site.calls,
        )  # fmt: skip
        if record.kind in (L.RACE, L.SHARED_RACE, *_PAIRS):
            return self._race(record, found)
        return replace(found, **self._details(record, offset))

    def _details(self, record: L.HazardRecord, offset: int) -> dict[str, Any]:
        """What the kind alone does not tell."""
        if record.kind in _ASYNC:
            other = record.other_site < len(self.unit.sites)
            line = self.unit.sites[record.other_site].line if other else 0
            told = {"detail": _ASYNC[record.kind], "other_line": line}
            if record.kind == L.ASYNC_SWIZZLE:
                return told | {"size": (0, 32, 64, 128)[record.state]}
            if record.kind == L.ASYNC_CONFLICT:
                return told | {"other_did": _DID[record.state]}
            if record.kind == L.ASYNC_EARLY and record.state:
                return told | {"detail": "unwaited"}
            return told | {"other_did": "returned"} if record.kind == L.ASYNC_PEER and record.state else told
        if self._elsewhere(record, offset):
            return {"detail": "space", "array": _SPACES[self.unit.sites[record.site].space], "address": 0}
        if record.kind == L.PARAM_OUT_OF_BOUNDS:
            return {"size": self.unit.kernel.param_bytes}
        if record.kind == L.OUT_OF_BOUNDS:
            site = self.unit.sites[record.site]
            allocation = self._nearest(record.address, site.space, record.state)
            if isinstance(allocation, HeapBlock):
                return self._of_heap(allocation, site.access, record)
            if site.access == "free":
                return {"detail": "no-block", "size": allocation.nbytes if allocation is not None else 0}
            far = allocation is not None and abs(offset) > _FAR
            return {"detail": "nowhere" if far else "", "size": allocation.nbytes if allocation is not None else 0}
        if record.kind == L.NO_TENSOR_MAP:
            return {"detail": "tensor-map"}
        if record.kind in (L.BOX_MISALIGNED, L.BOX_BEFORE):
            return {"detail": "box"}
        if record.kind == L.WARP_MATRIX:
            return {"detail": ("part", "address", "warpgroup")[record.state]}
        if record.kind == L.WARP_MEMBER:
            return {"detail": "member"}
        if record.kind in (L.MISALIGNED, L.SHARED_MISALIGNED) and record.state:
            what = "bulk" if record.state & L.IN_BULK else "fragment"
            return {"detail": what, "size": record.state & (L.IN_BULK - 1)}
        return {}

    def _of_heap(self, block: HeapBlock, access: str, record: L.HazardRecord) -> dict[str, Any]:
        """What is wrong with an access of a block of the device heap, or of the gap behind it, or with freeing it."""
        told = {"array": block.name, "address": record.address - block.address, "size": block.nbytes}
        if 0 < block.died <= record.state:
            return told | {"detail": "freed", "other_line": block.freed_line}
        return told | {"detail": "no-block"} if access == "free" else told

    def _elsewhere(self, record: L.HazardRecord, offset: int) -> bool:
        """Whether an address lies in another state space than that of the access."""
        if record.kind == L.OUT_OF_BOUNDS and self.unit.sites[record.site].space == "const":
            return not self.constants or self.memory.find(record.address) not in (None, *self.constants)
        if record.kind == L.OUT_OF_BOUNDS:
            return record.address >> 56 in (L.SHARED_WINDOW >> 56, L.LOCAL_WINDOW >> 56)
        if record.kind == L.SHARED_OUT_OF_BOUNDS:
            return offset == L.NOT_SHARED
        return record.kind == L.LOCAL_OUT_OF_BOUNDS and not -_FAR < offset < _FAR

    def _race(self, record: L.HazardRecord, found: Finding) -> Finding:
        """The other side, as far as the shadow word tells."""
        state, high = record.state & 0xFFFFFFFF, record.state >> 32
        owner = high & L.SEVERAL_BLOCKS
        other_block = None
        in_shared = record.kind == L.SHARED_RACE or found.space == "shared"
        if not in_shared and owner not in (0, record.block + 1, L.SEVERAL_BLOCKS):
            other_block = unravel(owner - 1, self.grid)
        hidden = high & (L.WROTE_BEFORE | L.PLAIN_BEFORE) and owner != record.block + 1
        told = {"blocks": owner == L.SEVERAL_BLOCKS, "warps": state & L.MANY_WARPS, "warp": state & L.MANY_LANES}
        others = next((name for name, holds in told.items() if holds), "thread")
        warp, lane = state >> L.WARP_SHIFT & 31, state & 31
        other = self.unit.sites[record.other_site] if record.other_site < len(self.unit.sites) else None
        line = other.line if other is not None else 0
        is_copy = state == L.IN_FLIGHT or (line and state & L.FLYING_STATE)
        several = others != "thread"
        if line:  # the exact shadow: of several threads it names the last
            several, other_block = False, other_block or found.block
        return replace(
            found, other_thread=None if several else self.thread(warp, lane), other_block=other_block, other_line=line,
            others=others, other_warp=self.thread(warp, 0) if others == "warp" else None,
            other_did="copy" if is_copy else "access" if hidden else _DID[state >> L.KIND_SHIFT & 3],
            other_calls=other.calls if other is not None else (),
        )  # fmt: skip

    def _divergence(self, record: L.HazardRecord, block: Triple, thread: Triple) -> Finding:
        """A thread at a barrier, and one that is not there."""
        whole_warp = record.state >> 32 & 1
        state = record.state & 0xFFFFFFFF
        if whole_warp:
            other = self.thread(record.address // WARP, record.address % WARP)
            gone, place = state >> 16 == L.DONE, state & 0xFFFF
        else:
            other = self.thread(record.warp, record.address)
            gone, place = state == L.EXITED, state & (L.MAX_BLOCKS - 1)
        waits, there = self._barrier(record.site), None if gone else self._barrier(place)
        here, elsewhere = (i.source if i is not None else SourceLine() for i in (waits, there))
        return Finding(
            "divergent-barrier", here.line, self.file, block, thread, "barrier", "", other_thread=other,
            other_line=elsewhere.line, other_did="returned" if gone else "waits", calls=here.calls,
            other_calls=elsewhere.calls, detail="lanes" if waits is not None and waits.added else "",
        )  # fmt: skip

    def _barrier(self, target: int) -> Instruction | None:
        """The barrier behind which block `target` lies."""
        ends = (b.terminator for b in self.unit.kernel.blocks)
        barriers = (t for t in ends if isinstance(t, Barrier | WarpBarrier) and t.target == target)
        return next((t.instruction for t in barriers), None)

    def thread(self, warp: int, lane: int) -> Triple:
        return unravel(warp * WARP + lane, self.unit.block)

    def locate(self, address: int, space: str) -> tuple[str, int]:
        """(array, byte offset) of a global or constant address: the array that holds it or the nearest one."""
        found = self._nearest(address, space)
        if found is None:
            heap = self.memory.heap
            return "any block of the heap" if heap and heap.holds(address) else "global memory", address
        return found.name or "an array", address - found.address

    def _nearest(self, address: int, space: str, moment: int = 0) -> Allocation | HeapBlock | None:
        """The array that holds an address, or the one next to it; of the heap the block there, at a moment."""
        if self.memory.heap is not None and self.memory.heap.holds(address):
            return self.memory.heap.meant(address, moment)
        if space == "const":
            return min(self.constants, key=lambda a: max(a.address - address, address - a.end + 1, 0), default=None)
        return self.memory.find(address) or self.memory.nearest(address)

    def shared_array(self, offset: int) -> str:
        shared = (v for v in self.unit.kernel.variables.values() if v.space == "shared")
        found = next((v for v in shared if v.offset <= offset < v.offset + v.size_bytes), None)
        return f"shared {source_name(found.name)}" if found else "shared memory"
