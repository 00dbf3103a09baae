"""Sectors of global requests and wavefronts of shared ones."""

from __future__ import annotations

from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.runtime.helper import I32, I64, MASK, SIZE, Helper, arg, i32


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
