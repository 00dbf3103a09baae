"""The race shadow's exact rules, and the calls that do everything an access needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value
from ptxsim.codegen.functions import CONTEXT, I32, I64, KIND, MASK, SITE, SIZE, WORKER, Helper, arg, i32, i64


class _Shadow:
    """The rules of the race shadow, for one granule and one access.

    A granule's state names its last access since the block's last barrier: time, kind, warp and lane, with flags for
    "several lanes" and "several warps". Two accesses conflict when they are concurrent (no barrier of the block between
    them; within a warp no __syncwarp) and not both reads or both atomics. One state is enough: a write is followed by
    reads of its own thread alone, or by a conflict; READ_AFTER_WRITE remembers both for a warp that wrote, met, and
    read.
    """

    def __init__(self, b: Helper, warp: Value, lane: Value) -> None:
        self.b, self.warp, self.lane = b, warp, lane
        self.time, self.epoch = b.worker("time", I32), b.worker("epoch", I32)
        self.synced = b.load(I32, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))

    def _bits(self, state: Value, shift: int, mask: int) -> Value:
        return self.b.and_const(self.b.lshr(state, shift), mask)

    def mark(self) -> Value:
        """What an access of kind KIND leaves behind where nothing is to be remembered of the one before."""
        b = self.b
        return b.or_(
            b.or_(b.shl(self.time, L.TIME_SHIFT), b.shl(KIND, L.KIND_SHIFT)),
            b.or_(b.shl(self.warp, L.WARP_SHIFT), self.lane),
        )

    def step(self, state: Value) -> tuple[Value, Value]:
        """(conflict, new state) for this access of kind KIND to a granule in `state` (i32)."""
        b = self.b
        then, kind = b.lshr(state, L.TIME_SHIFT), self._bits(state, L.KIND_SHIFT, 3)
        recent = b.icmp("uge", then, self.epoch)
        same_warp = b.and_(
            b.icmp("eq", b.and_const(state, L.MANY_WARPS), i32(0)),
            b.icmp("eq", self._bits(state, L.WARP_SHIFT, 31), self.warp),
        )
        same_lane = b.and_(
            b.icmp("eq", b.and_const(state, L.MANY_LANES), i32(0)), b.icmp("eq", b.and_const(state, 31), self.lane)
        )
        same_thread = b.and_(same_warp, same_lane)
        unsynced = b.icmp("uge", then, self.synced)
        concurrent = b.and_(recent, b.or_(b.not_(same_warp), b.and_(unsynced, b.not_(same_lane))))
        was_read, was_write = b.icmp("eq", kind, i32(L.READ)), b.icmp("eq", kind, i32(L.WRITE))
        was_both = b.icmp("eq", kind, i32(L.READ_AFTER_WRITE))
        reads_within_warp = b.or_(was_read, b.and_(was_both, same_warp))
        is_read, is_atomic = b.icmp("eq", KIND, i32(L.READ)), b.icmp("eq", KIND, i32(L.ATOMIC))
        harmless = b.or_(b.and_(is_read, reads_within_warp), b.and_(is_atomic, b.icmp("eq", kind, i32(L.ATOMIC))))
        conflict = b.and_(concurrent, b.not_(harmless))

        def compose(kind_: Value, lane_: Value, flags: Value) -> Value:
            who = b.or_(b.shl(self.warp, L.WARP_SHIFT), lane_)
            return b.or_(b.or_(b.shl(self.time, L.TIME_SHIFT), b.shl(kind_, L.KIND_SHIFT)), b.or_(who, flags))

        fresh = self.mark()
        # another reader (or atomic) joins; the inline checks rely on these exact forms
        other_lane = b.and_(same_warp, b.and_(unsynced, b.not_(same_lane)))
        joined_kind = b.select(was_both, i32(L.READ_AFTER_WRITE), KIND)
        in_warp = b.select(
            other_lane, compose(joined_kind, i32(0), i32(L.MANY_LANES)), compose(joined_kind, self.lane, i32(0))
        )
        across = b.or_(
            b.shl(self.epoch, L.TIME_SHIFT), b.or_(b.shl(KIND, L.KIND_SHIFT), i32(L.MANY_WARPS | L.MANY_LANES))
        )
        joined = b.select(same_warp, in_warp, across)
        same_kind = b.and_(recent, b.or_(b.icmp("eq", kind, KIND), b.and_(is_read, b.and_(was_both, same_warp))))
        after_own_write = b.and_(b.and_(recent, is_read), b.and_(same_warp, b.not_(was_read)))
        was_atomic = b.icmp("eq", kind, i32(L.ATOMIC))
        dominated = b.or_(b.and_(is_read, b.or_(was_write, was_atomic)), b.and_(is_atomic, was_write))
        keeps = b.and_(same_thread, b.and_(recent, dominated))
        new = b.select(after_own_write, compose(i32(L.READ_AFTER_WRITE), self.lane, i32(0)), fresh)
        new = b.select(b.and_(same_kind, b.not_(b.icmp("eq", KIND, i32(L.WRITE)))), joined, new)
        new = b.select(keeps, state, new)
        return conflict, new


_SEVERAL = 4
"""Granules of a lane that are looked at together: 16 bytes, as most copies move, in granules of 4."""


@contextmanager
def _unless(b: Helper, applies: Value, quickly: Callable[[], Value]) -> Iterator[None]:
    """Code for what is left where a quick way does not apply or comes to nothing."""
    quick, slow, end = b.new_label("quick"), b.new_label("slow"), b.new_label("judged")
    b.branch(applies, quick, slow)
    b.label(quick)
    b.branch(quickly(), end, slow, likely=True)
    b.label(slow)
    yield
    b.br(end)
    b.label(end)


def _written_anew(b: Helper, rules: _Shadow, slot: Value) -> Value:
    """Whether nobody has touched a lane's granules since the block's barrier, or ever; marks them as written."""
    state = b.load(I32, slot, _SEVERAL)
    before = b.splat(b.shl(rules.epoch, L.TIME_SHIFT), _SEVERAL)
    fine = b.all_true(b.icmp("ule", b.add_const(state, 1), before))  # UNTOUCHED + 1 wraps to 0
    with b.if_(fine):
        b.store(b.splat(rules.mark(), _SEVERAL), slot)
    return fine


def _touched_first(b: Helper, rules: _Shadow, slot: Value, me: Value) -> Value:
    """Whether nobody in the grid has touched a lane's granules; marks them."""
    state = b.load(I64, slot, _SEVERAL)
    fine = b.all_true(b.icmp("eq", state, b.like(state, 0)))
    with b.if_(fine):
        mine = b.or_(b.shl(b.resize(me, I64), 32), b.resize(rules.mark(), I64))
        b.store(b.splat(mine, _SEVERAL), slot)
    return fine


