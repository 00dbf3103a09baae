"""What happened before what, while a launch runs with the exact race shadow.

The launch runs on one thread, so at any time one warp of one block is running: time is cut into stretches, each of one
warp. For every warp this keeps the set of stretches that it is ordered behind:

- a barrier makes its warps know what each of them knew and did;
- a fence notes what its warp knows; an atomic or a volatile or relaxed store behind it gives that away at its address
  (an atomic itself too: who resets a counter has seen it), and who reads it there (atomic, volatile, relaxed) has heard
  of it from then on. `__threadfence_block`, and whatever else has the scope of a block (.cta), gives it to the same
  block only. What a barrier joins includes what was fenced: fence, barrier, one thread's atomic is fine;
- what a warp has heard of it may read only once it has acquired it: by reading with acquire, by a fence behind the
  reading, or by a barrier (`__syncwarp` too). What it writes comes behind what it has heard of in any case;
- an arrival at a barrier object gives away what its warp knows to those that then find the phase over;
- the cluster's barrier gives what each warp knew when it came, and not what it did since, to all that wait for it.
  Arrivals that are `.relaxed` give nothing;
- `grid.sync()` counts blocks in a word of its own: who finds it over has heard of what all blocks gave away there when
  they came, and not of what one has given since, on its way to the next.

Sets are tuples of pairs (low, high), rising and apart. Time at the end of a warp's stretch in which it only waited for
the grid goes to whoever runs next: so all that was before a barrier of the grid is one pair, not one for each block.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.layout import ACQUIRES, ARRIVES, COMPLETES, READS, RELEASES, UPDATES, WITHIN_BLOCK, WRITES

Stretches = tuple[tuple[int, int], ...]
WORKSPACE_BYTES = 64
"""What the blocks of a cooperative launch have to meet in."""
LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
_ADDRESSES = ctypes.c_uint64 * 32
_ALL_LANES = 0xFFFFFFFF
_GIVES = UPDATES | WRITES | RELEASES | ARRIVES | COMPLETES
_MOST_HEARD = 64
"""Addresses of which a warp remembers what it has heard there."""


def union(*sets: Stretches) -> Stretches:
    """All stretches of the sets."""
    distinct = [s for s in sets if s]
    if len(distinct) < 2:
        return distinct[0] if distinct else ()
    pairs = sorted(chain.from_iterable(distinct))
    merged: list[tuple[int, int]] = []
    first, last = pairs[0]
    for low, high in pairs:
        if low > last:
            merged.append((first, last))
            first, last = low, high
        elif high > last:
            last = high
    merged.append((first, last))
    return tuple(merged)


@dataclass(frozen=True)
class _Within:
    """What an address passes on to threads of the block that gave it: to its warps, and within one (warp -> time)."""

    in_block: Stretches = ()
    warps: dict[int, int] = field(default_factory=dict)


@dataclass
class _Signal:
    """What an address passes on: to everybody, and within each block that gave something and still runs."""

    everybody: Stretches = ()
    blocks: dict[int, _Within] = field(default_factory=dict)


@dataclass
class Signals:
    """What the blocks of a launch pass on to each other, by address."""

    given: dict[int, _Signal] = field(default_factory=dict)
    arriving: dict[int, _Signal] = field(default_factory=dict)
    """what the arrivals at a barrier object give away when its phase is over"""
    changes: int = 0
    """how often anything was given away, or forgotten"""
    learned: int = 0
    """stretches that warps have heard of, again and again: what following them costs"""
    coming: Stretches = ()
    """what the blocks that have come to the barrier of the grid gave away"""
    came: int = 0
    """how many of them there are"""
    met: Stretches = ()
    """what all gave away at the last such barrier that is over"""
    in_clusters: dict[tuple[int, int], Stretches] = field(default_factory=dict)
    """what the warps of a cluster that have come to its barrier gave away, by the cluster's place and the phase"""
    running: dict[int, int] = field(default_factory=dict)
    """the block in each place"""
    idle_since: int = 0
    """since when nobody has done anything; 0 where a warp is at work"""


