"""Barriers with a number and a count: which warps may go on (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import Value
from ptxsim.codegen.runtime.helper import CONTEXT, I32, I64, MASK, WORKER, Helper, arg, i32, i64

_C = L.ContextLayout
ONE_FOR_ALL = 1 << 32
"""Flag of ws_named_release's result: a single barrier let all warps of the block go on."""


def arrive() -> str:
    """bar.arrive: the warp is counted at barrier `id` and goes on."""
    b = Helper()
    number = arg(I32, "id")
    b.label("entry")
    b.increment(_cell(b, b.offset(WORKER, L.field("arrivals")), number), _threads(b, CONTEXT, MASK))
    b.ret()
    return b.define("ws_bar_arrive", "void", WORKER, CONTEXT, MASK, number)


def _cell(b: Helper, array: Value, number: Value) -> Value:
    return b.let("ptr", 0, f"getelementptr i32, {array}, {b.and_const(number, L.NAMED_BARRIERS - 1)}")


def _threads(b: Helper, context: Value, lanes: Value) -> Value:
    """Threads that a barrier counts for these lanes of a warp: a warp that comes as a whole counts 32."""
    live = b.load(I32, b.offset(context, _C.LIVE))
    whole = b.icmp("eq", b.and_(lanes, live), live)
    return b.select(whole, i32(32), b.call("llvm.ctpop.i32", I32, lanes))


def _waiting(b: Helper, contexts: Value, stride: Value, warp: Value) -> tuple[Value, Value, Value, Value]:
    """(context, whether the warp has not ended, whether it waits at a block barrier, the lanes that wait)"""
    context = b.offset(contexts, b.mul(warp, stride))
    code = b.lshr(b.load(I32, b.offset(context, _C.STATUS)), 16)
    together = b.icmp("eq", code, i32(L.AT_BARRIER))
    waits = b.or_(together, b.icmp("eq", code, i32(L.MASKED_BARRIER)))
    lanes = b.select(together, i32(-1), b.load(I32, b.offset(context, _C.PARTICIPANTS)))
    return context, b.icmp("ne", code, i32(L.DONE)), waits, lanes


def release() -> str:
    """Warps that may go on as a bit mask, with ONE_FOR_ALL; the votes of bar.red go to their contexts."""
    b = Helper()
    contexts, stride, warps = arg("ptr", "contexts"), arg(I64, "stride"), arg(I64, "warps")
    b.label("entry")
    waiting, expected, votes, lanes, opened, taken = (
        b.stack(Value(I32, "zeroinitializer", L.NAMED_BARRIERS)) for _ in range(6)
    )
    alive = b.variable(I32, i32(0))
    with b.loop(warps) as warp:
        context, lives, waits, who = _waiting(b, contexts, stride, warp)
        with b.if_(lives):
            b.increment(alive, i32(32))
        with b.if_(waits):
            number = b.load(I32, b.offset(context, _C.BARRIER_ID))
            b.increment(_cell(b, waiting, number), _threads(b, context, who))
            count = b.load(I32, b.offset(context, _C.BARRIER_COUNT))
            largest = b.intrinsic("umax", b.load(I32, _cell(b, expected, number)), count)
            b.store(largest, _cell(b, expected, number))
            predicate = b.and_(b.load(I32, b.offset(context, _C.PREDICATE)), who)
            b.increment(_cell(b, votes, number), b.call("llvm.ctpop.i32", I32, predicate))
            b.increment(_cell(b, lanes, number), b.call("llvm.ctpop.i32", I32, who))
    released, numbers = b.variable(I64, i64(0)), b.variable(I32, i32(0))
    arrivals = b.offset(WORKER, L.field("arrivals"))
    with b.loop(warps) as warp:
        context, _, waits, who = _waiting(b, contexts, stride, warp)
        with b.if_(waits):
            number = b.load(I32, b.offset(context, _C.BARRIER_ID))
            count = b.load(I32, _cell(b, expected, number))
            wanted = b.select(b.icmp("eq", count, i32(0)), b.load(I32, alive), count)
            passed_by = b.load(I32, _cell(b, arrivals, number))
            there = b.add(b.load(I32, _cell(b, waiting, number)), passed_by)
            # more than the count have come: they belong to the barrier's next turn
            free = b.icmp("ult", b.add(b.load(I32, _cell(b, taken, number)), passed_by), wanted)
            with b.if_(b.and_(free, b.icmp("uge", there, wanted))):
                b.increment(_cell(b, taken, number), _threads(b, context, who))
                b.store(b.or_(b.load(I64, released), b.binary("shl", i64(1), warp)), released)
                b.store(i32(1), _cell(b, opened, number))
                for array, at in ((votes, _C.VOTE_COUNT), (lanes, _C.VOTE_LANES)):
                    b.store(b.load(I32, _cell(b, array, number)), b.offset(context, at))
                b.store(i32(0), b.offset(context, _C.PREDICATE))
    with b.loop(i32(L.NAMED_BARRIERS)) as number, b.if_(b.icmp("ne", b.load(I32, _cell(b, opened, number)), i32(0))):
        b.store(i32(0), _cell(b, arrivals, number))
        b.increment(numbers, i32(1))
    everyone = b.icmp("eq", b.load(I64, released), b.sub(b.binary("shl", i64(1), warps), i64(1)))
    single = b.icmp("eq", b.load(I32, numbers), i32(1))
    flag = b.select(b.and_(everyone, single), i64(ONE_FOR_ALL), i64(0))
    b.ret(b.or_(b.load(I64, released), flag))
    return b.define("ws_named_release", I64, WORKER, contexts, stride, warps)
