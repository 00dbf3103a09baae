"""The race shadow: what is remembered of each granule of memory, and when two accesses conflict.

A granule (1, 2 or 4 bytes: the kernel's smallest access) has one word, its *state*, which names its last access:

    time | kind | several warps? | several lanes? | warp | lane          (`layout` has the places of the bits)

Time advances at every barrier, of the block or of a warp; the *epoch* is the time of the block's last barrier. So an
access with an earlier time than the epoch is ordered before everything that comes now, whoever made it, and an access
with an earlier time than the warp's last __syncwarp (SYNC_TIME) is so for that warp. Two accesses conflict when neither
orders them and they are not both reads or both atomics. One word is enough: a write is followed by reads of its own
thread alone, or by a conflict; READ_AFTER_WRITE remembers both for a warp that wrote, met, and read; and of several
readers it only matters that they are several.

Shared memory starts as UNTOUCHED in each block, so that a read of it is a hazard of its own; an asynchronous copy makes
its target IN_FLIGHT until it lands. Both stand above every time, so that no quick look takes them for long ago. A
granule of global memory has a second word above the first, the block's index + 1 (0: nobody in this launch,
SEVERAL_BLOCKS: readers of several blocks, or atomics of several): blocks are never ordered, so between two of them only
the kinds matter, those of all accesses that a block has made. The last one tells its own; what it hides of those before
stands in two flags (WROTE_BEFORE under a read, PLAIN_BEFORE under an atomic).

An access is judged in up to three phases:

1. A *look* at many granules at once, in the kernel's own code or in a fragment's function. It lets pass what most
   accesses are: granules last touched before the epoch, or read by others only. It leaves their marks behind; a mark
   is right even where another granule of the same access does not pass: the exact rules leave the same one.
2. Where the look does not pass, `ShadowRules`: for all lanes at a time where none of them is in conflict, else granule
   by granule and lane by lane, so that the lowest is named. They know barriers of the whole
   block and of a whole warp alone. Where something else orders accesses (a named barrier, a fence and a flag, a barrier
   of some lanes) they take for a race what is none.
3. So a launch that met a race runs again with the *exact* shadow (`ExactStep`), block after block on one thread. There
   each granule has a cell that remembers its last write, two reads and two atomics with the source place of each.
   `time` then names the stretch of one warp's execution in which an access fell, and `known` lists, for each warp, the
   stretches that it is ordered behind (see `run.ordering`), so that everything that orders counts for what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, I32, I64, KIND, SITE, WORKER, Builder, Helper, IRValue, constants, i32, i64

SEVERAL_READERS = L.READ << L.KIND_SHIFT | L.MANY_WARPS | L.MANY_LANES
"""With the epoch as its time: the state of a granule that several warps have read."""
_KIND, _WARP, _LANE = 3 << L.KIND_SHIFT, 31 << L.WARP_SHIFT, 31
_SOMEBODY = L.MANY_WARPS | L.KIND_MASK_BELOW
"""In a state: who accessed the granule."""
ALIKE, OTHER_WARP = _KIND | L.MANY_LANES | _LANE, L.MANY_WARPS | _WARP
"""Bits of the states that two warps leave which do the same: those that are equal; one of those that are not."""


# ---------------------------------------------------------------- quick looks


def clock(b: Builder, warp_index: Callable[[], IRValue]) -> tuple[IRValue, IRValue]:
    """(the epoch, the time now and the warp), each where a state has it."""
    epoch, time = (b.shl(b.load(I32, b.offset(WORKER, L.field(name))), L.TIME_SHIFT) for name in ("epoch", "time"))
    return epoch, b.or_(time, b.shl(warp_index(), L.WARP_SHIFT))


def may_write(b: Builder, state: IRValue, epoch: IRValue) -> IRValue:
    """Whether nobody has touched a granule since the epoch, or ever: UNTOUCHED + 1 wraps to 0."""
    return b.icmp("ule", b.add_const(state, 1), epoch)


def may_read(b: Builder, state: IRValue, mine: IRValue, epoch: IRValue) -> tuple[IRValue, IRValue, IRValue]:
    """What lets a read pass: (last touched before the epoch or by this reader, read elsewhere: both parts of that).

    The first leaves `mine` behind. The second and third together leave SEVERAL_READERS: what others have read, in
    another warp, or in several.
    """
    change = b.xor(state, mine)
    alone = b.or_(b.icmp("ult", state, epoch), b.icmp("eq", change, b.like(change, 0)))
    elsewhere = b.icmp("ne", b.and_const(change, L.MANY_WARPS | _WARP), b.like(change, 0))
    was_read = b.icmp("eq", b.and_const(change, _KIND), b.like(change, 0))
    return alone, was_read, elsewhere


class _Look:
    """What the looks at whole lines of a fragment share: the mark of this access, and the verdict over all lines."""

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int) -> None:
        self.b, self.granule, self.count, self.kind = b, granule, line_bytes >> granule, kind
        self.epoch, me = clock(b, b.warp)
        self.mark = b.or_(me, i32(kind << L.KIND_SHIFT))
        self.verdict: IRValue | None = None

    def _and(self, fine: IRValue) -> None:
        self.verdict = fine if self.verdict is None else self.b.and_(self.verdict, fine)

    def passed(self) -> IRValue:
        assert self.verdict is not None
        return self.b.all_true(self.verdict)


class SharedLook(_Look):
    """Lines of shared memory.

    A read passes if each granule was last touched before the block's barrier, or read since by the same lane or by
    other warps; a write if each was last touched before the barrier, or never.
    """

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int) -> None:
        super().__init__(b, granule, line_bytes, kind)
        self.shadow = b.worker("shadow", "ptr")
        self.before, self.me = b.splat(self.epoch, self.count), b.splat(self.mark, self.count)
        self.several = b.or_(self.before, b.like(self.before, SEVERAL_READERS))

    def line(self, offset: IRValue, users: Sequence[int]) -> None:
        """Looks at the line at `offset` (i64); `users` are the lanes that access its granules."""
        b = self.b
        at = b.offset(self.shadow, b.shl(b.lshr(offset, self.granule), 2))
        state = b.load(I32, at, self.count)
        new = mine = b.or_(self.me, constants(I32, users))
        if self.kind == L.WRITE:
            fine = may_write(b, state, self.before)
        else:
            alone, was_read, elsewhere = may_read(b, state, mine, self.before)
            fine = b.or_(alone, b.and_(was_read, elsewhere))
            new = b.select(alone, mine, self.several)
        b.store_where(fine, new, at, state)
        self._and(fine)


class ArrayLook(_Look):
    """Lines of an array in global memory that begins at `low` and has its shadow at `shadow`.

    An access passes if nobody has touched the granules in this launch, or only this block: before its last barrier, or
    the same lane since, which may write what it read or read what it read.
    """

    def __init__(self, b: Helper, granule: int, line_bytes: int, kind: int, low: IRValue, shadow: IRValue) -> None:
        super().__init__(b, granule, line_bytes, kind)
        self.low, self.shadow = low, b.pointer(shadow)
        me = b.shl(b.resize(b.add_const(b.resize(b.worker("block", I64), I32), 1), I64), 32)
        self.mine = b.splat(b.or_(me, b.resize(self.mark, I64)), self.count)
        self.first = b.splat(me, self.count)
        self.since = b.sub(b.splat(b.or_(me, b.resize(self.epoch, I64)), self.count), self.first)

    def line(self, address: IRValue, users: Sequence[int]) -> None:
        """Looks at the line at `address`; `users` are the lanes that access its granules."""
        b = self.b
        at = b.offset(self.shadow, b.shl(b.lshr(b.sub(address, self.low), self.granule), 3))
        state = b.load(I64, at, self.count)
        mine = b.or_(self.mine, constants(I64, users))
        untouched = b.icmp("eq", state, b.like(state, 0))
        earlier = b.icmp("ult", b.sub(state, self.first), self.since)  # by this block, before its barrier
        if self.kind == L.READ:  # a read must not hide what the block wrote
            was_read = b.like(state, L.READ << L.KIND_SHIFT)
            earlier = b.and_(earlier, b.icmp("eq", b.and_(state, b.like(state, _KIND)), was_read))
        unlike = -1 << 32 | _SOMEBODY | (_KIND if self.kind == L.READ else 0)
        same = b.icmp("eq", b.and_(b.xor(state, mine), b.like(state, unlike)), b.like(state, 0))
        fine = b.or_(b.or_(untouched, earlier), same)
        b.store_where(fine, mine, at, state)
        self._and(fine)


# ---------------------------------------------------------------- the rules


class ShadowRules:
    """The rules for one granule and one access of kind KIND, while the kernel runs: for one lane, or where `lane` is a
    vector for as many granules as it has lanes, which then have to be different ones or to be joined afterwards."""

    def __init__(self, b: Helper, warp: IRValue, lane: IRValue) -> None:
        self.b, self.lane = b, lane
        synced = b.load(I32, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))
        self.time, self.epoch = self._wide(b.worker("time", I32)), self._wide(b.worker("epoch", I32))
        self.warp, self.kind, self.synced = self._wide(warp), self._wide(KIND), self._wide(synced)

    def _wide(self, value: IRValue) -> IRValue:
        return self.b.splat(value, self.lane.lanes) if self.lane.lanes else value

    def _const(self, value: int) -> IRValue:
        return self.b.like(self.lane, value)

    def _bits(self, state: IRValue, shift: int, mask: int) -> IRValue:
        return self.b.and_const(self.b.lshr(state, shift), mask)

    def _is(self, kind: IRValue, wanted: int) -> IRValue:
        return self.b.icmp("eq", kind, self._const(wanted))

    def mark(self) -> IRValue:
        """What an access of kind KIND leaves behind where nothing is to be remembered of the one before."""
        return self._state(self.kind, self.lane, 0)

    def _state(self, kind: IRValue, lane: IRValue, flags: int) -> IRValue:
        b, who = self.b, self.b.or_(self.b.shl(self.warp, L.WARP_SHIFT), lane)
        made = b.or_(b.or_(b.shl(self.time, L.TIME_SHIFT), b.shl(kind, L.KIND_SHIFT)), who)
        return b.or_(made, self._const(flags)) if flags else made

    def step(self, state: IRValue) -> tuple[IRValue, IRValue]:
        """(conflict, new state) for this access of kind KIND to a granule in `state` (i32)."""
        b, zero = self.b, self._const(0)
        then, kind = b.lshr(state, L.TIME_SHIFT), self._bits(state, L.KIND_SHIFT, 3)
        recent = b.icmp("uge", then, self.epoch)
        same_warp = b.and_(
            b.icmp("eq", b.and_const(state, L.MANY_WARPS), zero),
            b.icmp("eq", self._bits(state, L.WARP_SHIFT, 31), self.warp),
        )
        same_lane = b.and_(
            b.icmp("eq", b.and_const(state, L.MANY_LANES), zero), b.icmp("eq", b.and_const(state, _LANE), self.lane)
        )
        same_thread = b.and_(same_warp, same_lane)
        unsynced = b.icmp("uge", then, self.synced)
        concurrent = b.and_(recent, b.or_(b.not_(same_warp), b.and_(unsynced, b.not_(same_lane))))
        was_read, was_write, was_atomic = (self._is(kind, past) for past in (L.READ, L.WRITE, L.ATOMIC))
        was_both = self._is(kind, L.READ_AFTER_WRITE)
        reads_within_warp = b.or_(was_read, b.and_(was_both, same_warp))
        is_read, is_write, is_atomic = (self._is(self.kind, now) for now in (L.READ, L.WRITE, L.ATOMIC))
        harmless = b.or_(b.and_(is_read, reads_within_warp), b.and_(is_atomic, was_atomic))
        conflict = b.and_(concurrent, b.not_(harmless))
        # another reader (or atomic) joins; the looks rely on these very forms
        other_lane = b.and_(same_warp, b.and_(unsynced, b.not_(same_lane)))
        joined_kind = b.select(was_both, self._const(L.READ_AFTER_WRITE), self.kind)
        in_warp = b.select(
            other_lane, self._state(joined_kind, zero, L.MANY_LANES), self._state(joined_kind, self.lane, 0)
        )
        across = b.or_(
            b.shl(self.epoch, L.TIME_SHIFT),
            b.or_(b.shl(self.kind, L.KIND_SHIFT), self._const(L.MANY_WARPS | L.MANY_LANES)),
        )
        joined = b.select(same_warp, in_warp, across)
        same_kind = b.and_(recent, b.or_(b.icmp("eq", kind, self.kind), b.and_(is_read, b.and_(was_both, same_warp))))
        after_own_write = b.and_(b.and_(recent, is_read), b.and_(same_warp, b.not_(was_read)))
        dominated = b.or_(b.and_(is_read, b.or_(was_write, was_atomic)), b.and_(is_atomic, was_write))
        keeps = b.and_(same_thread, b.and_(recent, dominated))
        new = b.select(after_own_write, self._state(self._const(L.READ_AFTER_WRITE), self.lane, 0), self.mark())
        new = b.select(b.and_(same_kind, b.not_(is_write)), joined, new)
        return conflict, b.select(keeps, state, new)


# ---------------------------------------------------------------- the exact shadow


WRITTEN, FIRST_READ, SECOND_READ, FIRST_UPDATE, SECOND_UPDATE = range(0, 80, 16)
"""a cell's entries, 16 bytes each; a plain write clears the others, an atomic hides nothing of what came before it"""
WHO = 4
_TIME, _BLOCK, _SITE = 0, 8, 12
_VALUE = 80
"""where a cell has what its last write stored (i64; -1: not known)"""
STRONG, ATOMIC, FLYING, DATA, VOLATILE, NARROW = (1 << bit for bit in range(11, 17))
"""flags of an entry beside warp, lane and MANY_LANES: volatile or relaxed; atomic; a copy on its way; read as data;
volatile shared memory; strong within its block alone"""
_FLAGS = ((L.STRONG_ACCESS, STRONG), (L.DATA_ACCESS, DATA), (L.VOLATILE_ACCESS, VOLATILE), (L.NARROW_ACCESS, NARROW))


