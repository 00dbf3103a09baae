"""Hazard records of generated code, told as sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import AccessSite, Unit
from ptxsim.limits import WARP
from ptxsim.memory import DEFAULT_CAPACITY, Memory
from ptxsim.record import Hazard, Triple
from ptxsim.syntax.program import Barrier, SourceLine, WarpBarrier, source_name

_KINDS = {
    L.RACE: "race", L.SHARED_RACE: "race", L.OUT_OF_BOUNDS: "out-of-bounds", L.SHARED_OUT_OF_BOUNDS: "out-of-bounds",
    L.LOCAL_OUT_OF_BOUNDS: "out-of-bounds", L.UNINITIALIZED: "uninitialized", L.DIVERGENT_BARRIER: "divergent-barrier",
    L.MISALIGNED: "misaligned", L.SHARED_MISALIGNED: "misaligned", L.WARP_SYNC: "warp-sync",
    L.WARP_MATRIX: "warp-sync",
}  # fmt: skip
_FAR = DEFAULT_CAPACITY  # no pointer of the kernel, moved by any index, gets there
_PAST = {L.WRITE: "wrote", L.READ: "read", L.ATOMIC: "updated atomically", L.READ_AFTER_WRITE: "wrote and read"}
_VERB = {"write": "writes", "read": "reads", "atomic": "updates"}


def unravel(index: int, shape: Triple) -> Triple:
    """A linear index as (x, y, z)."""
    return index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1])


@dataclass(frozen=True)
class Reporter:
    """Turns HazardRecords into Hazards for one launch."""

    unit: Unit
    memory: Memory
    grid: Triple
    file: str

    def tell(self, record: L.HazardRecord) -> Hazard:
        thread = self.thread(record.warp, record.lane)
        block = unravel(record.block, self.grid)
        if record.kind == L.DIVERGENT_BARRIER:
            return self._divergence(record, block, thread)
        site = self.unit.sites[record.site]
        if record.kind in (L.OUT_OF_BOUNDS, L.MISALIGNED, L.RACE):
            array, offset = self._locate(record.address)
        else:
            array, offset = (
                {"shared": "shared memory", "local": "local memory"}.get(site.space, site.space),
                record.address,
            )
            if record.kind in (L.UNINITIALIZED, L.SHARED_RACE, L.SHARED_OUT_OF_BOUNDS, L.SHARED_MISALIGNED):
                array = self.shared_array(offset)
        common: dict[str, Any] = {
            "kind": _KINDS[record.kind], "line": site.line, "file": self.file, "block": block, "thread": thread,
            "access": site.access, "space": site.space, "array": array, "address": offset,
        }  # fmt: skip
        who = f"thread {thread} of block {block}"
        if record.kind in (L.RACE, L.SHARED_RACE):
            return self._race(record, site, common, who, array, offset)
        return Hazard(**common, message=self._single(record, site, who, array, offset))

    def _single(self, record: L.HazardRecord, site: AccessSite, who: str, array: str, offset: int) -> str:
        verb = _VERB[site.access]
        match _KINDS[record.kind]:
            case "out-of-bounds":
                return f"{who} {verb} outside {self._where(record, array, offset)}"
            case "uninitialized":
                return f"{who} {verb} {array} at byte {offset}, which no thread of the block has written"
            case "misaligned" if record.state:
                return (
                    f"{who} {verb} a fragment of {array} at byte {offset}: the start and the stride of a fragment must "
                    f"be multiples of {record.state} bytes"
                )
            case "misaligned":
                return f"{who} {verb} {array} at byte {offset}, which is not aligned to the access's size"
            case "warp-sync" if record.kind == L.WARP_MATRIX and record.state:
                return f"{who} gives this matrix instruction another address or stride than lane 0 of its warp"
            case "warp-sync" if record.kind == L.WARP_MATRIX:
                return f"{who} executes a matrix instruction without all 32 lanes of its warp"
            case "warp-sync":
                return f"{who} takes a value from a lane that does not take part in this instruction"
        raise AssertionError(record.kind)

    def _where(self, record: L.HazardRecord, array: str, offset: int) -> str:
        allocation = self.memory.nearest(record.address) if record.kind == L.OUT_OF_BOUNDS else None
        if allocation is None:
            return f"{array}: byte {offset}"
        if abs(offset) > _FAR:
            return "every array, at an address that belongs to nothing"
        if offset < 0:
            return f"{array}: {-offset} bytes before its start"
        return f"{array}: {offset - allocation.nbytes} bytes behind its {allocation.nbytes} bytes"

    def _race(
        self, record: L.HazardRecord, site: AccessSite, common: dict[str, Any], who: str, array: str, offset: int
    ) -> Hazard:
        state = record.state & 0xFFFFFFFF
        past = _PAST[state >> L.KIND_SHIFT & 3]
        owner = record.state >> 32
        other_block = None
        if record.kind == L.RACE and owner not in (0, record.block + 1, 0xFFFFFFFF):
            other_block = unravel(owner - 1, self.grid)
        several = state & (L.MANY_WARPS | L.MANY_LANES) or owner == 0xFFFFFFFF
        other = None if several else self.thread(state >> L.WARP_SHIFT & 31, state & 31)
        if owner == 0xFFFFFFFF:
            whom = "threads of several blocks"
        elif state & L.MANY_WARPS:
            whom = "threads of several warps"
        elif state & L.MANY_LANES:
            first = self.thread(state >> L.WARP_SHIFT & 31, 0)
            whom = f"several threads of the warp of thread {first}"
        else:
            whom = f"thread {other}"
        whom += f" of block {other_block}" if other_block else ""
        between = "no barrier orders blocks" if other_block or owner == 0xFFFFFFFF else "without a barrier between"
        line = self.unit.sites[record.other_site].line if record.other_site < len(self.unit.sites) else 0
        known: dict[str, Any] = {"other_thread": other, "other_block": other_block, "other_line": line}
        if line:  # the exact shadow: of several threads it names the last
            known |= {
                "other_thread": self.thread(state >> L.WARP_SHIFT & 31, state & 31),
                "other_block": other_block or common["block"],
            }
            past += f" in line {line}"
        told = f"{who} {_VERB[site.access]} {array} at byte {offset}"
        if state == L.IN_FLIGHT or (line and state & L.FLYING_STATE):
            copy = f"the copy of line {line}" if line else "an asynchronous copy"
            message = f"{told}, to which {copy} is on its way: wait for it, then for the other threads"
            return Hazard(**common, message=message, **known)
        return Hazard(**common, message=f"{told}, which {whom} {past}: {between}", **known)

    def _divergence(self, record: L.HazardRecord, block: Triple, thread: Triple) -> Hazard:
        line = self._barrier_line(record.site)
        whole_warp = record.state >> 32 & 1
        state = record.state & 0xFFFFFFFF
        if whole_warp:
            other = self.thread(record.address // WARP, record.address % WARP)
            gone, place = state >> 16 == L.DONE, state & 0xFFFF
        else:
            other = self.thread(record.warp, record.address)
            gone, place = state == L.EXITED, state & (L.MAX_BLOCKS - 1)
        elsewhere = 0 if gone else self._barrier_line(place)
        doing = "has already returned" if gone else f"waits at the barrier of line {elsewhere}"
        message = (
            f"thread {thread} of block {block} waits at a barrier that not all threads reach: thread {other} {doing}"
        )
        return Hazard(
            "divergent-barrier",
            line,
            self.file,
            message,
            block,
            thread,
            "barrier",
            "",
            other_thread=other,
            other_line=elsewhere,
        )

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
