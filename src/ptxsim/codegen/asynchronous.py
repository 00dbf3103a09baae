"""What goes on behind a thread's back: cp.async and barrier objects (PTX ISA 9.7.9.25, 9.7.13.15).

Both are in `runtime.copies`: here is only which of its functions an instruction calls.
"""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access, account, vector_address
from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.functions import CONTEXT, NULL, WORKER
from ptxsim.codegen.memory import host_addresses
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import handles, unsupported
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Register, Sink

_ONE = Immediate(1)


@handles("cp")
def _copy(t: Translator, i: Instruction) -> None:
    """cp.async, its commit and its waits; other copies raise UnsupportedInstruction."""
    mask = t.active
    checked = constant("i32", t.unit.copy_checks)
    if i.has("mbarrier"):
        address, mask = addresses(t, i, i.operands[0], "atomic")
        site, announced = constant("i32", len(t.unit.sites) - 1), constant("i32", int(not i.has("noinc")))
        t.b.call("ws_async_track", "void", WORKER, CONTEXT, address, mask, site, announced, checked)
    elif i.has("commit_group"):
        t.b.call("ws_async_commit", "void", WORKER, CONTEXT, mask)
    elif i.has("wait_all"):
        t.b.call("ws_async_wait", "void", WORKER, CONTEXT, mask, constant("i32", -1), checked)
    elif i.has("wait_group"):
        pending = i.operands[0]
        if not isinstance(pending, Immediate):
            raise unsupported(i)
        t.b.call("ws_async_wait", "void", WORKER, CONTEXT, mask, constant("i32", pending.bits), checked)
    elif i.has("async") and (i.has("ca") or i.has("cg")) and isinstance(i.operands[2], Immediate):
        _issue(t, i, mask)
    else:
        raise unsupported(i)


def _issue(t: Translator, i: Instruction, mask: Value) -> None:
    b, check = t.b, t.unit.options.check
    to, origin, size = i.operands[:3]
    assert isinstance(to, Address) and isinstance(origin, Address) and isinstance(size, Immediate)
    write = Access(i, "shared", False, to, (_ONE,), size.bits, t.unit.site(i, "shared", "write"))
    fetch = Access(i, "global", True, origin, (_ONE,), size.bits, t.unit.site(i, "global", "read"))
    offset, address = vector_address(t, write, "i32"), vector_address(t, fetch, "i64")
    count = _bytes(t, i, size.bits)
    reads = b.and_(mask, b.mask_bits(b.icmp("ne", count, b.like(count, 0))))
    line = i.source.line
    t.count("async_copy_requests", line, per_warp=1)
    t.count("async_copy_bytes", line, per_lane=size.bits)
    counter = _count(t, i, address, offset, reads, size.bits) if t.unit.options.count else NULL
    fetched = account(t, fetch, "global", address, reads, counter=counter)
    # a lane whose source is refused copies zeros; a lane whose target is refused copies nothing
    count = b.select(b.bits_mask(fetched), count, b.like(count, 0))
    lanes, bytes_ = account(t, write, "shared", offset, mask), constant("i32", size.bits)
    b.call(
        "ws_async_issue", "void", WORKER, CONTEXT, offset, address, count, lanes, bytes_,
        constant("i32", write.site), constant("i32", t.unit.copy_checks),
    )  # fmt: skip
    if check:
        name = f"ws_{'exact_flight' if t.unit.options.exact else 'flight'}_{t.unit.shared_granule_log2}"
        b.call(name, "void", WORKER, offset, lanes, bytes_, constant("i32", 1))


def _count(t: Translator, i: Instruction, address: Value, offset: Value, reads: Value, size: int) -> Value:
    """Books a copy among the global loads; returns where the access counts the sectors of its source."""
    b, plan, line = t.b, t.unit.plan, i.source.line
    cell = plan.cell(5)
    placed = cell + 4 if i.has("cg") else cell
    for at, name in (
        (cell, "async_copy_sectors"), (cell + 1, "global_load_sectors_ideal"), (cell + 2, "global_load_requests"),
        (cell + 3, "global_load_bytes"), (placed, "global_load_sectors"), (placed, "async_copy_sectors_placed"),
    ):  # fmt: skip
        plan.named(at, name, line)
    t.bump(cell + 2, b.resize(b.icmp("ne", reads, constant("i32", 0)), "i64"))
    t.bump(cell + 3, b.mul(b.resize(b.call("llvm.ctpop.i32", "i32", reads), "i64"), constant("i64", size)))
    if i.has("cg"):
        b.call("ws_count_copies", "void", address, offset, reads, t.counter_pointer(placed))
    return t.counter_pointer(cell)


