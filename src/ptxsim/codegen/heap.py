"""malloc and free in a kernel (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations").

Who gets what is decided by the heap itself (`ptxsim.heap`), which the worker calls for a warp at a time. Freeing counts
as a write of the whole block, so that a use which nothing orders with it is a race.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, NULL, WARP, WORKER, constant
from ptxsim.codegen.translator import Translator
from ptxsim.syntax.program import Instruction, Operand


def call_heap(t: Translator, i: Instruction, name: str, arguments: Sequence[Operand]) -> None:
    """One of `inline.HEAP_FUNCTIONS`."""
    frees = name == "free"
    site = t.unit.site(i, "global", "free" if frees else "write")
    values = t.source(arguments[0], "u64", WARP)
    if frees and t.unit.options.check:
        exact = "exact_" if t.unit.options.exact else ""
        granule = t.unit.global_granule_log2
        told = (constant("i32", site), constant("i32", L.WRITE))
        t.call(f"ws_{exact}freed_{granule}", "void", WORKER, CONTEXT, values, t.active, *told)
    alignments = t.source(arguments[1], "u64", WARP) if len(arguments) > 1 else constant("i64", 0, WARP)
    at = t.offset(WORKER, L.field("heap_values"))
    t.store(values, at, align=8)
    t.store(alignments, t.offset(WORKER, L.field("heap_alignments")), align=8)
    listener = t.load("ptr", t.offset(WORKER, L.field("on_heap")))
    lanes = t.or_(t.resize(t.active, "i64"), constant("i64", site << 32))
    t.emit(f"call void {listener.text}(i32 {int(frees)}, {t.warp_index()}, {lanes}, {NULL})")
    for key in [k for k in t.scratch if isinstance(k, tuple) and k[0] == "inside"]:
        del t.scratch[key]  # what was inside an allocation may not be any more
    if not frees:
        t.write(i.operands[0], t.load("i64", at, WARP, align=8), Lanes())
