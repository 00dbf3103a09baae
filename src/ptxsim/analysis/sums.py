"""Registers that threads and `wgmma` share: where they may be used before `wgmma.wait_group`, or without `wgmma.fence`.

Registers of sums belong to the tensor cores from the product until its group has been waited for (PTX ISA 9.7.15.7).
Here is only where they may be touched too early: for each such instruction the products that may have written its
registers last, on some path and with nothing waited for completely in between. A copy to another register touches
nothing: the machine has none where the compiler names a register anew. Whether it is too early, the run tells.

What threads write into registers of sums, or of A, has to be behind them by `wgmma.fence` before a product uses these;
only from product to product is no fence needed. A compiler moves such writes past a fence, which no source can help.
So what counts is whether there is a fence at all between the product before and this one; and of writes those that the
product before holds up: what is loaded, and what is computed of its sums or of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ptxsim.syntax.program import Barrier, Immediate, Instruction, Kernel, Register, Vector
from ptxsim.syntax.warpgroup import sources

Pending = dict[str, frozenset[int]]
"""register -> identities of the products that may still write it"""
Written = frozenset[str] | None
"""registers written since the last product; None where no product was, or a fence has been since"""
S = TypeVar("S")
_OPEN = ""
"""In place of a register: products that may belong to no group yet, which no waiting ends."""


def early_uses(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """Identity of an instruction -> those of the products; only the first such instruction of each block and set."""
    if not _has_products(kernel):
        return {}
    nothing: Pending = {}
    uses: dict[int, tuple[int, ...]] = {}
    for k, before in enumerate(_states(kernel, nothing, lambda k, before: _through(kernel, k, before, None), _joined)):
        _through(kernel, k, before, uses)
    return uses


def unfenced_products(kernel: Kernel) -> frozenset[int]:
    """Identities of products of which threads may have written registers since the product before, with no fence."""
    found: set[int] = set()
    if not _has_products(kernel):
        return frozenset()
    fenced: Written = None
    sums = _sums(kernel)
    for k, before in enumerate(_states(kernel, fenced, lambda k, now: _since(kernel, k, now, sums, None), _either)):
        _since(kernel, k, before, sums, found)
    return frozenset(found)


def _states(kernel: Kernel, start: S, through: Callable[[int, S], S], joined: Callable[[S, S], S]) -> list[S]:
    """What holds before each block, on any path."""
    before = [start for _ in kernel.blocks]
    pending = list(range(len(kernel.blocks)))
    while pending:
        k = pending.pop()
        after = through(k, before[k])
        for following in kernel.blocks[k].successors:
            merged = joined(before[following], after)
            if merged != before[following]:
                before[following] = merged
                pending.append(following)
    return before


def _has_products(kernel: Kernel) -> bool:
    return any(_is_product(i) for block in kernel.blocks for i in block.instructions)


def _is_product(i: Instruction) -> bool:
    return i.opcode == "wgmma" and i.has("mma_async")


def _joined(one: Pending, other: Pending) -> Pending:
    return one | {name: one.get(name, frozenset()) | products for name, products in other.items()}


def _through(kernel: Kernel, k: int, before: Pending, uses: dict[int, tuple[int, ...]] | None) -> Pending:
    """What is pending behind block k; notes the uses on the way."""
    block, now = kernel.blocks[k], dict(before)
    told: set[frozenset[int]] = set()
    for i in block.instructions:
        if _is_product(i):
            now |= dict.fromkeys(i.written, frozenset({id(i)}))
            now[_OPEN] = now.get(_OPEN, frozenset()) | {id(i)}
        elif i.opcode == "wgmma" and i.has("commit_group"):
            now.pop(_OPEN, None)
        elif i.renames:
            (to,), (origin,) = i.written, i.read
            now.pop(to, None)
            if origin in now:
                now[to] = now[origin]
        elif i.opcode != "wgmma":
            touched = frozenset().union(*(now.get(name, frozenset()) for name in (*i.read, *i.written)))
            if touched and uses is not None and touched not in told:
                told.add(touched)
                uses[id(i)] = tuple(sorted(touched))
            for name in i.written:
                now.pop(name, None)
    end = block.terminator
    if isinstance(end, Barrier) and end.instruction.opcode == "wgmma" and end.instruction.operands[0] == Immediate(0):
        still = now.get(_OPEN, frozenset())
        now = {name: products & still for name, products in now.items() if products & still}
    return now


def _either(one: Written, other: Written) -> Written:
    return other if one is None else one if other is None else one | other


def _sums(kernel: Kernel) -> frozenset[str]:
    """Registers of sums, by whatever name."""
    every = [i for block in kernel.blocks for i in block.instructions]
    names = {name for i in every if _is_product(i) for name in i.written}
    copies = [(i.read[0], i.written[0]) for i in every if i.renames]
    while more := {to for origin, to in copies if origin in names and to not in names}:
        names |= more
    return frozenset(names)


def _since(kernel: Kernel, k: int, before: Written, sums: frozenset[str], found: set[int] | None) -> Written:
    """What threads have written behind block k; notes the products on the way that use it."""
    now = before
    for i in kernel.blocks[k].instructions:
        if _is_product(i):
            if now and found is not None and not now.isdisjoint((*i.written, *_fragments(i))):
                found.add(id(i))
            now = frozenset()
        elif i.opcode == "wgmma" and not i.has("commit_group"):
            now = None
        elif now is not None and i.renames:
            now = now.difference(i.written) | (set(i.written) if i.read[0] in now else frozenset())
        elif now is not None:
            held_up = i.row.accesses != () or not (now | sums).isdisjoint(i.read)
            now = now.union(i.written) if held_up else now.difference(i.written)
    return now


def _fragments(i: Instruction) -> tuple[str, ...]:
    """Registers of a product that hold A."""
    a = sources(i).a
    return tuple(e.name for e in a.elements if isinstance(e, Register)) if isinstance(a, Vector) else ()
