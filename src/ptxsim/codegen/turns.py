"""Whose turn it is: of blocks that may wait for each other, and of the warps of a block."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import NULL, WORKER, Helper, IRValue, i32, i64, report, tell_async
from ptxsim.codegen.unit import Unit, thread_count

PATIENCE = 2
"""Turns of all resident blocks in vain, after which the next block is let in: one of these may be waiting for it."""
_LONG_VAIN = 64
"""The same where blocks come to barriers of their own meanwhile."""
_MOST_AGAIN = 64
"""How often warpgroups of a block go on in a round while other warps wait."""
_C = L.ContextLayout


class Turns:
    """Blocks that may wait for each other: some are resident, and each runs until it can only look at memory again.

    They come in clusters, in their order, the next one when the last has ended or when all that are there have waited
    in vain for long. So where nobody waits, blocks run one after the other, as everywhere.
    """

    def __init__(self, b: Helper, unit: Unit, first: IRValue, last: IRValue) -> None:
        self.b, self.unit, self.last = b, unit, last
        self.following = b.variable("i64", first)
        """the next block to start"""
        self.active, self.vain, self.at, self.place = (b.variable("i64", i64(0)) for _ in range(4))
        """resident blocks; turns in vain since something happened; whose turn it is; where a cluster is let in"""
        self.places = b.worker("resident_count", "i64")
        self.residents = b.worker("residents", "ptr")
        self.blocks = b.resize(b.cluster_blocks(), "i64")
        self.wanted = b.variable("i64", b.worker("wanted", "i64"))
        """how many are to be resident, as long as there are enough"""
        set_patience(b, unit.yield_every)

    def record(self, k: IRValue, name: str = "") -> IRValue:
        start = self.b.mul(k, i64(ctypes.sizeof(L.Resident)))
        return self.b.offset(self.b.offset(self.residents, start), getattr(L.Resident, name).offset if name else 0)

    def write(self, begin: Callable[[IRValue], None], rounds: Callable[[str, str], None]) -> None:
        """All of it. `begin` starts a block by its number; `rounds` runs it, and goes to one of two labels."""
        b = self.b
        names = ("choose", "admit", "look", "here", "turn", "pause", "over", "ended")
        choose, admit, look, here, turn, pause, over, ended = (b.new_label(name) for name in names)
        b.br(choose)
        b.label(choose)
        active = b.load("i64", self.active)
        left = b.icmp("ult", b.load("i64", self.following), self.last)
        wanted = b.and_(b.icmp("ult", active, b.load("i64", self.wanted)), left)
        self._find_place()
        room = b.icmp("sge", b.load("i64", self.place), i64(0))
        none = b.new_label("none")
        b.branch(b.and_(wanted, room), admit, none)
        b.label(none)
        b.branch(b.icmp("eq", active, i64(0)), ended, look)
        b.label(admit)
        self._admit()
        b.br(choose)
        b.label(look)
        k = b.load("i64", self.at)
        state = b.load("i32", self.record(k, "state"))
        self._advance(k)
        b.branch(b.icmp("eq", state, i32(L.RESIDENT_NONE)), look, here)
        b.label(here)
        self._copy(WORKER, self.record(k))
        if not self.unit.options.exact:
            b.store(b.worker("local_time", "i32"), b.offset(WORKER, L.field("time")))
        b.store(i32(0), b.offset(WORKER, L.field("came_further")))
        with b.if_(b.icmp("eq", state, i32(L.RESIDENT_NEW))):
            b.store(i32(L.RESIDENT_STARTED), self.record(k, "state"))
            for name in ("started", "budget"):
                b.store(i64(0), b.offset(WORKER, L.field(name)))
            begin(b.load("i64", self.record(k, "number")))
        b.br(turn)
        b.label(turn)
        rounds(over, pause)
        b.label(pause)
        self._pause(k)
        b.br(choose)
        b.label(over)
        self._end(k)
        b.br(choose)
        b.label(ended)

    def _copy(self, to: IRValue, origin: IRValue) -> None:
        size = i64(ctypes.sizeof(L.BlockPart))
        self.b.call("llvm.memcpy.p0.p0.i64", "void", to, origin, size, IRValue("i1", "false"))

    def _advance(self, k: IRValue) -> None:
        b = self.b
        following = b.add_const(k, 1)
        b.store(b.select(b.icmp("ult", following, self.places), following, i64(0)), self.at)

    def _find_place(self) -> None:
        """The first place of a cluster that nobody is in; -1: there is none."""
        b = self.b
        b.store(i64(-1), self.place)
        with b.loop(b.binary("udiv", self.places, self.blocks)) as group:
            start = b.mul(group, self.blocks)
            free = b.icmp("eq", b.load("i32", self.record(start, "members")), i32(0))
            unset = b.icmp("eq", b.load("i64", self.place), i64(-1))
            with b.if_(b.and_(free, unset)):
                b.store(start, self.place)

    def _admit(self) -> None:
        b = self.b
        start, number = b.load("i64", self.place), b.load("i64", self.following)
        with b.loop(self.blocks) as rank:
            k = b.add(start, rank)
            b.store(b.add(number, rank), self.record(k, "number"))
            b.store(i32(L.RESIDENT_NEW), self.record(k, "state"))
        b.store(b.resize(self.blocks, "i32"), self.record(start, "members"))
        cluster = b.load("ptr", b.offset(self.record(start), L.field("cluster")))
        threads = b.mul(b.resize(self.blocks, "i32"), i32(thread_count(self.unit.block)))
        for name, value in (("arrived", i32(0)), ("phase", i32(0)), ("threads", threads)):
            b.store(value, b.offset(cluster, getattr(L.ClusterPart, name).offset))
        b.store(b.add(number, self.blocks), self.following)
        b.store(b.add(b.load("i64", self.active), self.blocks), self.active)
        b.store(start, self.at)
        b.store(i64(0), self.vain)

    def _settle(self) -> None:
        """Takes what the block has spent off the launch's budget."""
        b = self.b
        left = b.worker("budget", "i64")
        used = b.sub(b.worker("started", "i64"), left)
        b.store(b.sub(b.worker("launch_budget", "i64"), used), b.offset(WORKER, L.field("launch_budget")))
        b.store(left, b.offset(WORKER, L.field("started")))

    def _pause(self, k: IRValue) -> None:
        b = self.b
        self._settle()
        if self.unit.options.exact:
            report(b, L.Event.PAUSE, i32(0), i64(0))
        b.store(b.worker("time", "i32"), b.offset(WORKER, L.field("local_time")))
        self._copy(self.record(k), WORKER)
        came = b.icmp("ne", b.worker("came_further", "i32"), i32(0))
        with b.if_(came):
            set_patience(b, self.unit.yield_every)
        vain = b.select(came, i64(0), b.add_const(b.load("i64", self.vain), 1))
        b.store(vain, self.vain)
        active, places = b.load("i64", self.active), self.places
        more = b.icmp("ult", b.load("i64", self.following), self.last)
        more = b.and_(more, b.icmp("ule", b.add(active, self.blocks), places))
        with b.if_(b.icmp("ugt", vain, b.mul(active, i64(PATIENCE))), likely=False):
            b.store(i64(0), self.vain)
            set_patience(b, min(L.VAIN_YIELD_EVERY, self.unit.yield_every))
            with b.if_(more):
                self._want_more(active)
            with b.if_(b.not_(more)):
                b.store(i32(1), b.offset(WORKER, L.field("give_up")))
        if not self.unit.spins:
            return
        b.store(b.load("i64", self.at), b.offset(WORKER, L.field("whose_turn")))
        look_for_stall(b, unit=self.unit, holds=b.not_(more))
        is_long = b.icmp("ugt", b.worker("pauses", "i64"), b.mul(active, i64(_LONG_VAIN)))
        with b.if_(b.and_(more, is_long), likely=False):
            self._want_more(active)
            reset_looks(b)

    def _want_more(self, active: IRValue) -> None:
        """Lets in as many blocks as there are, or as fit: one after the other would take too many turns in vain."""
        b = self.b
        twice = b.intrinsic("umin", b.mul(active, i64(2)), self.places)
        b.store(b.intrinsic("umax", twice, b.add(active, self.blocks)), self.wanted)

    def _end(self, k: IRValue) -> None:
        b = self.b
        self._settle()
        if self.unit.followed:
            tell_async(b, L.AsyncEvent.EXIT, i32(0), i64(0))
        b.store(i32(L.RESIDENT_NONE), self.record(k, "state"))
        rank = b.worker("rank", "i32")
        start = b.sub(k, b.resize(rank, "i64"))
        b.increment(self.record(start, "members"), i32(-1))
        b.store(b.add_const(b.load("i64", self.active), -1), self.active)
        b.store(i64(0), self.vain)
        set_patience(b, self.unit.yield_every)
        reset_looks(b)


