"""What the functions of one translated kernel share: the kernel, what was found out about it, and what they collect.

Here is also where a whole warp may enter `full`, and of which functions `full` is made for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ptxsim.adders import ORDERED
from ptxsim.analysis.effects import ACQUIRES, may_wait
from ptxsim.analysis.lanes import LaneAnalysis, Lanes
from ptxsim.analysis.merging import SharedRequest
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP
from ptxsim.codegen.grids import OuterProduct
from ptxsim.codegen.tensor_products import MatrixFrame
from ptxsim.syntax.program import (
    Barrier,
    Block,
    Branch,
    Instruction,
    Kernel,
    Register,
    Switch,
    Symbol,
    WarpBarrier,
)


@dataclass(frozen=True)
class AccessSite:
    """One memory access in the code, as hazards and counters refer to it."""

    line: int
    space: str
    access: str
    """"read", "write" or "atomic" """
    calls: tuple[int, ...] = ()
    """lines of the calls around it, the nearest first"""


@dataclass
class CounterPlan:
    """Which cell of the counter array holds what."""

    size: int = 0
    per_block: list[tuple[int, str, int, int]] = field(default_factory=list)
    """(cell of an execution count, name, source line, factor)"""
    direct: list[tuple[int, str, int]] = field(default_factory=list)
    """(cell, name, source line)"""
    executions: list[tuple[int, int]] = field(default_factory=list)
    """(number of a basic block, cell of an execution count)"""
    _made: tuple[list[tuple[int, str]], np.ndarray, np.ndarray, np.ndarray] | None = None

    def cell(self, count: int = 1) -> int:
        """Reserves `count` neighbouring cells; returns the first."""
        self.size += count
        return self.size - count

    def scaled(self, cell: int, name: str, line: int, factor: int) -> None:
        if factor:
            self.per_block.append((cell, name, line, factor))

    def named(self, cell: int, name: str, line: int) -> None:
        self.direct.append((cell, name, line))

    def evaluate(self, cells: np.ndarray) -> dict[int, Counter[str]]:
        """Counters by source line, from the counter array (uint64, shape (size,))."""
        names, into, cell, factor = self._table()
        totals = np.zeros(len(names), np.uint64)
        np.add.at(totals, into, cells[cell] * factor)
        lines: dict[int, Counter[str]] = {}
        for (line, name), total in zip(names, totals.tolist(), strict=True):
            if total:
                lines.setdefault(line, Counter())[name] = total
        return lines

    def _table(self) -> tuple[list[tuple[int, str]], np.ndarray, np.ndarray, np.ndarray]:
        """(line, name) of each counter; and for each entry the number of its counter, its cell and its factor."""
        size = len(self.per_block) + len(self.direct)
        if self._made is None or len(self._made[1]) != size:
            entries = [*self.per_block, *((*named, 1) for named in self.direct)]
            number: dict[tuple[int, str], int] = {}
            into = [number.setdefault((line, name), len(number)) for _, name, line, _ in entries]
            cell, factor = [e[0] for e in entries], [e[3] for e in entries]
            self._made = [*number], np.array(into, np.intp), np.array(cell, np.intp), np.array(factor, np.uint64)
        return self._made


@dataclass(frozen=True, eq=False)
class Runs:
    """Outlined code's data, as `runtime/control` reads it."""

    functions: tuple[str, ...]
    """those that records call, by their number"""
    words: np.ndarray
    """the records (uint64)"""
    whole: np.ndarray
    """for each block that is nothing but records, the byte at which its run begins among them (uint64)"""


@dataclass(frozen=True)
class Options:
    """What translated code does besides computing."""

    check: bool = True
    count: bool = True
    exact: bool = False
    """with the exact race shadow: slow, for a launch that met a race"""
    parted: bool = False
    """run every warp in `masked` from start to end: for testing it"""
    outlined: bool = False
    """made of stencils, from start to end in `masked`: slow code, but made at once"""
    tensor_sums: str = ORDERED
    """one of `adders.TENSOR_SUMS`"""
    reordered: bool = False
    """warps take their turns in the worker's order instead of by number"""


