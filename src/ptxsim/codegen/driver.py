"""The driver: runs a range of blocks, each warp by warp from barrier to barrier. `rounds` has what a round is."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant, constants
from ptxsim.codegen.entries import Part
from ptxsim.codegen.rounds import Slots, Warps, block_barrier, lockstep_round, open_named, report_divergence, run_warp
from ptxsim.codegen.runtime.async_copy import ENTRIES, QUEUE_BYTES
from ptxsim.codegen.runtime.exact import CELL_BYTES
from ptxsim.codegen.runtime.helper import WORKER, Helper, arg, i32, i64
from ptxsim.codegen.signals import report
from ptxsim.codegen.unit import Unit, thread_count
from ptxsim.run.ordering import BLOCK
from ptxsim.syntax.program import Barrier

_C = L.ContextLayout


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
        block_barrier(b, unit)
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
