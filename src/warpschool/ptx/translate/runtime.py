"""The helpers that translated kernels call off the fast path, written once in LLVM IR.

All take a warp's lanes at once: addresses as a vector, active lanes as a 32-bit mask. They check bounds, count sectors
and bank conflicts, keep the race shadow, gather and scatter. A kernel's own code handles the common shapes inline and
calls these for the rest, so they favour exactness over speed.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import ClassVar

from ..emit import BITS, WARP, Builder, Value, constant, module_text
from . import layout as L

I32, I64 = "i32", "i64"


def i32(value: int) -> Value:
    return constant(I32, value)


def i64(value: int) -> Value:
    return constant(I64, value)


def arg(type_: str, name: str, lanes: int = 0) -> Value:
    return Value(type_, f"%{name}", lanes)


WORKER, CONTEXT = arg("ptr", "w"), arg("ptr", "c")
MASK, SIZE, SITE, KIND = arg(I32, "mask"), arg(I32, "size"), arg(I32, "site"), arg(I32, "kind")


class Helper(Builder):
    """A Builder with the idioms of the helpers; all helpers share one set of declarations."""

    declarations: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.declared = Helper.declarations

    def worker(self, name: str, type_: str) -> Value:
        return self.load(type_, self.offset(WORKER, L.field(name)))

    def stack(self, value: Value) -> Value:
        """A vector in memory, so that a loop can index its lanes."""
        slot = self.let("ptr", 0, f"alloca {value.ir_type}, align 64")
        self.store(value, slot, align=64)
        return slot

    def element(self, slot: Value, type_: str, lane: Value) -> Value:
        return self.load(type_, self.let("ptr", 0, f"getelementptr {type_}, {slot}, {lane}"))

    def variable(self, type_: str, initial: Value) -> Value:
        slot = self.let("ptr", 0, f"alloca {type_}")
        self.store(initial, slot)
        return slot

    def lane_active(self, lane: Value, mask: Value = MASK) -> Value:
        return self.icmp("ne", self.and_(self.binary("lshr", mask, lane), i32(1)), i32(0))

    def hazard(self, kind: Value, lane: Value, address: Value, state: Value) -> None:
        self.call("ws_hazard", "void", WORKER, CONTEXT, kind, SITE, lane, address, state)

    def define(self, name: str, result: str, *parameters: Value) -> str:
        listed = ", ".join(str(p) for p in parameters)
        return self.function(f"{result} @{name}({listed}) noinline")


def _hazard() -> str:
    """Notes a hazard once per (site, kind)."""
    b = Helper()
    lane, address, state = arg(I32, "lane"), arg(I64, "address"), arg(I64, "state")
    b.label("entry")
    index = b.add(b.mul(SITE, i32(L.HAZARD_KINDS)), KIND)
    seen = b.offset(b.worker("hazard_seen", "ptr"), b.resize(index, I64))
    count_at = b.offset(WORKER, L.field("hazard_count"))
    count = b.load(I64, count_at)
    fresh = b.icmp("eq", b.load("i8", seen), constant("i8", 0))
    with b.if_(b.and_(fresh, b.icmp("ult", count, i64(L.HAZARD_CAPACITY)))):
        b.store(constant("i8", 1), seen)
        record = b.offset(b.worker("hazards", "ptr"), b.mul(count, i64(ctypes.sizeof(L.HazardRecord))))
        values = {
            "kind": KIND, "site": SITE, "block": b.worker("block", I64), "lane": lane, "address": address, "state": state,
            "warp": b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX)),
        }  # fmt: skip
        for name, value in values.items():
            b.store(value, b.offset(record, getattr(L.HazardRecord, name).offset))
        b.store(b.add(count, i64(1)), count_at)
    b.ret()
    return b.define("ws_hazard", "void", WORKER, CONTEXT, KIND, SITE, lane, address, state)


def _find() -> str:
    """The allocation-table entry that holds [address, address + size), or null."""
    b = Helper()
    address = arg(I64, "address")
    b.label("entry")
    table, count = b.worker("allocations", "ptr"), b.worker("allocation_count", I64)
    end = b.add(address, b.resize(SIZE, I64))
    with b.loop(count) as k:
        entry = b.offset(table, b.mul(k, i64(24)))
        inside = b.and_(
            b.icmp("uge", address, b.load(I64, entry)), b.icmp("ule", end, b.load(I64, b.offset(entry, 8)))
        )
        found, further = b.new_label("found"), b.new_label("further")
        b.branch(inside, found, further)
        b.label(found)
        b.ret(entry)
        b.label(further)
    b.ret(Value("ptr", "null"))
    return b.define("ws_find", "ptr", WORKER, address, SIZE)


def _check_global() -> str:
    """Lanes of `mask` whose access is aligned and inside an allocation; the others become hazards."""
    b = Helper()
    address = arg(I64, "address", WARP)
    b.label("entry")
    site = b.offset(b.worker("sites", "ptr"), b.mul(b.resize(SITE, I64), i64(24)))
    size = b.resize(SIZE, I64)
    low, high = b.load(I64, site), b.load(I64, b.offset(site, 8))
    last = b.sub(high, size)
    bad = b.or_(b.icmp("ult", address, b.splat(low)), b.icmp("ugt", address, b.splat(last)))
    odd = b.icmp("ne", b.and_(address, b.splat(b.sub(size, i64(1)))), b.like(address, 0))
    wrong = b.and_(b.mask_bits(b.or_(bad, odd)), MASK)
    fine, slow = b.new_label("fine"), b.new_label("slow")
    b.branch(b.and_(b.icmp("eq", wrong, i32(0)), b.icmp("ult", low, high)), fine, slow)
    b.label(fine)
    b.ret(MASK)
    b.label(slow)
    addresses = b.stack(address)
    ok = b.variable(I32, i32(0))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        a = b.element(addresses, I64, lane)
        misaligned = b.icmp("ne", b.and_(a, b.sub(size, i64(1))), i64(0))
        with b.if_(misaligned):
            b.hazard(i32(L.MISALIGNED), lane, a, i64(0))
        entry = b.call("ws_find", "ptr", WORKER, a, SIZE)
        missing = b.icmp("eq", entry, Value("ptr", "null"))
        with b.if_(missing):
            b.hazard(i32(L.OUT_OF_BOUNDS), lane, a, i64(0))
        with b.if_(b.not_(b.or_(missing, misaligned))):
            b.store(b.or_(b.load(I32, ok), b.binary("shl", i32(1), lane)), ok)
            for part in (0, 8, 16):
                b.store(b.load(I64, b.offset(entry, part)), b.offset(site, part))
    b.ret(b.load(I32, ok))
    return b.define("ws_check_global", I32, WORKER, CONTEXT, address, MASK, SIZE, SITE)


def _check_shared() -> str:
    """Lanes of `mask` whose shared access is aligned and inside the block's shared memory."""
    b = Helper()
    offset = arg(I32, "offset", WARP)
    b.label("entry")
    limit = b.sub(b.worker("shared_bytes", I64), b.resize(SIZE, I64))
    wide = b.resize(offset, I64)
    bad = b.mask_bits(b.icmp("sgt", wide, b.splat(limit)))
    odd = b.mask_bits(b.icmp("ne", b.and_(offset, b.splat(b.sub(SIZE, i32(1)))), b.like(offset, 0)))
    wrong = b.and_(b.or_(bad, odd), MASK)
    with b.if_(b.icmp("ne", wrong, i32(0)), likely=False):
        offsets = b.stack(wide)
        for kind, bits in ((L.SHARED_OUT_OF_BOUNDS, bad), (L.SHARED_MISALIGNED, odd)):
            hit = b.and_(bits, MASK)
            with b.if_(b.icmp("ne", hit, i32(0))):
                lane = b.call("llvm.cttz.i32", I32, hit, Value("i1", "true"))
                b.hazard(i32(kind), lane, b.element(offsets, I64, lane), i64(0))
    b.ret(b.and_(MASK, b.not_(wrong)))
    return b.define("ws_check_shared", I32, WORKER, CONTEXT, offset, MASK, SIZE, SITE)