@dataclass
class Unit:
    """Everything that the two functions of one kernel share."""

    kernel: Kernel
    block: tuple[int, int, int]
    analysis: LaneAnalysis
    options: Options
    context: L.ContextLayout
    pointers: dict[str, frozenset[str]]
    """register -> what it may point into (provenance)"""
    plan: CounterPlan = field(default_factory=CounterPlan)
    sites: list[AccessSite] = field(default_factory=list)
    helpers: dict[str, str] = field(default_factory=dict)
    """functions that this kernel needs, by name: IR text"""
    global_granule_log2: int = 2
    shared_granule_log2: int = 2
    computed_floats: frozenset[str] = frozenset()
    """registers whose NaNs are put right where their bits are looked at"""
    partial_order: bool = False
    """whether some threads may be ordered without a barrier of the whole block: fences, named barriers"""
    fences: bool = False
    """whether there are fences of all memory, besides those of the asynchronous engines and of new barrier objects"""
    named: bool = False
    """whether barriers have names or counts, so that only some warps may wait for each other"""
    spin_heads: frozenset[int] = frozenset()
    """heads of loops in which threads give way: those that may wait for another one, and `drawing`"""
    spins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """those of them in which threads look at memory and at no barrier object, and their blocks"""
    pure_waits: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """those that are left only when memory changes (`analysis.waiting`)"""
    drawing: frozenset[int] = frozenset()
    """heads of loops whose turns blocks share among them (`analysis.waiting`)"""
    left_to: frozenset[int] = frozenset()
    """blocks to which they lead"""
    waits: frozenset[int] = frozenset()
    """identities of loads whose value only decides where the kernel goes on"""
    copied: Mapping[int, int] = field(default_factory=dict)
    """identities of loads whose values only go from memory to memory -> bytes before them that belong to the copy"""
    optimistic: frozenset[int] = frozenset()
    """identities of loads that only guess what a compare-and-swap will find"""
    shared_requests: Mapping[int, tuple[SharedRequest, ...]] = field(default_factory=dict)
    """identities of shared loads -> what the machine code asks for in their place, where that is something else"""
    copies_async: bool = False
    """whether the kernel uses cp.async, so that warps need queues"""
    barrier_objects: bool = False
    """whether the kernel uses mbarrier, so that copies may land when nobody of their warp waits"""
    in_turns: bool = False
    """whether blocks may wait for each other, so that several are resident and run in turns"""
    wide_entries: int = 0
    """operands of wgmma that are kept ready for each warpgroup, a power of 2; 0 where there is no wgmma"""
    own_parameters: bool = False
    """whether generic accesses may lead to the kernel's parameters"""
    meets_grid: bool = False
    """whether it looks for the workspace of a cooperative launch, in which grid.sync() counts blocks"""
    clusters: bool = False
    """whether blocks of a cluster may look into each other's shared memory or wait at the cluster's barrier"""
    asynchronous: bool = False
    """whether engines copy or multiply beside the kernel's threads, or blocks of a cluster do something together"""
    products: list[Instruction] = field(default_factory=list)
    """the wgmma.mma_async of the kernel, as `AsyncEvent.PRODUCT` numbers them"""
    early_uses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """identities of instructions that may use sums too early -> those of the products"""
    unfenced: frozenset[int] = frozenset()
    """identities of products of which threads may have written registers since the product before"""
    sums: list[tuple[int, ...]] = field(default_factory=list)
    """products that may have written a register, as `AsyncEvent.SUMS` numbers them"""
    textures: bool = False
    """whether the kernel uses texture or surface objects, so that workers need their table"""
    library: dict[str, str] = field(default_factory=dict)
    """functions for tensor cores that this kernel calls, by name: IR text; they are compiled apart from it"""
    grids: Mapping[int, OuterProduct] = field(default_factory=dict)
    """number of a basic block -> the product that its multiply-adds are"""
    frames: tuple[MatrixFrame, ...] = ()
    """lists of registers that `full` keeps as matrices"""
    long: bool = False
    """whether registers live in memory between blocks"""
    wide_vectors: bool = True
    """whether the host has 32 vector registers of 64 bytes"""
    symbol_slots: dict[str, int] = field(default_factory=dict)
    """module variable -> offset of its address behind the kernel's parameters"""

    @cached_property
    def grid_sums(self) -> frozenset[str]:
        """Registers that live in the warp's context because products add to them there."""
        return frozenset(name for grid in self.grids.values() for row in grid.sums for name in row)

    @cached_property
    def register_kinds(self) -> dict[str, str]:
        """The type of each register; with a ~ where it holds a number that was computed."""
        computed = self.computed_floats
        return {name: f"{type_}~" if name in computed else type_ for name, type_ in self.kernel.registers.items()}

    @cached_property
    def entries(self) -> frozenset[int]:
        """Blocks at which a whole warp may enter `full`."""
        return frozenset(_entries(self))

    @cached_property
    def reads_sums(self) -> bool:
        """Whether the kernel loads accumulators from global memory: what it stores may be read again soon."""
        loads = (i for b in self.kernel.blocks for i in b.instructions if i.opcode == "wmma" and i.has("load"))
        return any(i.has("c") and i.space != "shared" for i in loads)

    @cached_property
    def passes_on_by_atomics(self) -> bool:
        """Whether threads may tell each other something by memory alone: by acquires, or by atomics and the like with
        fences."""
        every = [i for b in self.kernel.blocks for i in b.instructions]
        acquires = any(i.opcode in ("atom", "red", "ld") and not ACQUIRES.isdisjoint(i.modifiers) for i in every)
        signals = any(i.opcode in ("atom", "red") or may_wait(i) for i in every)
        return acquires or (signals and self.fences)

    @cached_property
    def meets_peers(self) -> bool:
        """Whether threads may access another block's shared memory."""
        every = [i for b in self.kernel.blocks for i in b.instructions]
        accesses = any(i.opcode in ("ld", "st", "atom", "red") and i.space in ("cluster", "generic") for i in every)
        return self.clusters and accesses and any(i.opcode == "mapa" for i in every)

    @cached_property
    def prints(self) -> bool:
        """Whether the kernel calls printf."""
        calls = (i for b in self.kernel.blocks for i in b.instructions if i.opcode == "call")
        return any(isinstance(o, Symbol) and o.name == "vprintf" for i in calls for o in i.operands)

    @property
    def votes(self) -> bool:
        """Whether some barrier of the kernel reduces a predicate over the whole block."""
        barriers = [k.terminator.instruction for k in self.kernel.blocks if isinstance(k.terminator, Barrier)]
        return not self.named and any(i.has("red") for i in barriers)

    @cached_property
    def in_lockstep(self) -> bool:
        """Whether warps run from barrier to barrier alike as long as none does anything else."""
        options, whole = self.options, thread_count(self.block) % WARP == 0
        apart = self.named or self.barrier_objects or options.parted or options.exact or options.reordered
        return whole and not apart and not self.votes

    @property
    def yield_every(self) -> int:
        """Loop iterations after which a thread that may wait for another gives way."""
        waits_surely = self.meets_grid  # a grid's barrier opens only when others have had their turns
        return L.EXACT_YIELD_EVERY if self.options.exact or waits_surely else L.YIELD_EVERY

    @property
    def copy_checks(self) -> int:
        """What copies are told of checks: 0 for none, else log2 of the race shadow's granule + 1; + 3 with the exact
        one."""
        o = self.options
        return self.shared_granule_log2 + (4 if o.exact else 1) if o.check else 0

    @property
    def followed(self) -> bool:
        """Whether a listener hears what asynchronous engines do; the exact race shadow has other questions."""
        return self.asynchronous and self.options.check and not self.options.exact

    def access(self, space: str) -> str:
        """Name of the function that accounts for an access of shared or global memory."""
        granule = self.shared_granule_log2 if space == "shared" else self.global_granule_log2
        exact = self.options.exact and space != "const"  # which nobody writes
        return f"ws_{'exact_' if exact else ''}access_{space}_{granule}"

    def race(self, space: str) -> str:
        """Name of the function that looks for races alone."""
        granule = self.shared_granule_log2 if space == "shared" else self.global_granule_log2
        return f"ws_{'exact' if self.options.exact else 'race'}_{space}_{granule}"

    def site(self, instruction: Instruction, space: str, access: str) -> int:
        self.sites.append(AccessSite(instruction.source.line, space, access, instruction.source.calls))
        return len(self.sites) - 1

    def product_number(self, i: Instruction) -> int:
        """The number by which a listener is told of a product of a warpgroup."""
        self.products.append(i)
        return len(self.products) - 1

    def sums_number(self, i: Instruction) -> int:
        """The number of the products whose sums an instruction may use too early."""
        self.sums.append(self.early_uses[id(i)])
        return len(self.sums) - 1


