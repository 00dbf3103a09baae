"""The driver: runs a range of blocks, each in rounds. In a round every warp whose turn it is runs to its next
barrier, its end, or to where it gives way.

In lockstep all warps run `full` from one entry to one barrier, which needs no bookkeeping per warp. The first warp that
does anything else (parts, ends alone, comes to another barrier) turns the block over to the general loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ptxsim.codegen import layout as L, lockstep
from ptxsim.codegen.emit import (
    WARP,
    WORKER,
    Helper,
    IRValue,
    arg,
    constant,
    constants,
    i32,
    i64,
    report,
    tell_async,
)
from ptxsim.codegen.runtime.barriers import ONE_FOR_ALL
from ptxsim.codegen.turns import (
    Turns,
    look_for_stall,
    note_change,
    reset_looks,
    run_by_warpgroups,
    set_patience,
    whose_turn,
)
from ptxsim.codegen.unit import FullPart, Unit, thread_count
from ptxsim.syntax.program import RESERVED, RESERVED_BYTES

_C = L.ContextLayout
_LANES = L.field("notice") + L.Notice.lanes.offset


@dataclass(frozen=True)
class Slots:
    """Where the driver keeps, in its own memory, what is known of a block and of the round at hand."""

    alive: IRValue
    """whether some warp is not at its end"""
    target: IRValue
    """the block of code at which the first warp waits; -1: none does yet"""
    apart: IRValue
    """whether warps wait at different places"""
    yielded: IRValue
    """bit mask of warps that have given way in this round"""
    state: IRValue
    """of the warp at hand: what it did, and the block of code it comes to"""
    done: IRValue
    """how many warps have ended"""
    turn: IRValue
    """bit mask of warps that may run in this round"""
    votes: tuple[IRValue, ...]
    """for barriers that reduce a predicate: how many lanes hold it, and how many came"""
    lockstep: IRValue
    """the entry from which all warps run alike; -1: they do not"""
    start: IRValue
    """the first warp that lockstep has left to the general loop"""

    @classmethod
    def allocate(cls, b: Helper, *, votes: bool) -> Slots:
        """Memory of the function; what is known of a block between two rounds is in the worker."""
        alive, target, apart, yielded, state, *counts = (
            b.let("ptr", 0, "alloca i32") for _ in range(7 if votes else 5)
        )
        done, turn, lockstep = (b.offset(WORKER, L.field(name)) for name in ("done", "turn", "lockstep"))
        start = b.let("ptr", 0, "alloca i64")
        return cls(alive, target, apart, yielded, state, done, turn, tuple(counts), lockstep, start)

    def begin_block(self, b: Helper, *, in_lockstep: bool) -> None:
        b.store(i32(0), self.done)
        b.store(i32(-1), self.turn)
        b.store(i32(0 if in_lockstep else -1), self.lockstep)

    def begin_round(self, b: Helper) -> None:
        for slot in (self.alive, self.target, self.apart, self.yielded, *self.votes):
            b.store(i32(-1 if slot is self.target else 0), slot)
        b.store(i64(0), self.start)

    def note_waiting(self, b: Helper, result: IRValue) -> None:
        """A warp waits where `result` says."""
        b.store(i32(1), self.alive)
        target = b.and_const(result, 0xFFFF)
        first = b.load("i32", self.target)
        fresh = b.icmp("eq", first, i32(-1))
        differs = b.and_(b.not_(fresh), b.icmp("ne", first, target))
        b.store(b.select(fresh, target, first), self.target)
        b.store(b.or_(b.load("i32", self.apart), b.resize(differs, "i32")), self.apart)

    def count_votes(self, b: Helper, context: IRValue, outcome: IRValue) -> None:
        here = b.icmp("eq", outcome, i32(L.AT_BARRIER))
        present = b.select(here, i32(-1), b.load("i32", b.offset(context, _C.PARTICIPANTS)))
        votes = b.and_(b.load("i32", b.offset(context, _C.PREDICATE)), present)
        for slot, bits in zip(self.votes, (votes, present), strict=True):
            b.store(b.add(b.load("i32", slot), b.call("llvm.ctpop.i32", "i32", bits)), slot)
        b.store(i32(0), b.offset(context, _C.PREDICATE))


@dataclass(frozen=True)
class Warps:
    """The warps of a block and the code that they run."""

    unit: Unit
    parts: list[FullPart]
    contexts: IRValue
    """address of the first warp's context"""
    count: int

    def context(self, b: Helper, warp: IRValue) -> IRValue:
        return b.offset(self.contexts, b.mul(warp, i64(self.unit.context.size)))

    def function(self, b: Helper, entry: IRValue, *, several: bool = False) -> IRValue:
        """The part of `full` that enters at block `entry`; if there are `several` warps to run, what runs some at
        once."""
        chosen = IRValue("ptr", f"@{self.parts[0].name}")
        for part in self.parts:
            name = IRValue("ptr", f"@{part.abreast_name if several and part.abreast else part.name}")
            for e in part.entries:
                chosen = b.select(b.icmp("eq", entry, i32(e)), name, chosen)
        return chosen


