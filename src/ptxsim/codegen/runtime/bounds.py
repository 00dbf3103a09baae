"""Hazard records, and bounds and alignment of global, shared and local accesses."""

from __future__ import annotations

import ctypes

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.runtime.helper import CONTEXT, I32, I64, KIND, MASK, SITE, SIZE, WORKER, Helper, arg, i32, i64


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
