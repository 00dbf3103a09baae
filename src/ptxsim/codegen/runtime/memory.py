"""What every access needs: hazard records, bounds and alignment, counters, and moves between lanes and memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
from ptxsim.heap import HEAP_ALIGNMENT


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


_HEAP_UNIT_LOG2 = HEAP_ALIGNMENT.bit_length() - 1
_TABLES = {"ws_find": ("allocations", "allocation_count"), "ws_find_const": ("constants", "constant_count")}


@helper("{}", "ptr", WORKER, arg(I64, "address"), SIZE, over=(("ws_find",), ("ws_find_const",)))
def find(b: Helper, address: IRValue, name: str) -> None:
    """The entry of the table of allocations, or of those in constant memory, that holds [address, address + size), or
    null."""
    entries, number = _TABLES[name]
    table, count = b.worker(entries, "ptr"), b.worker(number, I64)
    end = b.add(address, b.resize(SIZE, I64))
    with b.loop(count) as k:
        entry = b.offset(table, b.mul(k, i64(L.SITE_BYTES)))
        low, high = b.load(I64, entry), b.load(I64, b.offset(entry, 8))
        inside = b.and_(b.icmp("uge", address, low), b.icmp("ule", end, high))
        inside = b.and_(inside, b.icmp("ult", address, high))  # an address just below 2^64 has its end at 0
        with b.leaving(inside, "found", "further", None):
            b.ret(entry)
    if name == "ws_find":
        _find_in_heap(b, address, end)
    b.ret(NULL)


def _in_heap(b: Helper, address: IRValue) -> IRValue:
    low, high = b.worker("heap_low", I64), b.worker("heap_high", I64)
    return b.and_(b.icmp("uge", address, low), b.icmp("ult", address, high))


def _find_in_heap(b: Helper, address: IRValue, end: IRValue) -> None:
    """Returns the entry of the heap's block that holds [address, end), if there is one."""
    with b.if_(_in_heap(b, address), likely=False):
        unit = b.lshr(b.sub(address, b.worker("heap_low", I64)), _HEAP_UNIT_LOG2)
        owner = b.load(I32, b.offset(b.worker("heap_owners", "ptr"), b.shl(unit, 2)))
        with b.if_(b.icmp("ne", owner, i32(0))):
            place = b.mul(b.resize(b.add_const(owner, -1), I64), i64(ctypes.sizeof(L.Site)))
            entry = b.offset(b.worker("heap_sites", "ptr"), place)
            with b.if_(b.icmp("ule", end, b.load(I64, b.offset(entry, L.Site.high.offset)))):
                b.leave(entry)


def _stray(b: Helper) -> None:
    """One of the accesses that a launch may make where it should not; behind the last of them it ends."""
    at = b.offset(WORKER, L.field("strays"))
    left = b.add_const(b.load(I64, at), -1)
    b.store(left, at)
    with b.if_(b.icmp("slt", left, i64(0)), likely=False):
        b.store(i32(1), b.offset(WORKER, L.field("stop")))
        b.store(i64(0), b.offset(WORKER, L.field("budget")))


