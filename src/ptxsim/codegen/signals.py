"""Reports of synchronisation to `ordering`, from code that runs with the exact race shadow."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import Builder, Value, constant
from ptxsim.codegen.translator import Translator
from ptxsim.run.ordering import FENCE, READS, RELEASES, SIGNAL, UPDATES, WRITES
from ptxsim.syntax.program import Instruction

__all__ = ["READS", "UPDATES", "WRITES", "fence", "report", "signal"]

_NOTHING = Value("ptr", "null")
_ORDERS = frozenset({"release", "acq_rel", "sc"})


def report(b: Builder, event: int, warp: Value, mask: Value, data: Value = _NOTHING) -> None:
    """Calls the listener of the worker."""
    listener = b.load("ptr", b.offset(Value("ptr", "%w"), L.field("on_sync")))
    b.emit(f"call void {listener.text}(i32 {event}, {warp}, {mask}, {data})")


def signal(t: Translator, address: Value, mask: Value, flags: int, i: Instruction) -> None:
    """An atomic or a volatile access at host addresses `address` by the lanes of `mask`."""
    if not (t.unit.options.exact and t.unit.partial_order):
        return
    b = t.b
    if not _ORDERS.isdisjoint(i.modifiers):
        flags |= RELEASES
    slot = b.offset(Value("ptr", "%w"), L.field("signal_addresses"))
    b.store(address, slot, align=8)
    both = b.or_(b.resize(mask, "i64"), constant("i64", flags << 32))
    report(b, SIGNAL, t.warp_index(), both, slot)


def fence(t: Translator, i: Instruction) -> None:
    """membar or fence; `.cta` orders for the block alone."""
    if t.unit.options.exact and t.unit.partial_order:
        report(t.b, FENCE, t.warp_index(), constant("i64", int(not i.has("cta"))))
