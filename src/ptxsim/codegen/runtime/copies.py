"""cp.async: copies that land when the thread waits for them, and not before; barrier objects that count arrivals.

Each warp has a queue. An entry holds, per lane, where to copy from and to and the commit group it belongs to; commit
groups are counted per lane, as the PTX ISA has it (9.7.9.25). A full queue lands its oldest copy early, as if somebody
had waited for it.

An entry of size 0 is no copy but an arrival at a barrier object, due once the copies before it have landed
(cp.async.mbarrier.arrive). That happens when a lane of the warp looks at the object, or when the warp gives way.

The 64 bits of a barrier object (PTX ISA 9.7.13.15) are opaque to a program; `layout` says what they are here.
"""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    ADDRESS,
    CHECKED,
    CONTEXT,
    I32,
    I64,
    MASK,
    SITE,
    SIZE,
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    constant,
    helper,
    i32,
    i64,
    report_signal,
    tell_async,
)

_NO_BYTES = constant(I32, 0, WARP)
_MASK, _SIZE, _SITE, _DUE, _TO, _FROM, _BYTES, _GROUP = 0, 4, 8, 12, 64, 192, 448, 576


def _queue(b: Helper) -> IRValue:
    warp = b.warp()
    return b.offset(b.worker("pending", "ptr"), b.mul(b.resize(warp, I64), i64(L.QUEUE_BYTES)))


def _lanes(b: Helper, entry: IRValue, at: int, type_: str = I32) -> IRValue:
    """A field of an entry, or a queue's commits, that has a value per lane."""
    return b.load(type_, b.offset(entry, at), WARP, align=64)


def _entry(b: Helper, queue: IRValue, index: IRValue) -> IRValue:
    return b.offset(b.offset(queue, L.QUEUE_ENTRIES), b.mul(b.resize(index, I64), i64(L.QUEUE_ENTRY_BYTES)))


@helper(
    "ws_async_issue", "void", WORKER, CONTEXT, arg(I32, "to", WARP), arg(I64, "from", WARP), arg(I32, "bytes", WARP),
    MASK, SIZE, SITE, CHECKED,
)  # fmt: skip
def async_issue(b: Helper, to: IRValue, origin: IRValue, count: IRValue, checked: IRValue) -> None:
    """Queues a copy of `bytes` (at most SIZE; the rest is zero) per lane of `mask`."""
    _append(b, to, origin, count, SIZE, SITE, checked)


def _append(
    b: Helper, to: IRValue, origin: IRValue, count: IRValue, size: IRValue, site: IRValue, checked: IRValue
) -> None:
    queue = _queue(b)
    full = b.icmp("uge", b.load(I32, queue), i32(L.QUEUE_CAPACITY))
    with b.if_(full, likely=False):
        oldest = _entry(b, queue, i32(0))
        _retire(b, oldest, b.load(I32, oldest), checked)
        _drop_landed(b, queue)
    used = b.load(I32, queue)
    entry = _entry(b, queue, used)
    for value, at in ((MASK, _MASK), (size, _SIZE), (site, _SITE)):
        b.store(value, b.offset(entry, at))
    for value, at in ((to, _TO), (origin, _FROM), (count, _BYTES), (_lanes(b, queue, L.QUEUE_COMMITS), _GROUP)):
        b.store(value, b.offset(entry, at), align=64)
    b.store(b.add_const(used, 1), queue)


@helper("ws_async_track", "void", WORKER, CONTEXT, ADDRESS, MASK, SITE, arg(I32, "announced"), CHECKED)
def async_track(b: Helper, address: IRValue, announced: IRValue, checked: IRValue) -> None:
    """Queues an arrival at the barrier object at `address`; `announced` is 1 if its phase is to wait for one more."""
    once = constant(I32, 1, WARP)
    with b.if_(b.icmp("ne", announced, i32(0))):
        b.call("ws_mbarrier_arrive", I64, WORKER, CONTEXT, address, MASK, once, i32(0), i32(1), _NO_BYTES, lanes=WARP)
    _append(b, constant(I32, 0, WARP), address, once, i32(0), SITE, checked)


def _is_arrival(b: Helper, entry: IRValue) -> IRValue:
    return b.icmp("eq", b.load(I32, b.offset(entry, _SIZE)), i32(0))


