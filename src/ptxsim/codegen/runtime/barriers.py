"""Barriers of the block and of the warp, and those with a number and a count (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    CHECKED,
    CONTEXT,
    I32,
    I64,
    MASK,
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    helper,
    i32,
    i64,
    report,
    tell_async,
)

_C = L.ContextLayout


@helper("ws_warp_sync", "void", WORKER, CONTEXT, arg(I32, "masks", WARP), MASK)
def warp_sync(b: Helper, masks: IRValue) -> None:
    """__syncwarp of the lanes `mask`, each with the lanes it names: what they did before is ordered before what they
    do from now on. Where that is not the whole warp, only the exact race shadow can tell."""
    at = b.offset(WORKER, L.field("time"))
    now = b.load(I32, at)
    exact = b.worker("exact", I32)
    last = b.or_(b.sub(i32(0), exact), i32(L.LAST_TIME))  # no limit to exact times
    later = b.intrinsic("umin", b.add_const(now, 1), last)
    b.store(later, at)
    live = b.load(I32, b.offset(CONTEXT, _C.LIVE))
    left_out = b.and_(b.not_(masks), b.splat(live))
    whole = b.mask_bits(b.icmp("eq", left_out, b.like(left_out, 0)))
    everybody = b.icmp("eq", b.and_(b.and_(whole, MASK), live), live)
    all_meet, some_meet, done = b.new_label("all"), b.new_label("some"), b.new_label("done")
    b.branch(everybody, all_meet, some_meet, then=all_meet)
    b.store(later, b.offset(CONTEXT, _C.SYNC_TIME))
    b.br(done, then=some_meet)
    with b.if_(b.icmp("ne", exact, i32(0))):
        warp = b.warp()
        table = b.offset(b.worker("lane_syncs", "ptr"), b.shl(b.resize(warp, I64), 12))
        slots = b.stack(masks)
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            row = b.offset(table, b.shl(b.resize(lane, I64), 7))
            with b.loop(i32(WARP)) as other, b.if_(b.lane_active(other, b.element(slots, I32, lane))):
                b.set_element(row, later, other)
    b.br(done, then=done)
    with b.if_(b.icmp("ne", exact, i32(0)), likely=False):
        report(b, L.Event.MEET, b.warp(), i64(0))


@helper("ws_block_barrier", "void", WORKER, arg(I32, "granule_log2"))
def block_barrier(b: Helper, granule_log2: IRValue) -> None:
    """A block barrier opens: everything before is ordered before everything after."""
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


@helper("ws_idle", I32, WORKER, CONTEXT, CHECKED)
def idle(b: Helper, checked: IRValue) -> None:
    """No lane of the warp can run: -1 to go on (a warp barrier opened), else what `masked` returns.

    A lane that waits at __syncwarp goes on once all lanes of its mask wait so too or have exited. Lanes that have
    looped for long give way to the other warps. Lanes that wait at a block barrier leave to the driver; if others of
    the warp have exited or wait elsewhere, the barrier is divergent.
    """
    pcs_at = b.offset(CONTEXT, _C.PCS)
    pcs = b.load("i16", pcs_at, WARP, align=64)
    gone = b.icmp("eq", pcs, b.like(pcs, L.EXITED))
    gone_bits = b.mask_bits(gone)
    with b.if_(b.icmp("eq", gone_bits, i32(-1))):
        b.leave(i32(L.DONE << 16))
    flags = b.and_const(pcs, L.YIELD_FLAG)
    yielded = b.and_(b.icmp("eq", flags, b.like(pcs, L.YIELD_FLAG)), b.not_(gone))
    meeting = b.icmp("eq", flags, b.like(pcs, L.WARP_BARRIER_FLAG))
    meeting_bits = b.mask_bits(meeting)
    with b.if_(b.icmp("ne", meeting_bits, i32(0))):
        _open_warp_barriers(b, pcs, meeting, gone_bits, checked)
    with b.if_(b.icmp("ne", b.mask_bits(yielded), i32(0))):
        b.store(b.select(yielded, b.and_const(pcs, L.MAX_BLOCKS - 1), pcs), pcs_at, align=64)
        b.leave(i32(L.YIELDED << 16))
    with b.if_(b.icmp("ne", meeting_bits, i32(0))):
        _give_up_warp_barrier(b, pcs, meeting, b.or_(meeting_bits, gone_bits), checked)
    waiting = b.not_(gone_bits)
    lane = b.first_bit(waiting)
    place = b.element(pcs_at, "i16", lane)
    target = b.resize(b.and_const(place, L.MAX_BLOCKS - 1), I32)
    b.store(waiting, b.offset(CONTEXT, _C.PARTICIPANTS))
    with b.if_(b.icmp("ne", checked, i32(0))):
        elsewhere = b.and_(b.mask_bits(b.icmp("ne", pcs, b.splat(place))), waiting)
        missing = b.or_(elsewhere, b.and_(gone_bits, b.load(I32, b.offset(CONTEXT, _C.LIVE))))
        with b.if_(b.icmp("ne", missing, i32(0))):
            _divergent(b, pcs_at, target, lane, b.first_bit(missing))
    b.ret(b.or_(i32(L.MASKED_BARRIER << 16), target))


def _divergent(b: Helper, pcs_at: IRValue, target: IRValue, lane: IRValue, other: IRValue) -> None:
    """Reports that `lane` waits at the barrier before block `target`, which lane `other` does not reach."""
    place = b.resize(b.element(pcs_at, "i16", other), I64)
    b.call("ws_hazard", "void", WORKER, CONTEXT, i32(L.DIVERGENT_BARRIER), target, lane, b.resize(other, I64), place)


def _open_warp_barriers(b: Helper, pcs: IRValue, meeting: IRValue, gone: IRValue, checked: IRValue) -> None:
    """Returns -1 if some lanes of `meeting` may go on: all lanes of their mask wait with the same mask, or are gone."""
    masks = b.load(I32, b.offset(CONTEXT, _C.WARP_MASKS), WARP, align=64)
    same = b.call("ws_match_any", I32, b.resize(masks, I64), b.mask_bits(meeting), lanes=WARP)
    missing = b.and_(masks, b.not_(b.or_(same, b.splat(gone))))
    free = b.and_(meeting, b.icmp("eq", missing, b.like(missing, 0)))
    with b.if_(b.icmp("ne", b.mask_bits(free), i32(0))):
        at = b.offset(CONTEXT, _C.PCS)
        b.store(b.select(free, b.and_const(pcs, L.MAX_BLOCKS - 1), pcs), at, align=64)
        ordered = b.and_(b.mask_bits(free), b.not_(b.load(I32, b.offset(CONTEXT, _C.MEETING))))
        with b.if_(b.and_(b.icmp("ne", checked, i32(0)), b.icmp("ne", ordered, i32(0)))):
            b.call("ws_warp_sync", "void", WORKER, CONTEXT, masks, ordered)
        b.leave(i32(-1))


def _give_up_warp_barrier(b: Helper, pcs: IRValue, meeting: IRValue, there: IRValue, checked: IRValue) -> None:
    """The lanes of `meeting` wait for others that never come: reports it and lets them go on."""
    pcs_at = b.offset(CONTEXT, _C.PCS)
    with b.if_(b.icmp("ne", checked, i32(0))):
        lane = b.first_bit(b.mask_bits(meeting))
        mask = b.element(b.offset(CONTEXT, _C.WARP_MASKS), I32, lane)
        target = b.resize(b.and_const(b.element(pcs_at, "i16", lane), L.MAX_BLOCKS - 1), I32)
        _divergent(b, pcs_at, target, lane, b.first_bit(b.and_(mask, b.not_(there))))
    b.store(b.select(meeting, b.and_const(pcs, L.MAX_BLOCKS - 1), pcs), pcs_at, align=64)
    b.leave(i32(-1))


ONE_FOR_ALL = 1 << 32
"""Flag of ws_named_release's result: a single barrier let all warps of the block go on."""