def _distinct(b: Helper, units: Value, mask: Value) -> Value:
    """Number of distinct values among the active lanes of a vector of i32 (i64 result)."""
    full, any_order, join = b.new_label("sorted"), b.new_label("unsorted"), b.new_label("counted")
    previous = b.shuffle(units, [0, *range(WARP - 1)])
    rising = b.mask_bits(b.icmp("uge", units, previous))
    b.branch(b.and_(b.icmp("eq", mask, i32(-1)), b.icmp("eq", rising, i32(-1))), full, any_order)
    b.label(full)
    steps = b.call("llvm.ctpop.i32", I32, b.mask_bits(b.icmp("ne", units, previous)))
    first = b.add_const(steps, 1)
    b.br(join)
    b.label(any_order)
    count = b.let("ptr", 0, "alloca i32")
    b.store(i32(0), count)
    slot = b.let("ptr", 0, f"alloca {units.ir_type}, align 64")
    b.store(units, slot, align=64)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, mask)):
        same = b.mask_bits(b.icmp("eq", units, b.splat(b.element(slot, I32, lane))))
        earlier = b.sub(b.binary("shl", i32(1), lane), i32(1))
        repeated = b.and_(b.and_(same, earlier), mask)
        b.store(b.add(b.load(I32, count), b.resize(b.icmp("eq", repeated, i32(0)), I32)), count)
    second = b.load(I32, count)
    second_at = b.label_now
    b.br(join)
    b.label(join)
    return b.resize(b.phi((first, full), (second, second_at)), I64)