def _retire(b: Helper, entry: IRValue, lanes: IRValue, checked: IRValue) -> None:
    """What an entry stands for happens, for `lanes`."""
    arrival = _is_arrival(b, entry)
    with b.if_(arrival):
        address = _lanes(b, entry, _FROM, I64)
        once = _lanes(b, entry, _BYTES)
        b.call("ws_mbarrier_arrive", I64, WORKER, CONTEXT, address, lanes, once, i32(0), i32(0), _NO_BYTES, lanes=WARP)
    with b.if_(b.not_(arrival)):
        _land(b, entry, lanes, checked)
    b.store(b.and_(b.load(I32, entry), b.not_(lanes)), entry)


def _land(b: Helper, entry: IRValue, lanes: IRValue, checked: IRValue) -> None:
    """Copies an entry's bytes for `lanes`."""
    size = b.load(I32, b.offset(entry, _SIZE))
    words = b.lshr(size, 2)
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane, lanes)):
        to = b.element(b.offset(entry, _TO), I32, lane)
        origin = b.element(b.offset(entry, _FROM), I64, lane)
        count = b.element(b.offset(entry, _BYTES), I32, lane)
        target = b.pointer(b.add(shared, b.resize(to, I64)))
        with b.loop(words) as k:
            at = b.shl(b.resize(k, I64), 2)
            slot = b.offset(target, at)
            b.store(i32(0), slot)
            rest = b.intrinsic("smax", b.intrinsic("smin", b.sub(count, b.shl(k, 2)), i32(4)), i32(0))
            whole = b.icmp("eq", rest, i32(4))
            source = b.pointer(b.add(origin, at))
            with b.if_(whole):
                b.store(b.load(I32, source, align=1), slot)
            with b.if_(b.not_(whole)), b.loop(rest) as byte:
                step = b.resize(byte, I64)
                b.store(b.load("i8", b.offset(source, step)), b.offset(slot, step))
    with b.if_(b.icmp("ne", checked, i32(0))):
        to = _lanes(b, entry, _TO)
        site = b.load(I32, b.offset(entry, _SITE))
        for granule in (0, 1, 2):
            with b.if_(b.icmp("eq", checked, i32(granule + 1))):
                b.call(f"ws_flight_{granule}", "void", WORKER, to, lanes, size, i32(0))
                b.call(f"ws_race_shared_{granule}", "void", WORKER, CONTEXT, to, lanes, size, site, i32(L.WRITE))
            with b.if_(b.icmp("eq", checked, i32(granule + 4))):
                landed = b.worker("landed", "ptr")  # of the exact race shadow, which is loaded on demand
                b.emit(f"call void {landed.text}({WORKER}, {CONTEXT}, {to}, {lanes}, {size}, {site}, i32 {granule})")


def _drop_landed(b: Helper, queue: IRValue) -> None:
    """Removes entries that no lane waits for any more, keeping the order."""
    kept = b.variable(I32, i32(0))
    with b.loop(b.load(I32, queue)) as k:
        entry = _entry(b, queue, k)
        with b.if_(b.icmp("ne", b.load(I32, entry), i32(0))):
            place = b.load(I32, kept)
            with b.if_(b.icmp("ne", place, k)):
                to = _entry(b, queue, place)
                b.call("llvm.memcpy.p0.p0.i64", "void", to, entry, i64(L.QUEUE_ENTRY_BYTES), IRValue("i1", "false"))
            b.store(b.add_const(place, 1), kept)
    b.store(b.load(I32, kept), queue)


@helper("ws_async_commit", "void", WORKER, CONTEXT, MASK)
def async_commit(b: Helper) -> None:
    """Closes the group of the copies that each lane of `mask` has issued since its last commit."""
    at = b.offset(_queue(b), L.QUEUE_COMMITS)
    commits = b.load(I32, at, WARP, align=64)
    b.store(b.select(b.bits_mask(MASK), b.add_const(commits, 1), commits), at, align=64)


@helper("ws_async_wait", "void", WORKER, CONTEXT, MASK, arg(I32, "pending"), CHECKED)
def async_wait(b: Helper, pending: IRValue, checked: IRValue) -> None:
    """Lands what the lanes of `mask` wait for: all but their latest `pending` groups; everything if pending is -1.

    `checked` is 0, or the log2 of the race shadow's granule + 1.
    """
    queue = _queue(b)
    limit = b.sub(_lanes(b, queue, L.QUEUE_COMMITS), b.splat(pending))  # with -1: one more than any group
    on_their_way = b.variable(I32, i32(0))
    with b.loop(b.load(I32, queue)) as k:
        entry = _entry(b, queue, k)
        group = _lanes(b, entry, _GROUP)
        arrival = _is_arrival(b, entry)
        due = b.mask_bits(b.icmp("slt", group, limit))
        due = b.select(arrival, b.not_(b.load(I32, on_their_way)), due)
        lanes = b.and_(b.and_(due, MASK), b.load(I32, entry))
        with b.if_(b.icmp("ne", lanes, i32(0))):
            _retire(b, entry, lanes, checked)
        left = b.select(arrival, i32(0), b.load(I32, entry))
        b.store(b.or_(b.load(I32, on_their_way), left), on_their_way)
    _drop_landed(b, queue)


