"""Writes down what asynchronous engines do, for the listener that judges who knew what (`run.asynchronous`).

The listener is called when there is no room left.
"""

from __future__ import annotations

import ctypes

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import I32, I64, WARP, WORKER, Helper, IRValue, arg, helper, i32, i64

_R = L.AsyncRecord


@helper("ws_async_tell", "void", WORKER, arg(I32, "event"), arg(I32, "number"), arg(I64, "lanes"))
def async_tell(b: Helper, event: IRValue, warp: IRValue, lanes: IRValue) -> None:
    """An event of a warp, told of these lanes or warps; the rest is in `notice` and `signal_addresses`."""
    count_at, notice = b.offset(WORKER, L.field("record_count")), b.offset(WORKER, L.field("notice"))
    count = b.load(I64, count_at)
    record = b.offset(b.worker("records", "ptr"), b.mul(count, i64(ctypes.sizeof(_R))))
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    for place, value in (
        (_R.kind, event), (_R.warp, warp), (_R.rank, b.worker("rank", I32)), (_R.resident, b.worker("resident", I32)),
        (_R.block, b.worker("block", I64)), (_R.mask, lanes), (_R.shared, shared),
    ):  # fmt: skip
        b.store(value, b.offset(record, place.offset))
    for place, origin in ((_R.notice, notice), (_R.addresses, b.offset(WORKER, L.field("signal_addresses")))):
        size = i64(place.size)
        b.call("llvm.memcpy.p0.p0.i64", "void", b.offset(record, place.offset), origin, size, IRValue("i1", "false"))
    following = b.add_const(count, 1)
    b.store(following, count_at)
    word = [b.offset(notice, 8 * k) for k in range(3)]
    with b.if_(b.is_any(event, L.AsyncEvent.LOAD)):
        _initialized(b, *(b.load(I64, at) for at in word[1:]))
    stores = b.icmp("ne", b.load(I64, word[2]), i64(L.READ))
    addresses, mask = b.offset(notice, L.Notice.lanes.offset), b.resize(lanes, I32)
    written = b.select(b.and_(b.is_any(event, L.AsyncEvent.PEER), stores), mask, i32(0))
    with b.if_(b.icmp("ne", written, i32(0))), b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, written)):
        _initialized(b, b.resize(b.element(addresses, I32, lane), I64), b.load(I64, word[1]))
    with b.if_(b.icmp("uge", following, i64(L.ASYNC_RECORDS)), likely=False):
        b.emit(f"call void {b.worker('on_async', 'ptr').text}({event}, {warp}, {lanes}, {notice})")


def _initialized(b: Helper, address: IRValue, nbytes: IRValue) -> None:
    """For the race shadow, somebody wrote there long ago: who may read when, the listener judges."""
    named, offset = b.lshr(address, L.CLUSTER_WINDOW_SHIFT), b.and_const(address, (1 << L.CLUSTER_WINDOW_SHIFT) - 1)
    own = b.resize(b.worker("rank", I32), I64)
    away = b.select(b.icmp("eq", named, i64(0)), i64(0), b.sub(b.add_const(named, -1), own))
    rank, size = b.add(own, away), b.worker("shared_bytes", I64)
    there = b.icmp("ult", rank, b.resize(b.cluster_blocks(), I64))
    with b.if_(b.and_(there, b.icmp("ule", b.add(offset, nbytes), size))):
        granule = b.worker("shared_granule", I64)
        last = b.add_const(b.binary("lshr", b.add_const(b.add(offset, nbytes), -1), granule), 1)
        first = b.binary("lshr", offset, granule)
        shadow = b.offset(b.worker("shadow", "ptr"), b.mul(away, b.worker("shadow_stride", I64)))
        b.fill(b.offset(shadow, b.shl(first, 2)), 0, b.shl(b.sub(last, first), 2))
