"""Launches of a kernel: machine code for a block shape, its runs on host threads, and the account afterwards.

Blocks are independent, so host threads take ranges of them. Where that would show (atomics, fences, a hazard, a fault)
the launch runs its blocks in order on one thread; a launch in parallel that meets a hazard is run again that way, from
what it began with, so that the lowest block's hazard is the one reported.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from weakref import WeakKeyDictionary

import numpy as np

from ptxsim.analysis.effects import blocks_in_order, has_barrier_objects, uses_heap
from ptxsim.analysis.lanes import MAX_GRID_X
from ptxsim.codegen import layout as L
from ptxsim.codegen.jit import Code, assembly, wide_vectors
from ptxsim.codegen.listing import lane_listing
from ptxsim.codegen.translation import Options, translate
from ptxsim.cores import available_threads
from ptxsim.errors import LaunchError, MemoryLimitExceeded, StepLimitExceeded
from ptxsim.finding import Finding
from ptxsim.memory import Allocation, Memory
from ptxsim.record import AUTO, COMPILED, FRUGAL, STENCILS, LaunchRecord, Manner, Reach, Terms, Touched, Triple
from ptxsim.run import tiers
from ptxsim.run.binding import Binding
from ptxsim.run.faults import raise_fault
from ptxsim.run.hazards import Reporter
from ptxsim.run.ordering import WORKSPACE_BYTES
from ptxsim.run.printing import printed_text
from ptxsim.run.shadows import accesses, hand_on, names_stored_to, new_shadow
from ptxsim.run.snapshot import Snapshot
from ptxsim.run.threads import in_threads, interruptible
from ptxsim.run.worker import HostWorker, LaunchSetup
from ptxsim.syntax.program import RESERVED, Kernel

_LEAST_BLOCK_BUDGET = 1 << 22
BLOCKS_AT_FULL_BUDGET = 16
"""A launch may spend this many times its step limit: no more than so many blocks can use up their whole budget."""
_SHARES = 4
"""A host thread takes one in so many of its share of the blocks that are left."""
_SHADOW_LIMIT = 2 << 30
"""Most memory of the exact race shadow's global part."""
_WORKSPACE = "the grid's workspace"
_NOT_OURS = (f"shared {RESERVED}", _WORKSPACE)
"""Arrays of a library's own, in which shuffles order what fences should, or atomics what follows a barrier."""
_Key = tuple[Triple, Options, bool]
"""What code depends on: the block's shape, what it does besides computing, whether the grid is wide."""
Lines = dict[int, dict[str, int]]
"""Counters by source line."""
_COUNTS_KEPT, _MOST_RESTING = 64, 4
_ENOUGH_STEPS, _MOST_STEPS = 200_000, 10_000_000
"""Accesses of warps after which a look into races ends: once one is found, and in any case."""
NOTE, PAIRS = "same-value", ("race", "unordered", "lockstep", "same-value")
"""The kind of finding that is no hazard; those that the exact race shadow tells."""


class Engine:
    """Machine code of a kernel, by block shape and options, and launches of it."""

    def __init__(self, kernel: Kernel, file: str) -> None:
        self.kernel, self.file = kernel, file
        self._built: dict[_Key, Code] = {}
        self._building: dict[_Key, threading.Lock] = {}
        self._promotions: dict[_Key, tiers.Promotion] = {}
        self.counted: dict[tuple[bytes | int, ...], tuple[Lines, dict[str, int]]] = {}
        """what the last counter arrays came to: a kernel that is launched again and again mostly does the same"""
        self.looks: dict[tuple[object, ...], list[tuple[tuple[Finding, ...], bool]]] = {}
        """what second looks that found no race noted, and whether they saw all, by what was suspected"""
        self._resting: list[HostWorker] = []
        self._bindings: WeakKeyDictionary[Memory, Binding] = WeakKeyDictionary()
        self._last: tuple[Terms, Manner, Code] | None = None
        """what the last launch was that ran compiled code, and that code"""

    def worker(self, setup: LaunchSetup, shadows: dict[int, np.ndarray]) -> HostWorker:
        """A worker for a launch: one of an earlier launch that was alike, or a new one."""
        try:
            found = self._resting.pop()
        except IndexError:
            return HostWorker(setup, shadows)
        return found if found.again(setup, shadows) else HostWorker(setup, shadows)

    def rest(self, workers: list[HostWorker]) -> None:
        """Keeps a launch's workers for the next."""
        for worker in workers:
            if worker.rest() and len(self._resting) < _MOST_RESTING:
                self._resting.append(worker)

    @cached_property
    def ordered(self) -> bool:
        """Whether blocks may talk to each other, so that their order could show."""
        return blocks_in_order(self.kernel)

    @cached_property
    def never_in_lockstep(self) -> bool:
        """Whether warps take turns in any case: the same code then serves every order."""
        return has_barrier_objects(self.kernel)

    @cached_property
    def uses_heap(self) -> bool:
        """Whether the kernel calls malloc or free."""
        return uses_heap(self.kernel)

    def build(self, block: Triple, options: Options | None = None, *, wide_grid: bool = False) -> Code:
        """Machine code for a block shape; made once, whatever number of threads ask for it."""
        options = options or Options()
        key = (block, options, wide_grid)
        if (found := self._built.get(key)) is not None:
            return found
        with self._building.setdefault(key, threading.Lock()):
            if key not in self._built:
                began = time.thread_time()
                translation = translate(self.kernel, block, options, wide_grid=wide_grid, wide_vectors=wide_vectors())
                spent_s = time.thread_time() - began
                self._built[key] = interruptible(lambda: Code(translation, spent_s))
        return self._built[key]

    def prepare(self, grid: Triple, block: Triple, *, check: bool, count: bool) -> None:
        """Makes what a launch will need: where lanes have parted with other options, the code for that too."""
        options = Options(check, count, reordered=self.never_in_lockstep)
        code = self.build(block, options, wide_grid=grid[0] > MAX_GRID_X)
        others = [other for (shape, _, _), other in list(self._built.items()) if shape == block]
        if any(other.masked_plan is not None for other in others):
            code.compile_masked()

    def listing(self, stage: str, block: Triple) -> str:
        """A stage of the way to machine code with counters and checks: "lanes", "ir" or "asm"."""
        made = translate(self.kernel, block, Options())
        match stage:
            case "lanes":
                return lane_listing(made.unit.kernel, made.unit.analysis)
            case "ir":
                return made.ir
            case "asm":
                return assembly(made)
        raise ValueError(f"there is no stage {stage!r}: lanes, ir or asm")

    def launch(
        self, terms: Terms, memory: Memory, variables: Mapping[str, Allocation], manner: Manner
    ) -> LaunchRecord:
        """Runs the kernel to its end; see `SimKernel.launch`. `variables` are the module's in this memory."""
        last = self._last
        if last is not None and last[0] is terms and last[1] is manner:
            code = last[2]
        else:
            key = self._key(terms, manner)
            self._refuse_giants(terms, manner.step_limit)
            promotion = self._promotion(key, manner.tier)
            if promotion is not None:
                code = self._outlined(key)
                with promotion.launch(manner.tier) as due:
                    cut_short = due if manner.tier in (AUTO, FRUGAL) else None
                    record = self._run(code, terms, memory, variables, manner, cut_short)
                if record is not None:
                    return record
            block, options, wide_grid = key
            code = self.build(block, options, wide_grid=wide_grid)
            self._last = terms, manner, code
        record = self._run(code, terms, memory, variables, manner)
        assert record is not None
        return record

    def _key(self, terms: Terms, manner: Manner) -> _Key:
        """What the code of such a launch depends on."""
        reordered = manner.order is not None or self.never_in_lockstep
        options = Options(
            manner.check, manner.count, parted=manner.parted, tensor_sums=manner.tensor_sums, reordered=reordered
        )
        return terms.block, options, terms.grid[0] > MAX_GRID_X

    def exact(self, terms: Terms, options: Options) -> Code:
        """The code that names races exactly. That takes its time, and so a long kernel's is made of stencils."""
        wide_grid, exact = terms.grid[0] > MAX_GRID_X, replace(options, exact=True)
        if tiers.is_long(self.kernel):
            return self._outlined((terms.block, exact, wide_grid))
        return self.build(terms.block, exact, wide_grid=wide_grid)

    def _outlined(self, key: _Key) -> Code:
        """The code made of stencils that does what `key` says."""
        block, options, wide_grid = key
        return self.build(block, replace(options, parted=True, outlined=True), wide_grid=wide_grid)

    def _promotion(self, key: _Key, tier: str) -> tiers.Promotion | None:
        """The kernel's way from stencils to compiled code; None where it is compiled."""
        block, options, wide_grid = key
        if key in self._built or tier == COMPILED or options.parted:
            return None
        if tier != STENCILS and not tiers.is_long(self.kernel, tier):
            return None
        if key not in self._promotions:
            compile_ = partial(self.build, block, options, wide_grid=wide_grid)
            self._promotions[key] = tiers.Promotion(self._outlined(key).translated_s, compile_)
        return self._promotions[key]

    def _run(
        self, code: Code, terms: Terms, memory: Memory, variables: Mapping[str, Allocation], manner: Manner,
        cut_short: Callable[[], bool] | None = None,
    ) -> LaunchRecord | None:  # fmt: skip
        """Runs some code to its end; None where `cut_short` said so."""
        if self.uses_heap:
            memory.device_heap()
        workspace = self._workspace(code, terms, memory)
        try:
            binding = self._binding(code, terms, memory, variables)
            waiting = terms.cooperative or (code.translation.unit.in_turns and self.ordered)
            limit = manner.step_limit
            setup = LaunchSetup(
                binding=binding, memory=memory, manner=manner, workspace=workspace,
                shared_bytes=self.kernel.block_shared_bytes(terms.shared_bytes),
                block_budget=max(min(_LEAST_BLOCK_BUDGET, limit), limit // terms.blocks),
                launch_budget=BLOCKS_AT_FULL_BUDGET * limit,
                together=terms.blocks if waiting else math.prod(terms.cluster),
            )  # fmt: skip
            record = Launching(self, setup, cut_short).execute(manner.threads or available_threads())
            self._bindings[memory] = binding
            return record
        finally:
            if workspace is not None:
                memory.free(workspace)

    def _workspace(self, code: Code, terms: Terms, memory: Memory) -> Allocation | None:
        """Where the blocks of a cooperative launch count who has come to grid.sync(): zero bytes to begin with."""
        if not code.translation.unit.meets_grid:
            return None
        if not terms.cooperative:
            raise LaunchError(
                f"{self.kernel.name}: a barrier of a whole grid, grid.sync(), in a launch that is not cooperative: its "
                "blocks need not be there at the same time",
                next_step="Launch it with cooperative=True, or end the kernel where all blocks have to meet, and go on "
                "in a second one.",
            )
        found = memory.allocate(WORKSPACE_BYTES, _WORKSPACE)
        found.view()[:] = 0
        return found

    def _refuse_giants(self, terms: Terms, step_limit: int) -> None:
        """Every warp takes a step at least: raise StepLimitExceeded for a grid that cannot come to its end."""
        least = terms.blocks * terms.warps
        if least > step_limit or terms.blocks > L.MOST_BLOCKS:
            raise StepLimitExceeded(
                f"{self.kernel.name}: a launch of {terms.blocks:,} blocks of {terms.threads:,} threads is more than "
                f"the {min(step_limit, L.MOST_BLOCKS):,} warps that this simulation may run",
                next_step="Does the grid follow from the sizes? A GPU would run it, for a long time.",
                file=self.file, least_steps=least,
            )  # fmt: skip

    def _binding(self, code: Code, terms: Terms, memory: Memory, variables: Mapping[str, Allocation]) -> Binding:
        """What the code finds in memory: worked out once for launches that follow each other and are alike. It is the
        launch's own as long as that runs."""
        found = self._bindings.pop(memory, None)
        if found is None or not found.serves(code, terms, memory, variables):
            return Binding.of(code, terms, memory, variables)
        found.begin()
        return found


class Launching:
    """One launch: the runs, and the account afterwards."""

    def __init__(self, engine: Engine, setup: LaunchSetup, cut_short: Callable[[], bool] | None = None) -> None:
        self.engine, self.setup, self.terms, self.file = engine, setup, setup.terms, engine.file
        self.binding, self.manner = setup.binding, setup.manner
        self._cut_short = cut_short
        self._was_cut_short = False
        self.unit = setup.code.translation.unit
        self.options = self.unit.options
        self.together = setup.together

    # -- execution ------------------------------------------------------------------------------------------------
    def execute(self, threads: int) -> LaunchRecord | None:
        """The account of the launch; None where it was cut short, with memory as it was before."""
        read, written, changed = self.binding.read, self.binding.written, self.binding.changed
        by_turns = self.engine.ordered or self.manner.order is not None
        parallel = 1 if by_turns else min(threads, self.terms.blocks // self.together)
        watched = [a for a in self.manner.watch or () if a in written or a in read]
        heap = self.setup.memory.heap
        heap_before = heap.state() if heap is not None else None
        keeps = parallel > 1 or self.options.check or self._cut_short is not None
        with Snapshot.of(changed if keeps else None) as before:
            if not before.complete:
                self._cut_short = None
            followed = [*written, *(a for a in watched if a not in written)]
            workers = self._run(parallel if before.complete else 1, followed)
            if len(workers) > 1 and not self._was_cut_short and self._order_shows(workers):
                before.restore()
                workers = self._run(1, followed)
            if self._was_cut_short:
                before.restore()
                if heap is not None and heap_before is not None:
                    heap.restore(heap_before)
                return None
            raise_fault(self, workers)
            stored_to: tuple[str, ...] = ()
            touched: tuple[Touched, ...] | None = None
            if self.manner.watch is None:
                stored_to = names_stored_to(written, workers[0].shadows)
            elif self.options.check and not self.unit.followed:  # copies in the background leave no trace
                touched = self._touched(watched, written, workers[0].shadows)
            reach = Reach(tuple(read), tuple(written), heap is None and not changed)
            record = self._account(workers, stored_to, touched, reach)
            if any(h.kind == "race" for h in record.hazards):
                with heap.back_at(heap_before) if heap is not None and heap_before is not None else nullcontext():
                    hazards, notes = self._without_doubt(record.hazards, before, written)
                settled = reach.settled and record.complete and not (hazards or record.printed)
                record = replace(record, hazards=hazards, notes=notes, reach=replace(reach, settled=settled))
            if heap is None:  # a view of the heap keeps its shadow
                hand_on([*workers[0].shadows.values()])
            self.engine.rest(workers)
        return record

    def _without_doubt(
        self, hazards: tuple[Finding, ...], before: Snapshot, written: list[Allocation]
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """The hazards that there are, and what is no more than noted."""
        if not before.complete:
            return self._beyond_doubt(hazards), ()
        found = self._looked_into(hazards, before, written)
        return tuple(f for f in found if f.kind != NOTE), tuple(f for f in found if f.kind == NOTE)

    def _looked_into(
        self, hazards: tuple[Finding, ...], before: Snapshot, written: list[Allocation]
    ) -> tuple[Finding, ...]:
        """The findings with races named exactly, or found to be none: from another run with the exact shadow."""
        most = self.manner.most_looks
        looks = [] if most is None else self.engine.looks.setdefault(self._suspicion(hazards), [])
        if most is None or len(looks) < most:
            found = self._second_look(before, written)
            if found is None:
                return self._beyond_doubt(hazards)
            races, complete = found
            if any(f.kind != NOTE for f in races):
                return (*races, *(h for h in hazards if h.kind != "race"))
            looks.append((tuple(races), complete))
        notes, complete = looks[-1]
        if complete:
            return (*notes, *(h for h in hazards if h.kind != "race"))
        noted = {f.line for f in notes}  # what else there may be is not known
        hazards = tuple(h for h in hazards if h.kind != "race" or h.access != "write" or h.line not in noted)
        return (*notes, *self._beyond_doubt(hazards))

    def _second_look(self, before: Snapshot, written: list[Allocation]) -> tuple[list[Finding], bool] | None:
        """Races and notes of another run from the same beginning, and whether it saw all; None without the memory."""
        code = self.engine.exact(self.terms, self.options)
        binding = Binding.of(code, self.terms, self.setup.memory, self.binding.variables)
        again = Launching(self.engine, replace(self.setup, binding=binding))
        granules = sum(a.nbytes >> self.unit.global_granule_log2 for a in written)
        with Snapshot.of(written) as after:
            if not after.complete or granules * L.EXACT_CELL_BYTES > _SHADOW_LIMIT:
                return None
            before.restore()
            try:
                return again.find_races(written)
            finally:
                after.restore()

    def _suspicion(self, hazards: tuple[Finding, ...]) -> tuple[object, ...]:
        """The races that the quick shadow tells, without the threads and bytes that differ from launch to launch."""
        shape = self.terms.grid, self.terms.block, self.terms.cluster, self.manner.order
        return *shape, *sorted({(h.line, h.access, h.space, h.other_line) for h in hazards if h.kind == "race"})

    def _beyond_doubt(self, hazards: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Those that need no second look: grid.sync() may have ordered any two blocks, a barrier object any two
        threads of one, and only that look sees it."""
        cooperative, objects = self.terms.cooperative, self.unit.barrier_objects
        return tuple(h for h in hazards if h.kind != "race" or not (objects if h.space == "shared" else cooperative))

    def find_races(self, written: list[Allocation]) -> tuple[list[Finding], bool]:
        """Runs block after block until the races are plain; they, and whether all blocks ran."""
        worker = HostWorker(self.setup, self._shadows(written))
        worker.listen(partial=self.unit.partial_order, most_steps=_MOST_STEPS)
        done = 0

        def work(worker: HostWorker) -> None:
            nonlocal done
            while done < self.terms.blocks and not worker.struct.fault and not worker.strayed:
                kinds = {worker.hazards[k].kind for k in range(worker.struct.hazard_count)}
                most = _ENOUGH_STEPS if kinds - {L.SAME_VALUE} else _MOST_STEPS
                if worker.struct.exact_steps > most:
                    return
                worker.reorder(done)
                worker.run(done, done + self.together)
                done += self.together

        in_threads([worker], work)
        found = [h for h in self.hazards([worker]) if h.kind in PAIRS]
        return found, done == self.terms.blocks and not worker.struct.stop and not worker.struct.fault

    def _order_shows(self, workers: list[HostWorker]) -> bool:
        """Whether the outcome depends on which block came first: hazards, faults, and limits for the whole launch."""
        return (
            any(w.struct.fault or w.struct.hazard_count for w in workers)
            or sum(w.steps for w in workers) > self.setup.launch_budget
            or sum(w.struct.print_used for w in workers) > self.manner.print_limit
        )

    def _run(self, count: int, written: list[Allocation]) -> list[HostWorker]:
        try:
            shadows = self._shadows(written)
            workers = [self.engine.worker(self.setup, shadows) for _ in range(count)]
        except MemoryError:
            raise MemoryLimitExceeded(
                f"{self.engine.kernel.name}: no memory for blocks of {self.terms.block} with "
                f"{self.engine.kernel.local_bytes:,} bytes of local memory per thread on {count} host threads",
                next_step="Use smaller arrays inside the kernel, or smaller blocks.",
                file=self.file,
                line=_first_line(self.engine.kernel),
            ) from None
        ranges, lock = self._ranges(count), threading.Lock()

        def work(worker: HostWorker) -> None:
            while not worker.struct.fault and not worker.strayed:
                with lock:
                    blocks = next(ranges, None)
                if blocks is None:
                    return
                worker.reorder(blocks.start)
                worker.run(blocks.start, blocks.stop)

        self._was_cut_short = in_threads(workers, work, self._cut_short)
        for worker in workers:
            if worker.follower is not None:
                worker.follower.finish()
        return workers

    def _ranges(self, count: int) -> Iterator[range]:
        """What workers run one after the other: large ranges of blocks, or in a seeded order as few as may be."""
        if self.manner.order is None:
            return block_ranges(self.terms.blocks, count, self.together)
        firsts = [*range(0, self.terms.blocks, self.together)]
        Random(self.manner.order).shuffle(firsts)
        return (range(first, min(first + self.together, self.terms.blocks)) for first in firsts)

    def _shadows(self, written: list[Allocation]) -> dict[int, np.ndarray]:
        """Race shadow of each allocation that may be written: one u64 per granule (8 in the exact shadow), zero."""
        if not self.options.check:
            return {}
        granule, words = self.unit.global_granule_log2, L.EXACT_CELL_BYTES // 8 if self.options.exact else 1
        return {a.address: new_shadow(((a.nbytes >> granule) + 2) * words) for a in written}

    # -- account --------------------------------------------------------------------------------------------------
    def hazards(self, workers: list[HostWorker]) -> tuple[Finding, ...]:
        reporter = Reporter(self.unit, self.setup.memory, self.terms.grid, self.file, self.binding.constants)
        hazards: dict[tuple[str, int, str, str], Finding] = {}  # an unrolled line has many accesses: tell it once
        for w in workers:
            for k in range(w.struct.hazard_count):
                found = reporter.finding(w.hazards[k])
                if found.array in _NOT_OURS:
                    continue
                hazards.setdefault((found.kind, found.line, found.access, found.array), found)
        return tuple(hazards.values())

    def _touched(
        self, watched: list[Allocation], written: list[Allocation], shadows: Mapping[int, np.ndarray]
    ) -> tuple[Touched, ...]:
        """What was done to allocations. Where blocks may hand each other something, what is read another block may
        have stored, and does not count as read first; what is updated atomically does, but for cooperative launches."""
        in_turn, meets = self.engine.ordered or self.terms.cooperative, self.terms.cooperative
        granule = 1 << self.unit.global_granule_log2
        found = []
        for allocation in watched:
            shadow = shadows.get(allocation.address, np.zeros(0, np.uint64))
            if allocation not in written:  # most of a large input is read alone: that takes one look at each granule
                accessed = shadow.view(np.uint32)[1::2] != 0
                nothing = np.zeros(len(shadow), np.bool_)
                found.append(Touched(allocation.address, granule, accessed, nothing, nothing if in_turn else accessed))
                continue
            accessed, kind, before = accesses(shadow)
            wrote, plain = (before & np.uint64(flag) != 0 for flag in (L.WROTE_BEFORE, L.PLAIN_BEFORE))
            stored = accessed & ((kind != L.READ) | wrote)
            reads = (kind == L.READ) & ~wrote & (not in_turn)
            first = accessed & (reads | ((kind == L.ATOMIC) & ~plain & (not meets)))
            found.append(Touched(allocation.address, granule, accessed, stored, first))
        return tuple(found)

    def counted(self, workers: list[HostWorker]) -> tuple[Lines, dict[str, int]]:
        """Counters by source line and in total, of both functions and all workers."""
        plans = [(self.unit.plan, [w.counters for w in workers])] if not self.options.outlined else []
        if self.setup.code.masked_plan is not None:
            parted = [w.masked_counters for w in workers if w.masked_counters is not None]
            plans += [(self.setup.code.masked_plan, parted)] if parted else []
        sums = [(plan, cells[0] if len(cells) == 1 else np.add.reduce(cells)) for plan, cells in plans]
        key = self.terms.blocks, *(id(plan) for plan, _ in sums), *(cells.tobytes() for _, cells in sums)
        known = self.engine.counted
        if key not in known:
            if len(known) >= _COUNTS_KEPT:
                known.clear()
            lines: dict[int, Counter[str]] = {}
            for plan, cells in sums:
                for line, names in plan.evaluate(cells).items():
                    lines.setdefault(line, Counter()).update(names)
            totals = Counter({"blocks": self.terms.blocks})
            for names in lines.values():
                totals.update(names)
            known[key] = ({line: dict(lines[line]) for line in sorted(lines)}, dict(sorted(totals.items())))
        return known[key]

    def _account(
        self, workers: list[HostWorker], stored_to: tuple[str, ...], touched: tuple[Touched, ...] | None, reach: Reach
    ) -> LaunchRecord:
        """What the launch did; what it did is settled if `reach` says so, and nothing was told, printed or left out."""
        lines, totals = self.counted(workers)
        told = self.hazards(workers) if any(w.struct.hazard_count for w in workers) else ()
        printed = printed_text(text for w in workers for text in w.printed)
        handed = tuple(h for w in workers if w.follower is not None for h in w.follower.handoffs or ())
        complete = not any(w.strayed for w in workers)
        settled = reach.settled and complete and not (told or printed)
        return LaunchRecord(
            totals, lines, told, printed, self.terms.grid, self.terms.block, handoffs=handed, stored_to=stored_to,
            touched=touched, complete=complete, reach=Reach(reach.read, reach.written, settled),
        )  # fmt: skip


def block_ranges(blocks: int, workers: int, together: int = 1) -> Iterator[range]:
    """Ranges of blocks to hand out in order: long ones first, short ones in the end, so that all end together.

    Each has whole groups of `together` blocks.
    """
    first = 0
    while first < blocks:
        size = max(1, (blocks - first) // (_SHARES * workers * together)) * together if workers > 1 else blocks
        yield range(first, first + size)
        first += size


def _first_line(kernel: Kernel) -> int:
    return next((i.source.line for block in kernel.blocks for i in block.instructions if i.source.line), 0)
