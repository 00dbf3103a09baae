"""What every access needs: hazard records, bounds and alignment, counters, and moves between lanes and memory."""

from __future__ import annotations

import ctypes

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    ADDRESS,
    ALL_LANES,
    CONTEXT,
    COUNTER,
    I32,
    I64,
    INTEGERS,
    KIND,
    MASK,
    NULL,
    OFFSET,
    SITE,
    SIZE,
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    helper,
    i32,
    i64,
)


@helper("ws_hazard", "void", WORKER, CONTEXT, KIND, SITE, arg(I32, "lane"), arg(I64, "address"), arg(I64, "state"))
def hazard(b: Helper, lane: IRValue, address: IRValue, state: IRValue) -> None:
    """Notes a hazard once per (site, kind)."""
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
            "warp": b.warp(),
        }  # fmt: skip
        for name, value in values.items():
            b.store(value, b.offset(record, getattr(L.HazardRecord, name).offset))
        b.store(b.add(count, i64(1)), count_at)


_TABLES = {"ws_find": ("allocations", "allocation_count"), "ws_find_const": ("constants", "constant_count")}


@helper("{}", "ptr", WORKER, arg(I64, "address"), SIZE, over=(("ws_find",), ("ws_find_const",)))
def find(b: Helper, address: IRValue, name: str) -> None:
    """The entry of the table of allocations, or of those in constant memory, that holds [address, address + size), or
    null."""
    entries, number = _TABLES[name]
    table, count = b.worker(entries, "ptr"), b.worker(number, I64)
    end = b.add(address, b.resize(SIZE, I64))
    with b.loop(count) as k:
        entry = b.offset(table, b.mul(k, i64(24)))
        low, high = b.load(I64, entry), b.load(I64, b.offset(entry, 8))
        inside = b.and_(b.icmp("uge", address, low), b.icmp("ule", end, high))
        inside = b.and_(inside, b.icmp("ult", address, high))  # an address just below 2^64 has its end at 0
        with b.leaving(inside, "found", "further", None):
            b.ret(entry)
    b.ret(NULL)


@helper(
    "ws_check_{}", I32, WORKER, CONTEXT, ADDRESS, MASK, SIZE, SITE,
    over=(("global", "ws_find"), ("const", "ws_find_const")),
)  # fmt: skip
def check_global(b: Helper, address: IRValue, _space: str, find: str) -> None:
    """Lanes of `mask` whose access is aligned and inside an allocation; the others become hazards."""
    site = b.site()
    size = b.resize(SIZE, I64)
    low, high = b.load(I64, site), b.load(I64, b.offset(site, 8))
    last = b.sub(high, size)
    bad = b.or_(b.icmp("ult", address, b.splat(low)), b.icmp("ugt", address, b.splat(last)))
    odd = b.icmp("ne", b.and_(address, b.splat(b.sub(size, i64(1)))), b.like(address, 0))
    wrong = b.and_(b.mask_bits(b.or_(bad, odd)), MASK)
    with b.leaving(lambda: b.and_(b.icmp("eq", wrong, i32(0)), b.icmp("ult", low, high)), "fine", "slow", None):
        b.ret(MASK)
    addresses = b.stack(address)
    ok = b.variable(I32, i32(0))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        a = b.element(addresses, I64, lane)
        misaligned = b.icmp("ne", b.and_(a, b.sub(size, i64(1))), i64(0))
        with b.if_(misaligned):
            b.hazard(i32(L.MISALIGNED), lane, a, i64(0))
        entry = b.call(find, "ptr", WORKER, a, SIZE)
        missing = b.icmp("eq", entry, NULL)
        with b.if_(missing):
            b.hazard(i32(L.OUT_OF_BOUNDS), lane, a, i64(0))
        with b.if_(b.not_(b.or_(missing, misaligned))):
            b.store(b.or_(b.load(I32, ok), b.binary("shl", i32(1), lane)), ok)
            for part in (0, 8, 16):
                b.store(b.load(I64, b.offset(entry, part)), b.offset(site, part))
    b.ret(b.load(I32, ok))


@helper("ws_check_shared", I32, WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE)
def check_shared(b: Helper, offset: IRValue) -> None:
    """Lanes of `mask` whose shared access is aligned and inside the block's shared memory."""
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
                lane = b.first_bit(hit)
                b.hazard(i32(kind), lane, b.element(offsets, I64, lane), i64(0))
    b.ret(b.and_(MASK, b.not_(wrong)))