@helper("ws_bar_arrive", "void", WORKER, CONTEXT, MASK, arg(I32, "id"))
def bar_arrive(b: Helper, number: IRValue) -> None:
    """bar.arrive: the warp is counted at barrier `id` and goes on."""
    b.increment(_cell(b, b.offset(WORKER, L.field("arrivals")), number), _threads(b, CONTEXT, MASK))


_P = L.ClusterPart


@helper("ws_cluster_arrive", "void", WORKER, CONTEXT, MASK)
def cluster_arrive(b: Helper) -> None:
    """barrier.cluster.arrive: the lanes of `mask` are counted, and the warp remembers for which phase."""
    part = b.worker("cluster", "ptr")
    b.store(b.load(I32, b.offset(part, _P.phase.offset)), b.offset(CONTEXT, _C.CLUSTER_PHASE))
    live = b.load(I32, b.offset(CONTEXT, _C.LIVE))
    b.increment(b.offset(part, _P.arrived.offset), b.call("llvm.ctpop.i32", I32, b.and_(MASK, live)))
    with b.if_(b.icmp("ne", b.worker("follows", I32), i32(0)), likely=False):
        tell_async(b, L.AsyncEvent.CAME, b.warp(), MASK, i32(L.CLUSTER_BARRIER))
    _open_cluster(b, part)