def _gap(b: Helper, address: IRValue, name: str) -> tuple[IRValue, IRValue]:
    """[low, high) around an address that is the start of no access: no array has a byte there, but at the address."""
    entries, number = _TABLES[name]
    table, count = b.worker(entries, "ptr"), b.worker(number, I64)
    below, above = b.variable(I64, i64(0)), b.variable(I64, i64(-1))

    def narrow(low: IRValue, high: IRValue) -> None:
        within = b.and_(b.icmp("uge", address, low), b.icmp("ult", address, high))  # it ends behind the array
        least = b.select(within, address, b.select(b.icmp("uge", address, high), high, i64(0)))
        most = b.select(within, b.add_const(address, 1), b.select(b.icmp("ult", address, low), low, i64(-1)))
        b.store(b.intrinsic("umax", b.load(I64, below), least), below)
        b.store(b.intrinsic("umin", b.load(I64, above), most), above)

    with b.loop(count) as k:
        entry = b.offset(table, b.mul(k, i64(L.SITE_BYTES)))
        narrow(b.load(I64, entry), b.load(I64, b.offset(entry, 8)))
    narrow(b.worker("heap_low", I64), b.worker("heap_high", I64))
    return b.load(I64, below), b.load(I64, above)


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
    misaligned = b.and_(b.mask_bits(odd), MASK)
    addresses = b.stack(address)
    with b.if_(b.icmp("ne", misaligned, i32(0)), likely=False):
        lane = b.first_bit(misaligned)
        b.hazard(i32(L.MISALIGNED), lane, b.element(addresses, I64, lane), i64(0))
    ok = b.and_(_inside_some_array(b, address, addresses, find), b.not_(misaligned))
    with b.if_(b.icmp("ne", ok, MASK), likely=False):
        _stray(b)
    b.ret(ok)


def _inside_some_array(b: Helper, address: IRValue, addresses: IRValue, find: str) -> IRValue:
    """Lanes whose access is inside an array, one array or gap between arrays at a time; the site learns of one.

    That is an array with a race shadow, where some lane accesses one: who tracks races asks the site.
    """
    site, size = b.site(), b.resize(SIZE, I64)
    ok, shadowed = b.variable(I32, i32(0)), b.variable(I64, i64(0))
    with _turns(b, MASK) as (left, leave):
        lane = b.first_bit(left)
        a = b.element(addresses, I64, lane)
        entry = b.call(find, "ptr", WORKER, a, SIZE)
        found, missing, join = (b.new_label(name) for name in ("found", "missing", "next"))
        b.branch(b.icmp("ne", entry, NULL), found, missing, then=found)
        low, high, shadow = (b.load(I64, b.offset(entry, part)) for part in (0, 8, 16))
        within = b.and_(
            b.icmp("uge", address, b.splat(low)), b.icmp("ule", address, b.splat(b.sub(high, size))),
        )  # fmt: skip
        those = b.and_(b.mask_bits(within), left)
        b.store(b.or_(b.load(I32, ok), those), ok)
        with b.if_(b.icmp("eq", b.load(I64, shadowed), i64(0))):
            b.store(shadow, shadowed)
            for part, value in ((0, low), (8, high), (16, shadow)):
                b.store(value, b.offset(site, part))
        found_at = b.label_now
        b.br(join, then=missing)
        b.hazard(i32(L.OUT_OF_BOUNDS), lane, a, b.load(I64, b.offset(WORKER, L.field("heap_moment"))))
        below, above = _gap(b, a, find)
        between = b.and_(b.icmp("uge", address, b.splat(below)), b.icmp("ult", address, b.splat(above)))
        others = b.and_(b.mask_bits(between), left)
        missing_at = b.label_now
        b.br(join, then=join)
        done = b.phi((those, found_at), (others, missing_at))
        leave(b.and_(b.and_(left, b.not_(done)), b.add_const(left, -1)))  # without its lowest lane in any case
    return b.load(I32, ok)


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
        _stray(b)
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
        _stray(b)
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
        _stray(b)
    b.ret(b.and_(MASK, b.not_(wrong)))


_TABLE = 64
"""Places of a table in which lanes look for others with the same number."""


@contextmanager
def _turns(b: Helper, mask: IRValue) -> Iterator[tuple[IRValue, Callable[[IRValue], None]]]:
    """A loop as long as lanes of a mask are left: yields them, and what takes those that are left after a turn."""
    left = b.variable(I32, mask)
    again, done = b.new_label("turn"), b.new_label("turns")
    b.branch(b.icmp("ne", mask, i32(0)), again, done, then=again)
    yield b.load(I32, left), lambda others: b.store(others, left)
    b.branch(b.icmp("ne", b.load(I32, left), i32(0)), again, done, then=done)