def race_shared(granule_log2: int) -> str:
    """Race and uninitialised-read check of a shared access, lane by lane, on granules of 2^granule_log2 bytes."""
    b = Helper()
    offset = arg(I32, "offset", WARP)
    b.label("entry")
    shadow = b.worker("shadow", "ptr")
    warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
    offsets = b.stack(offset)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        rules = _Shadow(b, warp, lane)
        start = b.offset(shadow, b.shl(b.resize(b.lshr(at, granule_log2), I64), 2))
        several = b.and_(b.icmp("eq", granules, i32(_SEVERAL)), b.icmp("eq", KIND, i32(L.WRITE)))
        with _unless(b, several, lambda: _written_anew(b, rules, start)), b.loop(granules) as k:
            index = b.add(b.lshr(at, granule_log2), k)
            slot = b.offset(shadow, b.shl(b.resize(index, I64), 2))
            state = b.load(I32, slot)
            conflict, new = rules.step(state)
            untouched = b.icmp("eq", state, i32(L.UNTOUCHED))
            reads = b.or_(b.icmp("eq", KIND, i32(L.READ)), b.icmp("eq", KIND, i32(L.ATOMIC)))
            where = b.resize(at, I64)
            with b.if_(b.and_(untouched, reads), likely=False):
                b.hazard(i32(L.UNINITIALIZED), lane, where, i64(0))
            with b.if_(b.and_(conflict, b.not_(untouched)), likely=False):
                b.hazard(i32(L.SHARED_RACE), lane, where, b.resize(state, I64))
            b.store(new, slot)  # a write that comes after an uninitialised read is a race: the read must be on record
    b.ret()
    return b.define(f"ws_race_shared_{granule_log2}", "void", WORKER, CONTEXT, offset, MASK, SIZE, SITE, KIND)


