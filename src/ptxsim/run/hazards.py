"""Hazard records of generated code, as findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.finding import Finding, Triple
from ptxsim.limits import WARP
from ptxsim.memory import DEFAULT_CAPACITY, Memory
from ptxsim.syntax.program import Barrier, SourceLine, WarpBarrier, source_name

_KINDS = {
    L.RACE: "race", L.SHARED_RACE: "race", L.OUT_OF_BOUNDS: "out-of-bounds", L.SHARED_OUT_OF_BOUNDS: "out-of-bounds",
    L.LOCAL_OUT_OF_BOUNDS: "out-of-bounds", L.UNINITIALIZED: "uninitialized", L.DIVERGENT_BARRIER: "divergent-barrier",
    L.MISALIGNED: "misaligned", L.SHARED_MISALIGNED: "misaligned", L.WARP_SYNC: "warp-sync",
    L.WARP_MATRIX: "warp-sync",
}  # fmt: skip
_FAR = DEFAULT_CAPACITY  # no pointer of the kernel, moved by any index, gets there
_DID = {L.WRITE: "write", L.READ: "read", L.ATOMIC: "atomic", L.READ_AFTER_WRITE: "read and write"}
_MANY_BLOCKS = 0xFFFFFFFF


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

    def finding(self, record: L.HazardRecord) -> Finding:
        """What a record says."""
        thread = self.thread(record.warp, record.lane)
        block = unravel(record.block, self.grid)
        if record.kind == L.DIVERGENT_BARRIER:
            return self._divergence(record, block, thread)
        site = self.unit.sites[record.site]
        if record.kind in (L.OUT_OF_BOUNDS, L.MISALIGNED, L.RACE):
            array, offset = self._locate(record.address)
        else:
            array = {"shared": "shared memory", "local": "local memory"}.get(site.space, site.space)
            offset = record.address
            if record.kind in (L.UNINITIALIZED, L.SHARED_RACE, L.SHARED_OUT_OF_BOUNDS, L.SHARED_MISALIGNED):
                array = self.shared_array(offset)
        found = Finding(
            _KINDS[record.kind], site.line, self.file, block, thread, site.access, site.space, array, offset
        )
        if record.kind in (L.RACE, L.SHARED_RACE):
            return self._race(record, found)
        return replace(found, **self._details(record, offset))

    def _details(self, record: L.HazardRecord, offset: int) -> dict[str, Any]:
        """What the kind alone does not tell."""
        if record.kind == L.OUT_OF_BOUNDS:
            allocation = self.memory.nearest(record.address)
            far = allocation is not None and abs(offset) > _FAR
            return {"detail": "nowhere" if far else "", "size": allocation.nbytes if allocation is not None else 0}
        if record.kind == L.WARP_MATRIX:
            return {"detail": "address" if record.state else "part"}
        if record.kind in (L.MISALIGNED, L.SHARED_MISALIGNED) and record.state:
            return {"detail": "fragment", "size": record.state}
        return {}

    def _race(self, record: L.HazardRecord, found: Finding) -> Finding:
        """The other side, as far as the shadow word tells."""
        state, owner = record.state & 0xFFFFFFFF, record.state >> 32
        other_block = None
        if record.kind == L.RACE and owner not in (0, record.block + 1, _MANY_BLOCKS):
            other_block = unravel(owner - 1, self.grid)
        others = "thread"
        if owner == _MANY_BLOCKS:
            others = "blocks"
        elif state & L.MANY_WARPS:
            others = "warps"
        elif state & L.MANY_LANES:
            others = "warp"
        warp, lane = state >> L.WARP_SHIFT & 31, state & 31
        line = self.unit.sites[record.other_site].line if record.other_site < len(self.unit.sites) else 0
        is_copy = state == L.IN_FLIGHT or (line and state & L.FLYING_STATE)
        several = owner == _MANY_BLOCKS or state & (L.MANY_WARPS | L.MANY_LANES)
        if line:  # the exact shadow: of several threads it names the last
            several, other_block = False, other_block or found.block
        return replace(
            found, other_thread=None if several else self.thread(warp, lane), other_block=other_block, other_line=line,
            others=others, other_warp=self.thread(warp, 0) if others == "warp" else None,
            other_did="copy" if is_copy else _DID[state >> L.KIND_SHIFT & 3],
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
        return Finding(
            "divergent-barrier", self._barrier_line(record.site), self.file, block, thread, "barrier", "",
            other_thread=other, other_line=0 if gone else self._barrier_line(place),
            other_did="returned" if gone else "waits",
        )  # fmt: skip

    def _barrier_line(self, target: int) -> int:
        """Line of the barrier behind which block `target` lies."""
        for b in self.unit.kernel.blocks:
            if isinstance(b.terminator, Barrier | WarpBarrier) and b.terminator.target == target:
                source: SourceLine = b.terminator.instruction.source
                return source.line
        return 0

    def thread(self, warp: int, lane: int) -> Triple:
        return unravel(warp * WARP + lane, self.unit.block)

    def _locate(self, address: int) -> tuple[str, int]:
        """(array, byte offset) of a global address: the array that holds it or the nearest one."""
        found = self.memory.find(address) or self.memory.nearest(address)
        if found is None:
            return "global memory", address
        return found.name or "an array", address - found.address

    def shared_array(self, offset: int) -> str:
        for v in self.unit.kernel.variables.values():
            if v.space == "shared" and v.offset <= offset < v.offset + v.size_bytes:
                return f"shared {source_name(v.name)}"
        return "shared memory"