@helper("ws_cluster_leave", "void", WORKER, CONTEXT)
def cluster_leave(b: Helper) -> None:
    """A warp has ended: its cluster's barrier expects it no more."""
    part, live = b.worker("cluster", "ptr"), b.load(I32, b.offset(CONTEXT, _C.LIVE))
    at = b.offset(part, _P.threads.offset)
    b.store(b.sub(b.load(I32, at), b.call("llvm.ctpop.i32", I32, live)), at)
    b.store(i32(1), b.offset(WORKER, L.field("came_further")))
    _open_cluster(b, part)


def _open_cluster(b: Helper, part: IRValue) -> None:
    """The barrier opens when all threads have come that are left."""
    arrived, threads = (b.load(I32, b.offset(part, f.offset)) for f in (_P.arrived, _P.threads))
    with b.if_(b.and_(b.icmp("uge", arrived, threads), b.icmp("ne", arrived, i32(0)))):
        b.store(i32(0), b.offset(part, _P.arrived.offset))
        b.increment(b.offset(part, _P.phase.offset), i32(1))
        b.store(i32(1), b.offset(WORKER, L.field("came_further")))


def _cell(b: Helper, array: IRValue, number: IRValue) -> IRValue:
    return b.let("ptr", 0, f"getelementptr i32, {array}, {b.and_const(number, L.NAMED_BARRIERS - 1)}")


def _threads(b: Helper, context: IRValue, lanes: IRValue) -> IRValue:
    """Threads that a barrier counts for these lanes of a warp: a warp that comes as a whole counts 32."""
    live = b.load(I32, b.offset(context, _C.LIVE))
    whole = b.icmp("eq", b.and_(lanes, live), live)
    return b.select(whole, i32(32), b.call("llvm.ctpop.i32", I32, lanes))


def _waiting(b: Helper, contexts: IRValue, stride: IRValue, warp: IRValue) -> tuple[IRValue, IRValue, IRValue, IRValue]:
    """(context, whether the warp has not ended, whether it waits at a block barrier, the lanes that wait)"""
    context = b.offset(contexts, b.mul(warp, stride))
    code = b.lshr(b.load(I32, b.offset(context, _C.STATUS)), 16)
    together = b.icmp("eq", code, i32(L.AT_BARRIER))
    waits = b.or_(together, b.icmp("eq", code, i32(L.MASKED_BARRIER)))
    lanes = b.select(together, i32(-1), b.load(I32, b.offset(context, _C.PARTICIPANTS)))
    return context, b.icmp("ne", code, i32(L.DONE)), waits, lanes


@helper("ws_named_release", I64, WORKER, arg("ptr", "contexts"), arg(I64, "stride"), arg(I64, "warps"))
def named_release(b: Helper, contexts: IRValue, stride: IRValue, warps: IRValue) -> None:
    """Warps that may go on as a bit mask, with ONE_FOR_ALL; the votes of bar.red go to their contexts."""
    waiting, expected, votes, lanes, opened, taken = (
        b.stack(IRValue(I32, "zeroinitializer", L.NAMED_BARRIERS)) for _ in range(6)
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
            b.store(b.intrinsic("umax", b.load(I32, _cell(b, expected, number)), count), _cell(b, expected, number))
            predicate = b.and_(b.load(I32, b.offset(context, _C.PREDICATE)), who)
            b.increment(_cell(b, votes, number), b.call("llvm.ctpop.i32", I32, predicate))
            b.increment(_cell(b, lanes, number), b.call("llvm.ctpop.i32", I32, who))
    released, numbers = b.variable(I64, i64(0)), b.variable(I32, i32(0))
    opens = b.variable("i1", IRValue("i1", "false"))
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
            b.store(b.and_(free, b.icmp("uge", there, wanted)), opens)
            with b.if_(b.icmp("eq", number, i32(L.CLUSTER_BARRIER)), likely=False):
                phase = b.load(I32, b.offset(b.worker("cluster", "ptr"), _P.phase.offset))
                b.store(b.icmp("ne", phase, b.load(I32, b.offset(context, _C.CLUSTER_PHASE))), opens)
            with b.if_(b.load("i1", opens)):
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