def _block_barrier(b: Helper, unit: Unit) -> None:
    """All that the block did so far comes before all that it does from now on."""
    if unit.followed and not unit.named:
        tell_async(b, L.AsyncEvent.OPEN, i32(0), i64(-1))
    if unit.options.exact:
        report(b, L.Event.OPEN, i32(0), i64(-1))
    else:
        b.call("ws_block_barrier", "void", WORKER, i32(unit.shared_granule_log2))


# ---------------------------------------------------------------- lockstep


def lockstep_round(b: Helper, warps: Warps, slots: Slots, release: str, over: str) -> None:
    """All warps through `full` from the entry in `slots.lockstep`; falls through to the general loop where they
    differ."""
    entry = b.load("i32", slots.lockstep)
    together, general, differs = b.new_label("together"), b.new_label("general"), b.new_label("differs")
    b.branch(b.icmp("sge", entry, i32(0)), together, general, likely=True, then=together)
    last = _together(b, warps, entry, differs)
    b.store(b.and_const(last.result, 0xFFFF), slots.lockstep)
    b.store(b.and_const(last.result, 0xFFFF), slots.target)
    b.branch(b.icmp("eq", last.code, i32(L.DONE)), over, release, then=differs)
    _write_down(b, warps, last, entry)
    b.store(i32(-1), slots.lockstep)
    # the warps before this one are through with the round
    any_earlier = b.icmp("ne", last.warp, i64(0))
    ended = b.icmp("eq", b.lshr(last.before, 16), i32(L.DONE))
    with b.if_(b.and_(any_earlier, ended)):
        b.store(b.resize(last.warp, "i32"), slots.done)
    with b.if_(b.and_(any_earlier, b.not_(ended))):
        slots.note_waiting(b, last.before)
    b.store(last.warp, slots.start)
    with b.if_(last.ordinary):  # so is this one, elsewhere than the others
        b.store(b.add_const(last.warp, 1), slots.start)
        this_ended = b.icmp("eq", last.code, i32(L.DONE))
        with b.if_(this_ended):
            b.increment(slots.done, i32(1))
        with b.if_(b.not_(this_ended)):
            slots.note_waiting(b, last.result)
    b.br(general, then=general)


@dataclass(frozen=True)
class _Last:
    """The last warp that ran in lockstep."""

    warp: IRValue
    result: IRValue
    code: IRValue
    """what it did, of its result"""
    before: IRValue
    """result of the warp before it"""
    ordinary: IRValue
    """whether it ended or waits at a barrier"""