def flight(granule_log2: int) -> str:
    """Marks shared memory that an asynchronous copy is on its way to (`flying` 1), or has reached (0)."""
    b = Helper()
    offset, flying = arg(I32, "offset", WARP), arg(I32, "flying")
    b.label("entry")
    shadow, offsets = b.worker("shadow", "ptr"), b.stack(offset)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        first = b.lshr(b.element(offsets, I32, lane), granule_log2)
        with b.loop(granules) as k:
            slot = b.offset(shadow, b.shl(b.resize(b.add(first, k), I64), 2))
            state = b.load(I32, slot)
            landed = b.select(b.icmp("eq", state, i32(L.IN_FLIGHT)), i32(0), state)
            b.store(b.select(b.icmp("ne", flying, i32(0)), i32(L.IN_FLIGHT), landed), slot)
    b.ret()
    return b.define(f"ws_flight_{granule_log2}", "void", WORKER, offset, MASK, SIZE, flying)


def race_global(granule_log2: int) -> str:
    """Race check of a global access. The state's high half is the block's index + 1; -1 stands for several readers."""
    b = Helper()
    address = arg(I64, "address", WARP)
    b.label("entry")
    site = b.offset(b.worker("sites", "ptr"), b.mul(b.resize(SITE, I64), i64(24)))
    warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
    me = b.add_const(b.resize(b.worker("block", I64), I32), 1)
    addresses = b.stack(address)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(addresses, I64, lane)
        low, high = b.load(I64, site), b.load(I64, b.offset(site, 8))
        cached = b.and_(b.icmp("uge", at, low), b.icmp("ult", at, high))
        look, known, join = b.new_label("look"), b.new_label("known"), b.new_label("entry")
        b.branch(cached, known, look, likely=True)
        b.label(look)
        found = b.call("ws_find", "ptr", WORKER, at, SIZE)
        b.br(join)
        b.label(known)
        b.br(join)
        b.label(join)
        entry = b.phi((found, look), (site, known))
        shadow = b.load(I64, b.offset(entry, 16))
        with b.if_(b.icmp("ne", shadow, i64(0))):
            rules = _Shadow(b, warp, lane)
            first = b.lshr(b.sub(at, b.load(I64, entry)), granule_log2)
            start = b.pointer(b.add(shadow, b.shl(first, 3)))
            several = b.icmp("eq", granules, i32(_SEVERAL))
            with _unless(b, several, lambda: _touched_first(b, rules, start, me)), b.loop(granules) as k:
                slot = b.pointer(b.add(shadow, b.shl(b.add(first, b.resize(k, I64)), 3)))
                _global_step(b, rules, slot, me, lane, at)
    b.ret()
    return b.define(f"ws_race_global_{granule_log2}", "void", WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND)


