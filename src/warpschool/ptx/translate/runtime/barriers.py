"""Barriers of the block and of the warp."""

from __future__ import annotations

from ...emit import WARP, Value
from .. import layout as L
from .helper import CONTEXT, I32, I64, WORKER, Helper, arg, i32


def warp_sync() -> str:
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


def block_barrier() -> str:
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


def idle() -> str:
    """No lane of the warp can run: -1 to go on (a warp barrier opened), else what `masked` returns.

    Lanes that wait at __syncwarp go on once all others wait or have exited. Lanes that wait at a block barrier leave
    to the driver; if others of the warp have exited or wait elsewhere, the barrier is divergent.
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
            b.call(
                "ws_hazard",
                "void",
                WORKER,
                CONTEXT,
                i32(L.DIVERGENT_BARRIER),
                target,
                lane,
                b.resize(first, I64),
                packed,
            )
    b.ret(b.or_(i32(L.MASKED_BARRIER << 16), target))
    return b.define("ws_idle", I32, WORKER, CONTEXT, checked)