def _together(b: Helper, warps: Warps, entry: IRValue, differs: str) -> _Last:
    """All warps, or those up to the first that does something else than the one before; goes to `differs` then."""
    result = lockstep.call(b, warps.function(b, entry, several=True), (warps.contexts, i64(warps.count)), entry)
    warp, before = b.worker("last_warp", "i64"), b.worker("result_before", "i32")
    on, ordinary = lockstep.goes_on(b, result, before, warp)
    done = b.new_label("done")
    b.branch(on, done, differs, likely=True, then=done)
    return _Last(warp, result, b.lshr(result, 16), before, ordinary)


def _write_down(b: Helper, warps: Warps, last: _Last, entry: IRValue) -> None:
    """Notes where every warp is: the earlier ones behind the round, the last at its result, the others before it."""
    with b.if_(b.icmp("eq", b.lshr(last.result, 16), i32(L.FAULTED)), likely=False):
        b.leave()
    waiting = b.or_(entry, i32(L.CONVERGED << 16))
    with b.loop(i64(warps.count)) as k:
        context = warps.context(b, k)
        is_earlier, is_this = b.icmp("ult", k, last.warp), b.icmp("eq", k, last.warp)
        state = b.select(is_earlier, last.before, b.select(is_this, last.result, waiting))
        b.store(state, b.offset(context, _C.STATUS))
        b.store(i32(0), b.offset(context, _C.PREDICATE))


# ---------------------------------------------------------------- one by one


def run_warp(b: Helper, warps: Warps, slots: Slots, warp: IRValue) -> None:
    """One warp, if it is its turn, until it ends, waits at a barrier of the block, or gives way."""
    unit, context = warps.unit, warps.context(b, warp)
    mine = b.binary("shl", i32(1), b.resize(warp, "i32"))
    state = b.load("i32", b.offset(context, _C.STATUS))
    done = b.icmp("eq", b.lshr(state, 16), i32(L.DONE))
    its_turn = b.icmp("ne", b.and_(b.load("i32", slots.turn), mine), i32(0))
    with b.if_(b.and_(b.not_(done), b.not_(its_turn)), likely=False):
        slots.note_waiting(b, state)
    with b.if_(b.and_(b.not_(done), its_turn)):
        if unit.options.exact:
            b.increment(b.offset(WORKER, L.field("time")), i32(1))
            if unit.partial_order:
                report(b, L.Event.RUN, b.load("i32", b.offset(context, _C.WARP_INDEX)), i64(0))
        b.store(state, slots.state)
        result, outcome = _run_until_settled(b, warps, context, slots)
        with b.if_(b.icmp("eq", outcome, i32(L.FAULTED)), likely=False):
            b.leave()
        if unit.barrier_objects and unit.copies_async:
            b.call("ws_async_settle", "void", WORKER, context, i64(0), i32(unit.copy_checks))
        b.store(result, b.offset(context, _C.STATUS))
        ended = b.icmp("eq", outcome, i32(L.DONE))
        with b.if_(ended):
            b.increment(slots.done, i32(1))
            if unit.in_turns:
                b.call("ws_cluster_leave", "void", WORKER, context)
        gives_way = b.is_any(outcome, L.YIELDED, L.GAVE_WAY)
        with b.if_(gives_way, likely=False):
            b.store(i32(1), slots.alive)
            b.store(b.or_(b.load("i32", slots.yielded), mine), slots.yielded)
        with b.if_(b.not_(b.or_(ended, gives_way))):
            slots.note_waiting(b, result)
            if slots.votes:
                slots.count_votes(b, context, outcome)