def thread_count(block: tuple[int, int, int]) -> int:
    return block[0] * block[1] * block[2]


def lanes_of(pattern: Lanes) -> int:
    """Lanes that stand for a pattern: 0 (lane 0 alone), the first lanes of 2 or 4 groups, or all 32."""
    if not pattern.known:
        return WARP
    return 0 if pattern.groups == 1 else pattern.groups


@dataclass(frozen=True)
class FullPart:
    """A function of `full`: the blocks that its entries reach without crossing a barrier."""

    name: str
    entries: tuple[int, ...]
    blocks: tuple[int, ...]
    abreast: bool = False
    """whether there is a function that does the same with several warps at a time"""

    @property
    def abreast_name(self) -> str:
        return f"{self.name}_abreast"


_MOST_SPLIT = 800
"""Instructions of a kernel up to which each entry gets a function of its own, which loads and saves only what it
needs."""


def parts_of(unit: Unit) -> list[FullPart]:
    """`full` as one function per entry, or as a single one where that would repeat much code."""
    blocks, entries = unit.kernel.blocks, sorted(unit.entries)
    whole = FullPart("full", tuple(entries), tuple(range(len(blocks))))
    split = [FullPart(f"full_{e}", (e,), tuple(_reached(blocks, e))) for e in entries]
    size = [len(b.instructions) + 1 for b in blocks]
    if not unit.options.check:  # with checks the other instructions are so much code that LLVM would take longer
        for k, product in unit.grids.items():
            size[k] -= len(product.instructions)  # these become loops
    repeated = sum(size[k] for part in split for k in part.blocks)
    return split if sum(size) <= _MOST_SPLIT and repeated <= 2 * sum(size) else [whole]