def _global_step(b: Helper, rules: _Shadow, slot: Value, me: Value, lane: Value, at: Value) -> None:
    state = b.load(I64, slot)
    owner, low = b.resize(b.lshr(state, 32), I32), b.resize(state, I32)
    untouched = b.icmp("eq", owner, i32(0))
    mine = b.icmp("eq", owner, me)
    own_conflict, own_new = rules.step(low)
    kind = b.and_const(b.lshr(low, L.KIND_SHIFT), 3)
    is_read, was_read = b.icmp("eq", KIND, i32(L.READ)), b.icmp("eq", kind, i32(L.READ))
    both_atomic = b.and_(b.icmp("eq", KIND, i32(L.ATOMIC)), b.icmp("eq", kind, i32(L.ATOMIC)))
    foreign = b.not_(b.or_(mine, untouched))
    foreign_conflict = b.and_(foreign, b.not_(b.or_(b.and_(is_read, was_read), both_atomic)))
    conflict = b.or_(foreign_conflict, b.and_(mine, own_conflict))
    # a granule that nobody has touched behaves like one last touched before the block's last barrier
    _, fresh = rules.step(i32(0))
    with b.if_(conflict, likely=False):
        b.hazard(i32(L.RACE), lane, at, state)
    several = b.and_(foreign, b.and_(is_read, was_read))
    new_owner = b.select(several, i32(-1), me)
    new_low = b.select(mine, own_new, fresh)
    packed = b.or_(b.shl(b.resize(new_owner, I64), 32), b.resize(new_low, I64))
    b.store(packed, slot)


def access_global(granule_log2: int) -> str:
    """Everything a global access needs before it touches memory; returns the lanes that may.

    `counter` is null where nothing is counted, `checked` 0 where nothing is checked.
    """
    b = Helper()
    address, counter, checked = arg(I64, "address", WARP), arg("ptr", "counter"), arg(I32, "checked")
    b.label("entry")
    counted = b.icmp("ne", counter, Value("ptr", "null"))
    with b.if_(counted):
        b.call("ws_count_global", "void", address, MASK, SIZE, counter)
    plain, careful = b.new_label("plain"), b.new_label("careful")
    b.branch(b.icmp("eq", checked, i32(0)), plain, careful)
    b.label(plain)
    b.ret(MASK)
    b.label(careful)
    ok = b.call("ws_check_global", I32, WORKER, CONTEXT, address, MASK, SIZE, SITE)
    site = b.offset(b.worker("sites", "ptr"), b.mul(b.resize(SITE, I64), i64(24)))
    tracked = b.icmp("ne", b.load(I64, b.offset(site, 16)), i64(0))
    with b.if_(b.and_(tracked, b.icmp("ne", ok, i32(0)))):
        b.call(f"ws_race_global_{granule_log2}", "void", WORKER, CONTEXT, address, ok, SIZE, SITE, KIND)
    b.ret(ok)
    parameters = (WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND, counter, checked)
    return b.define(f"ws_access_global_{granule_log2}", I32, *parameters)


def access_shared(granule_log2: int) -> str:
    """Like ws_access_global, for offsets into shared memory."""
    b = Helper()
    offset, counter, checked = arg(I32, "offset", WARP), arg("ptr", "counter"), arg(I32, "checked")
    b.label("entry")
    with b.if_(b.icmp("ne", counter, Value("ptr", "null"))):
        b.call("ws_count_shared", "void", offset, MASK, SIZE, counter)
    plain, careful = b.new_label("plain"), b.new_label("careful")
    b.branch(b.icmp("eq", checked, i32(0)), plain, careful)
    b.label(plain)
    b.ret(MASK)
    b.label(careful)
    ok = b.call("ws_check_shared", I32, WORKER, CONTEXT, offset, MASK, SIZE, SITE)
    b.call(f"ws_race_shared_{granule_log2}", "void", WORKER, CONTEXT, offset, ok, SIZE, SITE, KIND)
    b.ret(ok)
    parameters = (WORKER, CONTEXT, offset, MASK, SIZE, SITE, KIND, counter, checked)
    return b.define(f"ws_access_shared_{granule_log2}", I32, *parameters)