def _bytes(t: Translator, i: Instruction, size: int) -> Value:
    """Bytes that each lane reads: the optional fourth operand, which may be a predicate "ignore the source"."""
    b = t.b
    if len(i.operands) < 4:
        return constant("i32", size, WARP)
    last = i.operands[3]
    if isinstance(last, Register) and t.storage(last.name) == "i1":
        return b.select(t.get(last.name, WARP), constant("i32", 0, WARP), constant("i32", size, WARP))
    count = t.source(last, "u32", WARP)
    return b.intrinsic("umin", count, b.like(count, size))


@handles("mbarrier")
def _barrier_object(t: Translator, i: Instruction) -> None:
    """init and inval, arrive and arrive_drop, test_wait and try_wait, pending_count."""
    if i.has("pending_count"):
        state = t.source(i.operands[1], "b64", WARP)
        missing = t.b.resize(t.b.and_const(t.b.lshr(state, L.COUNT_BITS), L.COUNT_MASK), "i32")
        t.write(i.operands[0], missing, Lanes())
    elif i.has("init") or i.has("inval"):
        _set(t, i)
    elif i.has("arrive") or i.has("arrive_drop"):
        _arrive(t, i)
    else:
        _test(t, i)


def addresses(t: Translator, i: Instruction, where: Operand, kind: str) -> tuple[Value, Value]:
    """Host addresses of the objects, and the lanes that may go on."""
    if not isinstance(where, Address):
        raise unsupported(i)
    access = Access(i, "shared", False, where, (_ONE,), 8, t.unit.site(i, "shared", kind), t.unit.options.exact)
    return host_addresses(t, access, L.WRITE if kind == "write" else L.ATOMIC)


def _set(t: Translator, i: Instruction) -> None:
    b = t.b
    count = t.source(i.operands[1], "u32", WARP) if i.has("init") else constant("i32", 0, WARP)
    wide = b.and_const(b.resize(count, "i64"), L.COUNT_MASK)
    # CUDA's own pipeline ends an object's life without a __syncwarp behind the arrivals of its warp
    address, mask = addresses(t, i, i.operands[0], "write" if i.has("init") else "atomic")
    b.call("ws_scatter_i64", "void", address, mask, b.or_(wide, b.shl(wide, L.COUNT_BITS)))


def _arrive(t: Translator, i: Instruction) -> None:
    result, where, *count = i.operands
    address, mask = addresses(t, i, where, "atomic")
    counts = t.source(count[0] if count else _ONE, "u32", WARP)
    dropping = constant("i32", int(i.has("arrive_drop")))
    old = t.b.call(
        "ws_mbarrier_arrive", "i64", WORKER, CONTEXT, address, mask, counts, dropping, constant("i32", 0), lanes=WARP
    )
    if not isinstance(result, Sink):
        t.write(result, old, Lanes())


def _test(t: Translator, i: Instruction) -> None:
    """Whether a phase is over: that of a state, or the latest of a parity. What this warp copies there lands first."""
    b = t.b
    address, mask = addresses(t, i, i.operands[1], "atomic")
    if t.unit.copies_async:
        lane = b.call("llvm.cttz.i32", "i32", mask, Value("i1", "false"))
        settled = b.extract(address, b.and_const(lane, WARP - 1))
        b.call("ws_async_settle", "void", WORKER, CONTEXT, settled, constant("i32", t.unit.copy_checks))
    now = b.lshr(b.call("ws_gather_i64", "i64", address, mask, lanes=WARP), L.PHASE_SHIFT)
    if i.has("parity"):
        parity = b.resize(t.source(i.operands[2], "u32", WARP), "i64")
        over = b.icmp("ne", b.and_const(now, 1), b.and_const(parity, 1))
    else:
        over = b.icmp("ne", now, b.lshr(t.source(i.operands[2], "b64", WARP), L.PHASE_SHIFT))
    stuck = b.call("ws_mbarrier_waited", "i32", WORKER, CONTEXT, address, mask, b.mask_bits(over))
    with b.leaving(lambda: b.icmp("ne", stuck, constant("i32", 0)), "forever"):
        t.fault(L.FAULT_DEADLOCK, i.source.line)
    t.write(i.operands[0], over, Lanes())