def _reached(blocks: list[Block], entry: int) -> list[int]:
    """Blocks that a warp may run between entering at `entry` and its next barrier, in order."""
    found, pending = {entry}, [entry]
    while pending:
        k = pending.pop()
        if not isinstance(blocks[k].terminator, Barrier):
            fresh = set(blocks[k].successors) - found
            found |= fresh
            pending += fresh
    return sorted(found)


_MOST_ENTRY_VECTORS = 128
"""Vectors that the optional entries of `full` may load in all: each entry makes every register that lives there
merge."""


def _entries(unit: Unit) -> set[int]:
    """Blocks at which a whole warp may enter `full`: the start, behind barriers, where it gave way to others, and where
    parted lanes meet again.

    The last two cost code for each register that is live there, so those with few come first and the rest do without:
    their warps stay in `masked` until the next entry.
    """
    blocks = unit.kernel.blocks
    entries = {0}
    meetings: set[int] = set()
    meeting = _immediate_post_dominators(blocks)
    for block in blocks:
        t = block.terminator
        if isinstance(t, Barrier | WarpBarrier) and not t.instruction.added:
            entries.add(t.target)
        parts = isinstance(t, Branch) and not unit.analysis.of(t.guard.register).uniform
        parts = parts or (isinstance(t, Switch) and isinstance(t.index, Register))
        if parts and (meet := meeting[block.index]) is not None:
            meetings.add(meet)

    in_matrices = frozenset(name for frame in unit.frames for name in frame.registers)

    def vectors(k: int) -> int:
        alone = blocks[k].live_in - in_matrices  # a matrix is gathered by a call, however many registers it has
        return sum(lanes_of(unit.analysis.of(name)) == WARP for name in alone)

    spent = 0
    for k in sorted((meetings | unit.spin_heads) - entries, key=lambda k: (vectors(k), k)):
        spent += vectors(k)
        if spent <= _MOST_ENTRY_VECTORS:
            entries.add(k)
    return entries


def _immediate_post_dominators(blocks: list[Block]) -> list[int | None]:
    """For every block the nearest block that all its paths pass (None: only the exit). Sets are bit masks."""
    count = len(blocks)
    exit_ = count
    everything = (1 << (count + 1)) - 1
    after = [everything] * count + [1 << exit_]
    changed = True
    while changed:
        changed = False
        for k in range(count - 1, -1, -1):
            common = everything
            for s in blocks[k].successors or (exit_,):
                common &= after[s]
            common |= 1 << k
            if common != after[k]:
                after[k], changed = common, True
    nearest: list[int | None] = []
    for k in range(count):
        passed = after[k] & ~(1 << k)
        best = next((c for c in _members(passed) if after[c] & passed == passed), None)  # passed before the others
        nearest.append(best if best != exit_ else None)
    return nearest


def _members(mask: int) -> Iterator[int]:
    """The numbers of a mask's bits, from the lowest."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
