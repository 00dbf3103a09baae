"""Warps in lockstep: a part of `full` for one warp after the other, as long as each does what the one before it did.

The loop over the warps is in the part itself. To call it anew for each would take as long as many a warp's way from one
barrier to the next: registers to save, a stack frame, values that are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, WORKER, Builder, IRValue, arg, constant, i32, i64

CONTEXTS, COUNT = arg("ptr", "contexts"), arg("i64", "count")
"""what a part in lockstep is given: the first warp's context, which the others follow, and how many warps there are"""
_INDEX, _BEFORE, _RESULT = IRValue("i64", "%index"), IRValue("i32", "%before"), IRValue("i32", "%result")


def goes_on(b: Builder, result: IRValue, before: IRValue, index: IRValue) -> tuple[IRValue, IRValue]:
    """Whether the warp at `index` did what the one before it did; and whether that was to end or come to a barrier."""
    did = b.lshr(result, 16)
    ordinary = b.or_(b.icmp("eq", did, i32(L.AT_BARRIER)), b.icmp("eq", did, i32(L.DONE)))
    alike = b.or_(b.icmp("eq", result, before), b.icmp("eq", index, i64(0)))
    return b.and_(ordinary, alike), ordinary


def note(b: Builder, last: IRValue, before: IRValue) -> None:
    """Leaves in the worker which warp was the last to run, and what the one before it returned."""
    b.store(last, b.offset(WORKER, L.field("last_warp")))
    b.store(before, b.offset(WORKER, L.field("result_before")))


def one_after_another(lines: Sequence[str], context_bytes: int) -> list[str]:
    """What one warp does, which ends in returns, for as many as go on. Returns what the last one did; see `note`."""
    body, results = _without_returns(lines)
    b = Builder("lockstep")
    b.br("warp", then="warp")
    phis_at = len(b.lines)
    b.lines += ["", "", "", *body]
    b.label("ran")
    b.emit(f"{_RESULT.text} = phi i32 " + ", ".join(f"[{value}, %{label}]" for value, label in results))
    following, over, judged = b.new_label("following"), b.new_label("over"), b.new_label("judged")
    on, _ = goes_on(b, _RESULT, _BEFORE, _INDEX)
    b.branch(on, judged, over, likely=True, then=judged)
    next_index, next_context = b.add_const(_INDEX, 1), b.offset(CONTEXT, context_bytes)
    b.branch(b.icmp("ult", next_index, COUNT), following, over, likely=True, then=following)
    b.br("warp", then=over)
    note(b, _INDEX, _BEFORE)
    b.ret(_RESULT)
    b.lines[phis_at : phis_at + 3] = [
        f"{value.text} = phi {value.type} [{first.text}, %entry], [{after.text}, %{following}]"
        for value, first, after in (
            (_INDEX, i64(0), next_index), (CONTEXT, CONTEXTS, next_context), (_BEFORE, constant("i32", -1), _RESULT),
        )
    ]  # fmt: skip
    return b.lines


def _without_returns(lines: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The lines with a way to `ran` in place of each return; and what is returned from which block."""
    body: list[str] = []
    results: list[tuple[str, str]] = []
    label = "warp"
    for line in "\n".join(lines).splitlines():
        if line.endswith(":"):
            label = line.removesuffix(":")
        if line.startswith("ret i32 "):
            results.append((line.removeprefix("ret i32 "), label))
            line = "br label %ran"
        body.append(line)
    return body, results


def call(b: Builder, function: IRValue, arguments: Sequence[IRValue], entry: IRValue) -> IRValue:
    """What a part does with some warps, from its block `entry` on."""
    given = ", ".join(map(str, (*arguments[:1], WORKER, entry, *arguments[1:])))
    return b.let("i32", 0, f"call i32 {function.text}({given})")


def header(name: str, *, in_lockstep: bool) -> str:
    """How a part of `full` is defined."""
    first = f"ptr noalias {CONTEXTS.text if in_lockstep else CONTEXT.text}"
    return f"i32 @{name}({first}, ptr noalias {WORKER.text}, i32 %entry_block{f', {COUNT}' if in_lockstep else ''})"