def load_global(type_: str, granule_log2: int) -> str:
    """A whole load: account for it, then gather the lanes that may."""
    b = Helper()
    address, counter, checked = arg(I64, "address", WARP), arg("ptr", "counter"), arg(I32, "checked")
    parameters = (WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND, counter, checked)
    b.label("entry")
    ok = b.call(f"ws_access_global_{granule_log2}", I32, *parameters)
    b.ret(b.call(f"ws_gather_{type_}", type_, address, ok, lanes=WARP))
    return b.define(f"ws_load_global_{type_}_{granule_log2}", f"<{WARP} x {type_}>", *parameters)


def store_global(type_: str, granule_log2: int) -> str:
    """A whole store: account for it, then scatter the lanes that may."""
    b = Helper()
    address, counter, checked = arg(I64, "address", WARP), arg("ptr", "counter"), arg(I32, "checked")
    value = arg(type_, "value", WARP)
    parameters = (WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND, counter, checked)
    b.label("entry")
    ok = b.call(f"ws_access_global_{granule_log2}", I32, *parameters)
    b.call(f"ws_scatter_{type_}", "void", address, ok, value)
    b.ret()
    return b.define(f"ws_store_global_{type_}_{granule_log2}", "void", *parameters, value)


WRITTEN, FIRST_READ, SECOND_READ = 0, 16, 32
"""a cell's three entries, 16 bytes each"""


_TIME, _WHO, _BLOCK, _SITE = 0, 4, 8, 12


STRONG, ATOMIC, FLYING = 1 << 11, 1 << 12, 1 << 13
"""flags of an entry beside warp, lane and MANY_LANES: volatile or relaxed; atomic; a copy on its way"""


