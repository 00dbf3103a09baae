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
    constants,
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
    clock,
    may_read,
    may_write,
)

_ACCESS = (MASK, SIZE, SITE, KIND, COUNTER, CHECKED)
"""Parameters of what does all that an access needs, behind the addresses."""
_MOVES = tuple((type_, g) for (type_,) in INTEGERS for (g,) in GRANULES)


def granules_of(b: Helper, granule_log2: int) -> IRValue:
    """How many granules a lane's access touches."""
    return b.binary("lshr", b.add(SIZE, i32((1 << granule_log2) - 1)), i32(granule_log2))


@contextmanager
def each_granule(b: Helper, offset: IRValue, granule_log2: int) -> Iterator[tuple[IRValue, IRValue, IRValue, IRValue]]:
    """Loops over lanes and the granules of shared memory that each accesses: (shadow, lane, offset, granule)."""
    shadow, offsets = b.worker("shadow", "ptr"), b.stack(offset)
    granules = granules_of(b, granule_log2)
    with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
        at = b.element(offsets, I32, lane)
        first = b.lshr(at, granule_log2)
        with b.loop(granules) as k:
            yield shadow, lane, at, b.add(first, k)


def _together(
    b: Helper, type_: str, slots: Callable[[IRValue], IRValue], judge: Callable[[IRValue], tuple[IRValue, IRValue]],
    granules: IRValue,
) -> None:
    """Judges the k-th granules of all lanes at once; returns false, with nothing changed in them, at a conflict.

    Lanes whose granule is another's too find that one's mark in place of their own, and come after it.
    """
    left, state = b.variable(I32, MASK), b.stack(IRValue(type_, "zeroinitializer", WARP))
    with b.loop(granules) as k:
        at = slots(k)
        before = b.gather(type_, at, MASK)
        b.store(MASK, left)
        b.store(before, state, align=64)
        again, mark, done = b.new_label("pass"), b.new_label("mark"), b.new_label("marked")
        b.br(again, then=again)
        now, lanes = b.load(type_, state, WARP, align=64), b.load(I32, left)
        conflict, new = judge(now)
        with b.leaving(b.icmp("ne", b.and_(b.mask_bits(conflict), lanes), i32(0)), "conflict"):
            b.scatter(before, at, MASK)
            b.ret(IRValue("i1", "false"))
        changed = b.and_(b.mask_bits(b.icmp("ne", new, now)), lanes)
        b.branch(b.icmp("ne", changed, i32(0)), mark, done, then=mark)
        b.scatter(new, at, changed)
        found = b.gather(type_, at, changed)
        others = b.and_(b.mask_bits(b.icmp("ne", found, new)), changed)
        b.store(found, state, align=64)
        b.store(others, left)
        b.branch(b.icmp("ne", others, i32(0)), again, done, likely=False, then=done)
    b.ret(IRValue("i1", "true"))


_TOGETHER = (MASK, SIZE, SITE, KIND)


def _slots(b: Helper, type_: str, shadow: IRValue, first: IRValue, k: IRValue) -> IRValue:
    """Where the k-th granules of all lanes have their states."""
    return b.let("ptr", WARP, f"getelementptr {type_}, {shadow}, {b.add(first, b.splat(b.resize(k, first.type)))}")