class HappensBefore:
    """Hears what a block's warps do to be ordered, and keeps their tables of what they have heard of and acquired."""

    def __init__(self, worker: L.WorkerState, contexts: np.ndarray, signals: Signals, *, partial: bool) -> None:
        self.worker, self.contexts, self.signals, self.partial = worker, contexts, signals, partial
        self.warps = len(contexts)
        self.table, self.acquired_table = (np.zeros((self.warps, 2), np.uint64) for _ in range(2))
        self.lane_syncs = np.zeros((self.warps, 32, 32), np.uint32)
        """[warp, lane, other lane]: up to when the other lane's accesses come first, by barriers of some lanes"""
        self.arrays: dict[int, tuple[Stretches, array[int]]] = {}
        self.started = 0
        self.since = 0
        self.waiting_since = self.steps_before = 0
        """since when the running warp has at most looked at the grid's workspace; how many accesses there had been"""
        self._reset()

    def event(self, kind: int, warp: int, mask: int, data: int | None) -> None:
        """Called by the running code."""
        match kind:
            case L.Event.BLOCK:
                self.block()
            case L.Event.RUN:
                self.run(warp)
            case L.Event.OPEN:
                self.open(mask)
            case L.Event.ARRIVE:
                self.arrive(warp, mask)
            case L.Event.FENCE:
                self.fence(warp, whole_gpu=bool(mask))
            case L.Event.MEET:
                self._acquire_all(warp)
            case L.Event.PAUSE:
                self._leave()
                self.running = -1
            case _:
                assert data is not None
                if not self._looks_again(warp, mask, data):
                    lanes, every = mask & 0xFFFFFFFF, _ADDRESSES.from_address(data)[:]
                    told = set(every) if lanes == _ALL_LANES else {a for k, a in enumerate(every) if lanes >> k & 1}
                    self.signal(warp, told, mask >> 32, together=lanes.bit_count() > len(told))
        self.worker.time += 1

    # -- events -----------------------------------------------------------------------------------------------------
    def block(self) -> None:
        """A block starts: its warps know nothing of the others."""
        self.worker.time += 1
        self.started = self.worker.time
        self.signals.running[int(self.worker.resident)] = int(self.worker.block)
        if not self.worker.rank:
            place, gone = self._cluster, self.signals.in_clusters
            self.signals.in_clusters = {key: what for key, what in gone.items() if key[0] != place}
        low = self.worker.shared or 0
        self.signals.changes += 1
        for passed in (self.signals.given, self.signals.arriving):
            for address in [a for a in passed if low <= a < low + self.worker.shared_bytes]:
                del passed[address]
        self._reset()

    def _reset(self) -> None:
        self.known: list[Stretches] = [()] * self.warps
        self.acquired: list[Stretches] = [()] * self.warps
        self.own: list[Stretches] = [()] * self.warps
        self.fenced: list[Stretches] = [()] * self.warps
        self.fenced_in_block: list[Stretches] = [()] * self.warps
        self.fence_time = [0] * self.warps
        self.updated: list[set[int]] = [set() for _ in range(self.warps)]
        """addresses that a warp has updated since its last fence or barrier: the first time is given away there"""
        self.arrivals: dict[int, tuple[Stretches, Stretches, Stretches]] = {}
        self.heard: list[dict[tuple[int, bool], tuple[_Signal, bool]]] = [{} for _ in range(self.warps)]
        """what a warp heard of last, by address and scope, and whether it acquired it: who waits hears it again"""
        self.looked: list[tuple[int, int, bytes] | None] = [None] * self.warps
        """the last reading of each warp, and how often anything had been given away"""
        self.running = -1
        self.table[:] = self.acquired_table[:] = 0
        self.arrays.clear()

    def run(self, warp: int) -> None:
        """Another warp's turn."""
        self._leave()
        self.running, self.since = warp, self.signals.idle_since or self.worker.time
        self.signals.idle_since = 0
        self.waiting_since, self.steps_before = self.since, self.worker.exact_steps

    def open(self, mask: int) -> None:
        """A barrier lets the warps of `mask` go on."""
        now = self.worker.time + 1
        if not self.partial:
            everything = ((self.started, now),)
            for warp in range(self.warps):
                self._know(warp, everything)
                self._acquire_all(warp)
                self._synced(warp, now)
            return
        self._close()
        released = [w for w in range(self.warps) if mask >> w & 1]
        for number in dict.fromkeys(self._barrier(w) for w in released):
            members = [w for w in released if self._barrier(w) == number]
            if number == L.CLUSTER_BARRIER:
                self._open_cluster(members, now)
                continue
            passed_by = self.arrivals.pop(number, ((), (), ()))
            joined = union(passed_by[0], *(self.known[w] for w in members), *(self.own[w] for w in members))
            fenced = union(passed_by[1], *(self.fenced[w] for w in members))
            in_block = union(passed_by[2], *(self.fenced_in_block[w] for w in members))
            for w in members:
                self._know(w, joined)
                self._acquire_all(w)
                self._synced(w, now)
                self.own[w], self.fenced[w], self.fenced_in_block[w], self.updated[w] = (), fenced, in_block, set()

    def arrive(self, warp: int, number: int) -> None:
        """bar.arrive: whoever waits there will know what this warp did. So for the cluster's barrier."""
        if number == L.CLUSTER_BARRIER:
            key, gone = (self._cluster, self._phase(warp)), self.signals.in_clusters
            gone[key] = union(gone.get(key, ()), self._all(warp))
            return
        old = self.arrivals.get(number, ((), (), ()))
        mine = (self._all(warp), self.fenced[warp], self.fenced_in_block[warp])
        self.arrivals[number] = (union(old[0], mine[0]), union(old[1], mine[1]), union(old[2], mine[2]))

    def _open_cluster(self, members: list[int], now: int) -> None:
        """The cluster's barrier lets warps go on: they know what all gave away that have come to this phase of it."""
        for w in members:
            what = self.signals.in_clusters.get((self._cluster, self._phase(w)), ())
            self._know(w, union(self.known[w], what))
            self._acquire_all(w)
            self._synced(w, now)

    @property
    def _cluster(self) -> int:
        """The place of the block's cluster."""
        return int(self.worker.resident) // math.prod(self.worker.cluster_size)

    def _phase(self, warp: int) -> int:
        """Of the cluster's barrier, to which the warp has come."""
        return int(self.contexts[warp, L.ContextLayout.CLUSTER_PHASE // 4])

    def fence(self, warp: int, *, whole_gpu: bool) -> None:
        self._acquire_all(warp)
        self._release(warp, whole_gpu=whole_gpu)

    def _release(self, warp: int, *, whole_gpu: bool) -> None:
        everything = self._all(warp)
        self.updated[warp] = set()
        self.fenced_in_block[warp] = everything
        self.fence_time[warp] = self.worker.time + 1
        if whole_gpu:
            self.fenced[warp] = everything

    def signal(self, warp: int, addresses: set[int], flags: int, *, together: bool = False) -> None:
        """An atomic, or a volatile or relaxed access; `together`: several lanes at one address."""
        now, everywhere = self.worker.time, not flags & WITHIN_BLOCK
        if flags & (RELEASES | ARRIVES):
            self._release(warp, whole_gpu=everywhere)
            self.worker.time += 1
        if self._meets_grid(warp, addresses, flags):
            return
        for address in addresses:
            if flags & (ARRIVES | COMPLETES):
                self._meet(warp, address, over=bool(flags & COMPLETES))
                continue
            found = self.signals.given.get(address)
            if found is not None and flags & (READS | UPDATES):
                self._hear(warp, address, found, acquires=bool(flags & ACQUIRES), everywhere=everywhere)
            if flags & UPDATES:
                first = address not in self.updated[warp]
                self.updated[warp].add(address)
                given = self._given(warp, found, ((now, now + 1),) if first else (), everywhere=everywhere)
                self.signals.given[address] = given
                if together and flags & RELEASES and flags & ACQUIRES:  # the last lane knows what the others gave
                    self._hear(warp, address, given, acquires=True, everywhere=everywhere)
            elif flags & WRITES:
                self.signals.given[address] = self._given(warp, None, everywhere=everywhere)

    def _looks_again(self, warp: int, mask: int, data: int) -> bool:
        """Whether a warp reads what it has read last, and nobody has given anything away since: it hears nothing."""
        if mask >> 32 & _GIVES:
            self.signals.changes += 1
            return False
        look = mask, self.signals.changes, ctypes.string_at(data, ctypes.sizeof(_ADDRESSES))
        again, self.looked[warp] = look == self.looked[warp], look
        return again and not self.worker.workspace

    def _meets_grid(self, warp: int, addresses: set[int], flags: int) -> bool:
        """Whether this is a step of `grid.sync()`: a block comes, or looks whether all have."""
        workspace, steps = self.worker.workspace, self.worker.exact_steps
        if not workspace or not all(0 <= address - workspace < WORKSPACE_BYTES for address in addresses):
            self.steps_before = -1
            return False
        waited = steps == self.steps_before + 1  # this access is counted already
        self.steps_before = steps
        if flags & UPDATES:
            passed = self.signals
            itself = ((self.since, self.worker.time + 1),) if self.fenced[warp] else ()  # from the fence to here
            passed.coming, passed.came = union(passed.coming, self.fenced[warp], itself), passed.came + 1
            if passed.came == math.prod(self.worker.nctaid):
                passed.met, passed.coming, passed.came = passed.coming, (), 0
            waited = False
        else:
            self._know(warp, union(self.known[warp], self.signals.met))
            if flags & ACQUIRES:
                self._acquire(warp, union(self.acquired[warp], self.signals.met))
        if not waited:
            self.waiting_since = self.worker.time + 1
        return True

    # -- knowledge --------------------------------------------------------------------------------------------------
    def _hear(self, warp: int, address: int, found: _Signal, *, acquires: bool, everywhere: bool) -> None:
        """The warp reads what an address passes on, of its own block alone where that is the scope of its reading."""
        heard = self.heard[warp]
        last = heard.get((address, everywhere))
        if last is not None and last[0] is found and last[1] >= acquires:
            return
        if len(heard) >= _MOST_HEARD:
            heard.clear()
        heard[address, everywhere] = found, acquires
        learned = found.everybody if everywhere else ()
        self.signals.learned += len(learned)
        within = found.blocks.get(int(self.worker.block))
        if within is not None:
            learned = union(learned, within.in_block)
            if warp in within.warps:
                self._synced(warp, within.warps[warp])
        known, acquired = self.known[warp], self.acquired[warp]
        self._know(warp, union(known, learned))
        if acquires:
            self._acquire(warp, self.known[warp] if acquired is known else union(acquired, learned))

    def _acquire_all(self, warp: int) -> None:
        """The warp may read what it has heard of."""
        self._acquire(warp, self.known[warp])

    def _meet(self, warp: int, address: int, *, over: bool) -> None:
        """At a barrier object, what an arrival gives away is learnt by those that find its phase over."""
        if not over:
            self.signals.arriving[address] = self._given(warp, self.signals.arriving.get(address))
        elif (found := self.signals.arriving.pop(address, None)) is not None:
            self.signals.given[address] = found

    def _given(
        self, warp: int, before: _Signal | None, itself: Stretches = (), *, everywhere: bool = True
    ) -> _Signal:
        """What an address passes on from now on. A plain store forgets what was there; an update adds to it, and behind
        a fence itself; `everywhere`: not to its own block alone."""
        block, old = int(self.worker.block), before or _Signal()
        here, running = old.blocks.get(block, _Within()), self.signals.running.values()
        own = _Within(
            union(here.in_block, self.fenced_in_block[warp], itself if self.fenced_in_block[warp] else ()),
            here.warps | ({warp: self.fence_time[warp]} if self.fence_time[warp] else {}),
        )
        return _Signal(
            union(old.everybody, self.fenced[warp], itself) if everywhere and self.fenced[warp] else old.everybody,
            {number: within for number, within in old.blocks.items() if number in running} | {block: own},
        )

    def _know(self, warp: int, stretches: Stretches) -> None:
        if stretches != self.known[warp]:
            self.known[warp] = stretches
            self._list(self.table, warp, stretches)

    def _acquire(self, warp: int, stretches: Stretches) -> None:
        if stretches != self.acquired[warp]:
            self.acquired[warp] = stretches
            self._list(self.acquired_table, warp, stretches)

    def _list(self, table: np.ndarray, warp: int, stretches: Stretches) -> None:
        cached = self.arrays.get(id(stretches))
        if cached is None:
            cached = self.arrays[id(stretches)] = (stretches, array("I", chain.from_iterable(stretches)))
        table[warp] = cached[1].buffer_info()[0], len(stretches)

    def _close(self) -> None:
        """Books the running warp's stretch so far."""
        if self.running >= 0:
            now = self.worker.time + 1
            self.own[self.running] = union(self.own[self.running], ((self.since, now),))
            self.since = self.waiting_since = now
            self.steps_before = self.worker.exact_steps

    def _leave(self) -> None:
        """The running warp gives way: books its stretch but for the time in which it only waited."""
        if self.running < 0:
            return
        if self.worker.exact_steps != self.steps_before:
            self._close()
            self.signals.idle_since = self.since
            return
        if self.since < self.waiting_since:
            self.own[self.running] = union(self.own[self.running], ((self.since, self.waiting_since),))
        self.signals.idle_since = max(self.since, self.waiting_since)

    def _all(self, warp: int) -> Stretches:
        """What a warp knows and has done, which is one from then on: its own accesses are told by its lanes."""
        self._close()
        if self.own[warp]:
            self._know(warp, union(self.known[warp], self.own[warp]))
            self.own[warp] = ()
        return self.known[warp]

    def _barrier(self, warp: int) -> int:
        return int(self.contexts[warp, L.ContextLayout.BARRIER_ID // 4]) if self.partial else 0

    def _synced(self, warp: int, time: int) -> None:
        """The warp's lanes are in order up to `time`."""
        column = L.ContextLayout.SYNC_TIME // 4
        self.contexts[warp, column] = max(int(self.contexts[warp, column]), time)
