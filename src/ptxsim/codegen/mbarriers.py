"""Barrier objects in shared memory: mbarrier (PTX ISA 9.7.13.15). `runtime.mbarriers` has what the 64 bits mean."""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import Access
from ptxsim.codegen.atomics import host_addresses
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant
from ptxsim.codegen.runtime.mbarriers import COUNT_BITS, COUNT_MASK, PHASE
from ptxsim.codegen.translator import Translator
from ptxsim.codegen.values import unsupported
from ptxsim.syntax.program import Address, Immediate, Instruction, Operand, Sink

_ONE = Immediate(1)
_WORKER, _CONTEXT = Value("ptr", "%w"), Value("ptr", "%c")


def translate(t: Translator, i: Instruction) -> None:
    """init and inval, arrive and arrive_drop, test_wait and try_wait, pending_count."""
    if i.has("pending_count"):
        state = t.source(i.operands[1], "b64", WARP)
        missing = t.b.resize(t.b.and_const(t.b.lshr(state, COUNT_BITS), COUNT_MASK), "i32")
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
    mask: Value = t.mask_bits if t.masked else ALL_LANES  # type: ignore[attr-defined]
    return host_addresses(t, access, mask, L.WRITE if kind == "write" else L.ATOMIC)


def _set(t: Translator, i: Instruction) -> None:
    b = t.b
    count = t.source(i.operands[1], "u32", WARP) if i.has("init") else constant("i32", 0, WARP)
    wide = b.and_const(b.resize(count, "i64"), COUNT_MASK)
    # CUDA's own pipeline ends an object's life without a __syncwarp behind the arrivals of its warp
    address, mask = addresses(t, i, i.operands[0], "write" if i.has("init") else "atomic")
    b.call("ws_scatter_i64", "void", address, mask, b.or_(wide, b.shl(wide, COUNT_BITS)))


def _arrive(t: Translator, i: Instruction) -> None:
    result, where, *count = i.operands
    address, mask = addresses(t, i, where, "atomic")
    counts = t.source(count[0] if count else _ONE, "u32", WARP)
    dropping = constant("i32", int(i.has("arrive_drop")))
    old = t.b.call(
        "ws_mbarrier_arrive", "i64", _WORKER, _CONTEXT, address, mask, counts, dropping, constant("i32", 0), lanes=WARP
    )
    if not isinstance(result, Sink):
        t.write(result, old, Lanes())


def _test(t: Translator, i: Instruction) -> None:
    """Whether a phase is over: that of a state, or the latest of a parity. What this warp copies there lands first."""
    b = t.b
    address, mask = addresses(t, i, i.operands[1], "atomic")
    if t.unit.copies_async:
        from ptxsim.codegen.async_copy import settle

        lane = b.call("llvm.cttz.i32", "i32", mask, Value("i1", "false"))
        settle(t, b.extract(address, b.and_const(lane, WARP - 1)))
    now = b.lshr(b.call("ws_gather_i64", "i64", address, mask, lanes=WARP), PHASE)
    if i.has("parity"):
        parity = b.resize(t.source(i.operands[2], "u32", WARP), "i64")
        over = b.icmp("ne", b.and_const(now, 1), b.and_const(parity, 1))
    else:
        over = b.icmp("ne", now, b.lshr(t.source(i.operands[2], "b64", WARP), PHASE))
    stuck = b.call("ws_mbarrier_waited", "i32", _WORKER, _CONTEXT, address, mask, b.mask_bits(over))
    for_ever, go_on = b.new_label("forever"), b.new_label("goon")
    b.branch(b.icmp("ne", stuck, constant("i32", 0)), for_ever, go_on, likely=False)
    b.label(for_ever)
    t.fault(L.FAULT_DEADLOCK, i.source.line)
    b.label(go_on)
    t.write(i.operands[0], over, Lanes())