@helper("ws_check_cluster", I32, WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE)
def check_cluster(b: Helper, address: IRValue) -> None:
    """Lanes of `mask` whose access is inside the shared memory of another block of the cluster."""
    blocks = b.cluster_blocks()
    rank = b.add_const(b.lshr(address, L.CLUSTER_WINDOW_SHIFT), -1)
    offset = b.and_const(address, (1 << L.CLUSTER_WINDOW_SHIFT) - 1)
    last = b.sub(b.resize(b.worker("shared_bytes", I64), I32), SIZE)
    outside = b.or_(b.icmp("uge", rank, b.splat(blocks)), b.icmp("sgt", offset, b.splat(last)))
    wrong = b.and_(b.mask_bits(outside), MASK)
    with b.if_(b.icmp("ne", wrong, i32(0)), likely=False):
        lane = b.first_bit(wrong)
        b.hazard(i32(L.SHARED_OUT_OF_BOUNDS), lane, b.resize(b.element(b.stack(address), I32, lane), I64), i64(0))
    b.ret(b.and_(MASK, b.not_(b.mask_bits(outside))))


@helper("ws_check_local", I32, WORKER, CONTEXT, arg(I64, "offset", WARP), MASK, SIZE, SITE, arg(I64, "limit"))
def check_local(b: Helper, offset: IRValue, limit: IRValue) -> None:
    """Lanes of `mask` whose access is aligned and inside the thread's local memory."""
    bad = b.icmp("sgt", offset, b.splat(b.sub(limit, b.resize(SIZE, I64))))
    odd = b.icmp("ne", b.and_(offset, b.splat(b.resize(b.sub(SIZE, i32(1)), I64))), b.like(offset, 0))
    wrong = b.and_(b.mask_bits(b.or_(bad, b.or_(odd, b.icmp("slt", offset, b.like(offset, 0))))), MASK)
    with b.if_(b.icmp("ne", wrong, i32(0)), likely=False):
        lane = b.first_bit(wrong)
        b.hazard(i32(L.LOCAL_OUT_OF_BOUNDS), lane, b.element(b.stack(offset), I64, lane), i64(0))
    b.ret(b.and_(MASK, b.not_(wrong)))


def _repeated(b: Helper, units: IRValue, unit: IRValue, lane: IRValue, mask: IRValue) -> IRValue:
    """The active lanes below `lane` that have its unit too."""
    same = b.mask_bits(b.icmp("eq", units, b.splat(unit)))
    earlier = b.sub(b.binary("shl", i32(1), lane), i32(1))
    return b.and_(b.and_(same, earlier), mask)


def distinct_values(b: Helper, units: IRValue, mask: IRValue) -> IRValue:
    """Number of distinct values among the active lanes of a vector of integers (i64 result)."""
    full, any_order, join = b.new_label("sorted"), b.new_label("unsorted"), b.new_label("counted")
    previous = b.shuffle(units, [0, *range(WARP - 1)])
    rising = b.mask_bits(b.icmp("uge", units, previous))
    b.branch(b.and_(b.icmp("eq", mask, i32(-1)), b.icmp("eq", rising, i32(-1))), full, any_order, then=full)
    first = b.add_const(b.call("llvm.ctpop.i32", I32, b.mask_bits(b.icmp("ne", units, previous))), 1)
    b.br(join, then=any_order)
    slot = b.stack(units)
    left, count = b.variable(I32, mask), b.variable(I32, i32(0))
    again, done = b.new_label("value"), b.new_label("values")
    b.branch(b.icmp("ne", mask, i32(0)), again, done, then=again)  # one turn for each value
    lanes = b.load(I32, left)
    same = b.mask_bits(b.icmp("eq", units, b.splat(b.element(slot, units.type, b.first_bit(lanes)))))
    others = b.and_(lanes, b.not_(same))
    b.store(others, left)
    b.increment(count, i32(1))
    b.branch(b.icmp("ne", others, i32(0)), again, done, then=done)
    second = b.load(I32, count)
    b.br(join, then=join)
    return b.resize(b.phi((first, full), (second, done)), I64)


