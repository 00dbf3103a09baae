"""What every access needs: hazard records, bounds and alignment, counters, and moves between lanes and memory."""

from __future__ import annotations

import ctypes

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import BITS, WARP, Builder, Value, constant
from ptxsim.codegen.functions import CONTEXT, I32, I64, KIND, MASK, SITE, SIZE, WORKER, Helper, arg, i32, i64


def hazard() -> str:
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
            "kind": KIND, "site": SITE, "block": b.worker("block", I64), "lane": lane, "address": address,
            "state": state, "other_site": b.worker("other_site", I32),
            "warp": b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX)),
        }  # fmt: skip
        for name, value in values.items():
            b.store(value, b.offset(record, getattr(L.HazardRecord, name).offset))
        b.store(b.add(count, i64(1)), count_at)
    b.ret()
    return b.define("ws_hazard", "void", WORKER, CONTEXT, KIND, SITE, lane, address, state)


def find() -> str:
    """The allocation-table entry that holds [address, address + size), or null."""
    b = Helper()
    address = arg(I64, "address")
    b.label("entry")
    table, count = b.worker("allocations", "ptr"), b.worker("allocation_count", I64)
    end = b.add(address, b.resize(SIZE, I64))
    with b.loop(count) as k:
        entry = b.offset(table, b.mul(k, i64(24)))
        low, high = b.load(I64, entry), b.load(I64, b.offset(entry, 8))
        inside = b.and_(b.icmp("uge", address, low), b.icmp("ule", end, high))
        inside = b.and_(inside, b.icmp("ult", address, high))  # an address just below 2^64 has its end at 0
        found, further = b.new_label("found"), b.new_label("further")
        b.branch(inside, found, further)
        b.label(found)
        b.ret(entry)
        b.label(further)
    b.ret(Value("ptr", "null"))
    return b.define("ws_find", "ptr", WORKER, address, SIZE)


def check_global() -> str:
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


def check_shared() -> str:
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


def check_local() -> str:
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


def distinct_values(b: Helper, units: Value, mask: Value) -> Value:
    """Number of distinct values among the active lanes of a vector of integers (i64 result)."""
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
        same = b.mask_bits(b.icmp("eq", units, b.splat(b.element(slot, units.type, lane))))
        earlier = b.sub(b.binary("shl", i32(1), lane), i32(1))
        repeated = b.and_(b.and_(same, earlier), mask)
        b.store(b.add(b.load(I32, count), b.resize(b.icmp("eq", repeated, i32(0)), I32)), count)
    second = b.load(I32, count)
    second_at = b.label_now
    b.br(join)
    b.label(join)
    return b.resize(b.phi((first, full), (second, second_at)), I64)


def count_global() -> str:
    """counter[0] += sectors, counter[1] += the fewest sectors that hold the distinct bytes."""
    b = Helper()
    address, counter = arg(I64, "address", WARP), arg("ptr", "counter")
    b.label("entry")
    with b.if_(b.icmp("ne", MASK, i32(0))):
        sectors = distinct_values(b, b.resize(b.lshr(address, 5), I32), MASK)
        b.increment(counter, sectors)
        shift = b.call("llvm.cttz.i32", I32, SIZE, Value("i1", "true"))
        units = b.resize(b.binary("lshr", address, b.splat(b.resize(shift, I64))), I32)
        distinct = distinct_values(b, units, MASK)
        ideal = b.lshr(b.add_const(b.mul(distinct, b.resize(SIZE, I64)), 31), 5)
        b.increment(b.offset(counter, 8), ideal)
    b.ret()
    return b.define("ws_count_global", "void", address, MASK, SIZE, counter)


def count_copies() -> str:
    """counter[0] += sectors of cp.async.cg as an H200 counts them.

    Past L1, lanes go together that want one 128-byte line of global memory and one 32-byte sector of shared memory.
    """
    b = Helper()
    address, offset, counter = arg(I64, "address", WARP), arg(I32, "offset", WARP), arg("ptr", "counter")
    b.label("entry")
    with b.if_(b.icmp("ne", MASK, i32(0))):
        place = b.resize(b.lshr(offset, 5), I64)
        b.increment(counter, distinct_values(b, b.or_(b.shl(b.lshr(address, 7), 32), place), MASK))
    b.ret()
    return b.define("ws_count_copies", "void", address, offset, MASK, counter)


def count_constant() -> str:
    """counter[0] += distinct words."""
    b = Helper()
    address, counter = arg(I64, "address", WARP), arg("ptr", "counter")
    b.label("entry")
    with b.if_(b.icmp("ne", MASK, i32(0))):
        b.increment(counter, distinct_values(b, b.resize(b.lshr(address, 2), I32), MASK))
    b.ret()
    return b.define("ws_count_constant", "void", address, MASK, counter)