class ExactStep:
    """One lane's access to one cell."""

    def __init__(self, b: Helper, cell: IRValue, lane: IRValue, value: IRValue, race: IRValue) -> None:
        self.b, self.cell, self.value, self.race = b, cell, value, race
        self.time, self.block = b.worker("time", I32), b.resize(b.worker("block", I64), I32)
        self.warp = b.warp()
        self.me = b.or_(b.shl(self.warp, L.WARP_SHIFT), lane)
        self.synced = b.load(I32, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))
        kind = b.and_const(KIND, 3)
        self.is_read = b.icmp("eq", kind, i32(L.READ))
        self.is_atomic = b.icmp("eq", kind, i32(L.ATOMIC))
        self.is_strong = b.or_(self.is_atomic, b.icmp("ne", b.and_const(KIND, L.STRONG_ACCESS), i32(0)))
        self.is_plain_write = b.icmp("eq", KIND, i32(L.WRITE))
        flags = b.or_(b.select(self.is_strong, i32(STRONG), i32(0)), b.select(self.is_atomic, i32(ATOMIC), i32(0)))
        for of_kind, of_entry in _FLAGS:
            flags = b.or_(flags, b.select(self._has(KIND, of_kind), i32(of_entry), i32(0)))
        self.mine = b.or_(self.me, flags)

    def _has(self, flags: IRValue, flag: int) -> IRValue:
        return self.b.icmp("ne", self.b.and_const(flags, flag), i32(0))

    def entry(self, at: int) -> tuple[IRValue, IRValue, IRValue]:
        """(time, who, block) of an entry; time 0: empty"""
        b = self.b
        fields = [b.load(I32, b.offset(self.cell, at + k)) for k in (_TIME, WHO, _BLOCK)]
        return fields[0], fields[1], fields[2]

    def ordered(self, then: IRValue, who: IRValue, block: IRValue) -> tuple[IRValue, IRValue]:
        """(whether an entry happened before this access, whether it is of this warp)"""
        b = self.b
        change = b.xor(who, self.me)
        same_warp = b.and_(b.icmp("eq", block, self.block), b.icmp("eq", b.and_const(change, _WARP), i32(0)))
        same_lane = b.icmp("eq", b.and_const(change, _LANE | L.MANY_LANES), i32(0))
        own_lane, other_lane = b.and_const(self.me, _LANE), b.and_const(who, _LANE)
        pair = b.or_(b.shl(own_lane, 5), other_lane)
        rows = b.offset(b.worker("lane_syncs", "ptr"), b.shl(b.resize(self.warp, I64), 12))
        met = b.load(I32, b.let("ptr", 0, f"getelementptr i32, {rows}, {pair}"))
        synced = b.or_(b.icmp("ult", then, self.synced), b.icmp("ult", then, met))
        in_warp = b.and_(same_warp, b.or_(same_lane, synced))
        seen = b.call("ws_known", "i1", WORKER, self.warp, then)
        return b.or_(in_warp, b.and_(b.not_(same_warp), seen)), same_warp

    def conflicts(self, at: int, past: int) -> None:
        """Reports a conflict with an entry. `past`: kind of the entry's access, unless it says itself."""
        b = self.b
        then, who, block = self.entry(at)
        with b.if_(b.icmp("ne", then, i32(0))):
            before, same_warp = self.ordered(then, who, block)
            was_atomic, flying = self._has(who, ATOMIC), self._has(who, FLYING)
            narrow = b.or_(self._has(KIND, L.NARROW_ACCESS), self._has(who, NARROW))
            wide = b.or_(b.not_(narrow), b.icmp("eq", block, self.block))
            strong = b.and_(wide, b.and_(self.is_strong, self._has(who, STRONG)))
            data = b.or_(b.and_(self.is_read, self._has(KIND, L.DATA_ACCESS)), self._has(who, DATA))
            unread = b.and_(before, self._not_acquired(then, who, same_warp)) if past == L.WRITE else None
            fine = b.and_(before, b.not_(unread)) if unread else before
            signals = b.or_(strong, b.and_(b.and_(wide, b.not_(same_warp)), self._both_signal(who)))
            harmless = b.or_(fine, b.and_(signals, b.not_(data)))
            with b.if_(b.or_(flying, b.not_(harmless)), likely=False):
                both_volatile = b.and_(self._has(KIND, L.VOLATILE_ACCESS), self._has(who, VOLATILE))
                found = b.select(b.or_(strong, unread) if unread else strong, i32(L.UNORDERED), self.race)
                found = b.select(b.and_(same_warp, both_volatile), i32(L.LOCKSTEP), found)
                found = b.select(self._same_value(who, past), i32(L.SAME_VALUE), found)
                b.store(b.select(flying, self.race, found), b.offset(WORKER, L.field("race_kind")))
                kind = b.select(was_atomic, i32(L.ATOMIC), i32(past))
                state = b.or_(b.and_const(who, L.KIND_MASK_BELOW), b.shl(kind, L.KIND_SHIFT))
                state = b.or_(state, b.select(flying, i32(L.FLYING_STATE), i32(0)))
                owner = b.shl(b.add_const(b.resize(block, I64), 1), 32)
                b.store(b.load(I32, b.offset(self.cell, at + _SITE)), b.offset(WORKER, L.field("other_site")))
                lane = b.and_const(self.me, _LANE)
                b.call("ws_race_found", "void", WORKER, CONTEXT, lane, b.or_(owner, b.resize(state, I64)), SITE)
                b.store(i32(-1), b.offset(WORKER, L.field("other_site")))

    def _both_signal(self, who: IRValue) -> IRValue:
        """Whether this access and an entry's are volatile or stronger: what warps tell each other by."""
        mine = self.b.or_(self.is_strong, self._has(KIND, L.VOLATILE_ACCESS))
        return self.b.and_(mine, self._has(who, STRONG | VOLATILE))

    def _not_acquired(self, then: IRValue, who: IRValue, same_warp: IRValue) -> IRValue:
        """Whether this access reads as data what a warp stored plainly of which its own has only heard."""
        b = self.b
        plain = b.icmp("eq", b.and_const(who, STRONG | ATOMIC), i32(0))
        takes = b.or_(b.not_(self.is_strong), self._has(KIND, L.DATA_ACCESS))
        known = b.call("ws_acquired", "i1", WORKER, self.warp, then)
        return b.and_(b.and_(self.is_read, takes), b.and_(plain, b.and_(b.not_(same_warp), b.not_(known))))

    def _same_value(self, who: IRValue, past: int) -> IRValue:
        """Whether this access and an entry's are plain writes of one value."""
        b = self.b
        if past != L.WRITE:
            return IRValue("i1", "false")
        last = b.load(I64, b.offset(self.cell, _VALUE))
        same = b.and_(b.icmp("eq", last, self.value), b.icmp("ne", last, i64(-1)))
        was_plain = b.icmp("eq", b.and_const(who, STRONG | ATOMIC | VOLATILE), i32(0))
        return b.and_(same, b.and_(was_plain, self.is_plain_write))

    def keep_value(self) -> None:
        """Remembers what this write stores."""
        self.b.store(self.value, self.b.offset(self.cell, _VALUE))

    def put(self, at: int, who: IRValue | None = None) -> None:
        b = self.b
        for value, k in ((self.time, _TIME), (who or self.mine, WHO), (self.block, _BLOCK), (SITE, _SITE)):
            b.store(value, b.offset(self.cell, at + k))

    def empty(self, at: int) -> None:
        self.b.store(i32(0), self.b.offset(self.cell, at))

    def remember(self, first: int, second: int) -> None:
        """A read or an atomic: into the entry of the same warp, an empty one, or one that this access comes after; else
        into the second."""
        b = self.b
        done = b.new_label("remembered")
        for at in (first, second):
            then, who, block = self.entry(at)
            before, same_warp = self.ordered(then, who, block)
            takes = b.or_(b.or_(b.icmp("eq", then, i32(0)), same_warp), before)
            if at == second:
                takes = IRValue("i1", "true")
            with b.leaving(takes, "take", "other", None):
                joins = b.and_(b.and_(same_warp, b.not_(before)), b.icmp("ne", then, i32(0)))
                self.put(at, b.or_(self.mine, b.select(joins, i32(L.MANY_LANES), i32(0))))
                b.br(done)
        b.br(done, then=done)