def _run_until_settled(b: Helper, warps: Warps, context: IRValue, slots: Slots) -> tuple[IRValue, IRValue]:
    """`full` and `masked` in turns, as long as the warp only changes from one to the other; (result, its code).

    Where the kernel has no `full`, `masked` alone.
    """
    if not warps.parts:
        result = b.let("i32", 0, f"call i32 @masked({context}, {WORKER})")
        b.store(result, slots.state)
        return result, b.lshr(result, 16)
    again, settled = b.new_label("again"), b.new_label("settled")
    full, masked, judge = b.new_label("full"), b.new_label("masked"), b.new_label("judge")
    b.br(again, then=again)
    now = b.load("i32", slots.state)
    code, block = b.lshr(now, 16), b.and_const(now, 0xFFFF)
    together = b.is_any(code, L.AT_BARRIER, L.CONVERGED, L.GAVE_WAY)
    b.branch(together, full, masked, then=full)
    count = (i64(1),) if warps.unit.in_lockstep else ()
    in_full = lockstep.call(b, warps.function(b, block), (context, *count), block)
    b.br(judge, then=masked)
    function = b.load("ptr", b.offset(WORKER, L.field("masked")))
    b.emit(f"%masked_result = call i32 {function.text}({context}, {WORKER})")
    b.br(judge, then=judge)
    result = b.phi((in_full, full), (IRValue("i32", "%masked_result"), masked))
    b.store(result, slots.state)
    outcome = b.lshr(result, 16)
    moved = b.is_any(outcome, L.DIVERGED, L.CONVERGED)
    b.branch(moved, again, settled, then=settled)
    return result, outcome


# ---------------------------------------------------------------- barriers


def open_named(b: Helper, warps: Warps, slots: Slots) -> None:
    """Opens the named barriers that are complete; if none is and nobody can run, reports it and opens all."""
    unit = warps.unit
    opened = b.call("ws_named_release", "i64", WORKER, warps.contexts, i64(unit.context.size), i64(warps.count))
    turn = b.or_(b.resize(opened, "i32"), b.load("i32", slots.yielded))
    stuck = b.icmp("eq", turn, i32(0))
    if unit.spins:
        with b.if_(b.or_(stuck, b.icmp("ne", opened, i64(0)))):
            note_change(b)
    if unit.in_turns:  # another block may still let them go on, unless all have waited in vain
        at = b.offset(WORKER, L.field("give_up"))
        gives_up = b.icmp("ne", b.load("i32", at), i32(0))
        with b.if_(b.and_(stuck, gives_up), likely=False):
            reset_looks(b)
        stuck = b.and_(stuck, gives_up)
        b.store(i32(0), at)
        further = b.icmp("ne", opened, i64(0))
        came = b.offset(WORKER, L.field("came_further"))
        b.store(b.or_(b.load("i32", came), b.resize(further, "i32")), came)
    b.store(b.select(stuck, i32(-1), turn), slots.turn)
    if unit.options.check:
        with b.if_(stuck, likely=False):
            report_divergence(b, warps, b.load("i32", slots.target), stuck=True)
        if unit.followed:
            with b.if_(b.icmp("ne", opened, i64(0))):
                with b.loop(i64(warps.count)) as warp:
                    number = b.load("i32", b.offset(warps.context(b, warp), _C.BARRIER_ID))
                    b.store(number, b.offset(b.offset(WORKER, _LANES), b.shl(warp, 2)))
                tell_async(b, L.AsyncEvent.OPEN, i32(0), opened)
        for_all = b.icmp("ne", b.and_const(opened, ONE_FOR_ALL), i64(0))
        if unit.options.exact:
            report(b, L.Event.OPEN, i32(0), b.select(stuck, i64(-1), opened))
        else:
            with b.if_(b.or_(for_all, stuck)):
                _block_barrier(b, unit)