@helper("ws_async_settle", "void", WORKER, CONTEXT, arg(I64, "address"), CHECKED)
def async_settle(b: Helper, address: IRValue, checked: IRValue) -> None:
    """The warp arrives at the barrier object at `address`, or at all (0), for which its copies are to be there."""
    queue = _queue(b)
    used = b.load(I32, queue)
    anywhere, due = b.icmp("eq", address, i64(0)), b.variable(I32, i32(0))
    with b.loop(used) as k:  # from the last to the first: what an arrival is due for
        entry = _entry(b, queue, b.sub(b.add_const(used, -1), k))
        here = b.icmp("eq", _lanes(b, entry, _FROM, I64), b.splat(address))
        here = b.select(anywhere, i32(-1), b.mask_bits(here))
        asked = b.and_(b.load(I32, due), b.load(I32, entry))
        arrives = b.and_(here, b.load(I32, entry))
        lanes = b.select(_is_arrival(b, entry), arrives, asked)
        b.store(lanes, b.offset(entry, _DUE))
        b.store(b.or_(b.load(I32, due), lanes), due)
    with b.if_(b.icmp("ne", b.load(I32, due), i32(0))):
        with b.loop(used) as k:
            entry = _entry(b, queue, k)
            lanes = b.load(I32, b.offset(entry, _DUE))
            with b.if_(b.icmp("ne", lanes, i32(0))):
                _retire(b, entry, lanes, checked)
        _drop_landed(b, queue)


@helper("ws_async_under_way", I64, WORKER, CONTEXT)
def async_under_way(b: Helper) -> None:
    """1 if some lane of the warp has committed a copy, or tied it to a barrier object, that has not landed, else 0."""
    queue = _queue(b)
    commits = _lanes(b, queue, L.QUEUE_COMMITS)
    with b.loop(b.load(I32, queue)) as k:
        entry = _entry(b, queue, k)
        tied = b.or_(b.icmp("slt", _lanes(b, entry, _GROUP), commits), b.splat(_is_arrival(b, entry)))
        committed = b.and_(b.mask_bits(tied), b.load(I32, entry))
        with b.if_(b.icmp("ne", committed, i32(0)), likely=True):
            b.leave(i64(1))
    b.ret(i64(0))


MOST_FAILED_WAITS = 1 << 16
"""Waits in vain, in a row, of all warps of a block, after which nobody is expected to arrive any more."""


DROPS, RELAXED = 1, 2
"""How lanes arrive at a barrier object."""


@helper(
    "ws_mbarrier_arrive", "<32 x i64>", WORKER, CONTEXT, ADDRESS, MASK, arg(I32, "counts", WARP),
    arg(I32, "how"), arg(I32, "tracking"), arg(I32, "bytes", WARP),
)  # fmt: skip
def mbarrier_arrive(
    b: Helper, address: IRValue, counts: IRValue, how: IRValue, tracking: IRValue, transactions: IRValue
) -> None:
    """The lanes of `mask` arrive one after the other, each `counts` times; each gets the state before.

    `how`: DROPS where later phases are to expect that many arrivals fewer, RELAXED where arriving tells nobody what the
    lane did. `tracking` is 1 where an arrival is only
    announced: the phase waits for one more. It also waits for `bytes` more, or with a negative number for fewer.
    """
    addresses, numbers, changes = b.stack(address), b.stack(counts), b.stack(transactions)
    result, completed = b.stack(IRValue(I64, "zeroinitializer", WARP)), b.variable(I32, i32(0))
    drops, announces = _is(b, how, DROPS), b.icmp("ne", tracking, i32(0))
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        pointer = b.pointer(b.element(addresses, I64, lane))
        old = b.load(I64, pointer)
        b.set_element(result, old, lane)
        count = b.resize(b.element(numbers, I32, lane), I64)
        expected, missing, outstanding, phase = _fields(b, old)
        expected = b.and_const(b.select(drops, b.sub(expected, count), expected), L.COUNT_MASK)
        missing = b.select(announces, b.add(missing, count), b.sub(missing, count))
        change = b.resize(b.element(changes, I32, lane), I64, signed=True)
        outstanding = b.and_const(b.add(outstanding, change), (1 << L.BYTES_BITS) - 1)
        over = b.and_(b.icmp("sle", missing, i64(0)), b.icmp("eq", outstanding, i64(0)))
        phase = b.add(phase, b.resize(over, I64))
        missing = b.and_const(b.select(over, expected, missing), L.COUNT_MASK)
        counted = b.or_(expected, b.or_(b.shl(missing, L.COUNT_BITS), b.shl(outstanding, L.BYTES_SHIFT)))
        b.store(b.or_(counted, b.shl(phase, L.PHASE_SHIFT)), pointer)
        bit = b.binary("shl", b.resize(over, I32), lane)
        b.store(b.or_(b.load(I32, completed), bit), completed)
    b.store(i32(0), b.offset(WORKER, L.field("failed_waits")))
    b.store(i32(1), b.offset(WORKER, L.field("came_further")))
    arrives = b.select(announces, i32(0), MASK)
    relaxed = _is(b, how, RELAXED)
    _tell(b, address, b.select(relaxed, i32(0), arrives), L.ARRIVES)
    _tell(b, address, b.load(I32, completed), L.COMPLETES)
    with b.if_(b.icmp("ne", b.worker("follows", I32), i32(0)), likely=False):
        b.store(address, b.offset(WORKER, L.field("signal_addresses")), align=8)
        counted = b.and_(arrives, b.mask_bits(b.icmp("ne", counts, b.like(counts, 0))))
        tell_async(b, L.AsyncEvent.ARRIVE, b.warp(), MASK, b.load(I32, completed), counted, relaxed, lanes=transactions)
    b.ret(b.load(I64, result, WARP, align=64))


