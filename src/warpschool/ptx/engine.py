"""Launches: a kernel on the simulator, on all cores, with results that do not depend on how many.

Blocks are independent, so host threads take ranges of them. Where that would show (atomics, fences, a hazard, a fault)
the launch runs its blocks in order on one thread; a launch in parallel that meets a hazard is put back and run again
that way, so that the lowest block's hazard is the one reported.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import (
    KernelDeadlock,
    KernelTrap,
    LaunchError,
    MemoryLimitExceeded,
    PrintLimitExceeded,
    SimulationError,
    StepLimitExceeded,
)
from ..model.specs import LIMITS
from . import cfg
from .calls import STACK_BYTES, function_number
from .emit import WARP
from .hazards import Reporter
from .jit import Code, wide_vectors
from .lane_analysis import MAX_GRID_X
from .memory import Allocation, Memory
from .parse import parse
from .printf import format_records
from .program import Kernel, Module, Param
from .record import Hazard, LaunchRecord, Triple
from .translate import Options, translate
from .translate import layout as L
from .translate.runtime.exact import CELL_BYTES
from .translate.runtime.mbarriers import COUNT_BITS, COUNT_MASK
from .worker import Worker, available_threads, in_threads, interruptible

MAX_THREADS, MAX_BLOCK, MAX_GRID = 1024, (1024, 1024, 64), ((1 << 31) - 1, 65535, 65535)
STATIC_SHARED_LIMIT = 48 << 10
DEFAULT_STEP_LIMIT = 1 << 28
"""Loop iterations (of warps) that a launch may spend, shared out evenly among its blocks."""
_LEAST_BLOCK_BUDGET = 1 << 22
BLOCKS_AT_FULL_BUDGET = 16
"""A launch may spend this many times its step limit: no more than so many blocks can use up their whole budget."""
_SNAPSHOT_LIMIT = 512 << 20
_SHADOW_LIMIT = 2 << 30
"""Most memory of the exact race shadow's global part."""
_ENOUGH_STEPS, _MOST_STEPS = 200_000, 10_000_000
"""Accesses of warps after which a look into races ends: once one is found, and in any case."""


def load_module(ptx: str) -> Module:
    """Parses PTX text. Raises PtxSyntaxError."""
    return parse(ptx)


def shared_limit(target: str) -> int:
    """Most shared memory of a block, in bytes, on the GPUs that PTX of `target` (sm_80) was compiled for.

    A target without a row of its own has the limit of the newest one before it.
    """
    digits = re.match(r"sm_(\d+)", target)
    number = int(digits[1]) if digits else 0
    known = [(10 * major + minor, row.shared_bytes_per_block) for (major, minor), row in LIMITS.items()]
    return max((row for row in known if row[0] <= number), default=min(known))[1]


