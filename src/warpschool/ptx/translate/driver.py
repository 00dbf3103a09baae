"""The driver: runs a range of blocks, each warp by warp from barrier to barrier.

A block starts in lockstep: all its warps run `full` from one entry to one barrier, which needs no bookkeeping per
warp. The
first warp that does anything else (parts, ends alone, comes to another barrier) turns the block over to the general
loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..emit import WARP, Value, constant, constants
from ..ordering import BLOCK, OPEN, RUN
from ..program import Barrier
from . import layout as L
from .async_copy import checks
from .full import Part
from .runtime.async_copy import ENTRIES, QUEUE_BYTES
from .runtime.exact import CELL_BYTES
from .runtime.helper import WORKER, Helper, arg, i32, i64
from .runtime.named import ONE_FOR_ALL
from .signals import report
from .unit import Unit

_C = L.ContextLayout


def write_driver(unit: Unit, parts: list[Part]) -> tuple[str, dict[str, str]]:
    """IR of run_blocks(worker, contexts, first, last), and the declarations it needs."""
    b = Helper()
    b.declared = {}
    threads = unit.block[0] * unit.block[1] * unit.block[2]
    warps = -(-threads // WARP)
    contexts, first, last = arg("ptr", "contexts"), arg("i64", "first"), arg("i64", "last")
    b.label("entry")
    grid = [b.resize(b.load("i32", b.offset(WORKER, L.field("nctaid") + 4 * k)), "i64") for k in range(2)]
    alive_slot, target_slot, apart_slot, yielded_slot = (b.let("ptr", 0, "alloca i32") for _ in range(4))
    state_slot, done_slot, turn_slot = (b.let("ptr", 0, "alloca i32") for _ in range(3))
    vote_slots = [b.let("ptr", 0, "alloca i32") for _ in range(2)] if _votes(unit) else []
    lockstep_slot, start_slot = b.let("ptr", 0, "alloca i32"), b.let("ptr", 0, "alloca i64")
    in_lockstep = threads % WARP == 0 and not vote_slots and not unit.options.parted and not unit.named
    in_lockstep = in_lockstep and not unit.options.exact and not unit.barrier_objects
    with b.loop(b.sub(last, first)) as k:
        block = b.add(first, k)
        _start_block(b, unit, block, grid)
        _start_warps(b, unit, contexts, warps, threads, in_lockstep)
        b.store(i32(0), done_slot)
        b.store(i32(-1), turn_slot)
        b.store(i32(0 if in_lockstep else -1), lockstep_slot)
        rounds, over = b.new_label("round"), b.new_label("over")
        b.br(rounds)
        b.label(rounds)
        for slot, value in ((alive_slot, 0), (target_slot, -1), (apart_slot, 0), (yielded_slot, 0)):
            b.store(i32(value), slot)
        for slot in vote_slots:
            b.store(i32(0), slot)
        b.store(i64(0), start_slot)
        release = b.new_label("release")
        if in_lockstep:
            slots = (alive_slot, target_slot, apart_slot, done_slot)
            b.store(i32(-1), turn_slot)
            _lockstep_round(b, unit, parts, contexts, warps, lockstep_slot, start_slot, slots, release, over)
        start = b.load("i64", start_slot)
        with b.loop(b.sub(i64(warps), start)) as further:
            warp = b.add(start, further)
            context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
            slots = (alive_slot, target_slot, apart_slot, done_slot)
            turns = _Turns(turn_slot, yielded_slot, b.binary("shl", i32(1), b.resize(warp, "i32")))
            _run_warp(b, unit, parts, context, state_slot, slots, vote_slots, turns)
        alive = b.load("i32", alive_slot)
        waiting = b.new_label("waiting")
        b.branch(b.icmp("ne", alive, i32(0)), waiting, over)
        b.label(waiting)
        if unit.named:
            _open_named(b, unit, contexts, warps, turn_slot, yielded_slot, target_slot)
            b.br(rounds)
        elif unit.spin_heads:
            yielded, barrier = b.load("i32", yielded_slot), b.new_label("barrier")
            b.store(b.select(b.icmp("eq", yielded, i32(0)), i32(-1), yielded), turn_slot)
            b.branch(b.icmp("ne", yielded, i32(0)), rounds, barrier)
            b.label(barrier)
            b.br(release)
        else:
            b.br(release)
        b.label(release)
        if unit.options.check:
            missing = b.or_(b.load("i32", apart_slot), b.load("i32", done_slot))
            with b.if_(b.icmp("ne", missing, i32(0)), likely=False):
                _report_divergence(b, unit, contexts, warps, b.load("i32", target_slot))
            _block_barrier(b, unit)
        for name, slot in zip(("vote_count", "vote_lanes"), vote_slots, strict=False):
            b.store(b.load("i32", slot), b.offset(WORKER, L.field(name)))
        b.br(rounds)
        b.label(over)
    b.ret()
    text = b.function(f"void @run_blocks({WORKER}, {contexts}, {first}, {last})")
    return text, b.declared


def _block_barrier(b: Helper, unit: Unit) -> None:
    """All that the block did so far comes before all that it does from now on."""
    if unit.options.exact:
        report(b, OPEN, i32(0), i64(-1))
    else:
        b.call("ws_block_barrier", "void", WORKER, i32(unit.shared_granule_log2))


def _start_block(b: Helper, unit: Unit, block: Value, grid: list[Value]) -> None:
    stopped = b.icmp("ne", b.load("i32", b.offset(WORKER, L.field("stop"))), i32(0))
    with b.if_(stopped, likely=False):
        b.store(i32(L.FAULT_STOPPED), b.offset(WORKER, L.field("fault")))
        b.ret()
        b.label(b.new_label("unreached"))
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
        report(b, BLOCK, i32(0), i64(0))
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
    length = b.mul(b.add_const(granules, 1), i64(CELL_BYTES))
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
            queue = b.offset(b.worker("pending", "ptr"), b.mul(warp, i64(QUEUE_BYTES)))
            b.call("llvm.memset.p0.i64", "void", queue, constant("i8", 0), i64(ENTRIES), Value("i1", "false"))
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


def _lockstep_round(
    b: Helper, unit: Unit, parts: list[Part], contexts: Value, warps: int, lockstep_slot: Value, start_slot: Value,
    slots: tuple[Value, Value, Value, Value], release: str, over: str,
) -> None:  # fmt: skip
    """All warps through `full` from the block in `lockstep_slot`; falls through to the general loop where they
    differ."""
    alive_slot, target_slot, apart_slot, done_slot = slots
    entry = b.load("i32", lockstep_slot)
    together, general, differs = b.new_label("together"), b.new_label("general"), b.new_label("differs")
    b.branch(b.icmp("sge", entry, i32(0)), together, general, likely=True)
    b.label(together)
    function = _function_for(b, parts, entry)
    before = b.label_now
    head, following, done = b.new_label("warp"), b.new_label("next"), b.new_label("done")
    b.br(head)
    b.label(head)
    index, position, previous = b.name(), b.name(), b.name()
    phis_at = len(b.lines)
    b.lines += ["", "", ""]
    warp, context = Value("i64", index), Value("ptr", position)
    b.emit(f"%lockstep_result = call i32 {function.text}({context}, {WORKER}, {entry})")
    result = Value("i32", "%lockstep_result")
    code = b.lshr(result, 16)
    ordinary = b.or_(b.icmp("eq", code, i32(L.AT_BARRIER)), b.icmp("eq", code, i32(L.DONE)))
    same = b.icmp("eq", result, Value("i32", previous))
    is_first = b.icmp("eq", warp, i64(0))
    b.branch(b.and_(ordinary, b.or_(same, is_first)), following, differs, likely=True)
    b.label(following)
    next_warp, next_context = b.add_const(warp, 1), b.offset(context, unit.context.size)
    b.branch(b.icmp("ult", next_warp, i64(warps)), head, done)
    b.lines[phis_at] = f"{index} = phi i64 [0, %{before}], [{next_warp.text}, %{following}]"
    b.lines[phis_at + 1] = f"{position} = phi ptr [{contexts.text}, %{before}], [{next_context.text}, %{following}]"
    b.lines[phis_at + 2] = f"{previous} = phi i32 [-1, %{before}], [{result.text}, %{following}]"
    b.label(done)
    b.store(b.and_const(result, 0xFFFF), lockstep_slot)
    b.store(b.and_const(result, 0xFFFF), target_slot)
    b.branch(b.icmp("eq", code, i32(L.DONE)), over, release)
    b.label(differs)
    _leave_lockstep(b, unit, contexts, warps, warp, result, Value("i32", previous), entry)
    b.store(i32(-1), lockstep_slot)
    # the warps before this one are through with the round
    earlier = Value("i32", previous)
    any_earlier = b.icmp("ne", warp, i64(0))
    ended = b.icmp("eq", b.lshr(earlier, 16), i32(L.DONE))
    with b.if_(b.and_(any_earlier, ended)):
        b.store(b.resize(warp, "i32"), done_slot)
    with b.if_(b.and_(any_earlier, b.not_(ended))):
        _note_waiting(b, earlier, alive_slot, target_slot, apart_slot)
    b.store(warp, start_slot)
    with b.if_(ordinary):  # so is this one, elsewhere than the others
        b.store(b.add_const(warp, 1), start_slot)
        this_ended = b.icmp("eq", code, i32(L.DONE))
        with b.if_(this_ended):
            b.store(b.add_const(b.load("i32", done_slot), 1), done_slot)
        with b.if_(b.not_(this_ended)):
            _note_waiting(b, result, alive_slot, target_slot, apart_slot)
    b.br(general)
    b.label(general)


def _function_for(b: Helper, parts: list[Part], entry: Value) -> Value:
    """The part of `full` that enters at block `entry`."""
    chosen = Value("ptr", f"@{parts[0].name}")
    for part in parts[1:]:
        for e in part.entries:
            chosen = b.select(b.icmp("eq", entry, i32(e)), Value("ptr", f"@{part.name}"), chosen)
    return chosen


def _leave_lockstep(
    b: Helper, unit: Unit, contexts: Value, warps: int, warp: Value, result: Value, earlier: Value, entry: Value
) -> None:
    """Writes down where every warp is: the earlier ones behind the round, `warp` at its result, the others before
    it."""
    with b.if_(b.icmp("eq", b.lshr(result, 16), i32(L.FAULTED)), likely=False):
        b.ret()
        b.label(b.new_label("unreached"))
    waiting = b.or_(entry, i32(L.CONVERGED << 16))
    with b.loop(i64(warps)) as k:
        context = b.offset(contexts, b.mul(k, i64(unit.context.size)))
        is_earlier, is_this = b.icmp("ult", k, warp), b.icmp("eq", k, warp)
        state = b.select(is_earlier, earlier, b.select(is_this, result, waiting))
        b.store(state, b.offset(context, _C.STATUS))
        b.store(i32(0), b.offset(context, _C.PREDICATE))


@dataclass(frozen=True)
class _Turns:
    """Whose turn it is: slots of bit masks of warps, and the bit of the warp at hand."""

    turn: Value
    """warps that may run in this round"""
    yielded: Value
    """warps that have given way in this round"""
    mine: Value


def _open_named(
    b: Helper, unit: Unit, contexts: Value, warps: int, turn_slot: Value, yielded_slot: Value, target_slot: Value
) -> None:
    """Opens the named barriers that are complete; if none is and nobody can run, reports it and opens all."""
    opened = b.call("ws_named_release", "i64", WORKER, contexts, i64(unit.context.size), i64(warps))
    turn = b.or_(b.resize(opened, "i32"), b.load("i32", yielded_slot))
    stuck = b.icmp("eq", turn, i32(0))
    b.store(b.select(stuck, i32(-1), turn), turn_slot)
    if unit.options.check:
        with b.if_(stuck, likely=False):
            _report_divergence(b, unit, contexts, warps, b.load("i32", target_slot), stuck=True)
        for_all = b.icmp("ne", b.and_const(opened, ONE_FOR_ALL), i64(0))
        if unit.options.exact:
            report(b, OPEN, i32(0), b.select(stuck, i64(-1), opened))
        else:
            with b.if_(b.or_(for_all, stuck)):
                _block_barrier(b, unit)


def _run_warp(
    b: Helper,
    unit: Unit,
    parts: list[Part],
    context: Value,
    state_slot: Value,
    slots: tuple[Value, Value, Value, Value],
    vote_slots: list[Value],
    turns: _Turns,
) -> None:
    """One warp, if it is its turn, until it ends, waits at a barrier of the block, or gives way."""
    alive_slot, target_slot, apart_slot, done_slot = slots
    state = b.load("i32", b.offset(context, _C.STATUS))
    done = b.icmp("eq", b.lshr(state, 16), i32(L.DONE))
    its_turn = b.icmp("ne", b.and_(b.load("i32", turns.turn), turns.mine), i32(0))
    with b.if_(b.and_(b.not_(done), b.not_(its_turn)), likely=False):
        _note_waiting(b, state, alive_slot, target_slot, apart_slot)
    with b.if_(b.and_(b.not_(done), its_turn)):
        if unit.options.exact:
            b.increment(b.offset(WORKER, L.field("time")), i32(1))
            if unit.partial_order:
                report(b, RUN, b.load("i32", b.offset(context, _C.WARP_INDEX)), i64(0))
        b.store(state, state_slot)
        again, settled = b.new_label("again"), b.new_label("settled")
        full, masked, judge = b.new_label("full"), b.new_label("masked"), b.new_label("judge")
        b.br(again)
        b.label(again)
        now = b.load("i32", state_slot)
        code, block = b.lshr(now, 16), b.and_const(now, 0xFFFF)
        together = b.or_(b.icmp("eq", code, i32(L.AT_BARRIER)), b.icmp("eq", code, i32(L.CONVERGED)))
        b.branch(together, full, masked)
        b.label(full)
        b.emit(f"%full_result = call i32 {_function_for(b, parts, block).text}({context}, {WORKER}, {block})")
        b.br(judge)
        b.label(masked)
        function = b.load("ptr", b.offset(WORKER, L.field("masked")))
        b.emit(f"%masked_result = call i32 {function.text}({context}, {WORKER})")
        b.br(judge)
        b.label(judge)
        result = b.phi((Value("i32", "%full_result"), full), (Value("i32", "%masked_result"), masked))
        b.store(result, state_slot)
        outcome = b.lshr(result, 16)
        moved = b.or_(b.icmp("eq", outcome, i32(L.DIVERGED)), b.icmp("eq", outcome, i32(L.CONVERGED)))
        b.branch(moved, again, settled)
        b.label(settled)
        with b.if_(b.icmp("eq", outcome, i32(L.FAULTED)), likely=False):
            b.ret()
            b.label(b.new_label("unreached"))
        if unit.barrier_objects and unit.copies_async:
            b.call("ws_async_settle", "void", WORKER, context, i64(0), i32(checks(unit)))
        b.store(result, b.offset(context, _C.STATUS))
        ended = b.icmp("eq", outcome, i32(L.DONE))
        with b.if_(ended):
            b.store(b.add_const(b.load("i32", done_slot), 1), done_slot)
        gives_way = b.icmp("eq", outcome, i32(L.YIELDED))
        with b.if_(gives_way, likely=False):
            b.store(i32(1), alive_slot)
            b.store(b.or_(b.load("i32", turns.yielded), turns.mine), turns.yielded)
        with b.if_(b.not_(b.or_(ended, gives_way))):
            _note_waiting(b, result, alive_slot, target_slot, apart_slot)
            if vote_slots:
                _count_votes(b, context, outcome, vote_slots)


def _votes(unit: Unit) -> bool:
    """Whether some barrier of the kernel reduces a predicate over the whole block."""
    barriers = [k.terminator.instruction for k in unit.kernel.blocks if isinstance(k.terminator, Barrier)]
    return not unit.named and any(i.has("red") for i in barriers)


def _note_waiting(b: Helper, result: Value, alive_slot: Value, target_slot: Value, apart_slot: Value) -> None:
    b.store(i32(1), alive_slot)
    target = b.and_const(result, 0xFFFF)
    first = b.load("i32", target_slot)
    fresh = b.icmp("eq", first, i32(-1))
    differs = b.and_(b.not_(fresh), b.icmp("ne", first, target))
    b.store(b.select(fresh, target, first), target_slot)
    b.store(b.or_(b.load("i32", apart_slot), b.resize(differs, "i32")), apart_slot)


def _count_votes(b: Helper, context: Value, outcome: Value, slots: list[Value]) -> None:
    here = b.icmp("eq", outcome, i32(L.AT_BARRIER))
    present = b.select(here, i32(-1), b.load("i32", b.offset(context, _C.PARTICIPANTS)))
    votes = b.and_(b.load("i32", b.offset(context, _C.PREDICATE)), present)
    for slot, bits in zip(slots, (votes, present), strict=True):
        b.store(b.add(b.load("i32", slot), b.call("llvm.ctpop.i32", "i32", bits)), slot)
    b.store(i32(0), b.offset(context, _C.PREDICATE))


def _report_divergence(
    b: Helper, unit: Unit, contexts: Value, warps: int, target: Value, *, stuck: bool = False
) -> None:
    """Some warps wait at `target`, others have exited or wait elsewhere: names a waiting and a missing warp.

    `stuck`: nobody need be elsewhere, a named barrier may be for more threads than there are.
    """
    waiting, missing = b.variable("i64", i64(-1)), b.variable("i64", i64(-1))
    with b.loop(i64(warps)) as warp:
        context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
        state = b.load("i32", b.offset(context, _C.STATUS))
        ended = b.icmp("eq", b.lshr(state, 16), i32(L.DONE))
        here = b.and_(b.not_(ended), b.icmp("eq", b.and_const(state, 0xFFFF), target))
        for holds, slot in ((here, waiting), (b.not_(here), missing)):
            unset = b.icmp("eq", b.load("i64", slot), i64(-1))
            with b.if_(b.and_(holds, unset)):
                b.store(warp, slot)
    context = b.offset(contexts, b.mul(b.load("i64", waiting), i64(unit.context.size)))
    other = b.load("i64", missing)
    if stuck:
        other = b.select(b.icmp("eq", other, i64(-1)), b.load("i64", waiting), other)
    other_context = b.offset(contexts, b.mul(other, i64(unit.context.size)))
    state = b.resize(b.load("i32", b.offset(other_context, _C.STATUS)), "i64")
    # address: the missing thread's linear index; state: where it is (bit 32 set: whole warp)
    packed = b.or_(state, i64(1 << 32))
    b.call("ws_hazard", "void", WORKER, context, i32(L.DIVERGENT_BARRIER), target, i32(0), b.shl(other, 5), packed)
