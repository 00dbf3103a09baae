"""Runs a kernel: block after block, each warp's lanes in min-PC order, until all have returned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import SimulationError, StepLimitExceeded
from ..memory import Memory
from ..program import (
    Barrier,
    Block,
    Branch,
    Instruction,
    Jump,
    Kernel,
    Return,
    Switch,
    WarpBarrier,
    bytes_of,
)
from .counters import Counts
from .lanes import BlockState, Lanes, Launch, Size
from .table import HANDLERS, unsupported

NOT_WAITING, AT_WARP_BARRIER = -1, -2
_FAR = 1 << 40


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
) -> OracleResult:
    """Runs all blocks of a launch in order.

    `params` is the kernel's parameter block, `shared_bytes` the dynamic shared memory, `globals` the addresses in
    `memory` of the module's .global and .const variables. `step_limit` bounds the basic blocks that any one block of
    threads executes; more raises StepLimitExceeded. Raises UnsupportedInstruction and KernelTrap.
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
        counts=Counts(),
    )
    x, y, z = sizes[0]
    with np.errstate(all="ignore"):
        for number in range(x * y * z):
            _BlockRun(launch, (number % x, number // x % y, number // (x * y)), step_limit).run()
    launch.counts.totals["blocks"] += x * y * z
    lines = {line: dict(names) for line, names in sorted(launch.counts.lines.items())}
    return OracleResult(dict(launch.counts.totals), lines, "".join(launch.printed))


def _depends_on_order(kernel: Kernel) -> bool:
    """Whether results may depend on which warp runs first: then warps run one at a time, as the simulator does."""
    ordered = ("atom", "red", "membar", "fence", "call")
    return any(i.opcode in ordered or i.has("volatile") for b in kernel.blocks for i in b.instructions)


class _BlockRun:
    """One thread block on its way through the kernel."""

    def __init__(self, launch: Launch, index: Size, step_limit: int | None) -> None:
        self.launch = launch
        self.kernel = launch.kernel
        self.state = BlockState(launch, index)
        self.steps_left = step_limit if step_limit is not None else -1
        self.one_by_one = _depends_on_order(launch.kernel)

    def run(self) -> None:
        state = self.state
        while not state.done.all():
            runnable = ~state.done & (state.waits_at == NOT_WAITING)
            if not runnable.any():
                self.release_barriers()
                continue
            rows = slice(None)
            if self.one_by_one:
                first = int(np.argmax(runnable.any(axis=1)))
                rows = slice(first, first + 1)
            pc = np.where(runnable, state.pc, _FAR)[rows]
            here = int(pc.min())
            if self.steps_left == 0:
                raise StepLimitExceeded(f"block {state.index} ran too long", line=self.line_of(here))
            self.steps_left -= 1
            self.execute(self.kernel.blocks[here], Lanes(state, rows, pc == here))

    def line_of(self, number: int) -> int:
        block = self.kernel.blocks[number]
        last = getattr(block.terminator, "instruction", None) or (block.instructions or [None])[-1]
        return last.source.line if last else 0

    def execute(self, block: Block, lanes: Lanes) -> None:
        warps, threads = int(lanes.mask.any(axis=1).sum()), int(lanes.mask.sum())
        counts = self.launch.counts
        for i in block.instructions:
            counts.instruction(i, warps, threads)
            self.launch.clock += 1
            _handler(i)(lanes, i)
        end = getattr(block.terminator, "instruction", None)
        if end is not None and not end.has("skip"):
            counts.instruction(end, warps, threads)
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
        if not i.has("skip"):
            parted = [len(np.unique(row[m])) > 1 for row, m in zip(pc, mask, strict=True)]
            self.launch.counts.add("divergent_branches", i.source.line, sum(parted))

    # ---------------------------------------------------------------- barriers

    def arrive(self, lanes: Lanes, i: Instruction) -> None:
        """The active lanes begin to wait at a block barrier; those of bar.red bring their predicate."""
        state, mask, rows = self.state, lanes.mask, lanes.rows
        self.launch.counts.add("barriers", i.source.line, int(mask.any(axis=1).sum()))
        operands = list(i.operands)
        if i.has("red"):
            operands = operands[1:]
            predicate = np.broadcast_to(lanes.read(operands.pop(), "pred"), mask.shape)
            name = i.operands[0].name  # type: ignore[union-attr]
            # Until the barrier opens, the destination holds what this lane contributes.
            state.registers[name][rows][mask] = predicate.astype(state.registers[name].dtype)[mask]
            self.reductions(rows)[mask] = self.kernel_instruction(i)
        number = np.broadcast_to(lanes.read(operands[0], "u32"), mask.shape)
        count = np.broadcast_to(lanes.read(operands[1], "u32"), mask.shape) if len(operands) > 1 else np.zeros(mask.shape)
        state.waits_at[rows][mask] = number[mask]
        state.barrier_threads[rows][mask] = count[mask]