def report_divergence(b: Helper, warps: Warps, target: IRValue, *, stuck: bool = False) -> None:
    """Some warps wait at `target`, others have exited or wait elsewhere: names a waiting and a missing warp.

    `stuck`: nobody need be elsewhere, a named barrier may be for more threads than there are.
    """
    waiting, missing = b.variable("i64", i64(-1)), b.variable("i64", i64(-1))
    with b.loop(i64(warps.count)) as warp:
        state = b.load("i32", b.offset(warps.context(b, warp), _C.STATUS))
        ended = b.icmp("eq", b.lshr(state, 16), i32(L.DONE))
        here = b.and_(b.not_(ended), b.icmp("eq", b.and_const(state, 0xFFFF), target))
        for holds, slot in ((here, waiting), (b.not_(here), missing)):
            unset = b.icmp("eq", b.load("i64", slot), i64(-1))
            with b.if_(b.and_(holds, unset)):
                b.store(warp, slot)
    context = warps.context(b, b.load("i64", waiting))
    other = b.load("i64", missing)
    if stuck:
        other = b.select(b.icmp("eq", other, i64(-1)), b.load("i64", waiting), other)
    state = b.resize(b.load("i32", b.offset(warps.context(b, other), _C.STATUS)), "i64")
    # address: the missing thread's linear index; state: where it is (bit 32 set: whole warp)
    packed = b.or_(state, i64(1 << 32))
    b.call("ws_hazard", "void", WORKER, context, i32(L.DIVERGENT_BARRIER), target, i32(0), b.shl(other, 5), packed)


