"""What a block of outlined code is made of: a run of records, and where the block begins and leads.

A *record* is a call as data, in 64-bit words: the number of a function in the kernel's table | words up to the next
record << 32, then what fills the function's holes. A *run* is how many records follow, and these.
"""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, I32, I64, MASK, WARP, WORKER, Helper, IRValue, arg, helper, i32, i64

HOLES = arg("ptr", "holes")
WORD = 8
"""Bytes of a word of a record."""
RECORDED = (CONTEXT, WORKER, MASK, HOLES)
"""Parameters of every function that a record calls."""
_FUNCTIONS, _RUN = arg("ptr", "functions"), arg("ptr", "run")


@helper("ws_run", "void", CONTEXT, WORKER, MASK, _FUNCTIONS, _RUN)
def run(b: Helper, functions: IRValue, run: IRValue) -> None:
    """Calls what the records of a run say, one after the other."""
    with b.carrying(b.load(I64, run), [b.offset(run, WORD)]) as (_, at):
        head = b.load(I64, at[0])
        number, words = b.and_const(head, (1 << 32) - 1), b.lshr(head, 32)
        function = b.load("ptr", b.offset(functions, b.shl(number, 3)))
        listed = ", ".join(map(str, (CONTEXT, WORKER, MASK, b.offset(at[0], WORD))))
        b.emit(f"call void {function.text}({listed})")
        at[0] = b.offset(at[0], b.shl(words, 3))


def _hole(b: Helper, holes: IRValue, number: int) -> IRValue:
    return b.load(I64, b.offset(holes, WORD * number))


def _counter(b: Helper, at: IRValue) -> IRValue:
    return b.offset(b.worker("masked_counters", "ptr"), at)


@helper("ws_enter", "void", *RECORDED)
def enter(b: Helper, holes: IRValue) -> None:
    """Counts that a block runs: counter[0] += 1, counter[1] += its lanes. Its hole: where the counters are."""
    counter = _counter(b, _hole(b, holes, 0))
    b.increment(counter, i64(1))
    b.increment(b.offset(counter, 8), b.resize(b.call("llvm.ctpop.i32", I32, MASK), I64))


def _send(b: Helper, target: IRValue, mask: IRValue) -> None:
    """The lanes of a mask go on at a block."""
    at = b.offset(CONTEXT, L.ContextLayout.PCS)
    before = b.load("i16", at, WARP, align=64)
    b.store(b.select(b.bits_mask(mask), b.splat(b.resize(target, "i16")), before), at, align=64)


@helper("ws_go_on", "void", *RECORDED)
def go_on(b: Helper, holes: IRValue) -> None:
    """All lanes of a block go on at another one. Its hole: which."""
    _send(b, _hole(b, holes, 0), MASK)


@helper("ws_branch", "void", *RECORDED)
def branch(b: Helper, holes: IRValue) -> None:
    """Lanes of a block go on where their predicate leads them; a counter + 1 where that is not all the same.

    Its holes: the predicate's place, the block where it holds, that where it does not, the counter or NO_COUNTER.
    """
    taken = b.and_(b.load(I32, b.offset(CONTEXT, _hole(b, holes, 0))), MASK)
    other = b.and_(MASK, b.not_(taken))
    _send(b, _hole(b, holes, 1), taken)
    _send(b, _hole(b, holes, 2), other)
    parted = b.and_(b.icmp("ne", taken, i32(0)), b.icmp("ne", other, i32(0)))
    counter = _hole(b, holes, 3)
    with b.if_(b.and_(parted, b.icmp("ne", counter, i64(L.NO_COUNTER)))):
        b.increment(_counter(b, counter), i64(1))