class _Step:
    """One lane's exact_access to one cell."""

    def __init__(self, b: Helper, cell: Value, lane: Value) -> None:
        self.b, self.cell = b, cell
        self.time, self.block = b.worker("time", I32), b.resize(b.worker("block", I64), I32)
        warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
        self.warp = warp
        self.me = b.or_(b.shl(warp, L.WARP_SHIFT), lane)
        self.synced = b.load(I32, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))
        kind = b.and_const(KIND, 3)
        self.is_read = b.icmp("eq", kind, i32(L.READ))
        self.is_atomic = b.icmp("eq", kind, i32(L.ATOMIC))
        self.is_strong = b.or_(self.is_atomic, b.icmp("ne", b.and_const(KIND, L.STRONG_ACCESS), i32(0)))
        flags = b.or_(b.select(self.is_strong, i32(STRONG), i32(0)), b.select(self.is_atomic, i32(ATOMIC), i32(0)))
        self.mine = b.or_(self.me, flags)

    def entry(self, at: int) -> tuple[Value, Value, Value]:
        """(time, who, block) of an entry; time 0: empty"""
        b = self.b
        fields = [b.load(I32, b.offset(self.cell, at + k)) for k in (_TIME, _WHO, _BLOCK)]
        return fields[0], fields[1], fields[2]

    def ordered(self, then: Value, who: Value, block: Value) -> tuple[Value, Value]:
        """(whether an entry happened before this exact_access, whether it is of this warp)"""
        b = self.b
        change = b.xor(who, self.me)
        same_block = b.icmp("eq", block, self.block)
        same_warp = b.and_(same_block, b.icmp("eq", b.and_const(change, 31 << L.WARP_SHIFT), i32(0)))
        same_lane = b.icmp("eq", b.and_const(change, 31 | L.MANY_LANES), i32(0))
        own_lane, other_lane = b.and_const(self.me, 31), b.and_const(who, 31)
        pair = b.or_(b.shl(own_lane, 5), other_lane)
        rows = b.offset(b.worker("lane_syncs", "ptr"), b.shl(b.resize(self.warp, I64), 12))
        met = b.load(I32, b.let("ptr", 0, f"getelementptr i32, {rows}, {pair}"))
        synced = b.or_(b.icmp("ult", then, self.synced), b.icmp("ult", then, met))
        in_warp = b.and_(same_warp, b.or_(same_lane, synced))
        seen = b.call("ws_known", "i1", WORKER, self.warp, then)
        return b.or_(in_warp, b.and_(b.not_(same_warp), seen)), same_warp

    def conflicts(self, at: int, past: int) -> None:
        """Reports a conflict with an entry. `past`: kind of the entry's exact_access, unless it says itself."""
        b = self.b
        then, who, block = self.entry(at)
        exists = b.icmp("ne", then, i32(0))
        with b.if_(exists):
            before, _ = self.ordered(then, who, block)
            was_atomic = b.icmp("ne", b.and_const(who, ATOMIC), i32(0))
            both_strong = b.and_(self.is_strong, b.icmp("ne", b.and_const(who, STRONG), i32(0)))
            signal = b.or_(b.or_(self.is_read, self.is_atomic), was_atomic)
            if past == L.READ:
                signal = Value("i1", "true")
            harmless = b.or_(before, b.and_(both_strong, signal))
            flying = b.icmp("ne", b.and_const(who, FLYING), i32(0))
            with b.if_(b.or_(flying, b.not_(harmless)), likely=False):
                kind = b.select(was_atomic, i32(L.ATOMIC), i32(past))
                state = b.or_(b.and_const(who, L.KIND_MASK_BELOW), b.shl(kind, L.KIND_SHIFT))
                state = b.or_(state, b.select(flying, i32(L.FLYING_STATE), i32(0)))
                owner = b.shl(b.add_const(b.resize(block, I64), 1), 32)
                b.store(b.load(I32, b.offset(self.cell, at + _SITE)), b.offset(WORKER, L.field("other_site")))
                lane = b.and_const(self.me, 31)
                b.call("ws_race_found", "void", WORKER, CONTEXT, lane, b.or_(owner, b.resize(state, I64)), SITE)
                b.store(i32(-1), b.offset(WORKER, L.field("other_site")))

    def put(self, at: int, who: Value | None = None) -> None:
        b = self.b
        for value, k in ((self.time, _TIME), (who or self.mine, _WHO), (self.block, _BLOCK), (SITE, _SITE)):
            b.store(value, b.offset(self.cell, at + k))

    def follows_own_write(self) -> Value:
        """Whether this is an atomic right behind the lane's own plain write, which others must still be ordered
        after."""
        b = self.b
        then, who, block = self.entry(WRITTEN)
        same = b.and_(b.icmp("eq", who, self.me), b.icmp("eq", block, self.block))
        return b.and_(self.is_atomic, b.and_(same, b.icmp("eq", then, self.time)))

    def remember_read(self) -> None:
        """Into the entry of the same warp, an empty one, or one that this read comes after; else into the second."""
        b = self.b
        done = b.new_label("remembered")
        for at in (FIRST_READ, SECOND_READ):
            then, who, block = self.entry(at)
            before, same_warp = self.ordered(then, who, block)
            takes = b.or_(b.or_(b.icmp("eq", then, i32(0)), same_warp), before)
            if at == SECOND_READ:
                takes = Value("i1", "true")
            mine, other = b.new_label("take"), b.new_label("other")
            b.branch(takes, mine, other)
            b.label(mine)
            joins = b.and_(b.and_(same_warp, b.not_(before)), b.icmp("ne", then, i32(0)))
            self.put(at, b.or_(self.mine, b.select(joins, i32(L.MANY_LANES), i32(0))))
            b.br(done)
            b.label(other)
        b.br(done)
        b.label(done)