def _is(b: Helper, how: IRValue, flag: int) -> IRValue:
    return b.icmp("ne", b.and_const(how, flag), i32(0))


def _fields(b: Helper, state: IRValue) -> tuple[IRValue, IRValue, IRValue, IRValue]:
    expected, missing = (b.and_const(b.lshr(state, shift), L.COUNT_MASK) for shift in (0, L.COUNT_BITS))
    outstanding = b.and_const(b.lshr(state, L.BYTES_SHIFT), (1 << L.BYTES_BITS) - 1)
    return expected, missing, outstanding, b.lshr(state, L.PHASE_SHIFT)


def _tell(b: Helper, address: IRValue, lanes: IRValue, flags: int) -> None:
    """Reports to `ordering`, with the exact race shadow."""
    told = b.and_(b.icmp("ne", b.worker("exact", I32), i32(0)), b.icmp("ne", lanes, i32(0)))
    with b.if_(told, likely=False):
        report_signal(b, b.warp, address, lanes, flags)


@helper("ws_mbarrier_waited", I32, WORKER, CONTEXT, ADDRESS, MASK, arg(I32, "over"), arg(I32, "acquires"))
def mbarrier_waited(b: Helper, address: IRValue, over: IRValue, acquires: IRValue) -> None:
    """The lanes of `mask` have looked whether a phase is `over`: 1 if the block waits for ever, else 0.

    A lane that has to wait gives way at the head of its loop.
    """
    at = b.offset(WORKER, L.field("failed_waits"))
    met, failed = b.and_(MASK, over), b.and_(MASK, b.not_(over))
    learning = b.select(b.icmp("ne", acquires, i32(0)), met, i32(0))
    _tell(b, address, learning, L.READS | L.ACQUIRES)
    following = b.and_(b.icmp("ne", b.worker("follows", I32), i32(0)), b.icmp("ne", learning, i32(0)))
    with b.if_(following, likely=False):
        b.store(address, b.offset(WORKER, L.field("signal_addresses")), align=8)
        tell_async(b, L.AsyncEvent.WAITED, b.warp(), met)
    with b.if_(b.icmp("ne", met, i32(0))):
        b.store(i32(0), at)
    with b.if_(b.icmp("eq", failed, i32(0)), likely=True):
        b.leave(i32(0))
    b.store(i32(1), b.offset(WORKER, L.field("yield_due")))
    b.increment(at, i32(1))
    lane = b.first_bit(failed)
    waiting = b.element(b.stack(address), I64, lane)
    b.store(b.or_(b.shl(b.warp(), L.WARP_SHIFT), lane), b.offset(WORKER, L.field("waiting_thread")))
    shared = b.convert("ptrtoint", b.worker("shared", "ptr"), I64)
    b.store(b.sub(waiting, shared), b.offset(WORKER, L.field("waiting_at")))
    b.ret(b.resize(b.icmp("ugt", b.load(I32, at), i32(MOST_FAILED_WAITS)), I32))
