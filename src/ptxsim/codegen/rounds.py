"""A round of a block: every warp whose turn it is runs to its next barrier, its end, or to where it gives way.

In lockstep all warps run `full` from one entry to one barrier, which needs no bookkeeping per warp. The first warp that
does anything else (parts, ends alone, comes to another barrier) turns the block over to the general loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.codegen import layout as L
from ptxsim.codegen.async_copy import checks
from ptxsim.codegen.emit import Value
from ptxsim.codegen.entries import Part
from ptxsim.codegen.runtime.helper import WORKER, Helper, i32, i64
from ptxsim.codegen.runtime.named import ONE_FOR_ALL
from ptxsim.codegen.signals import report
from ptxsim.codegen.unit import Unit
from ptxsim.run.ordering import OPEN, RUN

_C = L.ContextLayout


@dataclass(frozen=True)
class Slots:
    """Where the driver keeps, in its own memory, what is known of a block and of the round at hand."""

    alive: Value
    """whether some warp is not at its end"""
    target: Value
    """the block of code at which the first warp waits; -1: none does yet"""
    apart: Value
    """whether warps wait at different places"""
    yielded: Value
    """bit mask of warps that have given way in this round"""
    state: Value
    """of the warp at hand: what it did, and the block of code it comes to"""
    done: Value
    """how many warps have ended"""
    turn: Value
    """bit mask of warps that may run in this round"""
    votes: tuple[Value, ...]
    """for barriers that reduce a predicate: how many lanes hold it, and how many came"""
    lockstep: Value
    """the entry from which all warps run alike; -1: they do not"""
    start: Value
    """the first warp that lockstep has left to the general loop"""

    @classmethod
    def allocate(cls, b: Helper, *, votes: bool) -> Slots:
        def number() -> Value:
            return b.let("ptr", 0, "alloca i32")

        alive, target, apart, yielded, state, done, turn = (number() for _ in range(7))
        counts = tuple(number() for _ in range(2 if votes else 0))
        lockstep, start = number(), b.let("ptr", 0, "alloca i64")
        return cls(alive, target, apart, yielded, state, done, turn, counts, lockstep, start)

    def begin_block(self, b: Helper, *, in_lockstep: bool) -> None:
        b.store(i32(0), self.done)
        b.store(i32(-1), self.turn)
        b.store(i32(0 if in_lockstep else -1), self.lockstep)

    def begin_round(self, b: Helper) -> None:
        for slot, value in ((self.alive, 0), (self.target, -1), (self.apart, 0), (self.yielded, 0)):
            b.store(i32(value), slot)
        for slot in self.votes:
            b.store(i32(0), slot)
        b.store(i64(0), self.start)

    def note_waiting(self, b: Helper, result: Value) -> None:
        """A warp waits where `result` says."""
        b.store(i32(1), self.alive)
        target = b.and_const(result, 0xFFFF)
        first = b.load("i32", self.target)
        fresh = b.icmp("eq", first, i32(-1))
        differs = b.and_(b.not_(fresh), b.icmp("ne", first, target))
        b.store(b.select(fresh, target, first), self.target)
        b.store(b.or_(b.load("i32", self.apart), b.resize(differs, "i32")), self.apart)

    def note_end(self, b: Helper) -> None:
        """A warp has ended."""
        b.store(b.add_const(b.load("i32", self.done), 1), self.done)

    def count_votes(self, b: Helper, context: Value, outcome: Value) -> None:
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
    parts: list[Part]
    contexts: Value
    """address of the first warp's context"""
    count: int

    def context(self, b: Helper, warp: Value) -> Value:
        return b.offset(self.contexts, b.mul(warp, i64(self.unit.context.size)))

    def function(self, b: Helper, entry: Value) -> Value:
        """The part of `full` that enters at block `entry`."""
        chosen = Value("ptr", f"@{self.parts[0].name}")
        for part in self.parts[1:]:
            for e in part.entries:
                chosen = b.select(b.icmp("eq", entry, i32(e)), Value("ptr", f"@{part.name}"), chosen)
        return chosen