@helper("ws_count_global", "void", ADDRESS, MASK, SIZE, COUNTER)
def count_global(b: Helper, address: IRValue, counter: IRValue) -> None:
    """counter[0] += sectors, counter[1] += the fewest sectors that hold the distinct bytes."""
    with b.if_(b.icmp("ne", MASK, i32(0))):
        b.increment(counter, distinct_values(b, b.resize(b.lshr(address, 5), I32), MASK))
        shift = b.first_bit(SIZE)
        units = b.resize(b.binary("lshr", address, b.splat(b.resize(shift, I64))), I32)
        distinct = distinct_values(b, units, MASK)
        ideal = b.lshr(b.add_const(b.mul(distinct, b.resize(SIZE, I64)), 31), 5)
        b.increment(b.offset(counter, 8), ideal)


@helper("ws_count_copies", "void", ADDRESS, OFFSET, MASK, COUNTER)
def count_copies(b: Helper, address: IRValue, offset: IRValue, counter: IRValue) -> None:
    """counter[0] += sectors of cp.async.cg as an H200 counts them.

    Past L1, lanes go together that want one 128-byte line of global memory and one 32-byte sector of shared memory.
    """
    with b.if_(b.icmp("ne", MASK, i32(0))):
        place = b.resize(b.lshr(offset, 5), I64)
        b.increment(counter, distinct_values(b, b.or_(b.shl(b.lshr(address, 7), 32), place), MASK))


@helper("ws_count_constant", "void", ADDRESS, MASK, COUNTER)
def count_constant(b: Helper, address: IRValue, counter: IRValue) -> None:
    """counter[0] += distinct words."""
    with b.if_(b.icmp("ne", MASK, i32(0))):
        b.increment(counter, distinct_values(b, b.resize(b.lshr(address, 2), I32), MASK))


def _in_pairs(b: Helper, offset: IRValue, distance: int) -> IRValue:
    """Whether every active lane wants the address of lane i^distance, where that one is active too."""
    lanes = [n ^ distance for n in range(WARP)]
    active = b.bits_mask(MASK)
    partner = b.shuffle(active, lanes)
    differs = b.and_(b.icmp("ne", offset, b.shuffle(offset, lanes)), b.and_(active, partner))
    return b.icmp("eq", b.mask_bits(differs), i32(0))


def _phases(b: Helper, offset: IRValue, shift: IRValue) -> tuple[IRValue, IRValue]:
    """(units that fit the 32 banks side by side, lanes of a phase) for a request in units of 2^shift bytes.

    A request of 4 bytes a lane is one phase; 8 bytes run in two phases of 16 lanes, 16 bytes in four of 8. Phases of
    wide accesses hold twice as many lanes where lanes pair up (see shared_memory.bank_conflicts).
    """
    groups = b.binary("lshr", i32(128), shift)
    twice = b.and_(b.icmp("ugt", SIZE, i32(4)), b.or_(_in_pairs(b, offset, 1), _in_pairs(b, offset, 2)))
    return groups, b.binary("shl", groups, b.resize(twice, I32))


def _without_conflicts(b: Helper, units: IRValue, groups: IRValue, lanes_per_phase: IRValue) -> tuple[IRValue, IRValue]:
    """(whether each bank delivers a single word in each phase, the phases that some lane takes part in).

    Every lane notes its unit at its phase's bank, and looks whether that note is still its own.
    """
    table = b.let("ptr", 0, f"alloca [{2 * WARP} x i32], align 64")
    lanes = constants(I32, range(WARP))
    phase = b.binary("lshr", lanes, b.splat(b.first_bit(lanes_per_phase)))
    bank = b.and_(units, b.splat(b.sub(groups, i32(1))))
    place = b.add(b.mul(phase, b.splat(groups)), bank)
    at = b.let("ptr", WARP, f"getelementptr i32, {table}, {place}")
    b.scatter(units, at, MASK)
    found = b.gather(I32, at, MASK)
    differs = b.and_(b.mask_bits(b.icmp("ne", found, units)), MASK)
    # a bit for the first lane of each phase: of those lanes that are active, one per phase counts
    active = b.bits_mask(MASK)
    numbers = b.select(active, b.binary("shl", b.like(lanes, 1), phase), b.like(lanes, 0))
    taking_part = b.call(f"llvm.vector.reduce.or.v{WARP}i32", I32, numbers)
    return b.icmp("eq", differs, i32(0)), b.call("llvm.ctpop.i32", I32, taking_part)