def _count_global() -> str:
    """counter[0] += sectors, counter[1] += the fewest sectors that hold the distinct bytes."""
    b = Helper()
    address, counter = arg(I64, "address", WARP), arg("ptr", "counter")
    b.label("entry")
    with b.if_(b.icmp("ne", MASK, i32(0))):
        sectors = _distinct(b, b.resize(b.lshr(address, 5), I32), MASK)
        b.increment(counter, sectors)
        shift = b.call("llvm.cttz.i32", I32, SIZE, Value("i1", "true"))
        units = b.resize(b.binary("lshr", address, b.splat(b.resize(shift, I64))), I32)
        distinct = _distinct(b, units, MASK)
        ideal = b.lshr(b.add_const(b.mul(distinct, b.resize(SIZE, I64)), 31), 5)
        b.increment(b.offset(counter, 8), ideal)
    b.ret()
    return b.define("ws_count_global", "void", address, MASK, SIZE, counter)


def _count_shared() -> str:
    """counter[0] += wavefronts, counter[1] += bank conflicts.

    A request of 4 bytes a lane is one phase; 8 bytes run in two phases of 16 lanes, 16 bytes in four of 8. In a phase
    each bank delivers one word a wavefront: a phase takes as many wavefronts as the busiest bank has distinct words.
    """
    b = Helper()
    offset, counter = arg(I32, "offset", WARP), arg("ptr", "counter")
    b.label("entry")
    unit_bytes = b.select(b.icmp("ult", SIZE, i32(4)), i32(4), SIZE)
    shift = b.call("llvm.cttz.i32", I32, unit_bytes, Value("i1", "true"))
    units = b.binary("lshr", offset, b.splat(shift))
    groups = b.binary("lshr", i32(128), shift)  # units that fit the 32 banks side by side
    lanes_per_phase = groups
    phases = b.binary("udiv", i32(WARP), lanes_per_phase)
    slot = b.stack(units)
    histogram = b.let("ptr", 0, f"alloca <{WARP} x i8>, align 32")
    total, conflicts = b.variable(I32, i32(0)), b.variable(I32, i32(0))
    worst = b.variable("i8", constant("i8", 0))
    phase_mask = b.select(
        b.icmp("eq", lanes_per_phase, i32(32)), i32(-1), b.sub(b.binary("shl", i32(1), b.and_(lanes_per_phase, i32(31))), i32(1))
    )
    with b.loop(phases) as phase:
        first = b.mul(phase, lanes_per_phase)
        active = b.and_(MASK, b.binary("shl", phase_mask, b.and_(first, i32(31))))
        with b.if_(b.icmp("ne", active, i32(0))):
            b.store(constant("i8", 0, WARP), histogram, align=32)
            b.store(constant("i8", 0), worst)
            with b.loop(lanes_per_phase) as k:
                lane = b.add(first, k)
                with b.if_(b.lane_active(lane, active)):
                    unit = b.element(slot, I32, lane)
                    same = b.mask_bits(b.icmp("eq", units, b.splat(unit)))
                    earlier = b.sub(b.binary("shl", i32(1), lane), i32(1))
                    with b.if_(b.icmp("eq", b.and_(b.and_(same, earlier), active), i32(0))):
                        group = b.and_(unit, b.sub(groups, i32(1)))
                        at = b.offset(histogram, b.resize(group, I64))
                        ways = b.add(b.load("i8", at), constant("i8", 1))
                        b.store(ways, at)
                        b.store(b.intrinsic("umax", b.load("i8", worst), ways), worst)
            wavefronts = b.resize(b.load("i8", worst), I32)
            b.store(b.add(b.load(I32, total), wavefronts), total)
            b.store(b.add(b.load(I32, conflicts), b.sub(wavefronts, i32(1))), conflicts)
    b.increment(counter, b.resize(b.load(I32, total), I64))
    b.increment(b.offset(counter, 8), b.resize(b.load(I32, conflicts), I64))
    b.ret()
    return b.define("ws_count_shared", "void", offset, MASK, SIZE, counter)


