"""What a kernel does to memory and to whom its order shows, read off the rows of its instructions.

Pointers: which memory each register can come from, ignoring control flow. Roots are "param+OFFSET" (a kernel parameter
that holds a pointer), "global NAME", "shared", "local", "here OFFSET BYTES" (a parameter itself), and "?" for a pointer
that was loaded from memory or assembled from pieces. A tensor's copy reaches what the map tells that lies there: where
that is a parameter, "maps OFFSET BYTES". Three uses: a generic access whose pointer can only be shared or local is
treated as such; only arrays that some store may reach need race tracking of their reads; and only arrays that are read
and written must be put back before a launch runs again.

Order: blocks run one after the other where one of them may see what another did first. That is decided by atomics,
fences, volatile accesses and those with the GPU's or the system's scope, outside of shared memory; barrier objects lie
in shared memory, and what blocks print is sorted by block afterwards. The oracle, which runs the warps of a block side
by side where it may, has a rule of its own that is never laxer than this one (`oracle.machine`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from ptxsim.isa import STRONG, AddressUse, Order, Pointer
from ptxsim.syntax.bulk import NoSuchCopy, bulk_copy, is_bulk, is_group
from ptxsim.syntax.matrices import tile
from ptxsim.syntax.program import (
    WIDTH_BITS,
    Address,
    Branch,
    Immediate,
    Instruction,
    InstructionOrigin,
    Kernel,
    Operand,
    Register,
    Symbol,
    Vector,
    bytes_of,
    elements_of,
    reached,
    registers_in,
    row_of,
)

Roots = frozenset[str]
UNKNOWN: Roots = frozenset({"?"})
BY_OBJECTS = "objects"
"""The root of what texture and surface objects lead to: their images, and nothing else."""
BY_MAPS = "maps"
"""The first word of a root: what the tensor maps in a parameter lead to. Where it begins, and its bytes, follow."""
_HERE = "here"
NONE: Roots = frozenset()


def _instructions(kernel: Kernel) -> Iterator[Instruction]:
    return (i for block in kernel.blocks for i in block.instructions)


# ---------------------------------------------------------------- order


def order_of(i: Instruction) -> Order:
    """To whom it may show when an instruction is executed, its modifiers included."""
    return i.row.order if i.origin is InstructionOrigin.HEAP else _order(i.opcode, i.modifiers)


@lru_cache(maxsize=4096)
def _order(opcode: str, modifiers: tuple[str, ...]) -> Order:
    row, found = row_of(opcode, modifiers), Order.NOBODY
    for modifier in modifiers:
        found |= STRONG.get(modifier, Order.NOBODY)
    found = row.order | (found if row.has_result else found & ~Order.WAITS)
    return found & ~Order.BLOCKS if not _WITHIN_CLUSTERS.isdisjoint(modifiers) else found


ACQUIRES = frozenset({"acquire", "acq_rel", "sc"})
_WITHIN_CLUSTERS = frozenset({"proxy", "mbarrier_init"})
"""Modifiers of fences that order shared memory for asynchronous engines, and nothing between clusters."""


def blocks_in_order(kernel: Kernel) -> bool:
    """Whether blocks may talk to each other, so that their order could show.

    Also where a thread waits for another by an access of the scope of a block: the other may be of the wrong one.
    """
    talks = (i for i in _instructions(kernel) if Order.BLOCKS in order_of(i))
    if any(i.space != "shared" or i.row.accesses is None for i in talks):
        return True
    waits = (kernel.blocks[k].instructions for loop in memory_spins(kernel).values() for k in loop)
    return any(i.space != "shared" and Order.WAITS in order_of(i) for inside in waits for i in inside)


def order_may_show(kernel: Kernel) -> bool:
    """Whether threads may talk to each other without a barrier, so that the order of blocks or warps could show."""
    return any(Order.BLOCKS in order_of(i) or Order.WAITS in order_of(i) for i in _instructions(kernel))


def uses_heap(kernel: Kernel) -> bool:
    """Whether it calls malloc or free."""
    return any(i.origin is InstructionOrigin.HEAP for i in _instructions(kernel))


def has_fences(kernel: Kernel) -> bool:
    """Whether threads may be ordered by fences, acquires and releases."""
    return any(Order.FENCE in order_of(i) for i in _instructions(kernel))


def has_memory_fences(kernel: Kernel) -> bool:
    """Whether there are fences that order accesses of all memory by threads."""
    fences = (i for i in _instructions(kernel) if i.opcode in ("fence", "membar"))
    return any(_WITHIN_CLUSTERS.isdisjoint(i.modifiers) for i in fences)


def has_barrier_objects(kernel: Kernel) -> bool:
    """Whether threads may wait at barriers that lie in memory."""
    return any(i.opcode == "mbarrier" for i in _instructions(kernel))


def in_clusters(kernel: Kernel) -> bool:
    """Whether blocks of a cluster may wait for each other or reach each other's shared memory.

    A bulk copy into shared memory names a block's, its own one where the code does not speak of clusters.
    """
    return kernel.cluster is not None or any(
        i.has("cluster") or i.has("shared::cluster") or i.opcode in ("mapa", "getctarank") or _copies_into_shared(i)
        for block in kernel.blocks
        for i in block.executed
    )


def _copies_into_shared(i: Instruction) -> bool:
    return is_bulk(i) and i.has("mbarrier::complete_tx::bytes")


def spin_heads(kernel: Kernel) -> frozenset[int]:
    """Heads of loops in which threads may wait for each other by looking at memory.

    In such a loop something that is read where others may write decides a branch: what an atomic, a volatile or relaxed
    load or a look at a barrier object gives, or with a fence in the loop any load.
    """
    heads: set[int] = set()
    orders = [frozenset(map(order_of, block.instructions)) for block in kernel.blocks]
    uses = uses_of(kernel) if any(_looks_or_fences(found) for found in orders) else {}
    for head, body in loops(kernel):
        found = frozenset[Order]().union(*(orders[k] for k in body))
        if not _looks_or_fences(found):
            continue
        inside = [i for k in body for i in kernel.blocks[k].instructions]
        fenced = any(Order.FENCE in order for order in found)
        looks = (i for i in inside if Order.WAITS in order_of(i) or (fenced and i.opcode == "ld"))
        names = reached((n for i in looks for n in i.written), lambda name: computed(uses[name]))
        decides = {name for k in body if (name := branched_on(kernel, k))}
        decides |= {i.guard.register for i in inside if i.guard is not None}
        if not decides.isdisjoint(names):
            heads.add(head)
    return frozenset(heads)


def memory_spins(kernel: Kernel) -> dict[int, frozenset[int]]:
    """Head -> blocks of those loops in which threads wait for each other by looking at memory, at no barrier object."""
    heads, found = spin_heads(kernel), defaultdict[int, set[int]](set)
    for head, body in loops(kernel) if heads else ():
        if head in heads:
            found[head] |= body
    inside = {head: [i for k in body for i in kernel.blocks[k].instructions] for head, body in found.items()}
    return {
        head: frozenset(body) for head, body in found.items()
        if not any(i.opcode == "mbarrier" and (i.has("test_wait") or i.has("try_wait")) for i in inside[head])
    }  # fmt: skip


def looks(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Those that may tell a thread what another one has done; all loads where nothing else does."""
    every = [i for i in instructions if i.space not in ("local", "param")]
    return [i for i in every if Order.WAITS in order_of(i)] or [i for i in every if i.opcode == "ld"]