def write_driver(unit: Unit, parts: list[FullPart]) -> tuple[str, dict[str, str]]:
    """IR of run_blocks(worker, contexts, first, last), and the declarations it needs."""
    b, threads = Helper({}), thread_count(unit.block)
    contexts, first, last = arg("ptr", "contexts"), arg("i64", "first"), arg("i64", "last")
    b.label("entry")
    slots = Slots.allocate(b, votes=unit.votes)

    def begin(warps: Warps, number: IRValue) -> None:
        _start_block(b, unit, number)
        _start_warps(b, unit, warps.contexts, warps.count, threads)
        slots.begin_block(b, in_lockstep=unit.in_lockstep)

    count = -(-threads // WARP)
    if unit.in_turns:
        turns = Turns(b, unit, first, last)

        def rounds(over: str, pause: str) -> None:
            warps = Warps(unit, parts, b.worker("contexts", "ptr"), count)
            _rounds(b, warps, slots, over, pause)

        turns.write(lambda number: begin(Warps(unit, parts, b.worker("contexts", "ptr"), count), number), rounds)
    else:
        warps = Warps(unit, parts, contexts, count)
        with b.loop(b.sub(last, first)) as k:
            begin(warps, b.add(first, k))
            over = b.new_label("over")
            _rounds(b, warps, slots, over)
            b.label(over)
            if unit.followed:
                tell_async(b, L.AsyncEvent.EXIT, i32(0), i64(0))
    b.ret()
    return b.function(f"void @run_blocks({WORKER}, {contexts}, {first}, {last})"), b.declared


def _rounds(b: Helper, warps: Warps, slots: Slots, over: str, pause: str = "") -> None:
    """Rounds until all warps of the block have ended, then `over`; with `pause`, until somebody may wait for another
    block."""
    unit = warps.unit
    rounds = b.new_label("round")
    b.br(rounds, then=rounds)
    slots.begin_round(b)
    release = b.new_label("release")
    if unit.in_lockstep:
        lockstep_round(b, warps, slots, release, over)
    start = b.load("i64", slots.start)
    if unit.wide_entries and not unit.followed:
        run = partial(run_warp, b, warps, slots)
        run_by_warpgroups(b, unit, warps.contexts, warps.count, slots.turn, run)
    else:
        with b.loop(b.sub(i64(warps.count), start)) as further:
            run_warp(b, warps, slots, whose_turn(b, unit, b.add(start, further)))
    alive, waiting = b.load("i32", slots.alive), b.new_label("waiting")
    b.branch(b.icmp("ne", alive, i32(0)), waiting, over, then=waiting)
    if unit.named:
        open_named(b, warps, slots)
        if unit.spins and not pause:
            with b.if_(b.icmp("ne", b.load("i32", slots.yielded), i32(0)), likely=False):
                look_for_stall(b, unit)
        b.br(pause or rounds)
    elif unit.spin_heads:  # whoever gave way runs again before the barrier opens
        yielded, barrier, spun = b.load("i32", slots.yielded), b.new_label("barrier"), b.new_label("spun")
        b.store(b.select(b.icmp("eq", yielded, i32(0)), i32(-1), yielded), slots.turn)
        b.branch(b.icmp("ne", yielded, i32(0)), spun, barrier, then=spun)
        if unit.spins and not pause:
            look_for_stall(b, unit)
        b.br(pause or rounds, then=barrier)
    if not unit.named:
        b.br(release)
    b.label(release)
    if unit.spins:
        note_change(b)
    if unit.options.check:
        missing = b.or_(b.load("i32", slots.apart), b.load("i32", slots.done))
        with b.if_(b.icmp("ne", missing, i32(0)), likely=False):
            report_divergence(b, warps, b.load("i32", slots.target))
        _block_barrier(b, unit)
    for name, slot in zip(("vote_count", "vote_lanes"), slots.votes, strict=False):
        b.store(b.load("i32", slot), b.offset(WORKER, L.field(name)))
    if pause:
        b.store(i32(1), b.offset(WORKER, L.field("came_further")))
    elif unit.spins:
        set_patience(b, unit.yield_every)
    b.br(rounds)


# ---------------------------------------------------------------- blocks


def _coordinates(b: Helper, number: IRValue, sides: Sequence[IRValue]) -> list[IRValue]:
    rest = b.binary("udiv", number, sides[0])
    return [b.binary("urem", number, sides[0]), b.binary("urem", rest, sides[1]), b.binary("udiv", rest, sides[1])]


def _start_block(b: Helper, unit: Unit, number: IRValue) -> None:
    stopped = b.icmp("ne", b.load("i32", b.offset(WORKER, L.field("stop"))), i32(0))
    with b.if_(stopped, likely=False):
        b.store(i32(L.FAULT_STOPPED), b.offset(WORKER, L.field("fault")))
        b.leave()
    grid = [b.load("i32", b.offset(WORKER, L.field("nctaid") + 4 * k)) for k in range(3)]
    number32 = b.resize(number, "i32")
    if unit.in_turns:
        sides = b.cluster_sides()
        blocks = b.mul(b.mul(sides[0], sides[1]), sides[2])
        rank, cluster = b.binary("urem", number32, blocks), b.binary("udiv", number32, blocks)
        clusters = [b.binary("udiv", g, s) for g, s in zip(grid, sides, strict=True)]
        inner, outer = _coordinates(b, rank, sides), _coordinates(b, cluster, clusters)
        place = [b.add(b.mul(o, s), i) for o, s, i in zip(outer, sides, inner, strict=True)]
        b.store(rank, b.offset(WORKER, L.field("rank")))
    else:
        place = _coordinates(b, number32, grid)
    for axis, value in enumerate(place):
        b.store(value, b.offset(WORKER, L.field("ctaid") + 4 * axis))
    linear = b.add(place[0], b.mul(grid[0], b.add(place[1], b.mul(grid[1], place[2]))))
    b.store(b.resize(linear, "i64"), b.offset(WORKER, L.field("block")))
    _start_budget(b)
    if unit.spin_heads:
        reset_looks(b)
        if not unit.in_turns:
            set_patience(b, unit.yield_every)
    b.store(i32(0), b.offset(WORKER, L.field("failed_waits")))
    b.store(i64(0), b.offset(WORKER, L.field("clock")))  # a clock that ran on would tell which worker runs the block
    if unit.named:
        b.store(IRValue("i32", "zeroinitializer", L.NAMED_BARRIERS), b.offset(WORKER, L.field("arrivals")))
    if unit.followed:
        tell_async(b, L.AsyncEvent.BLOCK, i32(0), i64(0))
    if unit.options.exact:
        report(b, L.Event.BLOCK, i32(0), i64(0))
        _clear_exact_shadow(b, unit)
    elif unit.options.check:
        b.store(i32(1), b.offset(WORKER, L.field("epoch")))
        b.store(i32(1), b.offset(WORKER, L.field("time")))
        size, granule = b.worker("shared_bytes", "i64"), unit.shared_granule_log2
        states = b.shl(b.lshr(b.add_const(size, (1 << granule) - 1), granule), 2)
        for name, length in (("shared", size), ("shadow", states)):
            b.fill(b.worker(name, "ptr"), -1, length)
    if RESERVED in unit.kernel.variables:
        _clear_reserved(b, unit)


def _clear_reserved(b: Helper, unit: Unit) -> None:
    """The area that libraries share begins as zeros, which somebody has written."""
    offset = unit.kernel.variables[RESERVED].offset
    b.fill(b.offset(b.worker("shared", "ptr"), offset), 0, i64(RESERVED_BYTES))
    if unit.options.check and not unit.options.exact:
        first, granules = offset >> unit.shared_granule_log2, RESERVED_BYTES >> unit.shared_granule_log2
        b.fill(b.offset(b.worker("shadow", "ptr"), 4 * first), 0, i64(4 * granules))


def _clear_exact_shadow(b: Helper, unit: Unit) -> None:
    granules = b.lshr(b.worker("shared_bytes", "i64"), unit.shared_granule_log2)
    length = b.mul(b.add_const(granules, 1), i64(L.EXACT_CELL_BYTES))
    b.fill(b.worker("shadow", "ptr"), 0, length)
    size = b.worker("shared_bytes", "i64")
    b.fill(b.worker("shared", "ptr"), -1, size)


def _start_budget(b: Helper) -> None:
    """The block's loop iterations: its share, or what the blocks before it have left."""
    budget, started, launch = (b.offset(WORKER, L.field(name)) for name in ("budget", "started", "launch_budget"))
    used = b.sub(b.load("i64", started), b.load("i64", budget))
    left = b.sub(b.load("i64", launch), used)
    share = b.intrinsic("smin", b.load("i64", b.offset(WORKER, L.field("block_budget"))), left)
    b.store(left, launch)
    for name in ("started", "budget", "share"):
        b.store(share, b.offset(WORKER, L.field(name)))


def _start_warps(b: Helper, unit: Unit, contexts: IRValue, warps: int, threads: int) -> None:
    """Contexts of a new block; what never changes in them is there already (`HostWorker`)."""
    if unit.in_lockstep and not unit.options.check and not unit.copies_async:
        return
    in_last = threads - (warps - 1) * WARP
    with b.loop(i64(warps)) as warp:
        context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
        is_last = b.icmp("eq", warp, i64(warps - 1))
        b.store(i32(0), b.offset(context, _C.SYNC_TIME))
        if unit.copies_async:
            queue = b.offset(b.worker("pending", "ptr"), b.mul(warp, i64(L.QUEUE_BYTES)))
            b.fill(queue, 0, i64(L.QUEUE_ENTRIES))
        if not unit.in_lockstep:
            _start_apart(b, unit, context, is_last, in_last)


def _start_apart(b: Helper, unit: Unit, context: IRValue, is_last: IRValue, in_last: int) -> None:
    """A warp's state where the general loop runs the block from its start."""
    everywhere = unit.options.parted
    masked = (
        IRValue("i1", "true") if everywhere else b.and_(is_last, IRValue("i1", "true" if in_last < WARP else "false"))
    )
    b.store(b.select(masked, i32(L.DIVERGED << 16), i32(L.CONVERGED << 16)), b.offset(context, _C.STATUS))
    b.store(i32(0), b.offset(context, _C.PREDICATE))
    start = [0 if n < in_last else L.EXITED for n in range(WARP)]
    b.store(b.select(is_last, constants("i16", start), constant("i16", 0, WARP)), b.offset(context, _C.PCS), align=64)
