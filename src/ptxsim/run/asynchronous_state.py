"""What is known of a cluster's blocks where work goes on beside their threads: clocks, pieces of work, who used what.

`asynchronous` says what happens and what is wrong; nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxsim.codegen import layout as L
from ptxsim.run.operands import GRANULE_LOG2

CLOCKS = 512
"""Most clocks of a cluster; what has none is not followed."""
Numbers = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]
WORD_LOG2 = 2
_OFFSET = (1 << L.CLUSTER_WINDOW_SHIFT) - 1


@dataclass(frozen=True)
class Work:
    """Something that is over when its clock has come to `until`."""

    clock: int
    until: int
    site: int
    swizzle: int = -1
    """of a tile that a bulk copy stores; -1 where there is none to speak of"""
    adds: bool = False
    """whether it is a reduction: several into one place are atomic"""


@dataclass
class BarrierObject:
    """What an mbarrier passes on: what those knew that arrive in this phase, and what is known to all behind it."""

    clock: int
    arriving: Numbers
    given: Numbers
    announced: int = 0
    """bytes for which this phase waits"""
    came: int = 0


@dataclass(frozen=True)
class Visit:
    """Another block's shared memory is used."""

    work: Work
    block: int
    warp: int
    lane: int
    address: int


class Words:
    """Who was last to write each word of a block's shared memory, and of each warp of the cluster when it last read or
    updated it."""

    def __init__(self, count: int) -> None:
        self.touched = np.zeros(count, np.bool_)
        """what somebody has written or updated"""
        self.written = np.zeros(count, np.int32)
        self.by_warps: dict[int, dict[int, npt.NDArray[np.int32]]] = {L.READ: {}, L.ATOMIC: {}}
        """by what they did, and the clock of a warp"""


class Granules:
    """Who was last to do what to each granule of a block's shared memory: numbers of pieces of work, 0 for nobody."""

    def __init__(self, nbytes: int) -> None:
        count = (nbytes >> GRANULE_LOG2) + 2
        self.copied = np.zeros(count, np.int32)
        self.stored = np.zeros(count, np.int32)
        self.readers: dict[int, npt.NDArray[np.int32]] = {}
        """by who reads: a warp, a warpgroup's products, bulk stores"""
        self._words: Words | None = None
        self.sent: dict[int, int] = {}
        """word -> the last value of less than a granule that was sent there (st.async), beside what others use"""

    def words(self, log2: int) -> Words:
        """The same for pieces of 2^log2 bytes, and all threads."""
        if self._words is None:
            self._words = Words(len(self.copied) << GRANULE_LOG2 - log2)
        return self._words

    def reading(self, who: int) -> npt.NDArray[np.int32]:
        found = self.readers.get(who)
        return found if found is not None else self.readers.setdefault(who, np.zeros_like(self.copied))


@dataclass(frozen=True)
class ProductReads:
    """What a product of a warpgroup reads in shared memory."""

    asked: tuple[int, ...]
    """the product of the code, and its descriptors"""
    offset: int
    """where its first operand lies"""
    copied: tuple[int, ...]
    stored: tuple[int, ...]
    """numbers of the copies and stores that wrote it"""


@dataclass
class Resident:
    """A block that runs: its memory, and how far its own clocks have come."""

    granules: Granules
    steps: list[int]
    """of each warp: the stretch it is in"""
    products: dict[int, int] = field(default_factory=dict)
    """warp -> groups of products committed"""
    begun: dict[int, int] = field(default_factory=dict)
    """warp -> products begun"""
    fenced: set[int] = field(default_factory=set)
    """warps that have executed wgmma.fence since their last product"""
    operands: dict[tuple[int, int], ProductReads] = field(default_factory=dict)
    """(warpgroup, number of a product) -> what it reads: the first of its warps looks it up"""
    stores: dict[int, int] = field(default_factory=dict)
    """warp -> groups of bulk stores committed"""
    copies: dict[int, int] = field(default_factory=dict)
    """warp -> groups of cp.async committed"""
    sums: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(warp, product of the code) -> when it last ran, and its group"""


class Cluster:
    """The blocks that can name each other's shared memory, and what their warps know."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.clocks: dict[tuple[str, int, int], int] = {}
        self.now = np.zeros(CLOCKS, np.uint32)
        self.known = np.zeros((2, blocks, warps, CLOCKS), np.uint32)
        """[known or fenced, rank, warp, clock]"""
        self.objects: dict[tuple[int, int], BarrierObject] = {}
        self.visits: dict[int, dict[tuple[int, int, int], Visit]] = {}
        """rank of a block -> (block, warp, site) of who used its memory -> the last time"""
        self.came: dict[tuple[int, int], Numbers] = {}
        """(rank, barrier) -> what those knew that came and did not wait"""
        self.residents: dict[int, Resident] = {}
        self.work = [Work(0, 0, 0)]
        self.numbers: dict[Work, int] = {}
        self.blamed: set[Work] = set()
        """of which something was wrong already"""
        self.of_warps: dict[int, int] = {}
        """clocks of what warps do themselves -> rank of the warp's block"""

    def clock(self, kind: str, rank: int, number: int) -> int:
        """The clock of something; CLOCKS where there are too many."""
        found = self.clocks.setdefault((kind, rank, number), min(len(self.clocks), CLOCKS - 1))
        if kind == "warp":
            self.of_warps[found] = rank
        return found

    def object(self, rank: int, offset: int) -> BarrierObject:
        found = self.objects.get((rank, offset))
        if found is None:
            nothing = np.zeros((2, CLOCKS), np.uint32)
            found = BarrierObject(self.clock("object", rank, offset), nothing, nothing.copy())
            self.objects[rank, offset] = found
        return found

    def note(self, work: Work) -> int:
        """Its number."""
        found = self.numbers.setdefault(work, len(self.work))
        if found == len(self.work):
            self.work.append(work)
        return found


def target(address: int, own: int) -> tuple[int, int]:
    """(rank, offset) of a 32-bit address in shared memory of the cluster; `own` is the rank of who names it."""
    block = address >> L.CLUSTER_WINDOW_SHIFT
    return (block - 1 if block else own), address & _OFFSET


def targets(addresses: npt.NDArray[np.int32], own: int) -> tuple[Offsets, Offsets]:
    """Ranks and offsets of several."""
    block = addresses.astype(np.int64) >> L.CLUSTER_WINDOW_SHIFT
    return np.where(block, block - 1, own), addresses.astype(np.int64) & _OFFSET


def numbers_in(part: npt.NDArray[np.int32]) -> tuple[int, ...]:
    """The pieces of work in a part of memory, where neighbours mostly belong to the same."""
    if not len(part):
        return ()
    (others,) = (part[1:] != part[:-1]).nonzero()
    if not len(others):
        return (int(part[0]),) if part[0] else ()
    return tuple(sorted({int(part[0]), *part[others + 1].tolist()} - {0}))
