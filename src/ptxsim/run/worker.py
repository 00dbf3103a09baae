"""What one host thread of a launch owns: counters, shadows, shared memory, and the contexts of the warps it runs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.jit import MASKED, Code, exact_function
from ptxsim.errors import MemoryLimitExceeded
from ptxsim.limits import WARP
from ptxsim.memory import Allocation, Memory
from ptxsim.record import Manner, Terms
from ptxsim.run.asynchronous import Follower
from ptxsim.run.binding import Binding
from ptxsim.run.hazards import note
from ptxsim.run.heap import HeapView
from ptxsim.run.ordering import LISTENER, HappensBefore, Signals
from ptxsim.run.printing import Print, Printer
from ptxsim.run.stalls import Places, Stalls
from ptxsim.run.textures import records

_APART = 128
"""Bytes between what two host threads write: cores hand lines of memory to each other in pairs."""
_PAGE = 4096
WARPGROUP = 4
"""Warps of a warpgroup."""
_MOST_RESIDENT, _MOST_RESIDENT_BYTES = 264, 384 << 20
"""Blocks that may wait for each other at a time: two for each multiprocessor of the largest GPU; and their memory."""
_DRAWING = 3
"""Blocks or clusters that share out the work that threads draw by a counter: no power of 2, so that one of them does
not always get what ends in the same bits."""
MOST_STRAYS = 1 << 16
"""Accesses of warps that may be out of bounds or misaligned; one more ends a launch. Each takes as long as dozens of
others, so that a loop which walks out of its arrays and never ends would take minutes to use up its budget."""
_MOST_RESTING = 4 << 20
"""Bytes of a worker that is kept for a later launch."""


@dataclass(frozen=True)
class LaunchSetup:
    """What all workers of a launch share: what its code finds in memory, budgets and limits."""

    binding: Binding
    memory: Memory
    manner: Manner
    shared_bytes: int
    """static and dynamic shared memory"""
    block_budget: int
    launch_budget: int
    together: int = 1
    """blocks that may wait for each other, and run on one host thread"""
    workspace: Allocation | None = None
    """of a cooperative launch whose blocks meet"""

    @property
    def code(self) -> Code:
        return self.binding.code

    @property
    def terms(self) -> Terms:
        return self.binding.terms


class HostWorker:
    """One host thread's share of a launch."""

    def __init__(self, setup: LaunchSetup, shadows: dict[int, np.ndarray]) -> None:
        self.setup = setup
        self.follower: Follower | None = None
        terms, unit = setup.terms, setup.code.translation.unit
        sites = setup.code.translation.most_sites
        self.places = self._places()
        self._lay_out(sites)
        self.hazards = (L.HazardRecord * L.HAZARD_CAPACITY)()
        self.seen = np.zeros(sites * L.HAZARD_KINDS, np.uint8)
        self._marks = self._never_changing()
        self._mark_contexts()
        self._listed: list[tuple[int, int]] | None = None
        self._shadowed: list[Any] = []
        s = self.struct
        s.nctaid[:] = terms.grid
        s.shared, s.shadow = self.shared.ctypes.data, self.shadow.ctypes.data
        s.shared_bytes, s.dynamic_bytes = setup.shared_bytes, terms.shared_bytes
        s.shared_stride, s.shadow_stride = self.shared_stride, self.shadow_stride
        s.cluster_size[:] = terms.cluster
        s.other_site = L.NO_SITE
        s.workspace = setup.workspace.address if setup.workspace is not None else 0
        s.counters = self.counters.ctypes.data
        s.sites, s.hazards = ctypes.addressof(self.sites), ctypes.addressof(self.hazards)
        s.hazard_seen = self.seen.ctypes.data
        self.order = np.arange(terms.warps, dtype=np.uint32)
        s.order = self.order.ctypes.data
        self.error: BaseException | None = None
        self._masked_room: tuple[np.ndarray, int] | None = None
        self._make_queues()
        self._take_up(shadows)
        if unit.textures:
            self.textures = records(setup.memory)
            s.textures, s.texture_count = ctypes.addressof(self.textures), len(self.textures)
        s.print_limit = setup.manner.print_limit
        self.printer = self._printer()
        if unit.followed:
            self._follow()
        self.heap = self._heap_view(shadows)
        self._kind = _kind(setup)
        self.stalls = self._stalls()
        self._addresses = ctypes.addressof(s), self.contexts.ctypes.data
        self._small_at = self._small.ctypes.data
        _at_work[self._addresses[0]] = self
        self._new = self._small.tobytes() if self._may_return else b""

    def _lay_out(self, sites: int) -> None:
        """Memory of what a launch changes: all that is small in one piece, whose beginnings are kept, and all that is
        large and begins as zeros in another."""
        terms, unit, places = self.setup.terms, self.setup.code.translation.unit, self.places
        turns = places if unit.in_turns else 0
        clusters = turns // math.prod(terms.cluster)
        kinds: list[Any] = [L.WorkerState, L.Site * sites, L.Resident * turns, L.ClusterPart * clusters]
        lengths = [8 * max(1, unit.plan.size), *map(ctypes.sizeof, kinds)]
        self._small, (counters, *parts) = _side_by_side(lengths, _APART)
        self.counters = counters.view(np.uint64)
        self.struct, self.sites, self.residents, self.clusters = (
            kind.from_buffer(part.data) for kind, part in zip(kinds, parts, strict=True)
        )
        cell = L.EXACT_CELL_BYTES if unit.options.exact else 4 * unit.options.check
        self.context_bytes = _whole_pages(unit.context.size * terms.warps)
        self.shared_stride = _whole_pages(self.setup.shared_bytes + 64)
        self.shadow_stride = _whole_pages(((self.setup.shared_bytes >> unit.shared_granule_log2) + 16) * cell)
        self.pending_bytes = L.QUEUE_BYTES * terms.warps if unit.copies_async else 64
        each = self.context_bytes, self.shared_stride, self.shadow_stride, self.pending_bytes
        contexts, shared, shadow, pending = (n * places for n in each)
        # code that picks words out of whole vectors may begin before the first, and read behind the last
        self._large, parts = _side_by_side((contexts, _PAGE + shared, shadow, pending), _PAGE)
        self.contexts, shared_and_before, self.shadow, self.pending = parts
        self.shared = shared_and_before[_PAGE:]

    @property
    def _may_return(self) -> bool:
        """Whether nothing of a launch stays in this worker but what `again` puts right."""
        unit, setup = self.setup.code.translation.unit, self.setup
        apart = unit.followed or unit.textures or unit.options.exact or setup.manner.order is not None
        return not apart and setup.memory.heap is None and setup.workspace is None

    def again(self, setup: LaunchSetup, shadows: dict[int, np.ndarray]) -> bool:
        """Makes it as it was when it was new, for a launch that is alike; False where that cannot be.

        A kernel that is launched ten thousand times would spend most of its time on making workers.
        """
        s = self.struct
        if s.hazard_count or s.fault or self.error is not None or _kind(setup) != self._kind:
            return False
        self.setup = setup
        if not self._may_return:
            return False
        ctypes.memmove(self._small_at, self._new, len(self._new))
        self._large.fill(0)
        self._mark_contexts()
        if len(self.wide_headers):
            self.wide_headers.fill(0)
        self.printed.clear()
        if self.stalls is not None:
            self.stalls.begin()
        self._take_up(shadows)
        return True

    def _take_up(self, shadows: dict[int, np.ndarray]) -> None:
        """What differs among launches that are alike: where parameters and arrays lie, and what may be spent."""
        s, setup = self.struct, self.setup
        self._list_arrays(shadows)
        self.shadows = shadows
        s.params = setup.binding.params_at
        s.allocations, s.allocation_count = ctypes.addressof(self.allocations), len(setup.binding.stretches)
        s.constants, s.constant_count = ctypes.addressof(self.constants), len(setup.binding.constants)
        s.block_budget, s.launch_budget, s.strays = setup.block_budget, setup.launch_budget, MOST_STRAYS
        self._ready_masked()

    def rest(self) -> bool:
        """Lets go what belongs to the launch that is over; whether another one may have this worker."""
        self.shadows = {}
        if self.follower is not None:
            self.follower.log.close()
        del self.setup
        return bool(self._new) and self.contexts.nbytes + self.shared.nbytes + self.shadow.nbytes <= _MOST_RESTING

    def _ready_masked(self) -> None:
        """What is to be called when lanes part."""
        self.masked_counters: np.ndarray | None = None
        if self.setup.code.masked_plan is not None:
            self._enter_masked()
        else:
            self.struct.masked = _FIRST_MASKED_AT

    def _printer(self) -> Printer | None:
        """What blocks call to print, where they do."""
        unit = self.setup.code.translation.unit
        if not unit.prints:
            return None

        def wrong(kind: int, site: int, warp: int, lane: int, address: int) -> None:
            s = self.struct
            record = L.HazardRecord(kind, site, s.block, warp, lane, address, s.heap_moment, L.NO_SITE)
            if unit.options.check:
                note(s, self.hazards, self.seen, record)

        return Printer(self.struct, unit, self.setup.memory, wrong, self._fail)

    def _stalls(self) -> Stalls | None:
        """What sees whether threads wait for ever, where some look at memory in a loop."""
        unit = self.setup.code.translation.unit
        if not unit.spins:
            return None
        memory = self.setup.memory
        places = Places(
            self._rows(np.uint32), self.shared, self.shared_stride, self.pending, self.pending_bytes,
            partial(_written, self), lambda: memory.others_write,
        )  # fmt: skip
        return Stalls(self.struct, unit, self.residents, places, self._fail)

    def _fail(self, error: BaseException) -> None:
        """Ends the launch with an exception that must not escape into machine code."""
        self.error = error
        self.struct.fault = L.FAULT_STOPPED

    def _heap_view(self, shadows: dict[int, np.ndarray]) -> HeapView | None:
        """What blocks see of the device heap, where there is one."""
        memory, unit = self.setup.memory, self.setup.code.translation.unit
        if memory.heap is None:
            return None

        def wrong(site: int, warp: int, lane: int, address: int) -> None:
            moment, s = self.struct.heap_moment, self.struct
            record = L.HazardRecord(L.OUT_OF_BOUNDS, site, s.block, warp, lane, address, moment, L.NO_SITE)
            if unit.options.check:
                note(s, self.hazards, self.seen, record)

        return HeapView(memory.heap, self.struct, unit, self.sites, shadows.get(memory.heap.address), wrong)

    def _list_arrays(self, shadows: dict[int, np.ndarray]) -> None:
        """What lies in global and in constant memory, as generated code looks it up."""
        stretches = self.setup.binding.stretches
        if stretches is not self._listed:
            self._list_anew(stretches)
        for entry in self._shadowed:
            entry.shadow = 0
        self._shadowed = [self._entries[address] for address in shadows if address in self._entries]
        for entry in self._shadowed:
            entry.shadow = shadows[entry.low].ctypes.data

    def _list_anew(self, stretches: list[tuple[int, int]]) -> None:
        """The tables for memory that is not that of the last launch, without shadows."""
        self.allocations = (L.Site * max(1, len(stretches)))()
        constant = self.setup.binding.constants
        self.constants = (L.Site * max(1, len(constant)))()
        self._listed, self._shadowed = stretches, []
        self._entries = {low: entry for entry, (low, _) in zip(self.allocations, stretches, strict=False)}
        for entry, (low, high) in zip(self.allocations, stretches, strict=False):
            entry.low, entry.high = low, high
        for entry, a in zip(self.constants, constant, strict=False):  # no race: nobody writes there
            entry.low, entry.high = a.address, a.end

    def _make_queues(self) -> None:
        """What blocks need that copy in the background, multiply in warpgroups, or run in turns."""
        terms, unit, s = self.setup.terms, self.setup.code.translation.unit, self.struct
        s.pending = self.pending.ctypes.data
        groups = -(-terms.warps // WARPGROUP)
        entries = groups * unit.wide_entries
        self.wide = _aligned(entries * L.WIDE_BYTES)
        self.wide_headers = self.wide.reshape(entries, L.WIDE_BYTES)[:, : L.WIDE_HEADER]
        s.wide = self.wide.ctypes.data
        if unit.in_turns:
            self._make_residents()

    def _places(self) -> int:
        """How many blocks may be resident at a time: whole clusters, as many as memory allows."""
        terms, unit = self.setup.terms, self.setup.code.translation.unit
        if not unit.in_turns:
            return 1
        cluster = math.prod(terms.cluster)
        each = unit.context.size * terms.warps + 2 * self.setup.shared_bytes + 3 * _PAGE
        most = terms.blocks if terms.cooperative else min(self.setup.together, _MOST_RESIDENT)
        if unit.drawing and not unit.spins and not terms.cooperative:  # nobody waits for another block
            most = min(most, _DRAWING * cluster)
        if terms.cooperative and each * most > _MOST_RESIDENT_BYTES:
            raise MemoryLimitExceeded(
                f"{terms.blocks:,} blocks that wait for each other take {each * most >> 20:,} MB on the simulator",
                next_step="Launch as many blocks as a GPU holds at a time, and give each of them more work.",
            )
        return max(1, min(most, _MOST_RESIDENT_BYTES // each) // cluster) * cluster

    def _make_residents(self) -> None:
        """Places for blocks, each with its part of everything; the shared memory of a cluster lies together."""
        cluster = math.prod(self.setup.terms.cluster)
        for k, resident in enumerate(self.residents):
            part, group = resident.part, k // cluster
            part.resident = k
            part.contexts = self.contexts.ctypes.data + k * self.context_bytes
            part.shared = self.shared.ctypes.data + k * self.shared_stride
            part.shadow = self.shadow.ctypes.data + k * self.shadow_stride
            part.pending = self.pending.ctypes.data + k * self.pending_bytes
            part.cluster = ctypes.addressof(self.clusters[group])
            self.clusters[group].shared = self.shared.ctypes.data + group * cluster * self.shared_stride
        s = self.struct
        s.residents, s.resident_count = ctypes.addressof(self.residents), self.places
        at_once = _DRAWING * cluster if self.setup.code.translation.unit.drawing else 1
        s.wanted = self.places if self.setup.terms.cooperative else min(self.places, at_once)

    def _never_changing(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What never changes in warps' contexts, each with its place: a warp's index, and the lanes that exist."""
        words, warps = self._rows(np.uint32), self.setup.terms.warps
        live = np.full(warps, 0xFFFFFFFF, np.uint32)
        live[-1] = (1 << (self.setup.terms.threads - (warps - 1) * WARP)) - 1
        index = words[:, :, L.ContextLayout.WARP_INDEX // 4]
        return [(index, np.arange(warps, dtype=np.uint32)), (words[:, :, L.ContextLayout.LIVE // 4], live)]

    def _mark_contexts(self) -> None:
        for place, value in self._marks:
            place[:] = value

    def _rows(self, kind: Any) -> np.ndarray:
        """The contexts as [place, warp, byte or word]."""
        size, warps = self.setup.code.translation.unit.context.size, self.setup.terms.warps
        places = self.contexts[: self.places * self.context_bytes].reshape(self.places, -1)
        return places[:, : size * warps].reshape(self.places, warps, size).view(kind)

    def _follow(self) -> None:
        """Hears what the asynchronous engines of its blocks do."""
        terms, unit = self.setup.terms, self.setup.code.translation.unit
        self.follower = Follower(
            self.struct, unit, self.hazards, self.seen, terms.warps, math.prod(terms.cluster),
            self.setup.code.clean_clusters,
        )  # fmt: skip
        self.follower.handoffs = [] if self.setup.manner.handoffs else None
        self.async_listener = LISTENER(self.follower.event)
        self.struct.follows, self.struct.shared_granule = 1, unit.shared_granule_log2
        self.struct.on_async = ctypes.cast(self.async_listener, ctypes.c_void_p).value

    def listen(self, *, partial: bool, most_steps: int) -> None:
        """Follows what happens before what, for the exact race shadow; no block starts after so many steps."""
        self.struct.exact = 1
        self.struct.time = 1
        self.struct.landed = exact_function("ws_exact_landed")
        signals = Signals()
        rows = self._rows(np.uint32)
        self.orders = [HappensBefore(self.struct, row, signals, partial=partial) for row in rows]

        def hear(kind: int, warp: int, mask: int, data: int | None) -> None:
            if kind == L.Event.PAUSE and (self.struct.exact_steps > most_steps or signals.learned > most_steps):
                self.struct.stop = 1
            self.orders[self.struct.resident].event(kind, warp, mask, data)

        self.listener = LISTENER(hear)
        self.struct.on_sync = ctypes.cast(self.listener, ctypes.c_void_p).value
        for order, part in zip(self.orders, [r.part for r in self.residents] or [self.struct.part], strict=True):
            part.lane_syncs, part.known = order.lane_syncs.ctypes.data, order.table.ctypes.data
            part.acquired = order.acquired_table.ctypes.data

    def reorder(self, first: int) -> None:
        """Deals out the turns of the warps anew for the blocks from `first` on, where the launch has a seeded order."""
        if self.setup.manner.order is not None:
            turns = [*range(len(self.order))]
            Random(self.setup.manner.order << 32 | first).shuffle(turns)
            self.order[:] = turns

    def run(self, first: int, last: int) -> None:
        """Runs blocks first..last-1; releases the GIL."""
        self.setup.code.run(*self._addresses, first, last)

    def _enter_masked(self) -> None:
        """Counters for `masked`, and its address in place of the call that compiles it."""
        code, s = self.setup.code, self.struct
        assert code.masked_plan is not None
        if self._masked_room is None:
            room = _aligned(8 * max(1, code.masked_plan.size), _APART).view(np.uint64)
            self._masked_room = room, room.ctypes.data
        else:
            self._masked_room[0].fill(0)
        self.masked_counters, s.masked_counters = self._masked_room
        s.masked = code.masked_address
        if code.runs is not None:
            s.functions, s.runs, s.whole = code.runs_at

    def _first_masked(self, context: int) -> int:
        """Where lanes part for the first time: compiles `masked`, then runs it."""
        try:
            self.setup.code.compile_masked()
            self._enter_masked()
        except BaseException as error:  # must not escape into machine code: the launch raises it afterwards
            self._fail(error)
            return L.FAULTED << 16
        return MASKED(self.setup.code.masked_address)(context, self._addresses[0])

    @property
    def strayed(self) -> bool:
        """Whether it has ended because of `MOST_STRAYS`."""
        return int(self.struct.strays) < 0

    @property
    def steps(self) -> int:
        """Loop iterations that this worker's blocks have taken."""
        s = self.struct
        return int(self.setup.launch_budget - s.launch_budget + s.started - s.budget)

    def stop(self) -> None:
        """Makes the running range end soon."""
        self.struct.stop = 1
        self.struct.budget = 0

    @property
    def printed(self) -> list[Print]:
        """What its blocks have printed."""
        return self.printer.printed if self.printer is not None else []


_at_work: WeakValueDictionary[int, HostWorker] = WeakValueDictionary()
"""Workers by the address of their state, which is all that generated code knows of them."""


@MASKED
def _first_masked(context: int, worker: int) -> int:
    """What the driver calls when lanes part for the first time."""
    return _at_work[worker]._first_masked(context)


_FIRST_MASKED_AT = ctypes.cast(_first_masked, ctypes.c_void_p).value


def _written(worker: HostWorker) -> list[np.ndarray]:
    """All memory of the launch at hand that its blocks may write."""
    setup = worker.setup
    found = {a.address: a for a in setup.binding.written}
    found |= {a.address: a for a in (setup.workspace, setup.memory.heap_memory) if a is not None}
    own = [setup.binding.params] if setup.code.translation.unit.own_parameters else []
    return [*(a.view() for a in found.values()), *own]


def _kind(setup: LaunchSetup) -> tuple[object, ...]:
    """What launches have in common that one worker can do one after the other."""
    terms = setup.terms
    return (
        setup.code, terms.grid, terms.block, terms.cluster, terms.shared_bytes, terms.cooperative, setup.shared_bytes,
        setup.together, setup.manner.print_limit,
    )  # fmt: skip


def _aligned(nbytes: int, alignment: int = 4096) -> np.ndarray:
    """`nbytes` zero bytes at a multiple of `alignment`, and nothing else as close behind them.

    Most start a page: generated code pins its stack to a page too. Where spills, contexts and shared memory lie by
    chance, accesses 4 KB apart are mistaken for each other by the host's load-store unit and cost up to 40 %.
    """
    raw = np.zeros(nbytes + 2 * alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


def _side_by_side(lengths: Sequence[int], alignment: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Zero bytes, and parts of them with these lengths, each at a multiple of `alignment`."""
    ends = [*accumulate(-(-n // alignment) * alignment for n in lengths)]
    whole = _aligned(ends[-1], alignment)
    return whole, [whole[start : start + n] for start, n in zip((0, *ends), lengths, strict=False)]


def _whole_pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE
