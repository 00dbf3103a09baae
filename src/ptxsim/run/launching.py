"""One launch: memory for its workers, the runs, and the account afterwards.

Blocks are independent, so host threads take ranges of them. Where that would show (atomics, fences, a hazard, a fault)
the launch runs its blocks in order on one thread; a launch in parallel that meets a hazard is run again that way, from
what it began with, so that the lowest block's hazard is the one reported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ptxsim.analysis.lanes import MAX_GRID_X
from ptxsim.codegen.jit import Code
from ptxsim.codegen.layout import EXACT_CELL_BYTES as CELL_BYTES
from ptxsim.errors import MemoryLimitExceeded, SimulationError, StepLimitExceeded
from ptxsim.memory import Allocation
from ptxsim.record import Hazard, LaunchRecord, Triple
from ptxsim.run.faults import raise_fault
from ptxsim.run.hazards import Reporter
from ptxsim.run.printf import format_records
from ptxsim.run.snapshots import Snapshot
from ptxsim.run.worker import Worker, in_threads
from ptxsim.syntax.program import Kernel

if TYPE_CHECKING:
    from ptxsim.run.engine import SimKernel


_LEAST_BLOCK_BUDGET = 1 << 22
BLOCKS_AT_FULL_BUDGET = 16
"""A launch may spend this many times its step limit: no more than so many blocks can use up their whole budget."""
_SHARES = 4
"""A host thread takes one in so many of its share of the blocks that are left."""
_SHADOW_LIMIT = 2 << 30
"""Most memory of the exact race shadow's global part."""
_ENOUGH_STEPS, _MOST_STEPS = 200_000, 10_000_000
"""Accesses of warps after which a look into races ends: once one is found, and in any case."""


