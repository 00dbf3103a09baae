"""The race shadow's functions (`shadow` has the rules), and the calls that do everything an access needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    ADDRESS,
    CHECKED,
    CONTEXT,
    COUNTER,
    GRANULES,
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
    helper,
    i32,
    i64,
)
from ptxsim.codegen.shadow import (
    FIRST_READ,
    FIRST_UPDATE,
    FLYING,
    SECOND_READ,
    SECOND_UPDATE,
    WHO,
    WRITTEN,
    ExactStep,
    ShadowRules,
    may_write,
)

_ACCESS = (MASK, SIZE, SITE, KIND, COUNTER, CHECKED)
"""Parameters of what does all that an access needs, behind the addresses."""
_MOVES = tuple((type_, g) for (type_,) in INTEGERS for (g,) in GRANULES)
_SEVERAL = 4
"""Granules of a lane that are looked at together: 16 bytes, as most copies move, in granules of 4."""


def _granules(b: Helper, granule_log2: int) -> IRValue:
    """How many granules a lane's access touches."""
    return b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))


@contextmanager
def _each_granule(b: Helper, offset: IRValue, granule_log2: int) -> Iterator[tuple[IRValue, IRValue, IRValue, IRValue]]:
    """Loops over lanes and the granules of shared memory that each accesses: (shadow, lane, offset, granule)."""
    shadow, offsets = b.worker("shadow", "ptr"), b.stack(offset)
    granules = _granules(b, granule_log2)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        first = b.lshr(at, granule_log2)
        with b.loop(granules) as k:
            yield shadow, lane, at, b.add(first, k)


@contextmanager
def _unless(b: Helper, applies: IRValue, quickly: Callable[[], IRValue]) -> Iterator[None]:
    """Code for what is left where a quick way does not apply or comes to nothing."""
    quick, slow, end = b.new_label("quick"), b.new_label("slow"), b.new_label("judged")
    b.branch(applies, quick, slow, then=quick)
    b.branch(quickly(), end, slow, likely=True, then=slow)
    yield
    b.br(end, then=end)


def _written_anew(b: Helper, rules: ShadowRules, slot: IRValue) -> IRValue:
    """Whether nobody has touched a lane's granules since the block's barrier, or ever; marks them as written."""
    state = b.load(I32, slot, _SEVERAL)
    before = b.splat(b.shl(rules.epoch, L.TIME_SHIFT), _SEVERAL)
    fine = b.all_true(may_write(b, state, before))
    with b.if_(fine):
        b.store(b.splat(rules.mark(), _SEVERAL), slot)
    return fine


def _touched_first(b: Helper, rules: ShadowRules, slot: IRValue, me: IRValue) -> IRValue:
    """Whether nobody in the grid has touched a lane's granules; marks them."""
    state = b.load(I64, slot, _SEVERAL)
    fine = b.all_true(b.icmp("eq", state, b.like(state, 0)))
    with b.if_(fine):
        b.store(b.splat(b.or_(b.shl(b.resize(me, I64), 32), b.resize(rules.mark(), I64)), _SEVERAL), slot)
    return fine


