"""Where a block of outlined code begins and leads: what `masked` writes out for each block, as functions."""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, COUNTER, I32, I64, MASK, NULL, WARP, Helper, IRValue, arg, helper, i32, i64


@helper("ws_enter", "void", COUNTER, MASK)
def enter(b: Helper, counter: IRValue) -> None:
    """Counts that a block runs: counter[0] += 1, counter[1] += its lanes."""
    b.increment(counter, i64(1))
    b.increment(b.offset(counter, 8), b.resize(b.call("llvm.ctpop.i32", I32, MASK), I64))


def _send(b: Helper, target: IRValue, mask: IRValue) -> None:
    """The lanes of a mask go on at a block."""
    at = b.offset(CONTEXT, L.ContextLayout.PCS)
    before = b.load("i16", at, WARP, align=64)
    b.store(b.select(b.bits_mask(mask), b.splat(b.resize(target, "i16")), before), at, align=64)


@helper("ws_go_on", "void", CONTEXT, MASK, arg(I32, "target"))
def go_on(b: Helper, target: IRValue) -> None:
    """All lanes of a block go on at another one."""
    _send(b, target, MASK)


@helper("ws_branch", "void", CONTEXT, MASK, arg("ptr", "predicate"), arg(I32, "yes"), arg(I32, "no"), COUNTER)
def branch(b: Helper, predicate: IRValue, yes: IRValue, no: IRValue, counter: IRValue) -> None:
    """Lanes of a block go on where their predicate leads them; counter[0] += 1 where that is not all the same."""
    taken = b.and_(b.load(I32, predicate), MASK)
    other = b.and_(MASK, b.not_(taken))
    _send(b, yes, taken)
    _send(b, no, other)
    parted = b.and_(b.icmp("ne", taken, i32(0)), b.icmp("ne", other, i32(0)))
    with b.if_(b.and_(parted, b.icmp("ne", counter, NULL))):
        b.increment(counter, i64(1))