def _in_pairs(b: Helper, offset: Value, distance: int) -> Value:
    """Whether every active lane wants the address of lane i^distance, where that one is active too."""
    lanes = [n ^ distance for n in range(WARP)]
    active = b.bits_mask(MASK)
    partner = b.shuffle(active, lanes)
    differs = b.and_(b.icmp("ne", offset, b.shuffle(offset, lanes)), b.and_(active, partner))
    return b.icmp("eq", b.mask_bits(differs), i32(0))


def count_shared() -> str:
    """counter[0] += wavefronts, counter[1] += bank conflicts.

    A request of 4 bytes a lane is one phase; 8 bytes run in two phases of 16 lanes, 16 bytes in four of 8. In a phase
    each bank delivers one word a wavefront: a phase takes as many wavefronts as the busiest bank has distinct words.
    Phases of wide accesses hold twice as many lanes where lanes pair up (see shared_memory.bank_conflicts).
    """
    b = Helper()
    offset, counter = arg(I32, "offset", WARP), arg("ptr", "counter")
    b.label("entry")
    unit_bytes = b.select(b.icmp("ult", SIZE, i32(4)), i32(4), SIZE)
    shift = b.call("llvm.cttz.i32", I32, unit_bytes, Value("i1", "true"))
    units = b.binary("lshr", offset, b.splat(shift))
    groups = b.binary("lshr", i32(128), shift)  # units that fit the 32 banks side by side
    wide = b.icmp("ugt", SIZE, i32(4))
    twice = b.and_(wide, b.or_(_in_pairs(b, offset, 1), _in_pairs(b, offset, 2)))
    lanes_per_phase = b.binary("shl", groups, b.resize(twice, I32))
    phases = b.binary("udiv", i32(WARP), lanes_per_phase)
    slot = b.stack(units)
    histogram = b.let("ptr", 0, f"alloca <{WARP} x i8>, align 32")
    total, conflicts = b.variable(I32, i32(0)), b.variable(I32, i32(0))
    worst = b.variable("i8", constant("i8", 0))
    phase_mask = b.select(
        b.icmp("eq", lanes_per_phase, i32(32)),
        i32(-1),
        b.sub(b.binary("shl", i32(1), b.and_(lanes_per_phase, i32(31))), i32(1)),
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
                    unit = b.element(slot, units.type, lane)
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


INTEGERS = ("i8", "i16", "i32", "i64")


def masked_gather(b: Builder, name: str, type_: str, pointers: Value, bits: Value) -> Value:
    align = BITS[type_] // 8
    vector = f"<{WARP} x {type_}>"
    b.declared[name] = f"declare {vector} @{name}(<{WARP} x ptr>, i32, <{WARP} x i1>, {vector})"
    return b.let(type_, WARP, f"call {vector} @{name}({pointers}, i32 {align}, {bits}, {vector} zeroinitializer)")


def gather(type_: str) -> str:
    b = Helper()
    address, mask = arg(I64, "address", WARP), arg(I32, "mask")
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    bits = b.bits_mask(mask)
    name = f"llvm.masked.gather.v{WARP}{type_}.v{WARP}p0"
    aligned = Value("ptr", pointers.text, WARP)
    loaded = masked_gather(b, name, type_, aligned, bits)
    b.ret(loaded)
    return b.define(f"ws_gather_{type_}", f"<{WARP} x {type_}>", address, mask)


def scatter(type_: str) -> str:
    b = Helper()
    address, value = arg(I64, "address", WARP), arg(type_, "value", WARP)
    b.label("entry")
    pointers = b.convert("inttoptr", address, "ptr")
    name = f"llvm.masked.scatter.v{WARP}{type_}.v{WARP}p0"
    b.declared[name] = f"declare void @{name}({value.ir_type}, <{WARP} x ptr>, i32, <{WARP} x i1>)"
    b.emit(f"call void @{name}({value}, {pointers}, i32 {BITS[type_] // 8}, {b.bits_mask(MASK)})")
    b.ret()
    return b.define(f"ws_scatter_{type_}", "void", address, MASK, value)


def permute() -> str:
    """value[source[lane]] for every lane."""
    b = Helper()
    value, source = arg(I32, "value", WARP), arg(I32, "source", WARP)
    b.label("entry")
    slot = b.stack(value)
    pointers = b.let("ptr", WARP, f"getelementptr i32, {slot}, {source}")
    b.ret(
        masked_gather(
            b, f"llvm.masked.gather.v{WARP}i32.v{WARP}p0", I32, pointers, Value("i1", "splat (i1 true)", WARP)
        )
    )
    return b.define("ws_permute", f"<{WARP} x i32>", value, source)


def match_any() -> str:
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
