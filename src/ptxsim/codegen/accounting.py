"""What a memory access needs before it touches memory: bounds, the race shadow, what was never written, and counts."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.access import MemoryAccess
from ptxsim.codegen.emit import CONTEXT, NULL, WARP, WORKER, IRValue, constant
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Instruction, Sink


def account(
    t: Translator,
    a: MemoryAccess,
    space: str,
    address: IRValue,
    mask: IRValue,
    *,
    kind: int | None = None,
    counter: IRValue = NULL,
    values: list[IRValue] | None = None,
) -> IRValue:
    """Checks and counts an access of the lanes in `mask`; those that may go on. `values` are what they store."""
    if t.unit.options.check and space == "shared" and id(a.instruction) in t.unit.copied:
        _mind_padding(t, a, address, mask)
    if t.unit.options.check and space == "shared" and _is_blind(a.instruction):
        kind = _blind_kind(t, a, address, mask)
    if a.pieces and space in ("shared", "global"):
        return _account_pieces(t, a, space, address, mask, counter)
    fixed = constant("i32", a.bytes_), t.site_number(a.site), constant("i32", a.kind if kind is None else kind)
    checked = constant("i32", int(t.unit.options.check or space == "const"))
    told = values is not None and t.unit.options.exact
    if told:
        assert values is not None
        parts, area = len(values), t.area("stored values", WARP * a.bytes_)
        joined = values[0] if parts == 1 else t.concat(values)
        t.store(t.shuffle(joined, [part * WARP + lane for lane in range(WARP) for part in range(parts)]), area)
        t.store(area, t.offset(WORKER, L.field("stored")))
    allowed = t.call(t.unit.access(space), "i32", WORKER, CONTEXT, address, mask, *fixed, counter, checked)
    if told:
        t.store(NULL, t.offset(WORKER, L.field("stored")))
    return allowed


def _mind_padding(t: Translator, a: MemoryAccess, offset: IRValue, mask: IRValue) -> None:
    """A load that only copies may bring along what nobody has written beside what somebody has."""
    granule, how = t.unit.shared_granule_log2, "exact" if t.unit.options.exact else "shared"
    before = t.unit.copied[id(a.instruction)]
    if before or a.bytes_ > 1 << granule:
        sizes = constant("i32", a.bytes_), constant("i32", before)
        t.call(f"ws_{how}_padding_{granule}", "void", WORKER, offset, mask, *sizes)


def _is_blind(i: Instruction) -> bool:
    """Whether an atomic only stores: an exchange whose result nobody reads."""
    return i.opcode == "atom" and i.has("exch") and isinstance(i.operands[0], Sink)


def _blind_kind(t: Translator, a: MemoryAccess, offset: IRValue, mask: IRValue) -> int:
    """What such an atomic is for the race shadow: no use of what nobody has written."""
    if t.unit.options.exact:
        return L.ATOMIC | L.BLIND_ACCESS
    t.call(f"ws_begun_{t.unit.shared_granule_log2}", "void", WORKER, offset, mask, constant("i32", a.bytes_))
    return L.ATOMIC


def _account_pieces(
    t: Translator, a: MemoryAccess, space: str, address: IRValue, mask: IRValue, counter: IRValue
) -> IRValue:
    """The same for a load of which some elements are never read: all of it has its place and is counted, and only what
    is used can be uninitialised, or part of a race."""
    size, site, kind = constant("i32", a.bytes_), t.site_number(a.site), constant("i32", a.kind)
    if counter.text != NULL.text:
        t.call(f"ws_count_{space}", "void", address, mask, size, counter)
    if a.exact:
        t.increment(t.offset(WORKER, L.field("exact_steps")), constant("i64", 1))
    allowed = t.call(f"ws_check_{space}", "i32", WORKER, CONTEXT, address, mask, size, site)
    tracked = t.icmp("ne", allowed, constant("i32", 0))
    if space == "global" and not a.exact:  # arrays that no block writes have no shadow
        entry = t.offset(t.field("sites", "ptr"), t.mul(t.resize(site, "i64"), constant("i64", L.SITE_BYTES)))
        tracked = t.and_(tracked, t.icmp("ne", t.load("i64", t.offset(entry, 16)), constant("i64", 0)))
    with t.if_(tracked):
        for first, count in a.pieces:
            at, nbytes = t.add_const(address, first * a.element_bytes), constant("i32", count * a.element_bytes)
            t.call(t.unit.race(space), "void", WORKER, CONTEXT, at, allowed, nbytes, site, kind)
    return allowed