def block_barrier(b: Helper, unit: Unit) -> None:
    """All that the block did so far comes before all that it does from now on."""
    if unit.options.exact:
        report(b, OPEN, i32(0), i64(-1))
    else:
        b.call("ws_block_barrier", "void", WORKER, i32(unit.shared_granule_log2))


# ---------------------------------------------------------------- lockstep


def lockstep_round(b: Helper, warps: Warps, slots: Slots, release: str, over: str) -> None:
    """All warps through `full` from the entry in `slots.lockstep`; falls through to the general loop where they
    differ."""
    entry = b.load("i32", slots.lockstep)
    together, general, differs = b.new_label("together"), b.new_label("general"), b.new_label("differs")
    b.branch(b.icmp("sge", entry, i32(0)), together, general, likely=True)
    b.label(together)
    last = _together(b, warps, entry, differs)
    b.store(b.and_const(last.result, 0xFFFF), slots.lockstep)
    b.store(b.and_const(last.result, 0xFFFF), slots.target)
    b.branch(b.icmp("eq", last.code, i32(L.DONE)), over, release)
    b.label(differs)
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
            slots.note_end(b)
        with b.if_(b.not_(this_ended)):
            slots.note_waiting(b, last.result)
    b.br(general)
    b.label(general)


@dataclass(frozen=True)
class _Last:
    """The last warp that ran in lockstep."""

    warp: Value
    result: Value
    code: Value
    """what it did, of its result"""
    before: Value
    """result of the warp before it"""
    ordinary: Value
    """whether it ended or waits at a barrier"""


def _together(b: Helper, warps: Warps, entry: Value, differs: str) -> _Last:
    """The loop over the warps, which goes to `differs` at the first that does something else than the one before."""
    function = warps.function(b, entry)
    before = b.label_now
    head, following, done = b.new_label("warp"), b.new_label("next"), b.new_label("done")
    b.br(head)
    b.label(head)
    index, position, earlier = b.name(), b.name(), b.name()
    phis_at = len(b.lines)
    b.lines += ["", "", ""]
    warp, context, previous = Value("i64", index), Value("ptr", position), Value("i32", earlier)
    b.emit(f"%lockstep_result = call i32 {function.text}({context}, {WORKER}, {entry})")
    result = Value("i32", "%lockstep_result")
    code = b.lshr(result, 16)
    ordinary = b.or_(b.icmp("eq", code, i32(L.AT_BARRIER)), b.icmp("eq", code, i32(L.DONE)))
    same = b.icmp("eq", result, previous)
    is_first = b.icmp("eq", warp, i64(0))
    b.branch(b.and_(ordinary, b.or_(same, is_first)), following, differs, likely=True)
    b.label(following)
    next_warp, next_context = b.add_const(warp, 1), b.offset(context, warps.unit.context.size)
    b.branch(b.icmp("ult", next_warp, i64(warps.count)), head, done)
    b.lines[phis_at] = f"{index} = phi i64 [0, %{before}], [{next_warp.text}, %{following}]"
    b.lines[phis_at + 1] = (
        f"{position} = phi ptr [{warps.contexts.text}, %{before}], [{next_context.text}, %{following}]"
    )
    b.lines[phis_at + 2] = f"{earlier} = phi i32 [-1, %{before}], [{result.text}, %{following}]"
    b.label(done)
    return _Last(warp, result, code, previous, ordinary)


def _write_down(b: Helper, warps: Warps, last: _Last, entry: Value) -> None:
    """Notes where every warp is: the earlier ones behind the round, the last at its result, the others before it."""
    with b.if_(b.icmp("eq", b.lshr(last.result, 16), i32(L.FAULTED)), likely=False):
        b.ret()
        b.label(b.new_label("unreached"))
    waiting = b.or_(entry, i32(L.CONVERGED << 16))
    with b.loop(i64(warps.count)) as k:
        context = warps.context(b, k)
        is_earlier, is_this = b.icmp("ult", k, last.warp), b.icmp("eq", k, last.warp)
        state = b.select(is_earlier, last.before, b.select(is_this, last.result, waiting))
        b.store(state, b.offset(context, _C.STATUS))
        b.store(i32(0), b.offset(context, _C.PREDICATE))


