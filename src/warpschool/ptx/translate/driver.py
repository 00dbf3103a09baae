"""The driver: runs a range of blocks, each warp by warp from barrier to barrier."""

from __future__ import annotations

from ..emit import WARP, Value, constant, constants
from ..program import Barrier
from . import layout as L
from .runtime.async_copy import ENTRIES, QUEUE_BYTES
from .runtime.helper import WORKER, Helper, arg, i32, i64
from .translator import Unit

_C = L.ContextLayout


def write_driver(unit: Unit) -> tuple[str, dict[str, str]]:
    """IR of run_blocks(worker, contexts, first, last), and the declarations it needs."""
    b = Helper()
    b.declared = {}
    threads = unit.block[0] * unit.block[1] * unit.block[2]
    warps = -(-threads // WARP)
    contexts, first, last = arg("ptr", "contexts"), arg("i64", "first"), arg("i64", "last")
    b.label("entry")
    grid = [b.resize(b.load("i32", b.offset(WORKER, L.field("nctaid") + 4 * k)), "i64") for k in range(2)]
    alive_slot, target_slot, apart_slot = (b.let("ptr", 0, "alloca i32") for _ in range(3))
    state_slot, done_slot = b.let("ptr", 0, "alloca i32"), b.let("ptr", 0, "alloca i32")
    vote_slots = [b.let("ptr", 0, "alloca i32") for _ in range(2)] if _votes(unit) else []
    with b.loop(b.sub(last, first)) as k:
        block = b.add(first, k)
        _start_block(b, unit, block, grid)
        _start_warps(b, unit, contexts, warps, threads)
        b.store(i32(0), done_slot)
        rounds, over = b.new_label("round"), b.new_label("over")
        b.br(rounds)
        b.label(rounds)
        for slot, value in ((alive_slot, 0), (target_slot, -1), (apart_slot, 0)):
            b.store(i32(value), slot)
        for slot in vote_slots:
            b.store(i32(0), slot)
        with b.loop(i64(warps)) as warp:
            context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
            _run_warp(b, context, state_slot, (alive_slot, target_slot, apart_slot, done_slot), vote_slots)
        alive = b.load("i32", alive_slot)
        release = b.new_label("release")
        b.branch(b.icmp("ne", alive, i32(0)), release, over)
        b.label(release)
        if unit.options.check:
            missing = b.or_(b.load("i32", apart_slot), b.load("i32", done_slot))
            with b.if_(b.icmp("ne", missing, i32(0)), likely=False):
                _report_divergence(b, unit, contexts, warps, b.load("i32", target_slot))
            b.call("ws_block_barrier", "void", WORKER, i32(unit.shared_granule_log2))
        for name, slot in zip(("vote_count", "vote_lanes"), vote_slots, strict=False):
            b.store(b.load("i32", slot), b.offset(WORKER, L.field(name)))
        b.br(rounds)
        b.label(over)
    b.ret()
    text = b.function(f"void @run_blocks({WORKER}, {contexts}, {first}, {last})")
    return text, b.declared


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
    b.store(b.load("i64", b.offset(WORKER, L.field("block_budget"))), b.offset(WORKER, L.field("budget")))
    if unit.options.check:
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


def _start_warps(b: Helper, unit: Unit, contexts: Value, warps: int, threads: int) -> None:
    in_last = threads - (warps - 1) * WARP
    whole = in_last == WARP
    with b.loop(i64(warps)) as warp:
        context = b.offset(contexts, b.mul(warp, i64(unit.context.size)))
        is_last = b.icmp("eq", warp, i64(warps - 1))
        masked = b.and_(is_last, Value("i1", "false" if whole else "true"))
        b.store(b.select(masked, i32(L.DIVERGED << 16), i32(L.CONVERGED << 16)), b.offset(context, _C.STATUS))
        b.store(b.resize(warp, "i32"), b.offset(context, _C.WARP_INDEX))
        b.store(i32(0), b.offset(context, _C.SYNC_TIME))
        b.store(i32(0), b.offset(context, _C.PREDICATE))
        b.store(b.select(masked, i32((1 << in_last) - 1), i32(-1)), b.offset(context, _C.LIVE))
        if unit.copies_async:
            queue = b.offset(b.worker("pending", "ptr"), b.mul(warp, i64(QUEUE_BYTES)))
            b.call("llvm.memset.p0.i64", "void", queue, constant("i8", 0), i64(ENTRIES), Value("i1", "false"))
        start = [0 if n < in_last else L.EXITED for n in range(WARP)]
        b.store(
            b.select(masked, constants("i16", start), constant("i16", 0, WARP)), b.offset(context, _C.PCS), align=64
        )


def _run_warp(
    b: Helper, context: Value, state_slot: Value, slots: tuple[Value, Value, Value, Value], vote_slots: list[Value]
) -> None:
    """One warp until it ends or waits at a barrier of the block."""
    alive_slot, target_slot, apart_slot, done_slot = slots
    state = b.load("i32", b.offset(context, _C.STATUS))
    done = b.icmp("eq", b.lshr(state, 16), i32(L.DONE))
    with b.if_(b.not_(done)):
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
        b.emit(f"%full_result = call i32 @full({context}, {WORKER}, {block})")
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
        b.store(result, b.offset(context, _C.STATUS))
        ended = b.icmp("eq", outcome, i32(L.DONE))
        with b.if_(ended):
            b.store(b.add_const(b.load("i32", done_slot), 1), done_slot)
        with b.if_(b.not_(ended)):
            _note_waiting(b, result, alive_slot, target_slot, apart_slot)
            if vote_slots:
                _count_votes(b, context, outcome, vote_slots)


def _votes(unit: Unit) -> bool:
    """Whether some barrier of the kernel reduces a predicate."""
    return any(isinstance(k.terminator, Barrier) and k.terminator.instruction.has("red") for k in unit.kernel.blocks)


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


def _report_divergence(b: Helper, unit: Unit, contexts: Value, warps: int, target: Value) -> None:
    """Some warps wait at `target`, others have exited or wait elsewhere: names a waiting and a missing warp."""
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
    other_context = b.offset(contexts, b.mul(other, i64(unit.context.size)))
    state = b.resize(b.load("i32", b.offset(other_context, _C.STATUS)), "i64")
    # address: the missing thread's linear index; state: where it is (bit 32 set: whole warp)
    packed = b.or_(state, i64(1 << 32))
    b.call("ws_hazard", "void", WORKER, context, i32(L.DIVERGENT_BARRIER), target, i32(0), b.shl(other, 5), packed)