def set_patience(b: Helper, every: int) -> None:
    """A thread that may wait for another gives way after so many iterations, a power of 2."""
    b.store(i64(every - 1), b.offset(WORKER, L.field("patience")))


def reset_looks(b: Helper) -> None:
    """Something has changed that `on_stall` does not see: what it saw before counts no more."""
    for name in ("pauses", "next_look"):
        b.store(i64(0), b.offset(WORKER, L.field(name)))
    b.increment(b.offset(WORKER, L.field("resets")), i64(1))
    note_change(b)


def note_change(b: Helper) -> None:
    """Threads that waited may go on."""
    b.store(i32(1), b.offset(WORKER, L.field("changed")))


def look_for_stall(b: Helper, unit: Unit, holds: IRValue | None = None) -> None:
    """Somebody has given way: lets the worker see now and then whether anything can change any more (`run.stalls`).

    With a condition, only where that holds. A block that runs alone waits in vain after some rounds of its warps.
    """
    pauses = b.add_const(b.worker("pauses", "i64"), 1)
    b.store(pauses, b.offset(WORKER, L.field("pauses")))
    if not unit.in_turns:
        with b.if_(b.icmp("ugt", pauses, i64(PATIENCE))):
            set_patience(b, min(L.VAIN_YIELD_EVERY, unit.yield_every))
    due = b.icmp("uge", pauses, b.worker("next_look", "i64"))
    with b.if_(due if holds is None else b.and_(due, holds), likely=False):
        listener = b.load("ptr", b.offset(WORKER, L.field("on_stall")))
        b.emit(f"call void {listener.text}(i32 0, i32 0, {pauses}, {NULL})")
        with b.if_(b.icmp("ne", b.worker("fault", "i32"), i32(0)), likely=False):
            b.leave()


