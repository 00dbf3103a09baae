"""What a launch asks for, and what it leaves behind: counters, hazards and printed text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ptxsim.finding import Finding, Triple
from ptxsim.limits import WARP
from ptxsim.memory import Allocation


@dataclass(frozen=True)
class Terms:
    """What a launch asks for, checked: `params` is the kernel's parameter block, `shared_bytes` the dynamic memory."""

    grid: Triple
    block: Triple
    params: bytes
    shared_bytes: int = 0
    cluster: Triple = (1, 1, 1)
    """blocks of a cluster along each side"""
    cooperative: bool = False
    """whether all blocks are to be resident at once, so that they may wait for each other"""

    @cached_property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @cached_property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @cached_property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)


AUTO, FRUGAL, BRIEF, STENCILS, COMPILED = TIERS = ("auto", "frugal", "brief", "stencils", "compiled")
"""Which code a launch runs: `ptxsim.run.tiers` chooses."""


@dataclass(frozen=True)
class Manner:
    """How a launch is run, and what is looked for: `SimKernel.launch` says what each means."""

    check: bool
    count: bool
    threads: int | None
    parted: bool
    step_limit: int
    print_limit: int
    tensor_sums: str
    order: int | None
    handoffs: bool
    tier: str
    watch: Sequence[Allocation] | None
    most_looks: int | None


@dataclass(frozen=True)
class Handoff:
    """What a warp did that another waits for, or may have to: by barrier objects (mbarrier) in shared memory.

    `kind` is "copy" (a bulk copy that tells an object of its bytes), "arrive" and "wait" (at an object, to its end), or
    "multiply" (`wgmma`; no object). `place` is (block, offset) of the object, `phase` the one that is meant, from 1.
    """

    kind: str
    block: int
    warp: int
    line: int
    place: tuple[int, int] = (0, 0)
    phase: int = 0


@dataclass(frozen=True)
class Touched:
    """What a launch did to one of the allocations that it was to watch, `granule` bytes at a time.

    `accessed` in any way; `stored` to, or updated; `read_first`: read or updated, and by no thread stored to before.
    """

    address: int
    granule: int
    accessed: npt.NDArray[np.bool_]
    stored: npt.NDArray[np.bool_]
    read_first: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Reach:
    """The allocations that a launch may have read and written; others it has not.

    `settled`: what they hold, and nothing else, decides what it does, and it reads nothing that it writes. Done again
    while they hold the same, it does the same.
    """

    read: tuple[Allocation, ...] = ()
    written: tuple[Allocation, ...] = ()
    settled: bool = False


@dataclass(frozen=True)
class LaunchRecord:
    """Counters of a launch in total and by source line, its hazards, and what it printed.

    `notes` are findings that are no hazards: threads that store one value in one place.
    The names of counters are those of `ptxsim.counters.COUNTERS`; one that is not there is 0. Launches that did the
    same share their `counters` and `lines`: they are for reading.
    """

    counters: dict[str, int]
    lines: dict[int, dict[str, int]]
    hazards: tuple[Finding, ...]
    printed: str
    grid: Triple
    block: Triple
    notes: tuple[Finding, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    """in the order in which they were simulated, where somebody asked for them"""
    stored_to: tuple[str, ...] = ()
    """names of the allocations of which something was stored to or updated, with checks"""
    complete: bool = True
    """False where the launch was ended after too many accesses that went wrong: `hazards` has the first of each"""
    touched: tuple[Touched, ...] | None = None
    """in the place of `stored_to`, where a launch was to watch allocations and could"""
    reach: Reach = field(default=Reach(), compare=False, repr=False)
