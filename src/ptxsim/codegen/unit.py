"""What the functions of one translated kernel share: the kernel, what was found out about it, and what they collect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ptxsim.analysis.lanes import LaneAnalysis
from ptxsim.analysis.merging import Request
from ptxsim.codegen import layout as L
from ptxsim.codegen.frames import Frame
from ptxsim.codegen.plan import AccessSite, CounterPlan
from ptxsim.syntax.program import Instruction, Kernel


@dataclass(frozen=True)
class Options:
    """What translated code does besides computing."""

    check: bool = True
    count: bool = True
    exact: bool = False
    """with the exact race shadow: slow, for a launch that met a race"""
    parted: bool = False
    """run every warp in `masked` from start to end: for testing it"""


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
    named: bool = False
    """whether barriers have names or counts, so that only some warps may wait for each other"""
    spin_heads: frozenset[int] = frozenset()
    """heads of loops that may wait for another thread"""
    optimistic: frozenset[int] = frozenset()
    """identities of loads that only guess what a compare-and-swap will find"""
    shared_requests: Mapping[int, tuple[Request, ...]] = field(default_factory=dict)
    """identities of shared loads -> what the machine code asks for in their place, where that is something else"""
    copies_async: bool = False
    """whether the kernel uses cp.async, so that warps need queues"""
    barrier_objects: bool = False
    """whether the kernel uses mbarrier, so that copies may land when nobody of their warp waits"""
    library: dict[str, str] = field(default_factory=dict)
    """functions for tensor cores that this kernel calls, by name: IR text; they are compiled apart from it"""
    frames: tuple[Frame, ...] = ()
    """lists of registers that `full` keeps as matrices"""
    long: bool = False
    """whether registers live in memory between blocks"""
    wide_vectors: bool = True
    """whether the host has 32 vector registers of 64 bytes"""
    symbol_slots: dict[str, int] = field(default_factory=dict)
    """module variable -> offset of its address behind the kernel's parameters"""

    @cached_property
    def reads_sums(self) -> bool:
        """Whether the kernel loads accumulators from global memory: what it stores may be read again soon."""
        loads = (i for b in self.kernel.blocks for i in b.instructions if i.opcode == "wmma" and i.has("load"))
        return any(i.has("c") and i.space != "shared" for i in loads)

    def access(self, space: str) -> str:
        """Name of the function that accounts for an access of shared or global memory."""
        granule = self.shared_granule_log2 if space == "shared" else self.global_granule_log2
        return f"ws_{'exact_' if self.options.exact else ''}access_{space}_{granule}"

    def site(self, instruction: Instruction, space: str, access: str) -> int:
        self.sites.append(AccessSite(instruction.source.line, space, access))
        return len(self.sites) - 1


def thread_count(block: tuple[int, int, int]) -> int:
    return block[0] * block[1] * block[2]