@helper("ws_look_shared_{}", "i1", WORKER, CONTEXT, OFFSET, *_TOGETHER, over=GRANULES)
def look_shared(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """A quick look at the shared access of a warp, which lets most pass: by the rules of `shadow.SharedLook`."""
    shadow, first = b.worker("shadow", "ptr"), b.lshr(offset, granule_log2)
    epoch, me = clock(b, b.warp)
    kind = b.shl(KIND, L.KIND_SHIFT)
    me, others_too = b.or_(me, kind), b.or_(kind, i32(L.MANY_WARPS | L.MANY_LANES))
    before, several = b.splat(epoch), b.splat(b.or_(epoch, others_too))
    mine, many = b.or_(b.splat(me), constants(I32, range(WARP))), b.splat(b.or_(me, i32(L.MANY_LANES)))
    is_write = b.icmp("eq", KIND, i32(L.WRITE))
    with b.loop(granules_of(b, granule_log2)) as k:
        at = _slots(b, I32, shadow, first, k)
        state = b.gather(I32, at, MASK)
        alone, was_read, elsewhere = may_read(b, state, mine, before)
        fine = b.or_(alone, b.and_(was_read, elsewhere))
        lacking = b.mask_bits(b.not_(b.select(is_write, may_write(b, state, before), fine)))
        with b.leaving(b.icmp("ne", b.and_(lacking, MASK), i32(0)), "closer"):
            b.ret(IRValue("i1", "false"))
        new = b.select(b.select(is_write, b.like(alone, 1), alone), mine, several)
        changed = b.and_(b.mask_bits(b.icmp("ne", new, state)), MASK)
        with b.if_(b.icmp("ne", changed, i32(0))):
            b.scatter(new, at, changed)
            others = b.and_(b.mask_bits(b.icmp("ne", b.gather(I32, at, changed), new)), changed)
            with b.leaving(b.and_(is_write, b.icmp("ne", others, i32(0))), "clash"):
                b.ret(IRValue("i1", "false"))
            with b.if_(b.icmp("ne", others, i32(0))):  # read by several lanes of this warp
                b.scatter(many, at, others)
    b.ret(IRValue("i1", "true"))


@helper("ws_together_shared_{}", "i1", WORKER, CONTEXT, OFFSET, *_TOGETHER, over=GRANULES)
def together_shared(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """The shared access of a warp, all lanes at a time; false where it is a hazard, which lane by lane has to tell."""
    shadow, first = b.worker("shadow", "ptr"), b.lshr(offset, granule_log2)
    rules = ShadowRules(b, b.warp(), constants(I32, range(WARP)))
    reads = b.splat(b.icmp("ne", KIND, i32(L.WRITE)))

    def judge(state: IRValue) -> tuple[IRValue, IRValue]:
        conflict, new = rules.step(state)
        return b.select(b.icmp("eq", state, b.like(state, L.UNTOUCHED)), reads, conflict), new

    _together(b, I32, lambda k: _slots(b, I32, shadow, first, k), judge, granules_of(b, granule_log2))


@helper("ws_together_global_{}", "i1", WORKER, CONTEXT, ADDRESS, *_TOGETHER, over=GRANULES)
def together_global(b: Helper, address: IRValue, granule_log2: int) -> None:
    """The same for global memory, where all lanes access the array that its site knows."""
    site = b.site()
    low, high = b.load(I64, site), b.load(I64, b.offset(site, 8))
    outside = b.or_(b.icmp("ult", address, b.splat(low)), b.icmp("uge", address, b.splat(high)))
    with b.leaving(b.icmp("ne", b.and_(b.mask_bits(outside), MASK), i32(0)), "several"):
        b.ret(IRValue("i1", "false"))
    shadow = b.pointer(b.load(I64, b.offset(site, 16)))
    me = b.splat(b.add_const(b.resize(b.worker("block", I64), I32), 1))
    rules = ShadowRules(b, b.warp(), constants(I32, range(WARP)))
    first = b.lshr(b.sub(address, b.splat(low)), granule_log2)

    _together(
        b, I64, lambda k: _slots(b, I64, shadow, first, k), lambda state: _global_step(b, rules, state, me),
        granules_of(b, granule_log2),
    )  # fmt: skip


@contextmanager
def _unless(b: Helper, *names: str, place: IRValue) -> Iterator[None]:
    """Code for an access that none of these functions lets pass."""
    judged = b.new_label("judged")
    for name in names:
        further = b.new_label("further")
        fine = b.call(name, "i1", WORKER, CONTEXT, place, *_TOGETHER)
        b.branch(fine, judged, further, likely=True, then=further)
    yield
    b.br(judged, then=judged)


@helper("ws_race_shared_{}", "void", WORKER, CONTEXT, OFFSET, MASK, SIZE, SITE, KIND, over=GRANULES)
def race_shared(b: Helper, offset: IRValue, granule_log2: int) -> None:
    """Race and uninitialised-read check of a shared access on granules of 2^granule_log2 bytes."""
    with _unless(b, f"ws_look_shared_{granule_log2}", f"ws_together_shared_{granule_log2}", place=offset):
        warp = b.warp()
        with each_granule(b, offset, granule_log2) as (shadow, lane, at, granule):
            slot = b.offset(shadow, b.shl(b.resize(granule, I64), 2))
            state = b.load(I32, slot)
            conflict, new = ShadowRules(b, warp, lane).step(state)
            untouched = b.icmp("eq", state, i32(L.UNTOUCHED))
            where = b.resize(at, I64)
            with b.if_(b.and_(untouched, b.icmp("ne", KIND, i32(L.WRITE))), likely=False):
                b.hazard(i32(L.UNINITIALIZED), lane, where, i64(0))
            with b.if_(b.and_(conflict, b.not_(untouched)), likely=False):
                b.hazard(i32(L.SHARED_RACE), lane, where, b.resize(state, I64))
            b.store(new, slot)  # a write that comes after an uninitialised read is a race: the read must be on record


@helper("ws_flight_{}", "void", WORKER, OFFSET, MASK, SIZE, arg(I32, "flying"), over=GRANULES)
def flight(b: Helper, offset: IRValue, flying: IRValue, granule_log2: int) -> None:
    """Marks shared memory that an asynchronous copy is on its way to (`flying` 1), or has reached (0)."""
    with each_granule(b, offset, granule_log2) as (shadow, _, _, granule):
        slot = b.offset(shadow, b.shl(b.resize(granule, I64), 2))
        state = b.load(I32, slot)
        landed = b.select(b.icmp("eq", state, i32(L.IN_FLIGHT)), i32(0), state)
        b.store(b.select(b.icmp("ne", flying, i32(0)), i32(L.IN_FLIGHT), landed), slot)


@helper("ws_race_global_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SIZE, SITE, KIND, over=GRANULES)
def race_global(b: Helper, address: IRValue, granule_log2: int) -> None:
    """Race check of a global access. The state's high half says whose the last access was, and what it hides."""
    with _unless(b, f"ws_together_global_{granule_log2}", place=address):
        warp = b.warp()
        me = b.add_const(b.resize(b.worker("block", I64), I32), 1)
        addresses, granules = b.stack(address), granules_of(b, granule_log2)
        with b.loop(i32(WARP)) as lane, b.if_(b.lane_active(lane)):
            at = b.element(addresses, I64, lane)
            entry = b.call("ws_find", "ptr", WORKER, at, SIZE)
            shadow = b.load(I64, b.offset(entry, 16))
            with b.if_(b.icmp("ne", shadow, i64(0))):
                first = b.lshr(b.sub(at, b.load(I64, entry)), granule_log2)
                with b.loop(granules) as k:
                    slot = b.pointer(b.add(shadow, b.shl(b.add(first, b.resize(k, I64)), 3)))
                    state = b.load(I64, slot)
                    conflict, new = _global_step(b, ShadowRules(b, warp, lane), state, me)
                    with b.if_(conflict, likely=False):
                        b.hazard(i32(L.RACE), lane, at, state)
                    b.store(new, slot)


def _global_step(b: Helper, rules: ShadowRules, state: IRValue, me: IRValue) -> tuple[IRValue, IRValue]:
    """(conflict, new state) for an access of block `me` to a granule in `state` (i64)."""
    high, low = b.resize(b.lshr(state, 32), I32), b.resize(state, I32)
    owner = b.and_const(high, L.SEVERAL_BLOCKS)
    untouched = b.icmp("eq", owner, b.like(owner, 0))
    mine = b.icmp("eq", owner, me)
    # what this block has not touched behaves like something last touched before the block's last barrier
    own_conflict, new_low = rules.step(b.select(mine, low, b.like(low, 0)))
    is_read, is_atomic = (b.icmp("eq", rules.kind, b.like(me, kind)) for kind in (L.READ, L.ATOMIC))
    wrote, plain = _has_done(b, high, low)
    agree = b.or_(b.and_(is_read, b.not_(wrote)), b.and_(is_atomic, b.not_(plain)))
    foreign = b.not_(b.or_(mine, untouched))
    conflict = b.or_(b.and_(foreign, b.not_(agree)), b.and_(mine, own_conflict))
    # also of another block, where only that is in conflict: what a launch has written is asked for afterwards
    hidden_write = b.and_(b.and_(b.not_(untouched), wrote), _is_kind(b, new_low, L.READ))
    hidden_plain = b.and_(b.and_(b.not_(untouched), plain), _is_kind(b, new_low, L.ATOMIC))
    hidden = (hidden_write, L.WROTE_BEFORE), (hidden_plain, L.PLAIN_BEFORE)
    flags = b.or_(*(b.select(hides, b.like(me, flag), b.like(me, 0)) for hides, flag in hidden))
    new_high = b.or_(b.select(b.and_(foreign, agree), b.like(me, L.SEVERAL_BLOCKS), me), flags)
    return conflict, b.or_(b.shl(b.resize(new_high, I64), 32), b.resize(new_low, I64))


def _is_kind(b: Helper, low: IRValue, kind: int) -> IRValue:
    return b.icmp("eq", b.and_const(b.lshr(low, L.KIND_SHIFT), 3), b.like(low, kind))


def _has_done(b: Helper, high: IRValue, low: IRValue) -> tuple[IRValue, IRValue]:
    """Whether those whom a state names have made an access that was no read, and one that was no atomic."""
    flagged = (b.icmp("ne", b.and_const(high, flag), b.like(high, 0)) for flag in (L.WROTE_BEFORE, L.PLAIN_BEFORE))
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
    fresh = b.and_(fresh, b.icmp("eq", b.and_const(KIND, L.BLIND_ACCESS), i32(0)))
    with b.if_(b.and_(fresh, b.or_(s.is_read, s.is_atomic)), likely=False):
        b.hazard(i32(L.UNINITIALIZED), lane, address, i64(0))
    s.conflicts(WRITTEN, L.WRITE)
    with b.if_(b.not_(s.is_read)):
        s.conflicts(FIRST_READ, L.READ)
        s.conflicts(SECOND_READ, L.READ)
    s.conflicts(FIRST_UPDATE, L.ATOMIC)  # with another atomic, where one of the two is of another block's scope
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
    with each_granule(b, offset, granule_log2) as (shadow, lane, at, granule):
        cell = _cell(b, shadow, granule)
        where = b.resize(at, I64)
        value = _stored(b, lane, b.sub(granule, b.lshr(at, granule_log2)), granule_log2)
        b.call("ws_exact_step", "void", WORKER, CONTEXT, cell, lane, where, value, i32(L.SHARED_RACE), SITE, KIND)


@helper("ws_exact_global_{}", "void", WORKER, CONTEXT, ADDRESS, MASK, SIZE, SITE, KIND, over=GRANULES)
def exact_global(b: Helper, address: IRValue, granule_log2: int) -> None:
    """The access of all lanes to global memory; arrays that no block writes have no shadow."""
    addresses = b.stack(address)
    granules = granules_of(b, granule_log2)
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
    with each_granule(b, offset, granule_log2) as (shadow, _, _, granule):
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