@helper("ws_race_shared_{}", "void", WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE, KIND, over=GRANULES)
def race_shared(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """Race and uninitialised-read check of a shared access, lane by lane, on granules of 2^granule_log2 bytes."""
    shadow, warp, offsets = b.worker("shadow", "ptr"), b.warp(), b.stack(offset)
    granules = _granules(b, granule_log2)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        rules = ShadowRules(b, warp, lane)
        start = b.offset(shadow, b.shl(b.resize(b.lshr(at, granule_log2), I64), 2))
        several = b.and_(b.icmp("eq", granules, i32(_SEVERAL)), b.icmp("eq", KIND, i32(L.WRITE)))
        with _unless(b, several, lambda: _written_anew(b, rules, start)), b.loop(granules) as k:
            slot = b.offset(shadow, b.shl(b.resize(b.add(b.lshr(at, granule_log2), k), I64), 2))
            state = b.load(I32, slot)
            conflict, new = rules.step(state)
            untouched = b.icmp("eq", state, i32(L.UNTOUCHED))
            reads = b.or_(b.icmp("eq", KIND, i32(L.READ)), b.icmp("eq", KIND, i32(L.ATOMIC)))
            where = b.resize(at, I64)
            with b.if_(b.and_(untouched, reads), likely=False):
                b.hazard(i32(L.UNINITIALIZED), lane, where, i64(0))
            with b.if_(b.and_(conflict, b.not_(untouched)), likely=False):
                b.hazard(i32(L.SHARED_RACE), lane, where, b.resize(state, I64))
            b.store(new, slot)  # a write that comes after an uninitialised read is a race: the read must be on record


@helper("ws_flight_{}", "void", WORKER, OFFSET, MASK, SIZE, arg(I32, "flying"), over=GRANULES)
def flight(b: Helper, offset: IRValue, flying: IRValue, granule_log2: int) -> None:
    """Marks shared memory that an asynchronous copy is on its way to (`flying` 1), or has reached (0)."""
    with _each_granule(b, offset, granule_log2) as (shadow, _, _, granule):
        slot = b.offset(shadow, b.shl(b.resize(granule, I64), 2))
        state = b.load(I32, slot)
        landed = b.select(b.icmp("eq", state, i32(L.IN_FLIGHT)), i32(0), state)
        b.store(b.select(b.icmp("ne", flying, i32(0)), i32(L.IN_FLIGHT), landed), slot)


@helper("ws_race_global_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SIZE, SITE, KIND, over=GRANULES)
def race_global(b: Helper, address: IRValue, granule_log2: int) -> None:
    """Race check of a global access. The state's high half says whose the last access was, and what it hides."""
    site = b.site()
    warp = b.warp()
    me = b.add_const(b.resize(b.worker("block", I64), I32), 1)
    addresses = b.stack(address)
    granules = _granules(b, granule_log2)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(addresses, I64, lane)
        low, high = b.load(I64, site), b.load(I64, b.offset(site, 8))
        cached = b.and_(b.icmp("uge", at, low), b.icmp("ult", at, high))
        look, known, join = b.new_label("look"), b.new_label("known"), b.new_label("entry")
        b.branch(cached, known, look, likely=True, then=look)
        found = b.call("ws_find", "ptr", WORKER, at, SIZE)
        b.br(join, then=known)
        b.br(join, then=join)
        entry = b.phi((found, look), (site, known))
        shadow = b.load(I64, b.offset(entry, 16))
        with b.if_(b.icmp("ne", shadow, i64(0))):
            rules = ShadowRules(b, warp, lane)
            first = b.lshr(b.sub(at, b.load(I64, entry)), granule_log2)
            start = b.pointer(b.add(shadow, b.shl(first, 3)))
            several = b.icmp("eq", granules, i32(_SEVERAL))
            with _unless(b, several, lambda: _touched_first(b, rules, start, me)), b.loop(granules) as k:
                slot = b.pointer(b.add(shadow, b.shl(b.add(first, b.resize(k, I64)), 3)))
                _global_step(b, rules, slot, me, lane, at)


def _global_step(b: Helper, rules: ShadowRules, slot: IRValue, me: IRValue, lane: IRValue, at: IRValue) -> None:
    state = b.load(I64, slot)
    high, low = b.resize(b.lshr(state, 32), I32), b.resize(state, I32)
    owner = b.and_const(high, L.SEVERAL_BLOCKS)
    untouched = b.icmp("eq", owner, i32(0))
    mine = b.icmp("eq", owner, me)
    own_conflict, own_new = rules.step(low)
    is_read, is_atomic = b.icmp("eq", KIND, i32(L.READ)), b.icmp("eq", KIND, i32(L.ATOMIC))
    wrote, plain = _has_done(b, high, low)
    agree = b.or_(b.and_(is_read, b.not_(wrote)), b.and_(is_atomic, b.not_(plain)))
    foreign = b.not_(b.or_(mine, untouched))
    foreign_conflict = b.and_(foreign, b.not_(agree))
    conflict = b.or_(foreign_conflict, b.and_(mine, own_conflict))
    # a granule that nobody has touched behaves like one last touched before the block's last barrier
    _, fresh = rules.step(i32(0))
    with b.if_(conflict, likely=False):
        b.hazard(i32(L.RACE), lane, at, state)
    new_low = b.select(mine, own_new, fresh)
    hidden_write = b.and_(b.and_(mine, wrote), _is_kind(b, new_low, L.READ))
    hidden_plain = b.and_(b.and_(mine, plain), _is_kind(b, new_low, L.ATOMIC))
    hidden = (hidden_write, L.WROTE_BEFORE), (hidden_plain, L.PLAIN_BEFORE)
    flags = b.or_(*(b.select(hides, i32(flag), i32(0)) for hides, flag in hidden))
    new_high = b.or_(b.select(b.and_(foreign, agree), i32(L.SEVERAL_BLOCKS), me), flags)
    b.store(b.or_(b.shl(b.resize(new_high, I64), 32), b.resize(new_low, I64)), slot)


def _is_kind(b: Helper, low: IRValue, kind: int) -> IRValue:
    return b.icmp("eq", b.and_const(b.lshr(low, L.KIND_SHIFT), 3), i32(kind))


def _has_done(b: Helper, high: IRValue, low: IRValue) -> tuple[IRValue, IRValue]:
    """Whether those whom a state names have made an access that was no read, and one that was no atomic."""
    flagged = (b.icmp("ne", b.and_const(high, flag), i32(0)) for flag in (L.WROTE_BEFORE, L.PLAIN_BEFORE))
    others = (b.not_(_is_kind(b, low, kind)) for kind in (L.READ, L.ATOMIC))
    wrote, plain = (b.or_(hidden, other) for hidden, other in zip(flagged, others, strict=True))
    return wrote, plain


def _counted(b: Helper, space: str, address: IRValue, counter: IRValue) -> None:
    if space == "const":  # counted by its words
        return
    with b.if_(b.icmp("ne", counter, NULL)):
        b.call(f"ws_count_{space}", "void", address, MASK, SIZE, counter)


def _checked(b: Helper, space: str, address: IRValue) -> IRValue:
    return b.call(f"ws_check_{space}", I32, WORKER, CONTEXT, address, MASK, SIZE, SITE)


def _accounted(b: Helper, space: str, address: IRValue, counter: IRValue, checked: IRValue) -> IRValue:
    """The lanes that may access memory, where accesses are checked; the function returns where they are not."""
    _counted(b, space, address, counter)
    with b.leaving(lambda: b.icmp("eq", checked, i32(0)), "plain", "careful", None):
        b.ret(MASK)
    return _checked(b, space, address)


@helper(
    "ws_access_{}_{}", I32, WORKER, CONTEXT, ADDRESS, *_ACCESS,
    over=tuple((space, g) for space in ("global", "const") for (g,) in GRANULES),
)  # fmt: skip
def access_global(
    b: Helper, address: IRValue, counter: IRValue, checked: IRValue, space: str, granule_log2: int
) -> None:
    """Everything a global access needs before it touches memory; returns the lanes that may.

    `counter` is null where nothing is counted, `checked` 0 where nothing is checked.
    """
    ok = _accounted(b, space, address, counter, checked)
    tracked = b.icmp("ne", b.load(I64, b.offset(b.site(), 16)), i64(0))
    with b.if_(b.and_(tracked, b.icmp("ne", ok, i32(0)))):
        b.call(f"ws_race_global_{granule_log2}", "void", WORKER, CONTEXT, address, ok, SIZE, SITE, KIND)
    b.ret(ok)


@helper("ws_access_shared_{}", I32, WORKER, CONTEXT, OFFSET, *_ACCESS, over=GRANULES)
def access_shared(b: Helper, offset: IRValue, counter: IRValue, checked: IRValue, granule_log2: int) -> None:
    """Like ws_access_global, for offsets into shared memory."""
    ok = _accounted(b, "shared", offset, counter, checked)
    b.call(f"ws_race_shared_{granule_log2}", "void", WORKER, CONTEXT, offset, ok, SIZE, SITE, KIND)
    b.ret(ok)


@helper("ws_load_global_{}_{}", "<32 x {}>", WORKER, CONTEXT, ADDRESS, *_ACCESS, over=_MOVES)
def load_global(b: Helper, address: IRValue, counter: IRValue, checked: IRValue, type_: str, granule_log2: int) -> None:
    """A whole load: account for it, then gather the lanes that may."""
    ok = b.call(f"ws_access_global_{granule_log2}", I32, WORKER, CONTEXT, address, *_ACCESS)
    b.ret(b.call(f"ws_gather_{type_}", type_, address, ok, lanes=WARP))


@helper("ws_store_global_{}_{}", "void", WORKER, CONTEXT, ADDRESS, *_ACCESS, arg("{}", "value", WARP), over=_MOVES)
def store_global(
    b: Helper, address: IRValue, counter: IRValue, checked: IRValue, value: IRValue, type_: str, granule_log2: int
) -> None:
    """A whole store: account for it, then scatter the lanes that may."""
    ok = b.call(f"ws_access_global_{granule_log2}", I32, WORKER, CONTEXT, address, *_ACCESS)
    b.call(f"ws_scatter_{type_}", "void", address, ok, value)


@helper("ws_{}", "i1", WORKER, arg(I32, "warp"), arg(I32, "then"), over=(("known",), ("acquired",)))
def known(b: Helper, warp: IRValue, then: IRValue, table: str) -> None:
    """Whether the stretch `then` is among those that a warp is ordered behind, or whose writes it may read: pairs
    [low, high), rising."""
    row = b.offset(b.worker(table, "ptr"), b.shl(b.resize(warp, I64), 4))
    pairs, count = b.load("ptr", row), b.load(I64, b.offset(row, 8))
    with b.loop(count) as k:
        pair = b.offset(pairs, b.shl(b.sub(b.add_const(count, -1), k), 3))  # the latest are asked for most
        low, high = b.load(I32, pair), b.load(I32, b.offset(pair, 4))
        with b.if_(b.icmp("uge", then, low)):
            b.leave(b.icmp("ult", then, high))
    b.ret(IRValue("i1", "false"))


@helper("ws_race_found", "void", WORKER, CONTEXT, arg(I32, "lane"), arg(I64, "state"), SITE)
def race_found(b: Helper, lane: IRValue, state: IRValue) -> None:
    """Notes a race; its address and whether it lies in shared memory are in the worker."""
    b.hazard(b.worker("race_kind", I32), lane, b.worker("race_address", I64), state)


@helper(
    "ws_exact_step", "void", WORKER, CONTEXT, arg("ptr", "cell"), arg(I32, "lane"), arg(I64, "address"),
    arg(I64, "value"), arg(I32, "race"), SITE, KIND,
)  # fmt: skip
def exact_step(b: Helper, cell: IRValue, lane: IRValue, address: IRValue, value: IRValue, race: IRValue) -> None:
    """One lane's access to a cell at `address`; `value` is what it stores, -1 where that is not known."""
    b.store(address, b.offset(WORKER, L.field("race_address")))
    s = ExactStep(b, cell, lane, value, race)
    written, _, _ = s.entry(WRITTEN)
    updated, _, _ = s.entry(FIRST_UPDATE)
    untouched = b.icmp("eq", b.or_(written, updated), i32(0))
    fresh = b.and_(untouched, b.icmp("eq", race, i32(L.SHARED_RACE)))
    with b.if_(b.and_(fresh, b.or_(s.is_read, s.is_atomic)), likely=False):
        b.hazard(i32(L.UNINITIALIZED), lane, address, i64(0))
    s.conflicts(WRITTEN, L.WRITE)
    with b.if_(b.not_(s.is_read)):
        s.conflicts(FIRST_READ, L.READ)
        s.conflicts(SECOND_READ, L.READ)
    with b.if_(b.not_(s.is_atomic)):
        s.conflicts(FIRST_UPDATE, L.ATOMIC)
        s.conflicts(SECOND_UPDATE, L.ATOMIC)
    with b.if_(s.is_read):
        s.remember(FIRST_READ, SECOND_READ)
    with b.if_(s.is_atomic):
        s.remember(FIRST_UPDATE, SECOND_UPDATE)
    with b.if_(b.not_(b.or_(s.is_read, s.is_atomic))):
        s.put(WRITTEN)
        s.keep_value()
        for at in (FIRST_READ, SECOND_READ):
            s.empty(at)
        with b.if_(b.not_(s.is_strong)):  # what is unordered with them, or behind them, is so with this write
            for at in (FIRST_UPDATE, SECOND_UPDATE):
                s.empty(at)


def _stored(b: Helper, lane: IRValue, granule: IRValue, granule_log2: int) -> IRValue:
    """What a lane is about to store in one of its granules; -1 where that is not known."""
    values, found = b.worker("stored", "ptr"), b.variable(I64, i64(-1))
    with b.if_(b.icmp("ne", values, NULL)):
        at = b.add(b.mul(lane, SIZE), b.shl(granule, granule_log2))
        value = b.load(f"i{8 << granule_log2}", b.offset(values, b.resize(at, I64)), align=1)
        b.store(b.resize(value, I64), found)
    return b.load(I64, found)


def _cell(b: Helper, shadow: IRValue, index: IRValue) -> IRValue:
    return b.offset(shadow, b.mul(b.resize(index, I64), i64(L.EXACT_CELL_BYTES)))


@helper("ws_exact_shared_{}", "void", WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE, KIND, over=GRANULES)
def exact_shared(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """The access of all lanes to shared memory."""
    with _each_granule(b, offset, granule_log2) as (shadow, lane, at, granule):
        cell = _cell(b, shadow, granule)
        where = b.resize(at, I64)
        value = _stored(b, lane, b.sub(granule, b.lshr(at, granule_log2)), granule_log2)
        b.call("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, where, value, i32(L.SHARED_RACE), SITE, KIND)


@helper("ws_exact_global_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SIZE, SITE, KIND, over=GRANULES)
def exact_global(b: Helper, address: IRValue, granule_log2: int) -> None:
    """The access of all lanes to global memory; arrays that no block writes have no shadow."""
    addresses = b.stack(address)
    granules = _granules(b, granule_log2)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(addresses, I64, lane)
        entry = b.call("ws_find", "ptr", WORKER, at, SIZE)
        with b.if_(b.icmp("ne", entry, NULL)):
            shadow = b.load("ptr", b.offset(entry, 16))
            with b.if_(b.icmp("ne", shadow, NULL)):
                first = b.lshr(b.sub(at, b.load(I64, entry)), granule_log2)
                with b.loop(granules) as k:
                    cell = _cell(b, shadow, b.add(first, b.resize(k, I64)))
                    value = _stored(b, lane, k, granule_log2)
                    b.call("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, at, value, i32(L.RACE), SITE, KIND)


@helper(
    "ws_exact_access_{0}_{2}", I32, WORKER, CONTEXT, arg("{1}", "address", WARP), *_ACCESS,
    over=tuple((space, type_, g) for space, type_ in (("shared", I32), ("global", I64)) for (g,) in GRANULES),
)  # fmt: skip
def exact_access(
    b: Helper, address: IRValue, counter: IRValue, _checks: IRValue, space: str, _type: str, granule_log2: int
) -> None:
    """Like ws_access_global and ws_access_shared, with the exact shadow."""
    _counted(b, space, address, counter)
    b.increment(b.offset(WORKER, L.field("exact_steps")), i64(1))
    ok = _checked(b, space, address)
    b.call(f"ws_exact_{space}_{granule_log2}", "void", WORKER, CONTEXT, address, ok, SIZE, SITE, KIND)
    b.ret(ok)


@helper("ws_exact_flight_{}", "void", WORKER, OFFSET, MASK, SIZE, arg(I32, "flying"), over=GRANULES)
def exact_flight(b: Helper, offset: IRValue, flying: IRValue, granule_log2: int) -> None:
    """Marks shared memory that a copy is on its way to (`flying` 1), or has reached (0)."""
    with _each_granule(b, offset, granule_log2) as (shadow, _, _, granule):
        at = b.offset(_cell(b, shadow, granule), WRITTEN + WHO)
        who = b.and_const(b.load(I32, at), ~FLYING)
        b.store(b.or_(who, b.select(b.icmp("ne", flying, i32(0)), i32(FLYING), i32(0))), at)


@helper("ws_exact_landed", "void", WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE, arg(I32, "granule"))
def landed(b: Helper, offset: IRValue, granule: IRValue) -> None:
    """An asynchronous copy has reached shared memory: a write of the lanes that waited for it."""
    for g in (0, 1, 2):
        with b.if_(b.icmp("eq", granule, i32(g))):
            b.call(f"ws_exact_flight_{g}", "void", WORKER, offset, MASK, SIZE, i32(0))
            b.call(f"ws_exact_shared_{g}", "void", WORKER, CONTEXT, offset, MASK, SIZE, SITE, i32(L.WRITE))
