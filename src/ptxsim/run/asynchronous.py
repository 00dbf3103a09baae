"""Who may look when, where tensor memory accelerator and tensor cores work beside the threads.

Generated code does a bulk copy or a product where it is issued; on a GPU it is done some time later. So results say
nothing about who has waited, and this listener hears what happens in order and keeps, for each warp, what it knows to
be over. What can be over has a *clock* that counts up: a barrier object counts its phases, a warpgroup its groups of
products, a warp its groups of bulk stores and of cp.async, and each warp its own stretches between two points where it
gives away what it did. A piece of asynchronous work, or of plain stores, is over for a warp that knows its clock to
have come as far (PTX ISA 8.8 and 9.7.9.25.1). Barriers join what their warps know; an arrival at a barrier object
leaves what its warp knows with those who find the phase over.

There are two such tables. `known` is of what has happened; `fenced` is of plain accesses that a fence.proxy.async has
made known to the asynchronous engines since.

What comes out of it: shared memory that is used before the copy into it is over (early), or is left before; that is
overwritten while somebody may still read it (overwritten); that an engine reads, and no fence is between it and the
store (no fence), or nobody has stored anything; a tile that is read with another swizzle than it was stored with; sums
used before their products are over, and products begun with registers that no fence gave to the engine; warps of a
warpgroup that name different operands. What blocks of a cluster do in each other's memory, `asynchronous_peers` judges.

Memory is looked at in granules of 16 bytes, the smallest piece that an engine moves. Threads of a warp are one.
Kernels that pass on what they know by atomics, too, are taken at their word: an atomic may tell anybody anything.

Generated code writes events down (`asynchronous_log`), and a cluster is judged when it is over. What is found follows
from its events alone, and so clusters that did the same as one in which nothing was found are not judged again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from ptxsim.codegen import layout as L
from ptxsim.codegen.unit import Unit
from ptxsim.limits import WARP
from ptxsim.record import Handoff
from ptxsim.run.asynchronous_log import Log, Sequence, Told
from ptxsim.run.asynchronous_peers import Peers
from ptxsim.run.asynchronous_state import (
    CLOCKS,
    WORD_LOG2,
    BarrierObject,
    Cluster,
    Granules,
    Numbers,
    Offsets,
    ProductReads,
    Resident,
    Visit,
    Work,
    numbers_in,
    target,
)
from ptxsim.run.hazards import note
from ptxsim.run.operands import GRANULE_LOG2, Operands, operands

MOST_EVENTS = 2_000_000
"""Of a host thread: what happens after them is believed to be in order, so that a long launch comes to its end."""
MOST_FOUND = 1024
"""Times that something is found, after which the same is true: all there is to say has been said."""
_MOST_NAMED = 1024
"""Operands whose granules are kept."""
_ALL_LANES = np.arange(WARP)
_WARPS, _GROUPS = 32, 8
_STORES = _WARPS + _GROUPS
"""Who reads: warps by their numbers, warpgroups behind them, and bulk stores."""

class Follower:
    """Judges what one host thread's blocks did, and notes hazards among those of generated code."""

    def __init__(self, worker: L.WorkerState, unit: Unit, hazards: ctypes.Array[L.HazardRecord], seen: np.ndarray,
                 warps: int, blocks: int, clean: set[int]) -> None:  # fmt: skip
        self.worker, self.unit, self.hazards, self.seen = worker, unit, hazards, seen
        self.warps, self.blocks = warps, blocks
        self.clean = clean
        """digests of what clusters did in which nothing was found"""
        self.log = Log(worker, blocks)
        self.clusters: dict[int, Cluster] = {}
        self.skipped: dict[int, Sequence] = {}
        """by its place, what the last cluster did that was not followed, as nothing would be found"""
        self._named: dict[tuple[int, ...], Operands] = {}
        """what a product reads, by its number and its descriptors"""
        self.left = MOST_EVENTS
        self.handoffs: list[Handoff] | None = None
        """what warps hand to each other, where somebody wants to see it"""
        self.strict = not unit.passes_on_by_atomics
        self.found = 0
        """times that something was found, noted before or not"""
        self.told: Told
        """the event that is being judged"""
        self._peers = Peers(self)
        self._run: dict[int, Callable[[int, int], None]] = {
            L.AsyncEvent.BLOCK: self._block, L.AsyncEvent.OPEN: self._open, L.AsyncEvent.CAME: self._came,
            L.AsyncEvent.FENCE: self._fence, L.AsyncEvent.ARRIVE: self._arrive, L.AsyncEvent.WAITED: self._waited,
            L.AsyncEvent.LOAD: self._load, L.AsyncEvent.STORE: self._store, L.AsyncEvent.COMMIT: self._commit,
            L.AsyncEvent.WAIT: self._wait, L.AsyncEvent.ACCESS: self._access, L.AsyncEvent.PRODUCT: self._product,
            L.AsyncEvent.FENCE_PRODUCTS: self._fence_products,
            L.AsyncEvent.COMMIT_PRODUCTS: self._commit_products, L.AsyncEvent.WAIT_PRODUCTS: self._wait_products,
            L.AsyncEvent.SUMS: self._sums, L.AsyncEvent.PEER: self._peers.access, L.AsyncEvent.EXIT: self._exit,
        }  # fmt: skip

    def event(self, kind: int, warp: int, mask: int, data: int | None) -> None:
        """Called by the running code: there is no room to write down more."""
        self._judge(self.log.over())

    def finish(self) -> None:
        """Judge what has not been judged yet: the running code has come to its end, or stopped."""
        self._judge(self.log.rest())

    def _judge(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            digest = sequence.digest(self.worker) if sequence.is_whole and self.handoffs is None else None
            if digest in self.clean or self.left <= 0:
                self.skipped[sequence.number] = sequence
                continue
            found = self.found
            self._follow(sequence)
            if digest is not None and self.found == found:
                self.clean.add(digest)

    def _follow(self, sequence: Sequence) -> None:
        self.skipped.pop(sequence.number, None)
        for kind, warp, mask, told in sequence.events():
            if self.found >= MOST_FOUND:
                self.left = 0
                return
            self.left -= 1
            self.told = told
            if kind == L.AsyncEvent.BLOCK and told.rank == 0:
                self.clusters[sequence.number] = Cluster(self.blocks, self.warps)
            self.cluster = self.clusters[sequence.number]
            self._run[kind](warp, mask)

    def _tell(self, kind: str, warp: int, site: int = -1, place: tuple[int, int] = (0, 0), phase: int = 0) -> None:
        if self.handoffs is not None:
            line = self.unit.sites[site].line if site >= 0 else 0
            first = self.told.block - self.told.rank
            self.handoffs.append(Handoff(kind, self.told.block, warp, line, (first + place[0], place[1]), phase))

    # -- who knows what -----------------------------------------------------------------------------------------------
    def _block(self, warp: int, mask: int) -> None:
        granules = Granules(int(self.worker.shared_bytes))
        self.cluster.residents[self.told.rank] = Resident(granules, [1] * self.warps)

    @property
    def here(self) -> Resident:
        return self.cluster.residents[self.told.rank]

    def own(self, warp: int) -> int:
        return self.cluster.clock("warp", self.told.rank, warp)

    def _given_away(self, warp: int) -> Numbers:
        """What the warp knows, what it did included; what it does from now on is another stretch."""
        here, known = self.here, self.cluster.known[:, self.told.rank, warp]
        known[0, self.own(warp)] = here.steps[warp]
        here.steps[warp] += 1
        return known

    def _learn(self, warp: int, what: Numbers) -> None:
        known = self.cluster.known[:, self.told.rank, warp]
        np.maximum(known, what, out=known)

    def _open(self, warp: int, mask: int) -> None:
        """Barriers of the block open: their warps know what each of them knew."""
        released = [w for w in range(self.warps) if mask >> w & 1]
        groups: dict[int, list[int]] = {}
        for w in released:
            groups.setdefault(int(self.told.lanes[w]) if self.unit.named else 0, []).append(w)
        for number, members in groups.items():
            if L.WARPGROUP_BARRIER <= number < L.CLUSTER_BARRIER:
                continue  # where warps wait for their products: the simulator's own
            place = 0 if number == L.CLUSTER_BARRIER else self.told.rank
            what = self.cluster.came.get((place, number))
            if number != L.CLUSTER_BARRIER:
                for w in members:
                    self._given_away(w)
                joined = self.cluster.known[:, self.told.rank, members].max(axis=1)
                what = joined if what is None else np.maximum(joined, what)
            if what is not None:
                for w in members:
                    self._learn(w, what)

    def _came(self, warp: int, mask: int) -> None:
        number = self.told.words[0]
        key = (0 if number == L.CLUSTER_BARRIER else self.told.rank, number)
        mine = self._given_away(warp)
        before = self.cluster.came.get(key)
        self.cluster.came[key] = mine.copy() if before is None else np.maximum(before, mine)

    def _fence(self, warp: int, mask: int) -> None:
        known = self._given_away(warp)
        np.maximum(known[1], known[0], out=known[1])

    def _objects(self, mask: int) -> Iterator[tuple[BarrierObject, tuple[int, int], list[int]]]:
        """Each barrier object that lanes name, with its place (rank, offset) in the cluster and those lanes."""
        lanes_of: dict[int, list[int]] = {}
        for lane, place in enumerate(self.told.places.tolist()):
            if mask >> lane & 1:
                lanes_of.setdefault(place, []).append(lane)
        for where, lanes in lanes_of.items():
            away, offset = divmod(where, int(self.worker.shared_stride))
            place = self.told.rank + away, offset
            yield self.cluster.object(*place), place, lanes

    def _arrive(self, warp: int, mask: int) -> None:
        completed, counted, relaxed = self.told.words[:3]
        mine = self._given_away(warp) if counted & 0xFFFFFFFF and not relaxed else None
        changes = self.told.lanes.tolist()
        for found, place, lanes in self._objects(mask):
            left = mine
            for lane in lanes:
                if counted >> lane & 1:
                    self._tell("arrive", warp, place=place, phase=int(self.cluster.now[found.clock]) + 1)
                    if left is not None:  # all lanes leave the same
                        np.maximum(found.arriving, left, out=found.arriving)
                        left = None
                found.announced += max(changes[lane], 0)
                found.came -= min(changes[lane], 0)
                if completed >> lane & 1:
                    self._complete(found)

    def _complete(self, found: BarrierObject) -> None:
        """A phase is over."""
        np.maximum(found.given, found.arriving, out=found.given)
        self.cluster.now[found.clock] += 1
        found.given[:, found.clock] = self.cluster.now[found.clock]
        found.announced = found.came = 0

    def _waited(self, warp: int, mask: int) -> None:
        for found, place, _ in self._objects(mask):
            self._tell("wait", warp, place=place, phase=int(self.cluster.now[found.clock]))
            self._learn(warp, found.given)

    # -- engines ------------------------------------------------------------------------------------------------------
    def _load(self, warp: int, mask: int) -> None:
        site, to, nbytes, by, swizzle, source, adds = self.told.words[:7]
        rank, offset = target(to, self.told.rank)
        there = self.cluster.residents.get(rank)
        if there is None:
            return
        clock = self.cluster.object(*target(by, self.told.rank)).clock
        self._tell("copy", warp, site, target(by, self.told.rank), int(self.cluster.now[clock]) + 1)
        work = Work(clock, int(self.cluster.now[clock]) + 1, site, swizzle, bool(adds))
        if source:  # of this block: read until the one that gets it is told
            self._reads(warp, site, source - 1, nbytes, Work(clock, work.until, site))
        if not nbytes >> GRANULE_LOG2:
            words = range(offset >> WORD_LOG2, -(-(offset + nbytes) >> WORD_LOG2))
            there.granules.sent.update(dict.fromkeys(words, self.cluster.note(work)))
        else:
            part = slice(offset >> GRANULE_LOG2, -(-(offset + nbytes) >> GRANULE_LOG2))
            self._written(there.granules, part, warp, work, offset, mask)
            there.granules.copied[part] = self.cluster.note(work)
            there.granules.stored[part] = 0
            for readers in there.granules.readers.values():
                readers[part] = 0
        if rank != self.told.rank:
            self._peers.visit(rank, Visit(work, self.told.block, warp, (mask & 0xFFFFFFFF).bit_length() - 1, offset))

    def _store(self, warp: int, mask: int) -> None:
        site, offset, nbytes, is_box = self.told.words[:4]
        clock, group = self.cluster.clock("stores", self.told.rank, warp), self.here.stores.get(warp, 0) + 1
        self._reads(warp, site, offset, nbytes, Work(clock, group, site), whole=not is_box)

    def _reads(self, warp: int, site: int, offset: int, nbytes: int, work: Work, *, whole: bool = True) -> None:
        """A bulk copy reads a part of the block's shared memory until `work` is over, the `whole` of it or some."""
        part, granules = slice(offset >> GRANULE_LOG2, -(-(offset + nbytes) >> GRANULE_LOG2)), self.here.granules
        if whole:
            self._written_by_somebody(warp, site, part)
        self._read_by_engine(warp, site, offset, numbers_in(granules.copied[part]), numbers_in(granules.stored[part]))
        granules.reading(_STORES)[part] = self.cluster.note(work)

    def _commit(self, warp: int, mask: int) -> None:
        groups = self.here.copies if self.told.words[1] else self.here.stores
        groups[warp] = groups.get(warp, 0) + 1

    def _wait(self, warp: int, mask: int) -> None:
        left, of_threads = self.told.words[:2]
        groups, kind = (self.here.copies, "copies") if of_threads else (self.here.stores, "stores")
        self._know(warp, self.cluster.clock(kind, self.told.rank, warp), groups.get(warp, 0) - left)

    def _know(self, warp: int, clock: int, over: int) -> None:
        known = self.cluster.known[0, self.told.rank, warp]
        known[clock] = max(int(known[clock]), over, 0)

    def _product(self, warp: int, mask: int) -> None:
        site, number, *descriptors = self.told.words[:4]
        here, group, begun = self.here, warp // 4, self.here.begun.get(warp, 0)
        here.begun[warp] = begun + 1
        self._tell("multiply", warp, site)
        until, product = here.products.get(warp, 0) + 1, id(self.unit.products[number])
        here.sums[warp, product] = begun, until
        if warp not in here.fenced and (not begun or product in self.unit.unfenced):
            self.hazard(L.ASYNC_REGISTERS, site, warp, 0, 0, None)
        here.fenced.discard(warp)
        read = here.operands.get((group, begun))
        if read is None:
            work = Work(self.cluster.clock("products", self.told.rank, group), until, site)
            read = self._looked_up(warp, self._operands(number, *descriptors), work, (product, *descriptors))
            here.operands[group, begun] = read
            here.operands.pop((group, begun - 64), None)
        elif read.asked != (product, *descriptors):
            self.hazard(L.WARP_MATRIX, site, warp, 0, 0, None, L.UNLIKE_WARPS)
        self._read_by_engine(warp, site, read.offset, read.copied, read.stored)

    def _fence_products(self, warp: int, mask: int) -> None:
        self.here.fenced.add(warp)

    def _operands(self, number: int, *descriptors: int) -> Operands:
        found = self._named.get((number, *descriptors))
        if found is None:
            if len(self._named) >= _MOST_NAMED:
                self._named.clear()
            found = operands(self.unit.products[number], descriptors, len(self.here.granules.copied))
            self._named[number, *descriptors] = found
        return found

    def _looked_up(self, warp: int, read: Operands, work: Work, asked: tuple[int, ...]) -> ProductReads:
        """What a product reads; its warpgroup reads it now."""
        granules, where = self.here.granules, read.granules
        copied: set[int] = set()
        among_copies = granules.copied[where]
        for part, mode in zip(read.parts, read.swizzles, strict=True):
            numbers = numbers_in(among_copies[part])
            self._same_swizzle(warp, work.site, where[part], mode, numbers)
            copied.update(numbers)
        granules.reading(_WARPS + warp // 4)[where] = self.cluster.note(work)
        self._written_by_somebody(warp, work.site, where)
        offset = int(where[0]) << GRANULE_LOG2 if len(where) else 0
        return ProductReads(asked, offset, tuple(sorted(copied)), numbers_in(granules.stored[where]))

    def _written_by_somebody(self, warp: int, site: int, where: npt.NDArray[np.int64] | slice) -> None:
        """An engine reads granules: none of which nobody has written anything."""
        granules = self.here.granules
        untouched = (granules.copied[where] | granules.stored[where]) == 0
        if untouched.any():
            numbers = np.arange(len(granules.copied))[where][untouched].tolist()
            sent = {word >> GRANULE_LOG2 - WORD_LOG2 for word in granules.sent}
            never = next((number for number in numbers if number not in sent), None)
            if never is not None:
                self.hazard(L.UNINITIALIZED, site, warp, 0, never << GRANULE_LOG2, None)

    def _same_swizzle(
        self, warp: int, site: int, where: npt.NDArray[np.int64], mode: int, copies: Iterable[int]
    ) -> None:
        """Whether an operand is read in the swizzle in which its copies stored it."""
        for number in copies:
            work = self.cluster.work[number]
            if work.swizzle not in (-1, mode):
                self.hazard(L.ASYNC_SWIZZLE, site, warp, 0, int(where[0]) << GRANULE_LOG2, work, mode)

    def _commit_products(self, warp: int, mask: int) -> None:
        self.here.products[warp] = self.here.products.get(warp, 0) + 1

    def _wait_products(self, warp: int, mask: int) -> None:
        over = self.here.products.get(warp, 0) - self.told.words[0]
        self._know(warp, self.cluster.clock("products", self.told.rank, warp // 4), over)

    def _sums(self, warp: int, mask: int) -> None:
        site, number = self.told.words[:2]
        ran = [self.here.sums[warp, i] for i in self.unit.sums[number] if (warp, i) in self.here.sums]
        if not ran:
            return
        clock = self.cluster.clock("products", self.told.rank, warp // 4)
        _, until = max(ran)
        if self.cluster.known[0, self.told.rank, warp, clock] < until:
            self.hazard(L.ASYNC_SUMS, site, warp, 0, 0, None)

    def _exit(self, warp: int, mask: int) -> None:
        self._peers.leave()
        copied = self.here.granules.copied
        for number in numbers_in(np.unique(copied)):
            work = self.cluster.work[number]
            if work not in self.cluster.blamed and not any(self.over(work, w) for w in range(self.warps)):
                offset = int((copied == number).argmax()) << GRANULE_LOG2
                self.hazard(L.ASYNC_EARLY, work.site, 0, 0, offset, None, 1)

    # -- what is wrong ------------------------------------------------------------------------------------------------
    def over(self, work: Work, warp: int, table: int = 0) -> bool:
        """Whether a warp knows that work is over."""
        if work.clock == CLOCKS - 1:
            return True
        if self.strict:
            return bool(self.cluster.known[table, self.told.rank, warp, work.clock] >= work.until)
        if table == 0 and work.clock in self.cluster.of_warps:
            return True  # an atomic may have told of it
        return bool(self.cluster.known[table, ..., work.clock].max() >= work.until)

    def _access(self, warp: int, mask: int) -> None:
        """Threads of a warp access shared memory."""
        nbytes = self.told.words[1]
        offsets, lanes = self.told.lanes.astype(np.int64), _ALL_LANES
        inside = (offsets >= 0) & (offsets + nbytes <= self.worker.shared_bytes)
        if mask & 0xFFFFFFFF != 0xFFFFFFFF or not inside.all():
            inside &= (mask >> _ALL_LANES & 1).astype(np.bool_)
            offsets, lanes = offsets[inside], lanes[inside]
        self.use(self.here.granules, warp, offsets, lanes, warp)
        if self.unit.meets_peers:
            self._peers.meet(self.told.rank, warp, offsets, lanes)

    def use(self, there: Granules, warp: int, offsets: Offsets, lanes: npt.NDArray[np.int64], reader: int) -> None:
        """Lanes access the shared memory of a block, as `reader`."""
        site, _, kind = self.told.words[:3]
        granules = offsets >> GRANULE_LOG2
        for number in numbers_in(there.copied[granules]):
            if not self.over(self.cluster.work[number], warp):
                k = int((there.copied[granules] == number).argmax())
                self.hazard(L.ASYNC_EARLY, site, warp, int(lanes[k]), int(offsets[k]), self.cluster.work[number])
        if there.sent:
            self._still_sent(there, warp, offsets, lanes)
        work = Work(self.own(warp), self.here.steps[warp], site)
        if kind == L.LATE_WRITE:
            work = Work(self.cluster.clock("copies", self.told.rank, warp), self.here.copies.get(warp, 0) + 1, site)
        mine = self.cluster.note(work)
        if kind == L.READ:
            there.reading(reader)[granules] = mine
            return
        for who, readers in there.readers.items():
            if who < _WARPS:  # of threads' reads, others know: the race shadow, and `Peers`
                continue
            for number in numbers_in(readers[granules]):
                if not self.over(self.cluster.work[number], warp):
                    k = int((readers[granules] == number).argmax())
                    work = self.cluster.work[number]
                    self.hazard(L.ASYNC_OVERWRITTEN, site, warp, int(lanes[k]), int(offsets[k]), work)
        there.stored[granules] = mine
        there.copied[granules] = 0

    def _still_sent(self, there: Granules, warp: int, offsets: Offsets, lanes: npt.NDArray[np.int64]) -> None:
        """Threads access words to which small values may be on their way."""
        (site, nbytes), sent = self.told.words[:2], there.sent
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            for word in range(offset >> WORD_LOG2, -(-(offset + nbytes) >> WORD_LOG2)):
                work = self.cluster.work[sent.get(word, 0)]
                if word in sent and not self.over(work, warp):
                    self.hazard(L.ASYNC_EARLY, site, warp, lane, offset, work)
                    return

    def _written(self, granules: Granules, part: slice, warp: int, copy: Work, offset: int, mask: int) -> None:
        """A bulk copy overwrites a part of shared memory: nobody may still read or write there, but other reductions
        where it is one."""
        lane, site = max((mask & 0xFFFFFFFF).bit_length() - 1, 0), copy.site
        for readers in granules.readers.values():
            for number in numbers_in(readers[part]):
                work = self.cluster.work[number]
                if not self.over(work, warp) and work.clock != self.own(warp):
                    self.hazard(L.ASYNC_OVERWRITTEN, site, warp, lane, offset, work)
        for number in numbers_in(granules.copied[part]):
            work = self.cluster.work[number]
            if not (self.over(work, warp) or (copy.adds and work.adds)):
                self.hazard(L.ASYNC_EARLY, site, warp, lane, offset, work)

    def _read_by_engine(self, warp: int, site: int, offset: int, copied: Iterable[int], stored: Iterable[int]) -> None:
        for number in copied:
            if not self.over(self.cluster.work[number], warp):
                self.hazard(L.ASYNC_EARLY, site, warp, 0, offset, self.cluster.work[number])
        for number in stored:
            if not self.over(self.cluster.work[number], warp, 1):
                self.hazard(L.ASYNC_NO_FENCE, site, warp, 0, offset, self.cluster.work[number])

    def hazard(
        self, kind: int, site: int, warp: int, lane: int, address: int, work: Work | None, state: int = 0,
        *, block: int | None = None,
    ) -> None:  # fmt: skip
        self.found += 1
        if work is not None:
            self.cluster.blamed.add(work)
        record = L.HazardRecord(
            kind, site, self.told.block if block is None else block, warp, lane, address, state,
            work.site if work else L.NO_SITE,
        )  # fmt: skip
        note(self.worker, self.hazards, self.seen, record)

    def awaited(self, offset: int) -> tuple[int, int]:
        """(bytes announced, bytes that came) in the phase of a barrier object of the block that runs; 0 if unknown."""
        self.finish()
        if self.found >= MOST_FOUND:
            return 0, 0
        number = self.worker.resident // self.blocks
        if number in self.skipped and self.skipped[number].is_whole:
            self._follow(self.skipped[number])
        cluster = self.clusters.get(number)
        found = cluster.objects.get((int(self.worker.rank), offset)) if cluster else None
        return (found.announced, found.came) if found else (0, 0)
