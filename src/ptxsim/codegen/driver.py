"""The driver: runs a range of blocks, each in rounds. In a round every warp whose turn it is runs to its next
barrier, its end, or to where it gives way.

In lockstep all warps run `full` from one entry to one barrier, which needs no bookkeeping per warp. The first warp that
does anything else (parts, ends alone, comes to another barrier) turns the block over to the general loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant, constants
from ptxsim.codegen.functions import WORKER, Helper, arg, i32, i64, report
from ptxsim.codegen.runtime.barriers import ONE_FOR_ALL
from ptxsim.codegen.unit import Part, Unit, thread_count
from ptxsim.syntax.program import Barrier

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


def _block_barrier(b: Helper, unit: Unit) -> None:
    """All that the block did so far comes before all that it does from now on."""
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
        b.leave()
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
            report(b, L.Event.OPEN, i32(0), b.select(stuck, i64(-1), opened))
        else:
            with b.if_(b.or_(for_all, stuck)):
                _block_barrier(b, unit)


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


def write_driver(unit: Unit, parts: list[Part]) -> tuple[str, dict[str, str]]:
    """IR of run_blocks(worker, contexts, first, last), and the declarations it needs."""
    b = Helper()
    b.declared = {}
    threads = thread_count(unit.block)
    contexts, first, last = arg("ptr", "contexts"), arg("i64", "first"), arg("i64", "last")
    warps = Warps(unit, parts, contexts, -(-threads // WARP))
    b.label("entry")
    grid = [b.resize(b.load("i32", b.offset(WORKER, L.field("nctaid") + 4 * k)), "i64") for k in range(2)]
    slots = Slots.allocate(b, votes=_votes(unit))
    in_lockstep = threads % WARP == 0 and not slots.votes and not unit.options.parted and not unit.named
    in_lockstep = in_lockstep and not unit.options.exact and not unit.barrier_objects
    with b.loop(b.sub(last, first)) as k:
        _start_block(b, unit, b.add(first, k), grid)
        _start_warps(b, unit, contexts, warps.count, threads, in_lockstep)
        slots.begin_block(b, in_lockstep=in_lockstep)
        _rounds(b, warps, slots, in_lockstep)
    b.ret()
    text = b.function(f"void @run_blocks({WORKER}, {contexts}, {first}, {last})")
    return text, b.declared


def _rounds(b: Helper, warps: Warps, slots: Slots, in_lockstep: bool) -> None:
    """Rounds until all warps of the block have ended."""
    unit = warps.unit
    rounds, over = b.new_label("round"), b.new_label("over")
    b.br(rounds)
    b.label(rounds)
    slots.begin_round(b)
    release = b.new_label("release")
    if in_lockstep:
        b.store(i32(-1), slots.turn)
        lockstep_round(b, warps, slots, release, over)
    start = b.load("i64", slots.start)
    with b.loop(b.sub(i64(warps.count), start)) as further:
        run_warp(b, warps, b.add(start, further), slots)
    alive = b.load("i32", slots.alive)
    waiting = b.new_label("waiting")
    b.branch(b.icmp("ne", alive, i32(0)), waiting, over)
    b.label(waiting)
    if unit.named:
        open_named(b, warps, slots)
        b.br(rounds)
    elif unit.spin_heads:  # whoever gave way runs again before the barrier opens
        yielded, barrier = b.load("i32", slots.yielded), b.new_label("barrier")
        b.store(b.select(b.icmp("eq", yielded, i32(0)), i32(-1), yielded), slots.turn)
        b.branch(b.icmp("ne", yielded, i32(0)), rounds, barrier)
        b.label(barrier)
        b.br(release)
    else:
        b.br(release)
    b.label(release)
    if unit.options.check:
        missing = b.or_(b.load("i32", slots.apart), b.load("i32", slots.done))
        with b.if_(b.icmp("ne", missing, i32(0)), likely=False):
            report_divergence(b, warps, b.load("i32", slots.target))
        _block_barrier(b, unit)
    for name, slot in zip(("vote_count", "vote_lanes"), slots.votes, strict=False):
        b.store(b.load("i32", slot), b.offset(WORKER, L.field(name)))
    b.br(rounds)
    b.label(over)


def _votes(unit: Unit) -> bool:
    """Whether some barrier of the kernel reduces a predicate over the whole block."""
    barriers = [k.terminator.instruction for k in unit.kernel.blocks if isinstance(k.terminator, Barrier)]
    return not unit.named and any(i.has("red") for i in barriers)


def _start_block(b: Helper, unit: Unit, block: Value, grid: list[Value]) -> None:
    stopped = b.icmp("ne", b.load("i32", b.offset(WORKER, L.field("stop"))), i32(0))
    with b.if_(stopped, likely=False):
        b.store(i32(L.FAULT_STOPPED), b.offset(WORKER, L.field("fault")))
        b.leave()
    b.store(block, b.offset(WORKER, L.field("block")))
    rest = b.binary("udiv", block, grid[0])
    for axis, value in enumerate(
        (b.binary("urem", block, grid[0]), b.binary("urem", rest, grid[1]), b.binary("udiv", rest, grid[1]))
    ):
        b.store(b.resize(value, "i32"), b.offset(WORKER, L.field("ctaid") + 4 * axis))
    _start_budget(b)
    b.store(i32(0), b.offset(WORKER, L.field("failed_waits")))
    b.store(i64(0), b.offset(WORKER, L.field("clock")))  # a clock that ran on would tell which worker runs the block
    if unit.named:
        nobody = Value("i32", "zeroinitializer", L.NAMED_BARRIERS)
        b.store(nobody, b.offset(WORKER, L.field("arrivals")))
    if unit.options.exact:
        report(b, L.Event.BLOCK, i32(0), i64(0))
        _clear_exact_shadow(b, unit)
    elif unit.options.check:
        b.store(i32(1), b.offset(WORKER, L.field("epoch")))
        b.store(i32(1), b.offset(WORKER, L.field("time")))
        size = b.worker("shared_bytes", "i64")
        for name, length in (
            ("shared", size),
            (
                "shadow",
                b.shl(b.lshr(b.add_const(size, (1 << unit.shared_granule_log2) - 1), unit.shared_granule_log2), 2),
            ),
        ):
            b.call(
                "llvm.memset.p0.i64", "void", b.worker(name, "ptr"), constant("i8", -1), length, Value("i1", "false")
            )


def _clear_exact_shadow(b: Helper, unit: Unit) -> None:
    granules = b.lshr(b.worker("shared_bytes", "i64"), unit.shared_granule_log2)
    length = b.mul(b.add_const(granules, 1), i64(L.EXACT_CELL_BYTES))
    zero = constant("i8", 0)
    b.call("llvm.memset.p0.i64", "void", b.worker("shadow", "ptr"), zero, length, Value("i1", "false"))
    unset = constant("i8", -1)
    size = b.worker("shared_bytes", "i64")
    b.call("llvm.memset.p0.i64", "void", b.worker("shared", "ptr"), unset, size, Value("i1", "false"))


def _start_budget(b: Helper) -> None:
    """The block's loop iterations: its share, or what the blocks before it have left."""
    budget, started, launch = (b.offset(WORKER, L.field(name)) for name in ("budget", "started", "launch_budget"))
    used = b.sub(b.load("i64", started), b.load("i64", budget))
    left = b.sub(b.load("i64", launch), used)
    share = b.intrinsic("smin", b.load("i64", b.offset(WORKER, L.field("block_budget"))), left)
    b.store(left, launch)
    b.store(share, started)
    b.store(share, budget)