def distinct_values(b: Helper, units: IRValue, mask: IRValue) -> IRValue:
    """Number of distinct values among the active lanes of a vector of integers (i64 result).

    Where they do not rise with the lanes, each lane writes its number and its value into a table at a place that
    follows from the value. Of those at one place the last is found there: that is a value, and all lanes that have it
    too are done.
    """
    full, any_order, join = b.new_label("sorted"), b.new_label("unsorted"), b.new_label("counted")
    previous = b.shuffle(units, [0, *range(WARP - 1)])
    rising = b.mask_bits(b.icmp("uge", units, previous))
    b.branch(b.and_(b.icmp("eq", mask, i32(-1)), b.icmp("eq", rising, i32(-1))), full, any_order, then=full)
    first = b.add_const(b.call("llvm.ctpop.i32", I32, b.mask_bits(b.icmp("ne", units, previous))), 1)
    b.br(join, then=any_order)
    values, lanes = (b.let("ptr", 0, f"alloca [{_TABLE} x {type_}], align 64") for type_ in (units.type, I32))
    count, numbers = b.variable(I32, i32(0)), constants(I32, range(WARP))
    place = b.and_const(b.xor(units, b.xor(b.lshr(units, 6), b.lshr(units, 12))), _TABLE - 1)
    value_at = b.let("ptr", WARP, f"getelementptr {units.type}, {values}, {place}")
    lane_at = b.let("ptr", WARP, f"getelementptr {I32}, {lanes}, {place}")
    with _turns(b, mask) as (left, leave):
        b.scatter(numbers, lane_at, left)
        b.scatter(units, value_at, left)
        last = b.mask_bits(b.icmp("eq", b.gather(I32, lane_at, left), numbers))
        other = b.mask_bits(b.icmp("ne", b.gather(units.type, value_at, left), units))
        b.increment(count, b.call("llvm.ctpop.i32", I32, b.and_(last, left)))
        leave(b.and_(other, left))
    second, second_at = b.load(I32, count), b.label_now
    b.br(join, then=join)
    return b.resize(b.phi((first, full), (second, second_at)), I64)


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


@helper("ws_count_shared", "void", OFFSET, MASK, SIZE, COUNTER)
def count_shared(b: Helper, offset: IRValue, counter: IRValue) -> None:
    """counter[0] += wavefronts, counter[1] += bank conflicts.

    A request of 4 bytes a lane is one phase; 8 bytes run in two phases of 16 lanes, 16 bytes in four of 8. Phases of
    wide accesses hold twice as many lanes where lanes pair up (see shared_memory.bank_conflicts). In a phase each bank
    delivers one word a wavefront, to all lanes that want it.
    """
    unit_bytes = b.select(b.icmp("ult", SIZE, i32(4)), i32(4), SIZE)
    shift = b.first_bit(unit_bytes)
    units = b.binary("lshr", offset, b.splat(shift))
    groups = b.binary("lshr", i32(128), shift)  # units that fit the 32 banks side by side
    twice = b.and_(b.icmp("ugt", SIZE, i32(4)), b.or_(_in_pairs(b, offset, 1), _in_pairs(b, offset, 2)))
    lanes_per_phase = b.binary("shl", groups, b.resize(twice, I32))
    lanes = constants(I32, range(WARP))
    phase = b.binary("lshr", lanes, b.splat(b.first_bit(lanes_per_phase)))
    bank = b.and_(units, b.splat(b.sub(groups, i32(1))))
    banks = b.let("ptr", 0, f"alloca [{2 * WARP} x i32], align 64")  # those of each phase
    at = b.let("ptr", WARP, f"getelementptr i32, {banks}, {b.add(b.mul(phase, b.splat(groups)), bank)}")
    phase_bit = b.binary("shl", b.like(lanes, 1), phase)

    def phases(mask: IRValue) -> IRValue:
        """The phases that some lane of a mask takes part in."""
        found = b.select(b.bits_mask(mask), phase_bit, b.like(phase_bit, 0))
        return b.resize(b.call("llvm.ctpop.i32", I32, b.call(f"llvm.vector.reduce.or.v{WARP}i32", I32, found)), I64)

    total = b.variable(I64, i64(0))
    with _turns(b, MASK) as (left, leave):  # a turn is a wavefront of each phase that is not done
        b.scatter(units, at, left)
        b.increment(total, phases(left))
        leave(b.and_(b.mask_bits(b.icmp("ne", b.gather(I32, at, left), units)), left))
    b.increment(counter, b.load(I64, total))
    b.increment(b.offset(counter, 8), b.sub(b.load(I64, total), phases(MASK)))