def known() -> str:
    """Whether the stretch `then` is among those that a warp is ordered behind: pairs [low, high), rising."""
    b = Helper()
    warp, then = arg(I32, "warp"), arg(I32, "then")
    b.label("entry")
    row = b.offset(b.worker("known", "ptr"), b.shl(b.resize(warp, I64), 4))
    pairs, count = b.load("ptr", row), b.load(I64, b.offset(row, 8))
    with b.loop(count) as k:
        pair = b.offset(pairs, b.shl(b.sub(b.add_const(count, -1), k), 3))  # the latest are asked for most
        low, high = b.load(I32, pair), b.load(I32, b.offset(pair, 4))
        with b.if_(b.icmp("uge", then, low)):
            b.ret(b.icmp("ult", then, high))
            b.label(b.new_label("unreached"))
    b.ret(Value("i1", "false"))
    return b.define("ws_known", "i1", WORKER, warp, then)


def race_found() -> str:
    """Notes a race; its address and whether it lies in shared memory are in the worker."""
    b = Helper()
    lane, state, site = arg(I32, "lane"), arg(I64, "state"), arg(I32, "site")
    b.label("entry")
    kind = b.worker("race_kind", I32)
    b.call("ws_hazard", "void", WORKER, CONTEXT, kind, site, lane, b.worker("race_address", I64), state)
    b.ret()
    return b.define("ws_race_found", "void", WORKER, CONTEXT, lane, state, site)