def _looks_or_fences(orders: Iterable[Order]) -> bool:
    return any(order & (Order.WAITS | Order.FENCE) for order in orders)


def loops(kernel: Kernel) -> Iterator[tuple[int, set[int]]]:
    """(head, blocks) of every loop: those that come back to its head without passing it."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for k, block in enumerate(kernel.blocks):
        for following in block.successors:
            before[following].append(k)
    for last, head in sorted(kernel.back_edges):
        into: dict[int, list[int]] = {k: [] if k == head else before[k] for k in range(len(kernel.blocks))}
        yield head, {head, *reached([last], into.__getitem__)}


def branched_on(kernel: Kernel, number: int) -> str:
    """The predicate that decides where a block goes on; "" for none."""
    end = kernel.blocks[number].terminator
    return end.guard.register if isinstance(end, Branch) else ""


def uses_of(kernel: Kernel) -> defaultdict[str, list[Instruction]]:
    """register -> instructions that take it as a source."""
    uses: defaultdict[str, list[Instruction]] = defaultdict(list)
    for i in _instructions(kernel):
        for name in {n for o in i.sources for n in registers_in(o)}:
            uses[name].append(i)
    return uses


# ---------------------------------------------------------------- what is accessed


def may_write_shared(i: Instruction) -> bool:
    """Whether shared memory may hold something else behind an instruction."""
    accesses = i.row.accesses
    return accesses is None or any(a.writes and (a.space or i.space) in ("shared", "generic") for a in accesses)


def granule_log2(kernel: Kernel, spaces: frozenset[str]) -> int:
    """log2 of the race shadow's granule: the smallest access in these spaces, at most 4 bytes."""
    return min((_granule(i, spaces) for i in _instructions(kernel)), default=4).bit_length() - 1


