"""Runs a kernel: each warp's lanes in min-PC order, until all have returned.

Warps that stand at the same basic block execute it together, those of several blocks too. Where the outcome may depend
on order (atomics, fences, printf), blocks run one after the other and each warp runs to its next barrier alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxsim.analysis.merging import shared_requests
from ptxsim.errors import KernelDeadlock, SimulationError, StepLimitExceeded
from ptxsim.memory import Memory
from ptxsim.oracle.counters import Counts
from ptxsim.oracle.lanes import TURNS, WARP, Lanes, Launch, State
from ptxsim.oracle.table import HANDLERS, Handler, unsupported
from ptxsim.syntax.program import Barrier, Block, Branch, Instruction, Jump, Kernel, Return, Switch, WarpBarrier

NOT_WAITING, AT_WARP_BARRIER = -1, -2
_FAR = 1 << 40
MOST_FAILED_WAITS = 10_000
MAX_ROWS = 64
"""Most warps that run side by side."""
Watch = Callable[[Lanes, Instruction], None]
"""Sees every instruction that some lanes are about to execute."""


@dataclass(frozen=True)
class OracleResult:
    """What a launch counted and printed. `counters` has plain names; `lines` the same by source line."""

    counters: dict[str, int]
    lines: dict[int, dict[str, int]]
    printed: str


def run(
    kernel: Kernel,
    memory: Memory,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    params: bytes,
    *,
    shared_bytes: int = 0,
    globals: dict[str, int] | None = None,
    step_limit: int | None = None,
    blocks: Sequence[int] | None = None,
    counts: Counts | None = None,
    watch: Watch | None = None,
    merged: bool = True,
) -> OracleResult:
    """Runs the blocks of a launch, all of them or those with the given linear numbers.

    `params` is the kernel's parameter block, `shared_bytes` the dynamic shared memory, `globals` the addresses in
    `memory` of the module's .global and .const variables. `step_limit` bounds the basic blocks that any one block of
    threads executes; more raises StepLimitExceeded. `watch` is called before each instruction. Shared loads count as
    machine code makes them, or, without `merged`, as the PTX has them. Raises UnsupportedInstruction and KernelTrap.
    """
    sizes = [tuple(s) + (1,) * (3 - len(s)) for s in (grid, block)]
    launch = Launch(
        kernel=kernel,
        memory=memory,
        grid=sizes[0],  # type: ignore[arg-type]
        block=sizes[1],  # type: ignore[arg-type]
        params=np.frombuffer(params.ljust(kernel.param_bytes, b"\0"), np.uint8),
        shared_bytes=shared_bytes,
        globals=globals or {},
        counts=counts or Counts(),
        shared_requests=shared_requests(kernel) if merged else {},
    )
    blocks = range(math.prod(launch.grid)) if blocks is None else blocks
    in_order = depends_on_order(kernel)
    warps = -(-math.prod(launch.block) // WARP)
    together = 1 if in_order or step_limit is not None else max(1, MAX_ROWS // warps)
    with np.errstate(all="ignore"):
        for first in range(0, len(blocks), together):
            side_by_side = blocks[first : first + together]
            _Run(launch, side_by_side, one_by_one=in_order, step_limit=step_limit, watch=watch).run()
    launch.count_instructions()
    launch.counts.totals["blocks"] += len(blocks)
    lines = {line: dict(names) for line, names in sorted(launch.counts.lines.items())}
    return OracleResult(dict(launch.counts.totals), lines, "".join(launch.printed))


_ORDERED = frozenset({"atom", "red", "membar", "fence", "mbarrier", "call"})


def depends_on_order(kernel: Kernel) -> bool:
    """Whether results may depend on which warp runs first: then warps run one at a time, as the simulator does.

    The simulator's own rule (`analysis.effects`) is about blocks alone: within a block its warps always run one after
    the other, barrier objects are the block's own, and what is printed it sorts by block. Here blocks would run side
    by side, and so would warps. This list is the oracle's own, and must hold whatever orders blocks there.
    """
    return any(i.opcode in _ORDERED or i.has("volatile") for b in kernel.blocks for i in b.instructions)


class _Run:
    """Some thread blocks on their way through the kernel, side by side."""

    def __init__(
        self, launch: Launch, blocks: Sequence[int], *, one_by_one: bool, step_limit: int | None, watch: Watch | None
    ) -> None:
        self.launch = launch
        self.watch = watch
        self.kernel = launch.kernel
        self.state = State(launch, blocks)
        self.steps_left = step_limit if step_limit is not None else -1
        self.one_by_one = one_by_one
        self.arrivals: dict[tuple[int, int], int] = {}
        """(block, named barrier) -> threads that have arrived there without waiting"""
        ends = [getattr(b.terminator, "instruction", None) for b in launch.kernel.blocks]
        self.reduces = any(i is not None and i.has("red") for i in ends)

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
            self.execute(self.kernel.blocks[here], Lanes(state, rows, turn == next_))

    def line_of(self, number: int) -> int:
        block = self.kernel.blocks[number]
        end = getattr(block.terminator, "instruction", None)
        if isinstance(block.terminator, Jump) and block.terminator.source.line:
            return block.terminator.source.line
        last = [*block.instructions, *([end] if end else [])][-1:]
        return last[0].source.line if last else 0

    def execute(self, block: Block, lanes: Lanes) -> None:
        warps, threads = int(lanes.mask.any(axis=1).sum()), int(lanes.mask.sum())
        self.launch.executed(block, warps, threads)
        for i in block.instructions:
            self.launch.clock += 1
            if self.watch:
                self.watch(lanes, i)
            if i.opcode in ("bar", "barrier"):
                self.pass_by(lanes, i)
            else:
                _handler(i)(lanes, i)
        end = getattr(block.terminator, "instruction", None)
        if self.watch and end is not None:
            self.watch(lanes, end)
        self.move_on(block, lanes)
        self.release_warp_barriers(lanes)

    # ---------------------------------------------------------------- where to go

    def move_on(self, block: Block, lanes: Lanes) -> None:
        """Gives the active lanes their next block."""
        state, mask = self.state, lanes.mask
        pc = state.pc[lanes.rows]
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
                members = np.broadcast_to(lanes.read(i.operands[0], "u32"), mask.shape)
                state.warp_mask[lanes.rows][mask] = members[mask]
                state.waits_at[lanes.rows][mask] = AT_WARP_BARRIER
                pc[mask] = target
            case Return():
                state.done[lanes.rows][mask] = True

    def count_divergence(self, i: Instruction, pc: np.ndarray, mask: np.ndarray) -> None:
        if not i.added:
            parted = [len(np.unique(row[m])) > 1 for row, m in zip(pc, mask, strict=True)]
            self.launch.counts.add("divergent_branches", i.source.line, sum(parted))

    # ---------------------------------------------------------------- barriers

    def arrive(self, lanes: Lanes, i: Instruction) -> None:
        """The active lanes begin to wait at a block barrier; those of bar.red bring their predicate."""
        state, mask, rows = self.state, lanes.mask, lanes.rows
        self.launch.counts.add("barriers", i.source.line, int(mask.any(axis=1).sum()))
        operands = list(i.operands)
        if i.has("red"):
            predicate = np.broadcast_to(lanes.read(operands.pop(), "pred"), mask.shape)
            state.brought[rows][mask] = predicate[mask]
            operands.pop(0)
        count = lanes.read(operands[1], "u32") if len(operands) > 1 else np.zeros((), np.uint32)
        state.waits_at[rows][mask] = np.broadcast_to(lanes.read(operands[0], "u32"), mask.shape)[mask]
        state.expected[rows][mask] = np.broadcast_to(count, mask.shape)[mask]
        state.waits_for[rows][mask] = i

    def pass_by(self, lanes: Lanes, i: Instruction) -> None:
        """bar.arrive: the warps are counted at a barrier and go on."""
        self.launch.counts.add("barriers", i.source.line, int(lanes.mask.any(axis=1).sum()))
        numbers = np.broadcast_to(lanes.read(i.operands[0], "u32"), lanes.mask.shape)
        for row in np.flatnonzero(lanes.mask.any(axis=1)):
            block = int(self.state.block_of_row[lanes.row_numbers[row, 0], 0])
            key = (block, int(numbers[row, np.argmax(lanes.mask[row])]))
            self.arrivals[key] = self.arrivals.get(key, 0) + WARP

    def wake(self) -> None:
        """Nobody can go on: those that gave way look again, or the barriers open at which all have come."""
        state = self.state
        if not state.gives_way.any():
            self.release_barriers()
            return
        if state.failed_waits > MOST_FAILED_WAITS:
            row, lane = np.argwhere(state.gives_way)[0]
            line = self.line_of(int(state.pc[row, lane]))
            raise KernelDeadlock(f"{state.place(row, lane)} waits at a barrier object for ever", line=line)
        state.gives_way[:] = False

    def release_barriers(self) -> None:
        """Opens every block barrier at which all expected threads wait; an exited thread is expected nowhere."""
        state = self.state
        opened = False
        for block in np.unique(state.block_of_row):
            own = state.block_of_row == block
            for number in np.unique(state.waits_at[own & (state.waits_at >= 0)]):
                members = own & (state.waits_at == number)
                expected = int(state.expected[members].max())
                if expected:
                    passed_by = self.arrivals.get((int(block), int(number)), 0)
                    complete = WARP * int(members.any(axis=1).sum()) + passed_by >= expected
                else:
                    complete = bool((members | state.done | ~own).all())
                if complete:
                    opened = True
                    self.arrivals.pop((int(block), int(number)), None)
                    self.open(members)
        if not opened:
            row, lane = np.argwhere(state.waits_at != NOT_WAITING)[0]
            i = state.waits_for[row, lane]
            raise SimulationError(
                f"{state.place(row, lane)} waits forever at a barrier", line=i.source.line if i else 0
            )

    def open(self, members: np.ndarray) -> None:
        """Lets the threads of a barrier go on; threads at a bar.red get the reduction of what all brought."""
        state = self.state
        state.waits_at[members] = NOT_WAITING
        if not self.reduces:
            return
        reducing = [i for i in dict.fromkeys(state.waits_for[members]) if i.has("red")]
        taking_part = members & np.array([[i is not None and i.has("red") for i in row] for row in state.waits_for])
        for i in reducing:
            brought = state.brought[taking_part]
            if i.has("popc"):
                result, type_name = np.uint32(brought.sum()), "u32"
            else:
                result, type_name = brought.all() if i.has("and") else brought.any(), "pred"
            receivers = members & np.array([[other == i for other in row] for row in state.waits_for])
            Lanes(state, slice(None), receivers).write(i.operands[0], np.broadcast_to(result, members.shape), type_name)

    def release_warp_barriers(self, lanes: Lanes) -> None:
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


def _handler(i: Instruction) -> Handler:
    name = f"{i.opcode}.cc" if i.has("cc") and i.opcode in ("add", "sub", "mad") else i.opcode
    found = HANDLERS.get(name)
    if found is None:
        raise unsupported(i)
    return found
