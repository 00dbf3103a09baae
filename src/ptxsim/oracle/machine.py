"""Runs a kernel: each warp's lanes in min-PC order, until all have returned.

Warps that stand at the same basic block execute it together, those of several blocks too. Where the outcome may depend
on order (atomics, fences, printf), blocks run one after the other and each warp runs to its next barrier alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from ptxsim.analysis.effects import memory_spins
from ptxsim.analysis.merging import shared_requests
from ptxsim.errors import EndlessWait, KernelDeadlock, SimulationError, StepLimitExceeded
from ptxsim.limits import WARP
from ptxsim.memory import Memory
from ptxsim.module import Parameters, Shape, SimKernel
from ptxsim.oracle.counters import Counts
from ptxsim.oracle.lanes import TURNS, ActiveLanes, Blocks, ThreadState, first_of, handler_of
from ptxsim.oracle.stall import Stall
from ptxsim.record import Terms
from ptxsim.syntax.program import (
    Barrier,
    Block,
    Branch,
    Immediate,
    Instruction,
    Jump,
    Kernel,
    Return,
    Switch,
    WarpBarrier,
    source_name,
)

NOT_WAITING, AT_WARP_BARRIER, AT_CLUSTER_BARRIER = -1, -2, -3
OF_WARPGROUP = 16
"""Numbers of barriers from here on are those of warpgroups."""
_FAR = 1 << 40
MOST_FAILED_WAITS = 10_000
MAX_ROWS = 64
"""Most warps that run side by side."""
MAX_RESIDENT, MAX_WAITING = 264, 1024
"""Most blocks that are there where they may wait for each other, and most warps of theirs."""
_PATIENCE, _NO_PATIENCE = 100, 8
"""Turns of a loop after which a thread that may wait for another gives way: at first, and once all have waited."""
_REDUCTIONS: dict[str, Callable[..., Any]] = {"popc": np.sum, "and": np.all, "or": np.any}
"""Those of bar.red."""
Watch = Callable[[ActiveLanes, Instruction], None]
"""Sees every instruction that some lanes are about to execute."""


@dataclass(frozen=True)
class OracleResult:
    """What a launch counted and printed. `counters` has plain names; `lines` the same by source line."""

    counters: dict[str, int]
    lines: dict[int, dict[str, int]]
    printed: str


def run(
    kernel: SimKernel,
    grid: Shape,
    block: Shape,
    params: Parameters,
    memory: Memory,
    *,
    shared_bytes: int = 0,
    step_limit: int | None = None,
    blocks: Sequence[int] | None = None,
) -> OracleResult:
    """Runs the blocks of a launch, all of them or those with the given linear numbers; see `SimKernel.launch`.

    `step_limit` bounds the basic blocks that any one block of threads executes; more raises StepLimitExceeded.
    Raises LaunchError, UnsupportedInstruction, KernelTrap and KernelDeadlock.
    """
    terms = kernel.terms(grid, block, params, shared_bytes)
    numbers = range(terms.blocks) if blocks is None else blocks
    return _run(kernel, terms, memory, numbers, Counts(), step_limit=step_limit)


def _run(
    kernel: SimKernel, terms: Terms, memory: Memory, blocks: Sequence[int], counts: Counts, *, step_limit: int | None,
    watch: Watch | None = None, merged: bool = True,
) -> OracleResult:  # fmt: skip
    """Shared loads count as machine code makes them, or, without `merged`, as the PTX has them."""
    addresses = {name: allocation.address for name, allocation in kernel.module.place(memory).items()}
    requests = shared_requests(kernel.body) if merged else {}
    launch = Blocks(kernel.body, terms, memory, addresses, counts, requests)
    in_order = depends_on_order(kernel.body)
    cluster = math.prod(terms.cluster)
    spins = memory_spins(kernel.body) if in_order else {}
    most = min(MAX_RESIDENT, MAX_WAITING // terms.warps) if spins else 1 if in_order else MAX_ROWS // terms.warps
    together = 1 if step_limit is not None else max(1, most // cluster)
    together *= cluster
    blocks = _by_cluster(terms, blocks)
    with np.errstate(all="ignore"):
        for first in range(0, len(blocks), together):
            side_by_side = blocks[first : first + together]
            _Scheduler(launch, side_by_side, one_by_one=in_order, spins=spins, step_limit=step_limit, watch=watch).run()
    launch.count_instructions()
    counts.totals["blocks"] += len(blocks)
    lines = {line: dict(names) for line, names in sorted(counts.lines.items())}
    printed = "".join(text for _, text in sorted(launch.printed, key=itemgetter(0)))
    return OracleResult(dict(counts.totals), lines, printed)


def _by_cluster(terms: Terms, blocks: Sequence[int]) -> Sequence[int]:
    """The blocks with those of a cluster one behind the other, by rank; of a cluster come all or none."""
    if terms.cluster == (1, 1, 1):
        return blocks

    def place(number: int) -> tuple[int, ...]:
        x, y, _ = terms.grid
        at = number % x, number // x % y, number // (x * y)
        outer = [a // side for a, side in zip(at, terms.cluster, strict=True)]
        inner = [a % side for a, side in zip(at, terms.cluster, strict=True)]
        return *reversed(outer), *reversed(inner)

    groups = {place(number)[:3] for number in blocks}
    return [n for n in sorted(range(terms.blocks), key=place) if place(n)[:3] in groups]


# ---------------------------------------------------------------- with somebody watching


@dataclass(frozen=True, eq=False)
class MemoryRequest:
    """One request: what the lanes of a warp load or store together.

    `kind` is "load", "store", or "copy" for what a cp.async reads. `offsets`: int64 of shape (32,), each lane's byte
    offset in `array`, -1 for a lane that takes no part. `nbytes` is the width per lane, `start` the place of the array
    in its block's shared memory (0 for global arrays).
    """

    kernel: str
    line: int
    space: str
    kind: str
    array: str
    nbytes: int
    warp: int
    start: int
    offsets: np.ndarray


class BlockState:
    """A block of threads while it runs: views of what is there now."""

    def __init__(self, state: ThreadState) -> None:
        self.registers = state.registers
        """name -> raw bits, shape (warps, 32)"""
        self.shared = state.shared[0]
        """bytes of shared memory"""
        self.local = state.local.reshape(*state.shape, state.local.shape[1])
        """bytes of local memory, shape (warps, 32, bytes)"""
        self.at = state.pc
        """the basic block at which each lane stands, shape (warps, 32)"""
        self.returned = state.done
        """lanes that have returned, shape (warps, 32)"""


class Watcher:
    """Hears what a block does; override what you want to hear. An exception ends the run."""

    def step(self, state: BlockState, instruction: Instruction, active: np.ndarray) -> None:
        """The lanes `active`, bool of shape (warps, 32), are about to execute an instruction."""

    def request(self, request: MemoryRequest) -> None:
        """A warp asks for global or shared memory."""

    def local_store(self, warp: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        """Lanes `active` of a warp write `size` bytes at `address` of their own memory, both of shape (32,)."""


def trace(
    kernel: SimKernel,
    grid: Shape,
    block: Shape,
    params: Parameters,
    memory: Memory,
    watcher: Watcher,
    *,
    number: int = 0,
    shared_bytes: int = 0,
    step_limit: int | None = None,
    count: bool = True,
) -> OracleResult:
    """Runs one block of a launch, that with the linear `number`, and tells a watcher what it does.

    Requests are those of machine code, which loads neighbours in shared memory together; without `count` they are those
    of the PTX, and what they cost is not counted. Raises what `oracle.run` raises, and what the watcher does.
    """
    told = _Told(kernel, memory, watcher, count=count)
    terms = kernel.terms(grid, block, params, shared_bytes)
    return _run(kernel, terms, memory, (number,), told, step_limit=step_limit, watch=told.watch, merged=count)


class _Told(Counts):
    """Counts, and tells a watcher."""

    def __init__(self, kernel: SimKernel, memory: Memory, watcher: Watcher, *, count: bool) -> None:
        super().__init__()
        self.kernel, self.memory, self.watcher, self.count = kernel, memory, watcher, count
        self.state: BlockState | None = None
        self.warps: np.ndarray = np.zeros(0, int)
        """numbers of the warps that execute the current instruction together"""

    def watch(self, lanes: ActiveLanes, i: Instruction) -> None:
        self.state = self.state or BlockState(lanes.state)
        self.warps = lanes.row_numbers[:, 0]
        active = np.zeros(lanes.state.shape, np.bool_)
        active[lanes.rows] = lanes.mask
        self.watcher.step(self.state, i, active)

    def global_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        if self.count:
            super().global_access(kind, line, address, active, size)
        self.tell("global", kind, line, address, active, size)

    def shared_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        if self.count:
            super().shared_access(kind, line, address, active, size)
        self.tell("shared", kind, line, address, active, size)

    def local_access(self, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        if self.count:
            super().local_access(kind, line, address, active, size)
        for row in np.flatnonzero(active.any(axis=1)) if kind == "store" else ():
            self.watcher.local_store(int(self.warps[row]), address[row].astype(np.int64), active[row], size)

    def async_access(
        self, line: int, address: np.ndarray, to: np.ndarray, reading: np.ndarray, active: np.ndarray, size: int,
        *, past_l1: bool,
    ) -> None:  # fmt: skip
        if self.count:
            super().async_access(line, address, to, reading, active, size, past_l1=past_l1)
        self.tell("global", "copy", line, address, reading, size)

    def tell(self, space: str, kind: str, line: int, address: np.ndarray, active: np.ndarray, size: int) -> None:
        for row in np.flatnonzero(active.any(axis=1)):
            places, mask = address[row].astype(np.int64), active[row]
            array, start = self.array_at(space, int(places[mask][0]))
            offsets, warp = np.where(mask, places - start, -1), int(self.warps[row])
            inside = start if space == "shared" else 0
            self.watcher.request(MemoryRequest(self.kernel.name, line, space, kind, array, size, warp, inside, offsets))

    def array_at(self, space: str, address: int) -> tuple[str, int]:
        """The array at an address, or the one next to it, and the address of its first byte."""
        if space == "global":
            allocation = self.memory.find(address) or self.memory.nearest(address)
            return (allocation.name, allocation.address) if allocation else ("global memory", 0)
        for variable in self.kernel.body.variables.values():
            end = variable.offset + variable.size_bytes
            if variable.space == "shared" and (variable.offset <= address < end or variable.external):
                return source_name(variable.name), variable.offset
        return "shared memory", 0


# ---------------------------------------------------------------- the machine


_ORDERED = frozenset({"atom", "red", "membar", "fence", "mbarrier", "call"})
_SEEN_OUTSIDE = frozenset({"volatile", "gpu", "sys"})
"""Modifiers of accesses that other blocks may look out for."""


def depends_on_order(kernel: Kernel) -> bool:
    """Whether results may depend on which warp runs first: then warps run one at a time, as the simulator does.

    The simulator's own rule (`analysis.effects`) is about blocks alone: within a block its warps always run one after
    the other, barrier objects are the block's own, and what is printed it sorts by block. Here blocks would run side
    by side, and so would warps. This list is the oracle's own, and must hold whatever orders blocks there.
    """
    return any(
        i.opcode in _ORDERED or not _SEEN_OUTSIDE.isdisjoint(i.modifiers) for b in kernel.blocks for i in b.instructions
    )


class _Scheduler:
    """Some thread blocks on their way through the kernel, side by side."""

    def __init__(
        self, launch: Blocks, blocks: Sequence[int], *, one_by_one: bool, spins: Mapping[int, Collection[int]],
        step_limit: int | None, watch: Watch | None,
    ) -> None:  # fmt: skip
        self.launch = launch
        self.watch = watch
        self.kernel = launch.kernel
        self.state = ThreadState(launch, blocks)
        self.steps_left = step_limit if step_limit is not None else -1
        self.one_by_one = one_by_one
        self.spins = spins
        self.stall = Stall(self.state, self.spins)
        self.passes: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (-1, 0))
        """row -> in which loop of `spins` it is, by its head, and how often it has gone back there"""

    def run(self) -> None:
        state = self.state
        while not state.done.all():
            runnable = ~state.done & (state.waits_at == NOT_WAITING) & ~state.gives_way
            if not runnable.any():
                self.wake()
                continue
            rows = slice(None)
            if self.one_by_one:
                first = int(np.argmax(runnable.any(axis=1)))
                rows = slice(first, first + 1)
            turn = np.where(runnable, state.turns(), _FAR)[rows]
            next_ = int(turn.min())
            here = next_ % TURNS
            if self.steps_left == 0:
                at = np.argwhere(runnable)[0]
                raise StepLimitExceeded(f"{state.place(*at)} ran too long", line=self.line_of(here))
            self.steps_left -= 1
            self.execute(self.kernel.blocks[here], ActiveLanes(state, rows, turn == next_))

    def line_of(self, number: int) -> int:
        block = self.kernel.blocks[number]
        if isinstance(block.terminator, Jump) and block.terminator.source.line:
            return block.terminator.source.line
        return block.executed[-1].source.line if block.executed else 0

    def execute(self, block: Block, lanes: ActiveLanes) -> None:
        self.launch.runs[block.index] += (lanes.busy.sum(), lanes.mask.sum())
        for i in block.instructions:
            self.launch.clock += 1
            if self.watch:
                self.watch(lanes, i)
            handler_of(i)(lanes, i)
        end = getattr(block.terminator, "instruction", None)
        if self.watch and end is not None:
            self.watch(lanes, end)
        self.move_on(block, lanes)
        self.release_warp_barriers(lanes)

    # ---------------------------------------------------------------- where to go

    def move_on(self, block: Block, lanes: ActiveLanes) -> None:
        """Gives the active lanes their next block."""
        pc = self.state.pc[lanes.rows]
        self.go_on(block, lanes, pc)
        if self.spins:
            self.give_way(block, lanes, pc)
            self.stall.note_leaving(block, pc[lanes.mask])

    def give_way(self, block: Block, lanes: ActiveLanes, pc: np.ndarray) -> None:
        """Lanes that have gone back to look for what others do for long let those run first."""
        row = int(lanes.row_numbers[0, 0])
        if block.index not in self.spins.get(self.passes[row][0], ()):
            self.passes[row] = -1, 0
        back = lanes.mask & (pc <= block.index) & np.isin(pc, [*self.spins]) & ~self.state.done[lanes.rows]
        if not back.any():
            return
        head, passes = self.passes[row]
        passes = passes + 1 if head == pc[back][0] else 0
        if passes >= (_NO_PATIENCE if self.stall.seen else _PATIENCE):
            self.state.gives_way[lanes.rows] |= back
            passes = 0
        self.passes[row] = int(pc[back][0]), passes

    def go_on(self, block: Block, lanes: ActiveLanes, pc: np.ndarray) -> None:
        """Writes the active lanes' next block to `pc`."""
        state, mask = self.state, lanes.mask
        match block.terminator:
            case Jump(target):
                pc[mask] = target
            case Branch(guard, taken, fallthrough, i):
                holds = state.registers[guard.register][lanes.rows] != guard.negated
                pc[mask] = np.where(holds, taken, fallthrough)[mask]
                self.count_divergence(i, pc, mask)
            case Switch(index, targets, i):
                chosen = np.minimum(lanes.read(index, "u32"), len(targets) - 1)
                pc[mask] = np.broadcast_to(np.array(targets)[chosen], pc.shape)[mask]
                self.count_divergence(i, pc, mask)
            case Barrier(target, i):
                self.arrive(lanes, i)
                pc[mask] = target
            case WarpBarrier(target, i):
                np.copyto(state.warp_mask[lanes.rows], lanes.read(i.operands[0], "u32"), where=mask)
                state.waits_at[lanes.rows][mask] = AT_WARP_BARRIER
                pc[mask] = target
            case Return():
                state.done[lanes.rows][mask] = True

    def count_divergence(self, i: Instruction, pc: np.ndarray, mask: np.ndarray) -> None:
        if not i.added:
            parted = np.where(mask, pc, -1).max(axis=1) > np.where(mask, pc, _FAR).min(axis=1)
            self.launch.counts.add("divergent_branches", i.source.line, parted.sum())

    # ---------------------------------------------------------------- barriers

    def arrive(self, lanes: ActiveLanes, i: Instruction) -> None:
        """The active lanes begin to wait at a block barrier; those of bar.red bring their predicate."""
        state, mask, rows = self.state, lanes.mask, lanes.rows
        if not i.has("cluster") and i.opcode != "wgmma":
            self.launch.counts.add("barriers", i.source.line, lanes.busy.sum())
        if i.has("cluster"):
            state.waits_at[rows][mask] = AT_CLUSTER_BARRIER
            state.waits_for[rows][mask] = i
            return
        operands = list(i.operands)
        if i.opcode == "wgmma":  # the four warps of a warpgroup go on together
            warps = np.broadcast_to(lanes.row_numbers % state.warps // 4, mask.shape)
            np.copyto(state.waits_at[rows], OF_WARPGROUP + warps, where=mask)
            np.copyto(state.expected[rows], 4 * WARP, where=mask)
            state.waits_for[rows][mask] = i
            return
        if i.has("red"):
            np.copyto(state.brought[rows], lanes.read(operands.pop(), "pred"), where=mask)
            operands.pop(0)
        number, count = (*operands, Immediate(0))[:2]
        np.copyto(state.waits_at[rows], lanes.read(number, "u32"), where=mask)
        np.copyto(state.expected[rows], lanes.read(count, "u32"), where=mask)
        state.waits_for[rows][mask] = i

    def wake(self) -> None:
        """Nobody can go on: the barriers open at which all have come, or those that gave way look again."""
        state = self.state
        if self.release_barriers():
            self.stall.changed = True
            return
        if not state.gives_way.any():
            row, lane = np.argwhere(state.waits_at != NOT_WAITING)[0]
            i = state.waits_for[row, lane]
            raise SimulationError(
                f"{state.place(row, lane)} waits forever at a barrier", line=i.source.line if i else 0
            )
        if (found := self.stall.repeats(self.passes)) is not None:
            row, lane, head = found
            back = (b.index for b in self.kernel.blocks if head <= b.index and head in b.successors)
            line = next((line for line in map(self.line_of, back) if line), 0)
            raise EndlessWait(
                f"deadlock: {state.place(row, lane)} waits in this loop for ever, and no thread that is left will "
                "change what it looks at", line=line, is_certain=True,
            )  # fmt: skip
        if state.failed_waits > MOST_FAILED_WAITS:
            row, lane = np.argwhere(state.gives_way)[0]
            line = self.line_of(int(state.pc[row, lane]))
            raise KernelDeadlock(f"{state.place(row, lane)} waits at a barrier object for ever", line=line)
        state.gives_way[:] = False

    def release_cluster_barriers(self) -> bool:
        """Opens the clusters' barriers at which all threads have come that are left."""
        state = self.state
        opened = False
        for cluster in np.unique(state.cluster_of_row):
            own = state.cluster_of_row == cluster
            arrived = state.cluster_arrivals[int(cluster)]
            if arrived and arrived >= int((own & ~state.done).sum()):
                state.cluster_arrivals[int(cluster)] = 0
                state.cluster_phase[cluster] += 1
            phase = state.cluster_phase[cluster]
            free = own & (state.waits_at == AT_CLUSTER_BARRIER) & (state.arrived_in < phase)
            opened |= bool(free.any())
            state.waits_at[free] = NOT_WAITING
        return opened

    def release_barriers(self) -> bool:
        """Opens every block barrier at which all expected threads wait; an exited thread is expected nowhere.

        Whether there was one.
        """
        state = self.state
        opened = self.release_cluster_barriers()
        for block in np.unique(state.block_of_row):
            own = state.block_of_row == block
            for number in np.unique(state.waits_at[own & (state.waits_at >= 0)]):
                members = own & (state.waits_at == number)
                expected = int(state.expected[members].max())
                arrived = WARP * int(members.any(axis=1).sum()) + state.arrivals[int(block), int(number)]
                complete = arrived >= expected if expected else (members | state.done | ~own).all()
                if complete:
                    opened = True
                    del state.arrivals[int(block), int(number)]
                    self.open(members)
        return opened

    def open(self, members: np.ndarray) -> None:
        """Lets the threads of a barrier go on; threads at a bar.red get the reduction of what all brought."""
        state = self.state
        state.waits_at[members] = NOT_WAITING
        waited = {id(i): i for i in state.waits_for[members]}.values()
        receivers = {i: members & (state.waits_for == i) for i in waited if i.has("red")}
        for i, mask in receivers.items():
            reduction = _REDUCTIONS[first_of(i, *_REDUCTIONS) or ""]
            result = reduction(state.brought[np.logical_or.reduce([*receivers.values()])])
            lanes = ActiveLanes(state, slice(None), mask)
            lanes.write(i.operands[0], np.array([[result]]), "u32" if i.has("popc") else "pred")

    def release_warp_barriers(self, lanes: ActiveLanes) -> None:
        """Lets lanes go on whose mask's lanes all wait at a warp barrier with that mask (or have exited)."""
        waits = self.state.waits_at[lanes.rows]
        if not (waits == AT_WARP_BARRIER).any():
            return
        there, done = waits == AT_WARP_BARRIER, self.state.done[lanes.rows]
        masks = self.state.warp_mask[lanes.rows].astype(np.int64)
        for row in range(len(waits)):
            for mask in np.unique(masks[row, there[row]]):
                same = there[row] & (masks[row] == mask)
                arrived = sum(1 << lane for lane in range(WARP) if same[lane] or done[row, lane])
                if int(mask) & ~arrived == 0:
                    waits[row, same] = NOT_WAITING