def _granule(i: Instruction, spaces: frozenset[str]) -> int:
    row = i.row
    if row.accesses is not None and (not row.accesses or spaces.isdisjoint(i.spaces)):
        return 4
    if row.granule == "tile":
        return min(4, *(r.size for shared in (False, True) for r in tile(i).requests(shared)))
    if row.granule == "element":
        return min(4, bytes_of(i.type) * math.prod(len(elements_of(operand)) for operand in i.operands))
    if row.granule == "type":
        return min(4, bytes_of(i.type))
    return int(row.granule)


# ---------------------------------------------------------------- where pointers lead


def pointer_roots(kernel: Kernel) -> dict[str, Roots]:
    """register -> roots, for every 64-bit register and for 32-bit shared-memory addresses."""
    roots: dict[str, Roots] = {}
    pointing = [i for i in _instructions(kernel) if i.row.pointer is not Pointer.NOWHERE]
    changed = True
    while changed:
        changed = False
        for i in pointing:
            for name in i.written:
                found = roots.get(name, NONE) | _result(kernel, i, name, roots)
                if found != roots.get(name, NONE):
                    roots[name] = found
                    changed = True
    return roots


def _result(kernel: Kernel, i: Instruction, name: str, roots: dict[str, Roots]) -> Roots:
    anywhere = UNKNOWN if WIDTH_BITS[kernel.registers[name]] == 64 else NONE
    match i.row.pointer:
        case Pointer.ANYWHERE:
            return anywhere
        case Pointer.MEMORY:
            return _loaded(kernel, i) if anywhere and i.space == "param" else anywhere
    found: Roots = NONE
    for operand in i.sources[-1:] if i.row.pointer is Pointer.ADDEND else i.sources:
        found |= anywhere if isinstance(operand, Vector) else _operand(kernel, operand, roots)
    return found


def _loaded(kernel: Kernel, i: Instruction) -> Roots:
    """The root that a pointer is which a kernel gets as a parameter."""
    address = i.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return UNKNOWN
    symbol = address.base
    start = next((p.offset for p in kernel.params if p.name == symbol.name), 0)
    return frozenset({f"param+{start + symbol.offset + address.offset}"})


def _operand(kernel: Kernel, operand: Operand, roots: dict[str, Roots]) -> Roots:
    match operand:
        case Register(name):
            return roots.get(name, NONE)
        case Symbol(name):
            variable = kernel.variables.get(name)
            if variable is None:
                own = next((p for p in kernel.params if p.name == name), None)
                return UNKNOWN if own is None else frozenset({f"{_HERE} {own.offset} {own.size_bytes}"})
            return frozenset({variable.space if variable.space in ("shared", "local") else f"global {name}"})
        case _:
            return NONE


def may_reach_parameters(kernel: Kernel, roots: dict[str, Roots]) -> bool:
    """Whether a generic access may lead to the kernel's own parameters, the address of which it has taken."""
    own = {p.name for p in kernel.params}
    if not any(isinstance(o, Symbol) and o.name in own for i in _instructions(kernel) for o in i.operands):
        return False
    places = (o for i in _instructions(kernel) if i.space == "generic" for o in i.operands if isinstance(o, Address))
    bases = (place.base.name for place in places if isinstance(place.base, Register))
    return any(root == "?" or root.startswith(_HERE) for name in bases for root in roots.get(name, NONE))


def written_roots(kernel: Kernel, roots: dict[str, Roots]) -> Roots:
    """Roots of all global memory that the kernel may write."""
    return _reached(kernel, roots, lambda access: access.writes)


def read_roots(kernel: Kernel, roots: dict[str, Roots]) -> Roots:
    """Roots of all global memory that the kernel may read."""
    return _reached(kernel, roots, lambda access: access.reads)