@helper("ws_count_shared", "void", OFFSET, MASK, SIZE, COUNTER)
def count_shared(b: Helper, offset: IRValue, counter: IRValue) -> None:
    """counter[0] += wavefronts, counter[1] += bank conflicts.

    In a phase each bank delivers one word a wavefront: it takes as many wavefronts as the busiest bank has distinct
    words.
    """
    unit_bytes = b.select(b.icmp("ult", SIZE, i32(4)), i32(4), SIZE)
    shift = b.first_bit(unit_bytes)
    units = b.binary("lshr", offset, b.splat(shift))
    groups, lanes_per_phase = _phases(b, offset, shift)
    smooth, taking_part = _without_conflicts(b, units, groups, lanes_per_phase)
    with b.leaving(smooth, "smooth", likely=True):
        b.increment(counter, b.resize(taking_part, I64))
        b.ret()
    slot = b.stack(units)
    histogram = b.let("ptr", 0, f"alloca <{WARP} x i8>, align 32")
    total, conflicts = b.variable(I32, i32(0)), b.variable(I32, i32(0))
    worst = b.variable("i8", constant("i8", 0))
    phase_mask = b.select(
        b.icmp("eq", lanes_per_phase, i32(32)),
        i32(-1),
        b.sub(b.binary("shl", i32(1), b.and_(lanes_per_phase, i32(31))), i32(1)),
    )
    with b.loop(b.binary("udiv", i32(WARP), lanes_per_phase)) as phase:
        first = b.mul(phase, lanes_per_phase)
        active = b.and_(MASK, b.binary("shl", phase_mask, b.and_(first, i32(31))))
        with b.if_(b.icmp("ne", active, i32(0))):
            b.store(constant("i8", 0, WARP), histogram, align=32)
            b.store(constant("i8", 0), worst)
            with b.loop(lanes_per_phase) as k:
                lane = b.add(first, k)
                with b.if_(b.lane_active(lane, active)):
                    unit = b.element(slot, units.type, lane)
                    with b.if_(b.icmp("eq", _repeated(b, units, unit, lane, active), i32(0))):
                        at = b.offset(histogram, b.resize(b.and_(unit, b.sub(groups, i32(1))), I64))
                        ways = b.add(b.load("i8", at), constant("i8", 1))
                        b.store(ways, at)
                        b.store(b.intrinsic("umax", b.load("i8", worst), ways), worst)
            wavefronts = b.resize(b.load("i8", worst), I32)
            b.store(b.add(b.load(I32, total), wavefronts), total)
            b.store(b.add(b.load(I32, conflicts), b.sub(wavefronts, i32(1))), conflicts)
    b.increment(counter, b.resize(b.load(I32, total), I64))
    b.increment(b.offset(counter, 8), b.resize(b.load(I32, conflicts), I64))


@helper("ws_gather_{}", "<32 x {}>", ADDRESS, MASK, over=INTEGERS)
def gather(b: Helper, address: IRValue, type_: str) -> None:
    b.ret(b.gather(type_, b.convert("inttoptr", address, "ptr"), MASK))


@helper("ws_scatter_{}", "void", ADDRESS, MASK, arg("{}", "value", WARP), over=INTEGERS)
def scatter(b: Helper, address: IRValue, value: IRValue, type_: str) -> None:
    b.scatter(value, b.convert("inttoptr", address, "ptr"), MASK)


@helper("ws_permute", "<32 x i32>", arg(I32, "value", WARP), arg(I32, "source", WARP))
def permute(b: Helper, value: IRValue, source: IRValue) -> None:
    """value[source[lane]] for every lane."""
    slot = b.stack(value)
    b.ret(b.gather(I32, b.let("ptr", WARP, f"getelementptr i32, {slot}, {source}"), ALL_LANES))


@helper("ws_match_any", "<32 x i32>", arg(I64, "value", WARP), MASK)
def match_any(b: Helper, value: IRValue) -> None:
    """For every lane the members that hold the same value."""
    slot, result = b.stack(value), b.stack(constant(I32, 0, WARP))
    with b.loop(i32(WARP)) as lane:
        same = b.and_(b.mask_bits(b.icmp("eq", value, b.splat(b.element(slot, I64, lane)))), MASK)
        b.set_element(result, same, lane)
    b.ret(b.load(I32, result, WARP, align=64))