def bind(module: Module, memory: Memory) -> dict[str, Allocation]:
    """Places a module's globals and constants in memory, initialised; name -> allocation."""
    placed: dict[str, Allocation] = {}
    for variable in module.globals.values():
        if variable.space in ("global", "const") and not variable.external:
            placed[variable.name] = memory.allocate(variable.size_bytes, variable.name)
    for name, allocation in placed.items():
        variable = module.globals[name]
        view = allocation.view()
        view[:] = 0
        view[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
        for offset, symbol, addend in variable.relocations:
            if symbol in module.functions:
                address = function_number(module, symbol)
            else:
                address = placed[symbol].address + addend if symbol in placed else 1
            view[offset : offset + 8] = np.frombuffer(struct.pack("<Q", address), np.uint8)
    return placed


class SimKernel:
    """An entry function of a module, ready to launch on `memory`.

    `globals_` are the module's variables as `bind` placed them; kernels of one module share them.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        memory: Memory,
        globals_: dict[str, Allocation] | None = None,
        *,
        file: str = "",
    ) -> None:
        self.memory = memory
        self.kernel: Kernel = cfg.build_kernel(module, name)
        self.globals = bind(module, memory) if globals_ is None else globals_
        self.file = file or module.files.get(1, "kernel.cu")
        self.shared_limit = shared_limit(module.target)
        self._built: dict[tuple[Triple, Options, bool], Code] = {}

    @property
    def params(self) -> tuple[Param, ...]:
        return self.kernel.params

    def build(self, block: Triple, options: Options | None = None, *, wide_grid: bool = False) -> Code:
        """Machine code for a block shape; made once."""
        options = options or Options()
        key = (block, options, wide_grid)
        if key not in self._built:
            translation = translate(self.kernel, block, options, wide_grid=wide_grid, wide_vectors=wide_vectors())
            self._built[key] = interruptible(lambda: Code(translation))
        return self._built[key]

    def launch(
        self,
        grid: Triple,
        block: Triple,
        params: bytes,
        *,
        shared_bytes: int = 0,
        check: bool = True,
        count: bool = True,
        threads: int | None = None,
        parted: bool = False,
        step_limit: int = DEFAULT_STEP_LIMIT,
        print_limit: int = 1 << 20,
    ) -> LaunchRecord:
        """Runs the kernel to its end.

        `params` is the parameter block (`kernel.param_bytes` bytes, see `params`), `shared_bytes` the dynamic shared
        memory. `parted` runs every warp as if its lanes had parted, which is slower and gives the same results.
        Raises LaunchError for a launch that no GPU would take, StepLimitExceeded, KernelTrap, PrintLimitExceeded.
        """
        self._validate(grid, block, params, shared_bytes)
        code = self.build(block, Options(check, count, parted=parted), wide_grid=grid[0] > MAX_GRID_X)
        run = Launching(self, code, grid, block, params, shared_bytes, step_limit, print_limit)
        return run.execute(threads or available_threads())

    def _validate(self, grid: Triple, block: Triple, params: bytes, shared_bytes: int) -> None:
        name = self.kernel.name
        for what, shape, limits in (("block", block, MAX_BLOCK), ("grid", grid, MAX_GRID)):
            for axis, size, limit in zip("xyz", shape, limits, strict=True):
                if not 1 <= size <= limit:
                    raise LaunchError(f"{name}: {what}.{axis} is {size:,}; it must be between 1 and {limit:,}")
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise LaunchError(
                f"{name}: a block of {block} has {threads:,} threads; the most is {MAX_THREADS:,}",
                next_step="Use a smaller block and more of them.",
            )
        bound = self.kernel.max_threads
        if bound is not None and threads > bound:
            raise LaunchError(f"{name}: a block of {threads} threads, but __launch_bounds__ promises at most {bound}")
        total = self.kernel.shared_bytes + shared_bytes
        if self.kernel.shared_bytes > STATIC_SHARED_LIMIT or total > self.shared_limit or shared_bytes < 0:
            raise LaunchError(
                f"{name}: {self.kernel.shared_bytes:,} bytes of static and {shared_bytes:,} of dynamic shared memory; "
                f"on {self.kernel.module.target} the limits are {STATIC_SHARED_LIMIT:,} static and "
                f"{self.shared_limit:,} in all",
                next_step="Use smaller tiles, or compile for a GPU with more shared memory.",
            )
        if len(params) != self.kernel.param_bytes:
            raise LaunchError(
                f"{name}: the parameter block has {len(params)} bytes, the kernel takes {self.kernel.param_bytes}"
            )


_ENDLESS = "Check the loop's condition, and that every thread changes the variable it tests."
_WAITING = (
    "Check the loop's condition. If it waits for another block: on the simulator blocks run one after another to their "
    "end, so only an earlier block can have set what this one waits for; on a GPU that is the only safe order, too."
)
_TRAPS = {
    L.FAULT_ASSERT: "an assertion failed",
    L.FAULT_TRAP: "the kernel executed trap",
    L.FAULT_STACK: f"a thread's calls need more than their stack of {STACK_BYTES >> 10} KB: the recursion is too deep",
    L.FAULT_POINTER: "a call through a pointer that is no function of this signature",
}


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
        written = self._written_allocations()
        parallel = min(threads, self.blocks) if not _ordered(self.kernel.kernel) else 1
        before = _Snapshot.of(written) if parallel > 1 or self.options.check else None
        if before is None:
            parallel = 1
        workers = self._run(parallel, written)
        if before and parallel > 1 and self._order_shows(workers):
            before.restore()
            workers = self._run(1, written)
        self._raise_fault(workers)
        record = self._account(workers)
        if before and any(h.kind == "race" for h in record.hazards):
            record = replace(record, hazards=self._looked_into(record.hazards, before, written))
        return record

    def _looked_into(
        self, hazards: tuple[Hazard, ...], before: _Snapshot, written: list[Allocation]
    ) -> tuple[Hazard, ...]:
        """The hazards with races named exactly, or found to be none: from another run with the exact shadow."""
        code = self.kernel.build(self.block, replace(self.options, exact=True), wide_grid=self.grid[0] > MAX_GRID_X)
        again = Launching(
            self.kernel, code, self.grid, self.block, self.given, self.dynamic_bytes, self.step_limit, self.print_limit
        )
        after = _Snapshot.of(written)
        if after is None or again.shadow_bytes(written) > _SHADOW_LIMIT:
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

    def _written_allocations(self) -> list[Allocation]:
        """Allocations that some block may write, from where the stores' pointers come from."""
        found: dict[int, Allocation] = {}
        memory = self.kernel.memory
        for root in self.code.translation.written_roots:
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
        chunk = max(1, self.blocks // (count * 8)) if count > 1 else self.blocks
        taken = iter(range(0, self.blocks, chunk))
        lock = threading.Lock()

        def work(worker: Worker) -> None:
            while not worker.struct.fault:
                with lock:
                    first = next(taken, None)
                if first is None:
                    return
                worker.run(first, min(first + chunk, self.blocks))

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
    def _raise_fault(self, workers: list[Worker]) -> None:
        for w in workers:
            if w.error is not None:
                raise w.error
        fault = next((w.struct for w in workers if w.struct.fault), None)
        if fault is None:
            return
        where: dict[str, Any] = {"file": self.kernel.file, "line": int(fault.fault_site)}
        block = f"block {tuple(fault.ctaid)}"
        if fault.fault == L.FAULT_BUDGET:
            if fault.started < self.block_budget:
                raise StepLimitExceeded(
                    f"the launch has used up its budget of {self.launch_budget:,} loop iterations in {block}",
                    next_step="Use fewer blocks or a smaller problem, or give the launch a larger step_limit.",
                    **where,
                )
            raise StepLimitExceeded(
                f"{block} ran this loop until its budget of {self.block_budget:,} iterations was used up: "
                "most likely it never ends",
                next_step=_WAITING if self.unit.spin_heads else _ENDLESS,
                **where,
            )
        if fault.fault == L.FAULT_PRINT:
            raise PrintLimitExceeded(f"{block} printed more than the limit of {self.print_limit:,} bytes", **where)
        if fault.fault == L.FAULT_DEADLOCK:
            raise self._deadlock(fault, block, where)
        raise KernelTrap(f"{_TRAPS[fault.fault]} in {block}", **where)

    def _deadlock(self, fault: L.Worker, block: str, where: dict[str, Any]) -> KernelDeadlock:
        reporter = Reporter(self.unit, self.kernel.memory, self.grid, self.kernel.file)
        offset = int(fault.waiting_at)
        state = ctypes.c_uint64.from_address(fault.shared + offset).value
        expected, missing = state & COUNT_MASK, state >> COUNT_BITS & COUNT_MASK
        thread = reporter.thread(fault.waiting_thread >> L.WARP_SHIFT, fault.waiting_thread & (WARP - 1))
        return KernelDeadlock(
            f"thread {thread} of {block} waits at the barrier object in {reporter.shared_array(offset)} for ever: "
            f"{expected - missing:,} of {expected:,} arrivals have come and nobody else is about to arrive",
            next_step="Compare the count that the object was set up with to the threads that arrive in every phase.",
            **where,
        )

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


@dataclass(frozen=True)
class _Snapshot:
    """Copies of allocations, to run a launch again from where it started."""

    copies: tuple[tuple[Allocation, np.ndarray], ...]

    @classmethod
    def of(cls, allocations: list[Allocation]) -> _Snapshot | None:
        """None if they are too large to copy."""
        if sum(a.nbytes for a in allocations) > _SNAPSHOT_LIMIT:
            return None
        return cls(tuple((a, a.view().copy()) for a in allocations))

    def restore(self) -> None:
        for allocation, data in self.copies:
            allocation.view()[:] = data


def _first_line(kernel: Kernel) -> int:
    return next((i.source.line for block in kernel.blocks for i in block.instructions if i.source.line), 0)


_SPECIAL_ORDER = frozenset({"atom", "red", "membar", "fence"})


def _ordered(kernel: Kernel) -> bool:
    """Whether blocks may talk to each other, so that their order could show."""
    for block in kernel.blocks:
        for i in block.instructions:
            if i.opcode in _SPECIAL_ORDER and i.space != "shared":
                return True
            if i.has("volatile") and i.space != "shared":
                return True
    return False