class _Shadow:
    """The rules of the race shadow, for one granule and one access.

    A granule's state names its last access since the block's last barrier: time, kind, warp and lane, with flags for
    "several lanes" and "several warps". Two accesses conflict when they are concurrent (no barrier of the block between
    them; within a warp no __syncwarp) and not both reads or both atomics. One state is enough: a write is followed by
    reads of its own thread alone, or by a conflict; READ_AFTER_WRITE remembers both for a warp that wrote, met, and read.
    """

    def __init__(self, b: Helper, warp: Value, lane: Value) -> None:
        self.b, self.warp, self.lane = b, warp, lane
        self.time, self.epoch = b.worker("time", I32), b.worker("epoch", I32)
        self.synced = b.load(I32, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))

    def _bits(self, state: Value, shift: int, mask: int) -> Value:
        return self.b.and_const(self.b.lshr(state, shift), mask)

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
        harmless = b.or_(
            b.and_(is_read, reads_within_warp), b.and_(is_atomic, b.icmp("eq", kind, i32(L.ATOMIC)))
        )
        conflict = b.and_(concurrent, b.not_(harmless))

        def compose(kind_: Value, lane_: Value, flags: Value) -> Value:
            who = b.or_(b.shl(self.warp, L.WARP_SHIFT), lane_)
            return b.or_(b.or_(b.shl(self.time, L.TIME_SHIFT), b.shl(kind_, L.KIND_SHIFT)), b.or_(who, flags))

        fresh = compose(KIND, self.lane, i32(0))
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
        keeps = b.and_(same_thread, b.and_(recent, b.or_(
            b.and_(is_read, b.or_(was_write, b.icmp("eq", kind, i32(L.ATOMIC)))), b.and_(is_atomic, was_write))))  # fmt: skip
        new = b.select(after_own_write, compose(i32(L.READ_AFTER_WRITE), self.lane, i32(0)), fresh)
        new = b.select(b.and_(same_kind, b.not_(b.icmp("eq", KIND, i32(L.WRITE)))), joined, new)
        new = b.select(keeps, state, new)
        return conflict, new


def _race_shared(granule_log2: int) -> str:
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
        with b.loop(granules) as k:
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


def _race_global(granule_log2: int) -> str:
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
            with b.loop(granules) as k:
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


def _access_global(granule_log2: int) -> str:
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


def _access_shared(granule_log2: int) -> str:
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


def _gather(type_: str) -> str:
    b = Helper()
    address, mask = arg(I64, "address", WARP), arg(I32, "mask")
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    bits = b.bits_mask(mask)
    name = f"llvm.masked.gather.v{WARP}{type_}.v{WARP}p0"
    aligned = Value("ptr", pointers.text, WARP)
    loaded = _masked_memory(b, name, type_, aligned, bits)
    b.ret(loaded)
    return b.define(f"ws_gather_{type_}", f"<{WARP} x {type_}>", address, mask)


def _masked_memory(b: Builder, name: str, type_: str, pointers: Value, bits: Value) -> Value:
    align = BITS[type_] // 8
    vector = f"<{WARP} x {type_}>"
    b.declared[name] = f"declare {vector} @{name}(<{WARP} x ptr>, i32, <{WARP} x i1>, {vector})"
    return b.let(
        type_, WARP, f"call {vector} @{name}({pointers}, i32 {align}, {bits}, {vector} zeroinitializer)"
    )