# ---------------------------------------------------------------- one by one


def run_warp(b: Helper, warps: Warps, warp: Value, slots: Slots) -> None:
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
                report(b, RUN, b.load("i32", b.offset(context, _C.WARP_INDEX)), i64(0))
        b.store(state, slots.state)
        result, outcome = _run_until_settled(b, warps, context, slots)
        with b.if_(b.icmp("eq", outcome, i32(L.FAULTED)), likely=False):
            b.ret()
            b.label(b.new_label("unreached"))
        if unit.barrier_objects and unit.copies_async:
            b.call("ws_async_settle", "void", WORKER, context, i64(0), i32(checks(unit)))
        b.store(result, b.offset(context, _C.STATUS))
        ended = b.icmp("eq", outcome, i32(L.DONE))
        with b.if_(ended):
            slots.note_end(b)
        gives_way = b.icmp("eq", outcome, i32(L.YIELDED))
        with b.if_(gives_way, likely=False):
            b.store(i32(1), slots.alive)
            b.store(b.or_(b.load("i32", slots.yielded), mine), slots.yielded)
        with b.if_(b.not_(b.or_(ended, gives_way))):
            slots.note_waiting(b, result)
            if slots.votes:
                slots.count_votes(b, context, outcome)


def _run_until_settled(b: Helper, warps: Warps, context: Value, slots: Slots) -> tuple[Value, Value]:
    """`full` and `masked` in turns, as long as the warp only changes from one to the other; (result, its code)."""
    again, settled = b.new_label("again"), b.new_label("settled")
    full, masked, judge = b.new_label("full"), b.new_label("masked"), b.new_label("judge")
    b.br(again)
    b.label(again)
    now = b.load("i32", slots.state)
    code, block = b.lshr(now, 16), b.and_const(now, 0xFFFF)
    together = b.or_(b.icmp("eq", code, i32(L.AT_BARRIER)), b.icmp("eq", code, i32(L.CONVERGED)))
    b.branch(together, full, masked)
    b.label(full)
    b.emit(f"%full_result = call i32 {warps.function(b, block).text}({context}, {WORKER}, {block})")
    b.br(judge)
    b.label(masked)
    function = b.load("ptr", b.offset(WORKER, L.field("masked")))
    b.emit(f"%masked_result = call i32 {function.text}({context}, {WORKER})")
    b.br(judge)
    b.label(judge)
    result = b.phi((Value("i32", "%full_result"), full), (Value("i32", "%masked_result"), masked))
    b.store(result, slots.state)
    outcome = b.lshr(result, 16)
    moved = b.or_(b.icmp("eq", outcome, i32(L.DIVERGED)), b.icmp("eq", outcome, i32(L.CONVERGED)))
    b.branch(moved, again, settled)
    b.label(settled)
    return result, outcome


# ---------------------------------------------------------------- barriers


def open_named(b: Helper, warps: Warps, slots: Slots) -> None:
    """Opens the named barriers that are complete; if none is and nobody can run, reports it and opens all."""
    unit = warps.unit
    opened = b.call("ws_named_release", "i64", WORKER, warps.contexts, i64(unit.context.size), i64(warps.count))
    turn = b.or_(b.resize(opened, "i32"), b.load("i32", slots.yielded))
    stuck = b.icmp("eq", turn, i32(0))
    b.store(b.select(stuck, i32(-1), turn), slots.turn)
    if unit.options.check:
        with b.if_(stuck, likely=False):
            report_divergence(b, warps, b.load("i32", slots.target), stuck=True)
        for_all = b.icmp("ne", b.and_const(opened, ONE_FOR_ALL), i64(0))
        if unit.options.exact:
            report(b, OPEN, i32(0), b.select(stuck, i64(-1), opened))
        else:
            with b.if_(b.or_(for_all, stuck)):
                block_barrier(b, unit)


def report_divergence(b: Helper, warps: Warps, target: Value, *, stuck: bool = False) -> None:
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
