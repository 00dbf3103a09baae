"""Shared memory of a cluster's other blocks: whether it is there, and what threads of several blocks do to its words.

A block's race shadow knows its own threads. Where others come in, each word remembers who wrote it last and, of each
warp, who read it. Two accesses that conflict have to be ordered, and one of the two is another block's.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.limits import WARP
from ptxsim.run.asynchronous_log import Told
from ptxsim.run.asynchronous_state import (
    WORD_LOG2,
    Cluster,
    Granules,
    Offsets,
    Resident,
    Visit,
    Work,
    numbers_in,
    targets,
)
from ptxsim.run.operands import GRANULE_LOG2

_ALL_LANES = np.arange(WARP)


class Follower(Protocol):
    """Who knows the order of things (`asynchronous.Follower`)."""

    worker: L.WorkerState
    unit: Unit
    warps: int
    strict: bool
    cluster: Cluster
    told: Told

    @property
    def here(self) -> Resident:
        """The block of which is told."""

    def own(self, warp: int) -> int:
        """The clock of what a warp of it does."""

    def over(self, work: Work, warp: int) -> bool:
        """Whether a warp of it knows that work is over."""

    def use(self, there: Granules, warp: int, offsets: Offsets, lanes: npt.NDArray[np.int64], reader: int) -> None:
        """Lanes access the shared memory of a block, as `reader`."""

    def hazard(
        self, kind: int, site: int, warp: int, lane: int, address: int, work: Work | None, state: int = 0,
        *, block: int | None = None,
    ) -> None:  # fmt: skip
        """Notes what is wrong."""


class Peers:
    """The part of it that judges this."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.log2 = follower.unit.shared_granule_log2
        """of the bytes of a word: the kernel's smallest access, at most 4"""

    def access(self, warp: int, mask: int) -> None:
        """Lanes access shared memory of other blocks."""
        f = self.follower
        site, nbytes, kind = f.told.words[:3]
        work = Work(f.own(warp), f.here.steps[warp], site)
        every = _ALL_LANES[(mask >> _ALL_LANES & 1).astype(np.bool_)]
        ranks, where = targets(f.told.lanes[every], f.told.rank)
        for rank in np.unique(ranks).tolist():
            lanes, offsets = every[ranks == rank], where[ranks == rank]
            for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
                self.visit(rank, Visit(work, f.told.block, warp, lane, offset))
            if rank in f.cluster.residents:
                inside = offsets + nbytes <= f.worker.shared_bytes
                lanes, offsets = lanes[inside], offsets[inside]
                there = f.cluster.residents[rank].granules
                if kind == L.AT_BARRIER_OBJECT:
                    continue
                if kind != L.WRITE:
                    self._written_by_somebody(there, warp, offsets, lanes)
                f.use(there, warp, offsets, lanes, -1 - work.clock)
                self.meet(rank, warp, offsets, lanes)

    def meet(self, rank: int, warp: int, offsets: Offsets, lanes: npt.NDArray[np.int64]) -> None:
        """Lanes access words of the block with a rank: no thread of another block may do so, unless both read, or both
        update atomically."""
        f = self.follower
        site, nbytes, kind = f.told.words[:3]
        words, own = f.cluster.residents[rank].granules.words(self.log2), f.own(warp)
        each = np.arange(max(nbytes >> self.log2, 1))
        touched = ((offsets >> self.log2)[:, None] + each).reshape(-1)
        kind = kind if kind in (L.READ, L.ATOMIC) else L.WRITE
        earlier = [(L.WRITE, words.written)]
        for other, by_warp in words.by_warps.items():
            if other != kind:
                earlier += [(other, numbers) for clock, numbers in by_warp.items() if clock != own]
        for did, numbers in earlier:
            for number in numbers_in(numbers[touched]):
                work = f.cluster.work[number]
                among = f.cluster.of_warps[work.clock] == f.told.rank == rank  # of which the race shadow knows
                if work.clock != own and not among and not f.over(work, warp):
                    k = int((numbers[touched] == number).argmax())
                    lane, at = int(lanes[k // len(each)]), int(touched[k]) << self.log2
                    f.hazard(L.ASYNC_CONFLICT, site, warp, lane, at, work, did)
        mine = f.cluster.note(Work(own, f.here.steps[warp], site))
        if kind == L.WRITE:
            words.written[touched] = mine
        else:
            words.by_warps[kind].setdefault(own, np.zeros_like(words.written))[touched] = mine
        if kind != L.READ:
            words.touched[touched] = True

    def _written_by_somebody(
        self, there: Granules, warp: int, offsets: Offsets, lanes: npt.NDArray[np.int64]
    ) -> None:
        """Lanes read words of another block: none that nobody has written."""
        f = self.follower
        words, granules = offsets >> self.log2, offsets >> GRANULE_LOG2
        untouched = ~there.words(self.log2).touched[words] & (there.copied[granules] == 0)
        for k in np.flatnonzero(untouched).tolist():
            if int(offsets[k]) >> WORD_LOG2 not in there.sent:
                f.hazard(L.UNINITIALIZED, f.told.words[0], warp, int(lanes[k]), int(offsets[k]), None)
                return

    def visit(self, rank: int, visit: Visit) -> None:
        """The block must have begun, and must not end before it knows that this is over."""
        f = self.follower
        f.cluster.visits.setdefault(rank, {})[visit.block, visit.warp, visit.work.site] = visit
        clocks = [f.cluster.clock("warp", rank, w) for w in range(f.warps)]
        table = f.cluster.known[0, :] if not f.strict else f.cluster.known[0, f.told.rank, visit.warp]
        if not table[..., clocks].any():
            self._blame(visit, begun=False)

    def leave(self) -> None:
        """The block ends: all that others did in its memory has to be over."""
        f = self.follower
        for visit in f.cluster.visits.pop(f.told.rank, {}).values():
            if not any(f.over(visit.work, w) for w in range(f.warps)):
                self._blame(visit, begun=True)

    def _blame(self, visit: Visit, *, begun: bool) -> None:
        site = visit.work.site
        self.follower.hazard(
            L.ASYNC_PEER, site, visit.warp, visit.lane, visit.address, None, int(begun), block=visit.block
        )