@helper("ws_gather_{}", "<32 x {}>", ADDRESS, MASK, over=INTEGERS)
def gather(b: Helper, address: IRValue, type_: str) -> None:
    pointers = b.convert("inttoptr", address, "ptr")
    with b.leaving(b.icmp("eq", MASK, ALL_LANES), "whole", "some", likely=None):
        b.ret(b.gather(type_, pointers, ALL_LANES))
    b.ret(b.gather(type_, pointers, MASK))


@helper("ws_gather_quads", "void", ADDRESS, MASK, arg("ptr", "result"))
def gather_quads(b: Helper, address: IRValue, result: IRValue) -> None:
    """Four words from each lane's address on, as four vectors; zeros for lanes that are not in the mask."""
    with b.leaving(b.icmp("eq", MASK, ALL_LANES), "whole", "some", likely=None):
        quads = [b.load(I32, b.pointer(b.extract(address, lane)), 4) for lane in range(WARP)]
        _store_words(b, quads, result)
        b.ret()
    addresses, found = b.stack(address), b.stack(constant(I32, 0, 4 * WARP))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        quad = b.load(I32, b.pointer(b.element(addresses, I64, lane)), 4)
        b.store(quad, b.offset(found, b.shl(b.resize(lane, I64), 4)))
    _store_words(b, [b.load(I32, b.offset(found, 16 * lane), 4) for lane in range(WARP)], result)
    b.ret()


_SIDE_BY_SIDE = 8
"""Lanes whose quads are turned together: as many words as a vector of the host has."""


def _store_words(b: Helper, quads: list[IRValue], result: IRValue) -> None:
    for first in range(0, WARP, _SIDE_BY_SIDE):
        for k, words in enumerate(b.words_of(quads[first : first + _SIDE_BY_SIDE])):
            b.store(words, b.offset(result, 4 * (k * WARP + first)))


@helper("ws_scatter_{}", "void", ADDRESS, MASK, arg("{}", "value", WARP), over=INTEGERS)
def scatter(b: Helper, address: IRValue, value: IRValue, type_: str) -> None:
    pointers = b.convert("inttoptr", address, "ptr")
    with b.leaving(b.icmp("eq", MASK, ALL_LANES), "whole", "some", likely=None):
        b.scatter(value, pointers, ALL_LANES)
        b.ret()
    b.scatter(value, pointers, MASK)


@helper("ws_scatter_quads", "void", ADDRESS, MASK, arg("ptr", "value"))
def scatter_quads(b: Helper, address: IRValue, value: IRValue) -> None:
    """Stores four vectors as four words from each lane's address on."""
    quads: list[IRValue] = []
    for first in range(0, WARP, _SIDE_BY_SIDE):
        places = [b.offset(value, 4 * (k * WARP + first)) for k in range(4)]
        quads += b.quads_of([b.load(I32, place, _SIDE_BY_SIDE) for place in places])
    with b.leaving(b.icmp("eq", MASK, ALL_LANES), "whole", "some", likely=None):
        for k, quad in enumerate(quads):
            b.store(quad, b.pointer(b.extract(address, k)))
        b.ret()
    addresses, given = b.stack(address), b.stack(b.concat(quads))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        quad = b.load(I32, b.offset(given, b.shl(b.resize(lane, I64), 4)), 4)
        b.store(quad, b.pointer(b.element(addresses, I64, lane)))
    b.ret()


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