def whose_turn(b: Helper, unit: Unit, position: IRValue) -> IRValue:
    """The warp whose turn is at a position of a round."""
    if not unit.options.reordered:
        return position
    return b.resize(b.element(b.worker("order", "ptr"), "i32", position), "i64")


def run_by_warpgroups(
    b: Helper, unit: Unit, contexts: IRValue, count: int, turn: IRValue, run: Callable[[IRValue], None]
) -> None:
    """A round of `count` warps, of those whose bits are set at `turn`.

    The four of a warpgroup that all wait at `wgmma.wait_group` go on at once, while what they work on is in the host's
    nearest caches; not for ever, for they may look for what others have to do.
    """
    position, left = b.variable("i64", i64(0)), b.variable("i64", i64(_MOST_AGAIN))
    head, fourth, following, done = (b.new_label(name) for name in ("warp", "fourth", "next", "done"))
    b.br(head, then=head)
    now = b.load("i64", position)
    run(whose_turn(b, unit, now))
    b.store(b.add_const(now, 1), position)
    is_fourth = b.icmp("eq", b.and_const(now, 3), i64(3))
    b.branch(b.and_(is_fourth, b.icmp("sgt", b.load("i64", left), i64(0))), fourth, following, then=fourth)
    first = b.add_const(now, -3)
    again = IRValue("i1", "true")
    for k in range(4):
        warp = b.add_const(first, k)
        in_place = b.icmp("eq", whose_turn(b, unit, warp), warp)
        again = b.and_(again, b.and_(in_place, _waits_for_products(b, unit, contexts, warp)))
    with b.if_(again):
        b.store(first, position)
        four = b.binary("shl", i32(0xF), b.resize(first, "i32"))
        b.store(b.or_(b.load("i32", turn), four), turn)
        b.increment(left, i64(-1))
        if unit.in_turns:
            b.store(i32(1), b.offset(WORKER, L.field("came_further")))
    b.br(following, then=following)
    b.branch(b.icmp("ult", b.load("i64", position), i64(count)), head, done, then=done)


def _waits_for_products(b: Helper, unit: Unit, contexts: IRValue, warp: IRValue) -> IRValue:
    """Whether the whole warp waits for the others of its warpgroup at `wgmma.wait_group`."""
    context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
    waits = b.icmp("eq", b.lshr(b.load("i32", b.offset(context, _C.STATUS)), 16), i32(L.AT_BARRIER))
    own = b.add_const(b.resize(b.lshr(warp, 2), "i32"), L.WARPGROUP_BARRIER)
    return b.and_(waits, b.icmp("eq", b.load("i32", b.offset(context, _C.BARRIER_ID)), own))
