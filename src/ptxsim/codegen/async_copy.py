"""cp.async: copies from global to shared memory behind the thread's back (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen import mbarriers
from ptxsim.codegen.access import Access, vector_address
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.unit import Unit
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Address, Immediate, Instruction

_WORKER, _CONTEXT = Value("ptr", "%w"), Value("ptr", "%c")


def translate(t: Translator, i: Instruction) -> None:
    """cp.async, its commit and its waits; other copies raise UnsupportedInstruction."""
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    checked = constant("i32", checks(t.unit))
    if i.has("mbarrier"):
        address, mask = mbarriers.addresses(t, i, i.operands[0], "atomic")
        site, announced = constant("i32", len(t.unit.sites) - 1), constant("i32", int(not i.has("noinc")))
        t.b.call("ws_async_track", "void", _WORKER, _CONTEXT, address, mask, site, announced, checked)
    elif i.has("commit_group"):
        t.b.call("ws_async_commit", "void", _WORKER, _CONTEXT, mask)
    elif i.has("wait_all"):
        t.b.call("ws_async_wait", "void", _WORKER, _CONTEXT, mask, constant("i32", -1), checked)
    elif i.has("wait_group"):
        pending = i.operands[0]
        if not isinstance(pending, Immediate):
            raise unsupported(i)
        t.b.call("ws_async_wait", "void", _WORKER, _CONTEXT, mask, constant("i32", pending.bits), checked)
    elif i.has("async") and (i.has("ca") or i.has("cg")) and isinstance(i.operands[2], Immediate):
        _issue(t, i, mask)
    else:
        raise unsupported(i)


def checks(unit: Unit) -> int:
    """0 where nothing is checked, else log2 of the race shadow's granule + 1; + 3 for the exact shadow."""
    o = unit.options
    return unit.shared_granule_log2 + (4 if o.exact else 1) if o.check else 0


def settle(t: Translator, address: Value) -> None:
    """The warp's copies land for which the barrier object at `address` waits."""
    t.b.call("ws_async_settle", "void", _WORKER, _CONTEXT, address, constant("i32", checks(t.unit)))


def _issue(t: Translator, i: Instruction, mask: Value) -> None:
    b, check = t.b, t.unit.options.check
    to, origin, size = i.operands[:3]
    assert isinstance(to, Address) and isinstance(origin, Address) and isinstance(size, Immediate)
    write = Access(i, "shared", False, to, (), size.bits, t.unit.site(i, "shared", "write"))
    fetch = Access(i, "global", True, origin, (), size.bits, t.unit.site(i, "global", "read"))
    offset, address = vector_address(t, write, "i32"), vector_address(t, fetch, "i64")
    count = _bytes(t, i, size.bits)
    reads = b.and_(mask, b.mask_bits(b.icmp("ne", count, b.like(count, 0))))
    line = i.source.line
    t.count("async_copy_requests", line, per_warp=1)
    t.count("async_copy_bytes", line, per_lane=size.bits)
    counter = Value("ptr", "null")
    if t.unit.options.count:
        counter = _count(t, i, address, offset, reads, size.bits)
    flag, bytes_ = constant("i32", int(check)), constant("i32", size.bits)
    fetched = b.call(
        t.unit.access("global"), "i32", _WORKER, _CONTEXT, address, reads, bytes_,
        constant("i32", fetch.site), constant("i32", L.READ), counter, flag,
    )  # fmt: skip
    # a lane whose source is refused copies zeros; a lane whose target is refused copies nothing
    count = b.select(b.bits_mask(fetched), count, b.like(count, 0))
    lanes = b.call(
        t.unit.access("shared"), "i32", _WORKER, _CONTEXT, offset, mask, bytes_,
        constant("i32", write.site), constant("i32", L.WRITE), Value("ptr", "null"), flag,
    )  # fmt: skip
    b.call(
        "ws_async_issue", "void", _WORKER, _CONTEXT, offset, address, count, lanes, bytes_,
        constant("i32", write.site), constant("i32", checks(t.unit)),
    )  # fmt: skip
    if check:
        name = f"ws_{'exact_flight' if t.unit.options.exact else 'flight'}_{t.unit.shared_granule_log2}"
        b.call(name, "void", _WORKER, offset, lanes, bytes_, constant("i32", 1))


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
    from ptxsim.syntax.program import Register

    if isinstance(last, Register) and t.storage(last.name) == "i1":
        return b.select(t.get(last.name, WARP), constant("i32", 0, WARP), constant("i32", size, WARP))
    count = t.source(last, "u32", WARP)
    return b.intrinsic("umin", count, b.like(count, size))
