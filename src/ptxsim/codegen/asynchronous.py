"""What goes on behind a thread's back: cp.async and barrier objects (PTX ISA 9.7.9.25, 9.7.13.15).

Both are in `runtime.copies`: here is only which of its functions an instruction calls.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess, report_access, shared_offsets, vector_address
from ptxsim.codegen.accounting import account
from ptxsim.codegen.bulk import copy_in_bulk
from ptxsim.codegen.emit import CONTEXT, NULL, WARP, WORKER, IRValue, constant, tell_async
from ptxsim.codegen.memory import host_addresses
from ptxsim.codegen.runtime.copies import DROPS, RELAXED
from ptxsim.codegen.tensor import Either
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.bulk import is_bulk
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Register, Sink

_ONE = Immediate(1)


@handles("cp")
def _copy(t: Either, i: Instruction) -> None:
    """cp.async, its commit and its waits; other copies raise UnsupportedInstruction."""
    if is_bulk(i):
        return copy_in_bulk(t, i)
    mask = t.active
    checked = constant("i32", t.unit.copy_checks)
    if i.has("mbarrier"):
        address, mask = addresses(t, i, i.operands[0], "atomic")
        site, announced = constant("i32", len(t.unit.sites) - 1), constant("i32", int(not i.has("noinc")))
        t.call("ws_async_track", "void", WORKER, CONTEXT, address, mask, site, announced, checked)
        _report_groups(t, L.AsyncEvent.COMMIT)
        _report_groups(t, L.AsyncEvent.WAIT)  # whoever finds the object's phase over knows
    elif i.has("commit_group"):
        t.call("ws_async_commit", "void", WORKER, CONTEXT, mask)
        _report_groups(t, L.AsyncEvent.COMMIT)
    elif i.has("wait_all"):
        _report_groups(t, L.AsyncEvent.COMMIT)
        _report_groups(t, L.AsyncEvent.WAIT)
        t.call("ws_async_wait", "void", WORKER, CONTEXT, mask, constant("i32", -1), checked)
    elif i.has("wait_group"):
        pending = i.operands[0]
        if not isinstance(pending, Immediate):
            raise unsupported(i)
        _report_groups(t, L.AsyncEvent.WAIT, pending.bits)
        t.call("ws_async_wait", "void", WORKER, CONTEXT, mask, constant("i32", pending.bits), checked)
    elif i.has("async") and (i.has("ca") or i.has("cg")) and isinstance(i.operands[2], Immediate):
        _issue(t, i, mask)
    else:
        raise unsupported(i)


def _report_groups(t: Translator, event: L.AsyncEvent, left: int = 0) -> None:
    """Tells who follows the asynchronous engines of groups of cp.async."""
    if t.unit.followed:
        tell_async(t, event, t.warp_index(), t.active, constant("i64", left), constant("i64", 1))


def _issue(t: Translator, i: Instruction, mask: IRValue) -> None:
    to, origin, size = i.operands[:3]
    assert isinstance(to, Address) and isinstance(origin, Address) and isinstance(size, Immediate)
    write = MemoryAccess(i, "shared", False, to, (_ONE,), size.bits, t.unit.site(i, "shared", "write"))
    fetch = MemoryAccess(i, "global", True, origin, (_ONE,), size.bits, t.unit.site(i, "global", "read"))
    offset, address = shared_offsets(t, write), vector_address(t, fetch, "i64")
    report_access(t, write, offset, mask, L.LATE_WRITE)
    count = _bytes(t, i, size.bits)
    reads = t.and_(mask, t.mask_bits(t.icmp("ne", count, t.like(count, 0))))
    line = i.source.line
    t.count("async_copy_requests", line, per_warp=1)
    t.count("async_copy_bytes", line, per_lane=size.bits)
    counter = _count(t, i, address, offset, reads, size.bits) if t.unit.options.count else NULL
    fetched = account(t, fetch, "global", address, reads, counter=counter)
    # a lane whose source is refused copies zeros; a lane whose target is refused copies nothing
    count = t.select(t.bits_mask(fetched), count, t.like(count, 0))
    lanes, bytes_ = account(t, write, "shared", offset, mask), constant("i32", size.bits)
    t.call(
        "ws_async_issue", "void", WORKER, CONTEXT, offset, address, count, lanes, bytes_,
        t.site_number(write.site), constant("i32", t.unit.copy_checks),
    )  # fmt: skip
    if t.unit.options.check:
        name = f"ws_{'exact_flight' if t.unit.options.exact else 'flight'}_{t.unit.shared_granule_log2}"
        t.call(name, "void", WORKER, offset, lanes, bytes_, constant("i32", 1))


def _count(t: Translator, i: Instruction, address: IRValue, offset: IRValue, reads: IRValue, size: int) -> IRValue:
    """Books a copy among the global loads; returns where the access counts the sectors of its source."""
    plan, line = t.unit.plan, i.source.line
    cell = plan.cell(5)
    placed = cell + 4 if i.has("cg") else cell
    for at, name in (
        (cell, "async_copy_sectors"), (cell + 1, "global_load_sectors_ideal"), (cell + 2, "global_load_requests"),
        (cell + 3, "global_load_bytes"), (placed, "global_load_sectors"), (placed, "async_copy_sectors_placed"),
    ):  # fmt: skip
        plan.named(at, name, line)
    t.bump(cell + 2, t.resize(t.icmp("ne", reads, constant("i32", 0)), "i64"))
    t.bump(cell + 3, t.mul(t.resize(t.call("llvm.ctpop.i32", "i32", reads), "i64"), constant("i64", size)))
    if i.has("cg"):
        t.call("ws_count_copies", "void", address, offset, reads, t.counter_pointer(placed))
    return t.counter_pointer(cell)


def _bytes(t: Translator, i: Instruction, size: int) -> IRValue:
    """Bytes that each lane reads: the optional fourth operand, which may be a predicate "ignore the source"."""
    if len(i.operands) < 4:
        return constant("i32", size, WARP)
    last = i.operands[3]
    if isinstance(last, Register) and t.storage(last.name) == "i1":
        return t.select(t.get(last.name, WARP), constant("i32", 0, WARP), constant("i32", size, WARP))
    count = t.source(last, "u32", WARP)
    return t.intrinsic("umin", count, t.like(count, size))


@handles("mbarrier")
def _barrier_object(t: Translator, i: Instruction) -> None:
    """init and inval, arrive and arrive_drop, expect_tx and complete_tx, test_wait and try_wait, pending_count."""
    if i.has("pending_count"):
        state = t.source(i.operands[1], "b64", WARP)
        missing = t.resize(t.and_const(t.lshr(state, L.COUNT_BITS), L.COUNT_MASK), "i32")
        t.write(i.operands[0], missing, Lanes())
    elif i.has("init") or i.has("inval"):
        _set(t, i)
    elif i.has("arrive") or i.has("arrive_drop"):
        _arrive(t, i)
    elif i.has("expect_tx") or i.has("complete_tx"):
        _transact(t, i)
    else:
        _test(t, i)


def addresses(t: Translator, i: Instruction, where: Operand, kind: str) -> tuple[IRValue, IRValue]:
    """Host addresses of the objects, and the lanes that may go on."""
    if not isinstance(where, Address):
        raise unsupported(i)
    space = "cluster" if i.space == "cluster" else "shared"
    access = MemoryAccess(i, space, False, where, (_ONE,), 8, t.unit.site(i, "shared", kind), t.unit.options.exact)
    return host_addresses(t, access, L.WRITE if kind == "write" else L.ATOMIC)


def _set(t: Translator, i: Instruction) -> None:
    count = t.source(i.operands[1], "u32", WARP) if i.has("init") else constant("i32", 0, WARP)
    wide = t.and_const(t.resize(count, "i64"), L.COUNT_MASK)
    # CUDA's own pipeline ends an object's life without a __syncwarp behind the arrivals of its warp
    address, mask = addresses(t, i, i.operands[0], "write" if i.has("init") else "atomic")
    t.call("ws_scatter_i64", "void", address, mask, t.or_(wide, t.shl(wide, L.COUNT_BITS)))
    if i.has("inval") and t.unit.options.check:
        how = "exact" if t.unit.options.exact else "shared"
        offset = t.resize(t.sub(address, t.splat(t.convert("ptrtoint", t.field("shared", "ptr"), "i64"))), "i32")
        t.call(f"ws_{how}_ended_{t.unit.shared_granule_log2}", "void", WORKER, offset, mask, constant("i32", 8))


def _arrive(t: Translator, i: Instruction) -> None:
    result, where, *count = i.operands
    address, mask = addresses(t, i, where, "atomic")
    number = t.source(count[0] if count else _ONE, "u32", WARP)
    expects = i.has("expect_tx")
    counts, bytes_ = (constant("i32", 1, WARP), number) if expects else (number, constant("i32", 0, WARP))
    how = constant("i32", (DROPS if i.has("arrive_drop") else 0) | (0 if _orders(t, i) else RELAXED))
    old = t.call(
        "ws_mbarrier_arrive", "i64", WORKER, CONTEXT, address, mask, counts, how, constant("i32", 0), bytes_,
        lanes=WARP,
    )  # fmt: skip
    if not isinstance(result, Sink):
        t.write(result, old, Lanes())


def _orders(t: Translator, i: Instruction) -> bool:
    """Whether an arrival, or a look, orders what comes before it, or behind; a fence may make up for what does not."""
    return not i.has("relaxed") or t.unit.fences


def _transact(t: Translator, i: Instruction) -> None:
    """The phase waits for more bytes, or for fewer."""
    address, mask = addresses(t, i, i.operands[0], "atomic")
    bytes_ = t.source(i.operands[1], "u32", WARP)
    expects = i.has("expect_tx")
    if not expects:
        bytes_ = t.sub(t.like(bytes_, 0), bytes_)
    none, announced = constant("i32", 0, WARP), constant("i32", int(expects))
    t.call(
        "ws_mbarrier_arrive", "i64", WORKER, CONTEXT, address, mask, none, constant("i32", 0), announced, bytes_,
        lanes=WARP,
    )  # fmt: skip


def _test(t: Translator, i: Instruction) -> None:
    """Whether a phase is over: that of a state, or the latest of a parity. What this warp copies there lands first."""
    address, mask = addresses(t, i, i.operands[1], "atomic")
    if t.unit.copies_async:
        lane = t.call("llvm.cttz.i32", "i32", mask, IRValue("i1", "false"))
        settled = t.extract(address, t.and_const(lane, WARP - 1))
        t.call("ws_async_settle", "void", WORKER, CONTEXT, settled, constant("i32", t.unit.copy_checks))
    now = t.lshr(t.call("ws_gather_i64", "i64", address, mask, lanes=WARP), L.PHASE_SHIFT)
    if i.has("parity"):
        parity = t.resize(t.source(i.operands[2], "u32", WARP), "i64")
        over = t.icmp("ne", t.and_const(now, 1), t.and_const(parity, 1))
    else:
        over = t.icmp("ne", now, t.lshr(t.source(i.operands[2], "b64", WARP), L.PHASE_SHIFT))
    acquires = constant("i32", int(_orders(t, i)))
    stuck = t.call("ws_mbarrier_waited", "i32", WORKER, CONTEXT, address, mask, t.mask_bits(over), acquires)
    with t.leaving(lambda: t.icmp("ne", stuck, constant("i32", 0)), "forever"):
        t.fault(L.FAULT_DEADLOCK, i.source.line)
    t.write(i.operands[0], over, Lanes())