def step() -> str:
    """One lane's exact_access to a cell at `address`."""
    b = Helper()
    cell, lane, address, race = arg("ptr", "cell"), arg(I32, "lane"), arg(I64, "address"), arg(I32, "race")
    b.label("entry")
    b.store(address, b.offset(WORKER, L.field("race_address")))
    b.store(race, b.offset(WORKER, L.field("race_kind")))
    s = _Step(b, cell, lane)
    then, _, _ = s.entry(WRITTEN)
    fresh = b.and_(b.icmp("eq", then, i32(0)), b.icmp("eq", race, i32(L.SHARED_RACE)))
    with b.if_(b.and_(fresh, b.or_(s.is_read, s.is_atomic)), likely=False):
        b.hazard(i32(L.UNINITIALIZED), lane, address, i64(0))
    s.conflicts(WRITTEN, L.WRITE)
    reads, writes, done = b.new_label("reads"), b.new_label("writes"), b.new_label("done")
    b.branch(s.is_read, reads, writes)
    b.label(reads)
    s.remember_read()
    b.br(done)
    b.label(writes)
    s.conflicts(FIRST_READ, L.READ)
    s.conflicts(SECOND_READ, L.READ)
    with b.if_(b.not_(s.follows_own_write())):
        s.put(WRITTEN)
    b.store(i32(0), b.offset(cell, FIRST_READ))
    b.store(i32(0), b.offset(cell, SECOND_READ))
    b.br(done)
    b.label(done)
    b.ret()
    return b.define("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, address, race, SITE, KIND)


def _cells(b: Helper, shadow: Value, index: Value) -> Value:
    return b.offset(shadow, b.mul(b.resize(index, I64), i64(L.EXACT_CELL_BYTES)))


def exact_shared(granule_log2: int) -> str:
    """The exact_access of all lanes to shared memory."""
    b = Helper()
    offset = arg(I32, "offset", WARP)
    b.label("entry")
    shadow = b.worker("shadow", "ptr")
    offsets = b.stack(offset)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        first = b.lshr(at, granule_log2)
        with b.loop(granules) as k:
            cell = _cells(b, shadow, b.add(first, k))
            where = b.resize(at, I64)
            b.call("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, where, i32(L.SHARED_RACE), SITE, KIND)
    b.ret()
    return b.define(f"ws_exact_shared_{granule_log2}", "void", WORKER, CONTEXT, offset, MASK, SIZE, SITE, KIND)


def exact_global(granule_log2: int) -> str:
    """The exact_access of all lanes to global memory; arrays that no block writes have no shadow."""
    b = Helper()
    address = arg(I64, "address", WARP)
    b.label("entry")
    addresses = b.stack(address)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(addresses, I64, lane)
        entry = b.call("ws_find", "ptr", WORKER, at, SIZE)
        with b.if_(b.icmp("ne", entry, Value("ptr", "null"))):
            shadow = b.load("ptr", b.offset(entry, 16))
            with b.if_(b.icmp("ne", shadow, Value("ptr", "null"))):
                first = b.lshr(b.sub(at, b.load(I64, entry)), granule_log2)
                with b.loop(granules) as k:
                    cell = _cells(b, shadow, b.add(first, b.resize(k, I64)))
                    b.call("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, at, i32(L.RACE), SITE, KIND)
    b.ret()
    return b.define(f"ws_exact_global_{granule_log2}", "void", WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND)


def exact_access(space: str, granule_log2: int) -> str:
    """Like ws_access_global and ws_access_shared, with the exact shadow."""
    b = Helper()
    address = arg(I64 if space == "global" else I32, "address", WARP)
    counter, checked = arg("ptr", "counter"), arg(I32, "checked")
    b.label("entry")
    with b.if_(b.icmp("ne", counter, Value("ptr", "null"))):
        b.call(f"ws_count_{space}", "void", address, MASK, SIZE, counter)
    b.increment(b.offset(WORKER, L.field("exact_steps")), i64(1))
    ok = b.call(f"ws_check_{space}", I32, WORKER, CONTEXT, address, MASK, SIZE, SITE)
    b.call(f"ws_exact_{space}_{granule_log2}", "void", WORKER, CONTEXT, address, ok, SIZE, SITE, KIND)
    b.ret(ok)
    parameters = (WORKER, CONTEXT, address, MASK, SIZE, SITE, KIND, counter, checked)
    return b.define(f"ws_exact_access_{space}_{granule_log2}", I32, *parameters)


def exact_flight(granule_log2: int) -> str:
    """Marks shared memory that a copy is on its way to (`flying` 1), or has reached (0)."""
    b = Helper()
    offset, flying = arg(I32, "offset", WARP), arg(I32, "flying")
    b.label("entry")
    shadow, offsets = b.worker("shadow", "ptr"), b.stack(offset)
    granules = b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        first = b.lshr(b.element(offsets, I32, lane), granule_log2)
        with b.loop(granules) as k:
            at = b.offset(_cells(b, shadow, b.add(first, k)), WRITTEN + _WHO)
            who = b.and_const(b.load(I32, at), ~FLYING)
            b.store(b.or_(who, b.select(b.icmp("ne", flying, i32(0)), i32(FLYING), i32(0))), at)
    b.ret()
    return b.define(f"ws_exact_flight_{granule_log2}", "void", WORKER, offset, MASK, SIZE, flying)


def landed() -> str:
    """An asynchronous copy has reached shared memory: a write of the lanes that waited for it."""
    b = Helper()
    offset, granule = arg(I32, "offset", WARP), arg(I32, "granule")
    b.label("entry")
    for g in (0, 1, 2):
        with b.if_(b.icmp("eq", granule, i32(g))):
            b.call(f"ws_exact_flight_{g}", "void", WORKER, offset, MASK, SIZE, i32(0))
            b.call(f"ws_exact_shared_{g}", "void", WORKER, CONTEXT, offset, MASK, SIZE, SITE, i32(L.WRITE))
    b.ret()
    return b.define("ws_exact_landed", "void", WORKER, CONTEXT, offset, MASK, SIZE, SITE, granule)


def exact_functions() -> dict[str, str]:
    """All of the exact shadow's exact_functions by name."""
    by_granule = {
        f"ws_exact_{name}_{g}": write(g)
        for g in (0, 1, 2)
        for name, write in (("shared", exact_shared), ("global", exact_global), ("flight", exact_flight))
    }
    accesses = {f"ws_exact_access_{s}_{g}": exact_access(s, g) for s in ("shared", "global") for g in (0, 1, 2)}
    single = {
        "ws_known": known(), "ws_race_found": race_found(), "ws_exact_step": step(), "ws_exact_landed": landed(),
    }  # fmt: skip
    return {**single, **by_granule, **accesses}