def _start_warps(b: Helper, unit: Unit, contexts: Value, warps: int, threads: int, in_lockstep: bool) -> None:
    """Contexts of a new block; what never changes in them is there already (see `first_context`)."""
    if in_lockstep and not unit.options.check and not unit.copies_async:
        return
    in_last = threads - (warps - 1) * WARP
    with b.loop(i64(warps)) as warp:
        context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
        is_last = b.icmp("eq", warp, i64(warps - 1))
        b.store(i32(0), b.offset(context, _C.SYNC_TIME))
        if unit.copies_async:
            queue = b.offset(b.worker("pending", "ptr"), b.mul(warp, i64(L.QUEUE_BYTES)))
            b.call("llvm.memset.p0.i64", "void", queue, constant("i8", 0), i64(L.QUEUE_ENTRIES), Value("i1", "false"))
        if not in_lockstep:
            _start_apart(b, unit, context, is_last, in_last)


def _start_apart(b: Helper, unit: Unit, context: Value, is_last: Value, in_last: int) -> None:
    """A warp's state where the general loop runs the block from its start."""
    everywhere = unit.options.parted
    masked = Value("i1", "true") if everywhere else b.and_(is_last, Value("i1", "true" if in_last < WARP else "false"))
    b.store(b.select(masked, i32(L.DIVERGED << 16), i32(L.CONVERGED << 16)), b.offset(context, _C.STATUS))
    b.store(i32(0), b.offset(context, _C.PREDICATE))
    start = [0 if n < in_last else L.EXITED for n in range(WARP)]
    b.store(b.select(is_last, constants("i16", start), constant("i16", 0, WARP)), b.offset(context, _C.PCS), align=64)
