"""Which instructions may use the sums of a `wgmma.mma_async` before `wgmma.wait_group`.

Registers of sums belong to the tensor cores from the product until its group has been waited for (PTX ISA 9.7.15.7).
Here is only where they may be touched too early: for each such instruction the products that may have written its
registers last, on some path and with nothing waited for completely in between. A copy to another register touches
nothing: the machine has none where the compiler names a register anew. Whether it is too early, the run tells.
"""

from __future__ import annotations

from ptxsim.syntax.program import Barrier, Immediate, Instruction, Kernel, Register

Pending = dict[str, frozenset[int]]
"""register -> identities of the products that may still write it"""
_OPEN = ""
"""In place of a register: products that may belong to no group yet, which no waiting ends."""


def early_uses(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """Identity of an instruction -> those of the products; only the first such instruction of each block and set."""
    if not any(_is_product(i) for block in kernel.blocks for i in block.instructions):
        return {}
    before: list[Pending] = [{} for _ in kernel.blocks]
    pending = list(range(len(kernel.blocks)))
    while pending:
        k = pending.pop()
        after = _through(kernel, k, before[k], None)
        for following in kernel.blocks[k].successors:
            merged = _joined(before[following], after)
            if merged != before[following]:
                before[following] = merged
                pending.append(following)
    uses: dict[int, tuple[int, ...]] = {}
    for k in range(len(kernel.blocks)):
        _through(kernel, k, before[k], uses)
    return uses


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
        elif i.opcode == "mov" and len(i.written) == len(i.read) == 1 and isinstance(i.operands[1], Register):
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