def _scatter(type_: str) -> str:
    b = Helper()
    address, value = arg(I64, "address", WARP), arg(type_, "value", WARP)
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    name = f"llvm.masked.scatter.v{WARP}{type_}.v{WARP}p0"
    b.declared[name] = f"declare void @{name}({value.ir_type}, <{WARP} x ptr>, i32, <{WARP} x i1>)"
    b.emit(f"call void @{name}({value}, {pointers}, i32 {BITS[type_] // 8}, {b.bits_mask(MASK)})")
    b.ret()
    return b.define(f"ws_scatter_{type_}", "void", address, MASK, value)


def _permute() -> str:
    """value[source[lane]] for every lane."""
    b = Helper()
    value, source = arg(I32, "value", WARP), arg(I32, "source", WARP)
    b.label("entry")
    slot = b.stack(value)
    pointers = b.let("ptr", WARP, f"getelementptr i32, {slot}, {source}")
    b.ret(_masked_memory(b, f"llvm.masked.gather.v{WARP}i32.v{WARP}p0", I32, pointers, Value("i1", "splat (i1 true)", WARP)))
    return b.define("ws_permute", f"<{WARP} x i32>", value, source)


def _match_any() -> str:
    """For every lane the members that hold the same value."""
    b = Helper()
    value = arg(I64, "value", WARP)
    b.label("entry")
    slot, result = b.stack(value), b.stack(constant(I32, 0, WARP))
    with b.loop(i32(WARP)) as lane:
        same = b.and_(b.mask_bits(b.icmp("eq", value, b.splat(b.element(slot, I64, lane)))), MASK)
        b.store(same, b.let("ptr", 0, f"getelementptr i32, {result}, {lane}"))
    b.ret(b.load(I32, result, WARP, align=64))
    return b.define("ws_match_any", f"<{WARP} x i32>", value, MASK)


def _check_local() -> str:
    """Lanes of `mask` whose access is aligned and inside the thread's local memory."""
    b = Helper()
    offset, limit = arg(I64, "offset", WARP), arg(I64, "limit")
    b.label("entry")
    last = b.sub(limit, b.resize(SIZE, I64))
    bad = b.icmp("sgt", offset, b.splat(last))
    odd = b.icmp("ne", b.and_(offset, b.splat(b.resize(b.sub(SIZE, i32(1)), I64))), b.like(offset, 0))
    wrong = b.and_(b.mask_bits(b.or_(bad, b.or_(odd, b.icmp("slt", offset, b.like(offset, 0))))), MASK)
    with b.if_(b.icmp("ne", wrong, i32(0)), likely=False):
        lane = b.call("llvm.cttz.i32", I32, wrong, Value("i1", "true"))
        b.hazard(i32(L.LOCAL_OUT_OF_BOUNDS), lane, b.element(b.stack(offset), I64, lane), i64(0))
    b.ret(b.and_(MASK, b.not_(wrong)))
    return b.define("ws_check_local", I32, WORKER, CONTEXT, offset, MASK, SIZE, SITE, limit)


def _warp_sync() -> str:
    """__syncwarp: what this warp did before is ordered before what it does from now on."""
    b = Helper()
    b.label("entry")
    at = b.offset(WORKER, L.field("time"))
    now = b.load(I32, at)
    later = b.intrinsic("umin", b.add_const(now, 1), i32(L.LAST_TIME))
    b.store(later, at)
    b.store(later, b.offset(CONTEXT, L.ContextLayout.SYNC_TIME))
    b.ret()
    return b.define("ws_warp_sync", "void", WORKER, CONTEXT)


def _block_barrier() -> str:
    """A block barrier opens: everything before is ordered before everything after."""
    b = Helper()
    granule_log2 = arg(I32, "granule_log2")
    b.label("entry")
    at = b.offset(WORKER, L.field("time"))
    now = b.add_const(b.load(I32, at), 1)
    b.store(now, at)
    b.store(now, b.offset(WORKER, L.field("epoch")))
    with b.if_(b.icmp("uge", now, i32(L.LAST_TIME)), likely=False):  # time is used up: all states become "long ago"
        size = b.worker("shared_bytes", I64)
        shadow = b.worker("shadow", "ptr")
        with b.loop(b.add_const(b.binary("lshr", size, b.resize(granule_log2, I64)), 1)) as k:
            slot = b.offset(shadow, b.shl(k, 2))
            state = b.load(I32, slot)
            b.store(b.select(b.icmp("eq", state, i32(L.UNTOUCHED)), state, i32(0)), slot)
        b.store(i32(1), at)
        b.store(i32(1), b.offset(WORKER, L.field("epoch")))
    b.ret()
    return b.define("ws_block_barrier", "void", WORKER, granule_log2)