def _reached(kernel: Kernel, roots: dict[str, Roots], wanted: Callable[[AddressUse], bool]) -> Roots:
    found: Roots = NONE
    for i in _instructions(kernel):
        if i.row.accesses is not None and not i.row.accesses:
            continue
        if is_bulk(i):
            found |= NONE if is_group(i) else _copied(kernel, i, roots, wanted)
            continue
        if i.row.accesses is None:
            found |= UNKNOWN
            continue
        if any(wanted(access) and access.by_handle for access in i.row.accesses):
            found |= {BY_OBJECTS}
            continue
        addresses = [o for o in i.operands if isinstance(o, Address)]
        for access, address in zip(i.row.accesses, addresses, strict=False):  # cp.async may name none
            if wanted(access) and (access.space or i.space) not in ("shared", "local", "param"):
                found |= _operand(kernel, address.base, roots) or UNKNOWN
    return frozenset(r for r in found if r not in ("shared", "local") and not r.startswith(_HERE))


def _copied(
    kernel: Kernel, i: Instruction, roots: dict[str, Roots], wanted: Callable[[AddressUse], bool]
) -> Roots:
    """What a bulk copy reaches in global memory, if it does there what is wanted."""
    try:
        copy = bulk_copy(i)
    except NoSuchCopy:
        return UNKNOWN
    writes = copy.to == "global"
    address = copy.target if writes else copy.source if copy.to and copy.origin == "global" else None
    if not isinstance(address, Address) or not wanted(AddressUse(not writes or bool(copy.operation), writes)):
        return NONE
    found = _operand(kernel, address.base, roots) or UNKNOWN
    if not copy.rank:
        return found
    return frozenset(BY_MAPS + r.removeprefix(_HERE) if r.startswith(_HERE) else "?" for r in found)


# ---------------------------------------------------------------- loads that only guess

_PASSES_ON = frozenset({"mov", "selp", "cvt"})
_SAME_PLACE = frozenset({"mov", "cvta"})


def optimistic_loads(kernel: Kernel) -> frozenset[int]:
    """Identities of the load instructions whose value is what a compare-and-swap at the same address expects.

    `old = *p; do { assumed = old; old = atomicCAS(p, assumed, f(assumed)); } while (old != assumed);` reads without
    care and is right all the same: a wrong guess only costs a turn of the loop. Such a load counts as an atomic access.
    """
    instructions = list(_instructions(kernel))
    swaps = [i for i in instructions if i.opcode == "atom" and i.has("cas")]
    if not swaps:
        return frozenset()
    places = _places(instructions)
    passed: defaultdict[str, set[str]] = defaultdict(set)
    for i in instructions:
        for name in i.written if i.opcode in _PASSES_ON else ():
            passed[name].update(n for o in i.sources for n in registers_in(o))
    found: set[int] = set()
    for swap in swaps:
        place = _place(swap.operands[1], places)
        expected = {*reached(registers_in(swap.operands[2]), lambda name: passed[name])}
        loads = (i for i in instructions if i.opcode == "ld" and not expected.isdisjoint(i.written))
        found |= {id(i) for i in loads if _place(i.operands[1], places) == place}
    return frozenset(found)


def may_wait(i: Instruction) -> bool:
    """Whether a load may look for what another thread does meanwhile: volatile and relaxed ones."""
    return i.opcode == "ld" and not {"relaxed", "volatile", "mmio"}.isdisjoint(i.modifiers)


def computed(uses: list[Instruction]) -> list[str]:
    """Registers that these instructions compute."""
    return [n for i in uses if not i.row.accesses for n in i.written]


def _places(instructions: list[Instruction]) -> dict[str, tuple[Operand, int]]:
    """register -> (what it is a copy of, plus how much), for registers that are written once."""
    copies: dict[str, tuple[Operand, int]] = {}
    several: set[str] = set()
    for i in instructions:
        for name in i.written:
            if name in copies or name in several:
                several.add(name)
                copies.pop(name, None)
            elif i.opcode in _SAME_PLACE and isinstance(i.operands[0], Register):
                copies[name] = (i.operands[1], 0)
            elif i.opcode == "add" and isinstance(i.operands[2], Immediate):
                copies[name] = (i.operands[1], i.operands[2].bits)
            else:
                several.add(name)
    return copies


def _place(operand: Operand, copies: dict[str, tuple[Operand, int]]) -> tuple[Operand, int] | None:
    """Where an address leads: the first copy of its base, and the offset."""
    if not isinstance(operand, Address):
        return None
    base: Operand = operand.base
    offset = operand.offset
    while isinstance(base, Register) and base.name in copies:
        base, more = copies[base.name]
        offset += more
    return (Symbol(base.name), base.offset + offset) if isinstance(base, Symbol) else (base, offset)