class Launching:
    """One launch: memory for its workers, the runs, and the account afterwards."""

    def __init__(
        self, kernel: SimKernel, code: Code, grid: Triple, block: Triple, params: bytes, shared_bytes: int,
        step_limit: int, print_limit: int,
    ) -> None:  # fmt: skip
        self.kernel, self.code, self.grid, self.block = kernel, code, grid, block
        self.unit = code.translation.unit
        self.options = self.unit.options
        self.dynamic_bytes = shared_bytes
        static = kernel.kernel.shared_bytes
        self.shared_bytes = -(-static // 16) * 16 + shared_bytes if shared_bytes else static
        self.blocks = grid[0] * grid[1] * grid[2]
        self.step_limit, self.print_limit = step_limit, print_limit
        self._refuse_giants()
        self.launch_budget = BLOCKS_AT_FULL_BUDGET * step_limit
        self.block_budget = max(min(_LEAST_BLOCK_BUDGET, step_limit), step_limit // self.blocks)
        self.given = params
        self.params = self._parameter_block(params)
        self.keep: list[object] = []

    def _refuse_giants(self) -> None:
        """Every warp takes a step at least: raise StepLimitExceeded for a grid that cannot come to its end."""
        threads = self.block[0] * self.block[1] * self.block[2]
        warps = self.blocks * -(-threads // 32)
        if warps > self.step_limit:
            raise StepLimitExceeded(
                f"{self.kernel.kernel.name}: a launch of {self.blocks:,} blocks of {threads:,} threads is more than "
                f"the {self.step_limit:,} warps that this simulation may run",
                next_step="Does the grid follow from the sizes? A GPU would run it, for a long time.",
                file=self.kernel.file,
            )

    def _parameter_block(self, params: bytes) -> np.ndarray:
        """The parameters, followed by the addresses of the module variables that the kernel names."""
        slots = self.unit.symbol_slots
        padded = params + bytes(-len(params) % 8) + bytes(8 * len(slots) + 8)
        array = np.frombuffer(bytearray(padded), np.uint8)
        start = -(-len(params) // 8) * 8
        for name, slot in slots.items():
            allocation = self.kernel.globals.get(name)
            if allocation is None:
                raise SimulationError(f"{self.kernel.kernel.name} uses {name}, which this module does not define")
            array[start + 8 * slot : start + 8 * slot + 8].view(np.uint64)[0] = allocation.address
        return array

    # -- execution ------------------------------------------------------------------------------------------------
    def execute(self, threads: int) -> LaunchRecord:
        written = self._allocations(self.code.translation.written_roots)
        read = self._allocations(self.code.translation.read_roots)
        parallel = min(threads, self.blocks) if not self.kernel.ordered else 1
        changed = [a for a in written if a in read]  # what is only written is written alike when blocks run again
        with Snapshot.of(changed if parallel > 1 or self.options.check else None) as before:
            workers = self._run(parallel if before.complete else 1, written)
            if len(workers) > 1 and self._order_shows(workers):
                before.restore()
                workers = self._run(1, written)
            raise_fault(self, workers)
            record = self._account(workers)
            if before.complete and any(h.kind == "race" for h in record.hazards):
                record = replace(record, hazards=self._looked_into(record.hazards, before, written))
        return record

    def _looked_into(
        self, hazards: tuple[Hazard, ...], before: Snapshot, written: list[Allocation]
    ) -> tuple[Hazard, ...]:
        """The hazards with races named exactly, or found to be none: from another run with the exact shadow."""
        code = self.kernel.build(self.block, replace(self.options, exact=True), wide_grid=self.grid[0] > MAX_GRID_X)
        again = Launching(
            self.kernel, code, self.grid, self.block, self.given, self.dynamic_bytes, self.step_limit, self.print_limit
        )
        with Snapshot.of(written) as after:
            if not after.complete or again.shadow_bytes(written) > _SHADOW_LIMIT:
                return hazards
            before.restore()
            try:
                races, complete = again.find_races(written)
            finally:
                after.restore()
        if not races and not complete:
            return hazards
        return (*races, *(h for h in hazards if h.kind != "race"))

    def find_races(self, written: list[Allocation]) -> tuple[list[Hazard], bool]:
        """Runs block after block until the races are plain; they, and whether all blocks ran."""
        worker = Worker(self, self._shadows(written))
        worker.listen(partial=self.unit.partial_order)
        done = 0

        def work(worker: Worker) -> None:
            nonlocal done
            while done < self.blocks and not worker.struct.fault:
                most = _ENOUGH_STEPS if worker.struct.hazard_count else _MOST_STEPS
                if worker.struct.exact_steps > most:
                    return
                worker.run(done, done + 1)
                done += 1

        in_threads([worker], work)
        worker.compile_then_run = None
        found = [h for h in self._hazards([worker]) if h.kind == "race"]
        return found, done == self.blocks and not worker.struct.fault

    def _order_shows(self, workers: list[Worker]) -> bool:
        """Whether the outcome depends on which block came first: hazards, faults, and limits for the whole launch."""
        return (
            any(w.struct.fault or w.struct.hazard_count for w in workers)
            or sum(w.steps for w in workers) > self.launch_budget
            or sum(w.struct.print_used for w in workers) > self.print_limit
        )

    def _allocations(self, roots: frozenset[str]) -> list[Allocation]:
        """Allocations that some block may reach by pointers that come from these roots."""
        found: dict[int, Allocation] = {}
        memory = self.kernel.memory
        for root in roots:
            if root == "?":
                return list(memory.allocations)
            kind, _, rest = root.partition("+" if root.startswith("param") else " ")
            if kind == "param":
                pointer = int(self.params[int(rest) : int(rest) + 8].view(np.uint64)[0])
                allocation = memory.find(pointer) or memory.nearest(pointer)
            else:
                allocation = self.kernel.globals.get(rest)
            if allocation is not None:
                found[allocation.address] = allocation
        return list(found.values())

    def _run(self, count: int, written: list[Allocation]) -> list[Worker]:
        try:
            shadows = self._shadows(written)
            workers = [Worker(self, shadows) for _ in range(count)]
        except MemoryError:
            raise MemoryLimitExceeded(
                f"{self.kernel.kernel.name}: no memory for blocks of {self.block} with "
                f"{self.kernel.kernel.local_bytes:,} bytes of local memory per thread on {count} host threads",
                next_step="Use smaller arrays inside the kernel, or smaller blocks.",
                file=self.kernel.file,
                line=_first_line(self.kernel.kernel),
            ) from None
        ranges, lock = block_ranges(self.blocks, count), threading.Lock()

        def work(worker: Worker) -> None:
            while not worker.struct.fault:
                with lock:
                    blocks = next(ranges, None)
                if blocks is None:
                    return
                worker.run(blocks.start, blocks.stop)

        in_threads(workers, work)
        for worker in workers:
            worker.compile_then_run = None  # it refers to the worker: do not leave that to the garbage collector
        return workers

    def _shadows(self, written: list[Allocation]) -> dict[int, np.ndarray]:
        """Race shadow of each allocation that may be written: one u64 per granule (8 in the exact shadow), zero,
        mapped lazily."""
        if not self.options.check:
            return {}
        granule, words = self.unit.global_granule_log2, CELL_BYTES // 8 if self.options.exact else 1
        return {a.address: np.zeros(((a.nbytes >> granule) + 2) * words, np.uint64) for a in written}

    def shadow_bytes(self, written: list[Allocation]) -> int:
        """Memory that the exact shadow takes."""
        return sum((a.nbytes >> self.unit.global_granule_log2) * CELL_BYTES for a in written)

    # -- account --------------------------------------------------------------------------------------------------
    def _hazards(self, workers: list[Worker]) -> tuple[Hazard, ...]:
        reporter = Reporter(self.unit, self.kernel.memory, self.grid, self.kernel.file)
        hazards: dict[tuple[str, int, str, str], Hazard] = {}  # an unrolled line has many accesses: tell it once
        for w in workers:
            for k in range(w.struct.hazard_count):
                found = reporter.tell(w.hazards[k])
                hazards.setdefault((found.kind, found.line, found.access, found.array), found)
        return tuple(hazards.values())

    def _counted(self, workers: list[Worker]) -> dict[int, dict[str, int]]:
        """Counters by source line, of both functions and all workers."""
        lines = self.unit.plan.evaluate(np.add.reduce([w.counters for w in workers]))
        parted = [w.masked_counters for w in workers if w.masked_counters is not None]
        if parted and self.code.masked_plan is not None:
            for line, names in self.code.masked_plan.evaluate(np.add.reduce(parted)).items():
                into = lines.setdefault(line, {})
                for name, value in names.items():
                    into[name] = into.get(name, 0) + value
        return dict(sorted(lines.items()))

    def _account(self, workers: list[Worker]) -> LaunchRecord:
        lines = self._counted(workers)
        totals = {"blocks": self.blocks}
        for names in lines.values():
            for name, value in names.items():
                totals[name] = totals.get(name, 0) + value
        told = self._hazards(workers)
        printed = format_records([w.printed() for w in workers], self.kernel.memory, self.block, self.grid)
        return LaunchRecord(dict(sorted(totals.items())), lines, told, printed, self.grid, self.block)


def block_ranges(blocks: int, workers: int) -> Iterator[range]:
    """Ranges of blocks to hand out in order: long ones first, short ones in the end, so that all end together."""
    first = 0
    while first < blocks:
        size = max(1, (blocks - first) // (_SHARES * workers)) if workers > 1 else blocks
        yield range(first, first + size)
        first += size


def _first_line(kernel: Kernel) -> int:
    return next((i.source.line for block in kernel.blocks for i in block.instructions if i.source.line), 0)