def _idle() -> str:
    """No lane of the warp can run: -1 to go on (a warp barrier opened), else what `masked` returns.

    Lanes that wait at __syncwarp go on once all others wait or have exited. Lanes that wait at a block barrier leave to the
    driver; if others of the warp have exited or wait elsewhere, the barrier is divergent.
    """
    b = Helper()
    checked = arg(I32, "checked")
    b.label("entry")
    pcs_at = b.offset(CONTEXT, L.ContextLayout.PCS)
    pcs = b.load("i16", pcs_at, WARP, align=64)
    gone = b.icmp("eq", pcs, b.like(pcs, L.EXITED))
    meeting = b.and_(b.icmp("ne", b.and_const(pcs, L.WARP_BARRIER_FLAG), b.like(pcs, 0)), b.not_(gone))
    with b.if_(b.icmp("ne", b.mask_bits(meeting), i32(0))):
        b.store(b.select(meeting, b.and_const(pcs, L.MAX_BLOCKS - 1), pcs), pcs_at, align=64)
        with b.if_(b.icmp("ne", checked, i32(0))):
            b.call("ws_warp_sync", "void", WORKER, CONTEXT)
        b.ret(i32(-1))
        b.label(b.new_label("unreached"))
    gone_bits = b.mask_bits(gone)
    with b.if_(b.icmp("eq", gone_bits, i32(-1))):
        b.ret(i32(L.DONE << 16))
        b.label(b.new_label("unreached"))
    waiting = b.not_(gone_bits)
    lane = b.call("llvm.cttz.i32", I32, waiting, Value("i1", "true"))
    place = b.element(pcs_at, "i16", lane)
    target = b.resize(b.and_const(place, L.MAX_BLOCKS - 1), I32)
    b.store(waiting, b.offset(CONTEXT, L.ContextLayout.PARTICIPANTS))
    with b.if_(b.icmp("ne", checked, i32(0))):
        elsewhere = b.and_(b.mask_bits(b.icmp("ne", pcs, b.splat(place))), waiting)
        born = b.load(I32, b.offset(CONTEXT, L.ContextLayout.LIVE))
        missing = b.or_(elsewhere, b.and_(gone_bits, born))
        with b.if_(b.icmp("ne", missing, i32(0))):
            first = b.call("llvm.cttz.i32", I32, missing, Value("i1", "true"))
            packed = b.resize(b.element(pcs_at, "i16", first), I64)
            b.call("ws_hazard", "void", WORKER, CONTEXT, i32(L.DIVERGENT_BARRIER), target, lane, b.resize(first, I64), packed)
    b.ret(b.or_(i32(L.MASKED_BARRIER << 16), target))
    return b.define("ws_idle", I32, WORKER, CONTEXT, checked)


INTEGERS = ("i8", "i16", "i32", "i64")


@cache
def runtime_module() -> tuple[str, tuple[str, ...]]:
    """IR text of all helpers, and their names."""
    functions = {
        "ws_hazard": _hazard(),
        "ws_find": _find(),
        "ws_check_global": _check_global(),
        "ws_check_shared": _check_shared(),
        "ws_count_global": _count_global(),
        "ws_count_shared": _count_shared(),
        "ws_permute": _permute(),
        "ws_match_any": _match_any(),
        "ws_check_local": _check_local(),
        "ws_warp_sync": _warp_sync(),
        "ws_idle": _idle(),
        "ws_block_barrier": _block_barrier(),
        **{f"ws_race_shared_{g}": _race_shared(g) for g in (0, 1, 2)},
        **{f"ws_race_global_{g}": _race_global(g) for g in (0, 1, 2)},
        **{f"ws_access_global_{g}": _access_global(g) for g in (0, 1, 2)},
        **{f"ws_access_shared_{g}": _access_shared(g) for g in (0, 1, 2)},
        **{f"ws_gather_{t}": _gather(t) for t in INTEGERS},
        **{f"ws_scatter_{t}": _scatter(t) for t in INTEGERS},
    }
    return module_text(functions.values(), Helper.declarations, functions), tuple(functions)
