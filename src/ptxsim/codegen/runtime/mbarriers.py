"""Barrier objects in shared memory: arrivals and waits (PTX ISA 9.7.13.15).

The 64 bits of an object are opaque to a program. Here: for how many arrivals a phase waits (20 bits), how many are
missing (20 bits), and the number of the phase.
"""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value
from ptxsim.codegen.runtime.helper import CONTEXT, I32, I64, MASK, WORKER, Helper, arg, i32, i64
from ptxsim.run.ordering import ARRIVES, COMPLETES, READS, SIGNAL

COUNT_BITS = 20
COUNT_MASK = (1 << COUNT_BITS) - 1
PHASE = 2 * COUNT_BITS
MOST_FAILED_WAITS = 1 << 16
"""Waits in vain, in a row, of all warps of a block, after which nobody is expected to arrive any more."""


def arrive() -> str:
    """The lanes of `mask` arrive one after the other, each `counts` times; each gets the state before.

    `dropping` is 1 where later phases are to expect that many arrivals fewer, `tracking` is 1 where an arrival is only
    announced: the phase waits for one more.
    """
    b = Helper()
    address, counts = arg(I64, "address", WARP), arg(I32, "counts", WARP)
    dropping, tracking = arg(I32, "dropping"), arg(I32, "tracking")
    b.label("entry")
    addresses, numbers = b.stack(address), b.stack(counts)
    result, completed = b.stack(Value(I64, "zeroinitializer", WARP)), b.variable(I32, i32(0))
    drops, announces = b.icmp("ne", dropping, i32(0)), b.icmp("ne", tracking, i32(0))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        pointer = b.pointer(b.element(addresses, I64, lane))
        old = b.load(I64, pointer)
        b.store(old, b.let("ptr", 0, f"getelementptr i64, {result}, {lane}"))
        count = b.resize(b.element(numbers, I32, lane), I64)
        expected, missing, phase = _fields(b, old)
        expected = b.and_const(b.select(drops, b.sub(expected, count), expected), COUNT_MASK)
        missing = b.select(announces, b.add(missing, count), b.sub(missing, count))
        over = b.icmp("sle", missing, i64(0))
        phase = b.add(phase, b.resize(over, I64))
        missing = b.and_const(b.select(over, expected, missing), COUNT_MASK)
        b.store(b.or_(b.or_(expected, b.shl(missing, COUNT_BITS)), b.shl(phase, PHASE)), pointer)
        bit = b.binary("shl", b.resize(over, I32), lane)
        b.store(b.or_(b.load(I32, completed), bit), completed)
    b.store(i32(0), b.offset(WORKER, L.field("failed_waits")))
    _tell(b, address, b.select(announces, i32(0), MASK), ARRIVES)
    _tell(b, address, b.load(I32, completed), COMPLETES)
    b.ret(b.load(I64, result, WARP, align=64))
    return b.define("ws_mbarrier_arrive", f"<{WARP} x i64>", WORKER, CONTEXT, address, MASK, counts, dropping, tracking)


def _fields(b: Helper, state: Value) -> tuple[Value, Value, Value]:
    return b.and_const(state, COUNT_MASK), b.and_const(b.lshr(state, COUNT_BITS), COUNT_MASK), b.lshr(state, PHASE)


def _tell(b: Helper, address: Value, lanes: Value, flags: int) -> None:
    """Reports to `ordering`, with the exact race shadow."""
    told = b.and_(b.icmp("ne", b.worker("exact", I32), i32(0)), b.icmp("ne", lanes, i32(0)))
    with b.if_(told, likely=False):
        slot = b.offset(WORKER, L.field("signal_addresses"))
        b.store(address, slot, align=8)
        both = b.or_(b.resize(lanes, I64), i64(flags << 32))
        warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
        listener = b.worker("on_sync", "ptr")
        b.emit(f"call void {listener.text}(i32 {SIGNAL}, {warp}, {both}, {slot})")


def waited() -> str:
    """The lanes of `mask` have looked whether a phase is `over`: 1 if the block waits for ever, else 0.

    A lane that has to wait gives way at the head of its loop.
    """
    b = Helper()
    address, over = arg(I64, "address", WARP), arg(I32, "over")
    b.label("entry")
    at = b.offset(WORKER, L.field("failed_waits"))
    met, failed = b.and_(MASK, over), b.and_(MASK, b.not_(over))
    _tell(b, address, met, READS)
    with b.if_(b.icmp("ne", met, i32(0))):
        b.store(i32(0), at)
    with b.if_(b.icmp("eq", failed, i32(0)), likely=True):
        b.ret(i32(0))
        b.label(b.new_label("unreached"))
    b.store(i32(1), b.offset(WORKER, L.field("yield_due")))
    b.increment(at, i32(1))
    lane = b.call("llvm.cttz.i32", I32, failed, Value("i1", "true"))
    waiting = b.element(b.stack(address), I64, lane)
    warp = b.load(I32, b.offset(CONTEXT, L.ContextLayout.WARP_INDEX))
    b.store(b.or_(b.shl(warp, L.WARP_SHIFT), lane), b.offset(WORKER, L.field("waiting_thread")))
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    b.store(b.sub(waiting, shared), b.offset(WORKER, L.field("waiting_at")))
    b.ret(b.resize(b.icmp("ugt", b.load(I32, at), i32(MOST_FAILED_WAITS)), I32))
    return b.define("ws_mbarrier_waited", I32, WORKER, CONTEXT, address, MASK, over)
