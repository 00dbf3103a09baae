"""`masked`: any mixture of lanes; every one has its own program counter."""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import ALL_LANES, CONTEXT, WARP, WORKER, IRValue, constant, constants
from ptxsim.codegen.tensor_frames import Group, ResidentFrames, spread
from ptxsim.codegen.translator import Translator, is_block_barrier, ways
from ptxsim.codegen.unit import Runs, Unit, lanes_of
from ptxsim.codegen.warp import require_member
from ptxsim.syntax.program import Barrier, Block, Branch, Jump, Return, Switch, WarpBarrier


class Masked(Translator):
    """Translation for lanes that have parted: everything is a vector, registers live in the warp's context."""

    masked = True

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.frames = ResidentFrames(self, ())
        self.products: dict[int, Group] = {}
        self.stencils: dict[str, str] = {}
        """functions that are called and compiled apart, by name: IR text"""

    @property
    def active(self) -> IRValue:
        return self.here

    @property
    def runs(self) -> Runs | None:
        """What of it is no code but data."""
        return None

    def get(self, register: str, lanes: int) -> IRValue:
        key = (register, WARP)
        if key not in self.known:
            self.known[key] = self.restore(register, WARP)
        return self.known[key]

    def put(self, register: str, value: IRValue, own: Lanes) -> None:
        value = self.as_storage(register, value)
        self.versions[register] = self.versions.get(register, 0) + 1
        self.known[register, WARP] = value if value.lanes else self.splat(value)
        self.defined.add(register)

    def translate(self) -> str:
        entries = frozenset() if self.unit.options.parted else self.unit.entries
        pcs_at = self._pcs_at
        self.label("entry")
        start = len(self.lines)
        # warps that come back from a barrier: their lanes may go on
        status = self.load("i32", self.offset(CONTEXT, self.unit.context.STATUS))
        self.branch(
            self.icmp("eq", self.lshr(status, 16), constant("i32", L.YIELDED)), "dispatch", "awake", then="awake"
        )
        pcs = self.load("i16", pcs_at(), WARP, align=64)
        gone = self.icmp("eq", pcs, self.like(pcs, L.EXITED))
        self.store(self.select(gone, pcs, self.and_const(pcs, L.MAX_BLOCKS - 1)), pcs_at(), align=64)
        self.br("dispatch", then="dispatch")
        pcs = self.load("i16", pcs_at(), WARP, align=64)
        lowest, mask = self._next(pcs)
        bits = self.mask_bits(mask)
        switch_at = len(self.lines)
        self.label("idle")
        verdict = self.call("ws_idle", "i32", WORKER, CONTEXT, constant("i32", int(self.unit.options.check)))
        leave = self.new_label("leave")
        self.branch(self.icmp("eq", verdict, constant("i32", -1)), "dispatch", leave, then=leave)
        self.ret(verdict)
        self.mask, self.here, self.pcs, self.lowest = mask, bits, pcs, lowest
        self.write_blocks(entries)
        arms = " ".join(f"i16 {block.index}, label %{self.label_of(block)}" for block in self.kernel.blocks)
        self.lines.insert(switch_at, f"switch i16 {lowest.text}, label %idle [{arms}]")
        self.lines[start:start] = self.area_lines()
        return self.function("i32 @masked(ptr noalias %c, ptr noalias %w)")

    def write_blocks(self, entries: frozenset[int]) -> None:
        """The code of all blocks; at those of `entries` lanes that have met may go back to `full`."""
        for block in self.kernel.blocks:
            self._block(block, block.index in entries)

    def label_of(self, block: Block) -> str:
        """Where lanes of a block go to."""
        return f"M{block.index}"

    def _next(self, pcs: IRValue) -> tuple[IRValue, IRValue]:
        """The block that runs next, and for which lanes: the lowest; of lanes in calls, that of the deepest ones.

        So lanes meet again behind a call that only some of them make, although the callee's blocks are shared.
        """
        pointer = self.kernel.stack_pointer
        if pointer is None:
            lowest = self.call(f"llvm.vector.reduce.umin.v{WARP}i16", "i16", pcs)
            return lowest, self.icmp("eq", pcs, self.splat(lowest))
        numbers = self.resize(pcs, "i64")
        calls = self.and_(self.icmp("ult", pcs, self.like(pcs, L.MAX_BLOCKS)), self.icmp("ne", pcs, self.like(pcs, 0)))
        depths = self.select(calls, self.restore(pointer, WARP), self.like(numbers, 0))  # at block 0 it is not set yet
        turns = self.sub(numbers, self.shl(depths, 16))
        first = self.call(f"llvm.vector.reduce.smin.v{WARP}i64", "i64", turns)
        return self.resize(first, "i16"), self.icmp("eq", turns, self.splat(first))

    def _pcs_at(self) -> IRValue:
        return self.offset(CONTEXT, self.unit.context.PCS)

    def _block(self, block: Block, entry: bool) -> None:
        self.start_block(block)
        self.label(self.label_of(block))
        self.note_leaving(block)
        if entry:
            self._try_full(block)
        if not self.unit.options.parted:
            spread(self, self.unit.frames, {name for i in block.instructions for name in (*i.read, *i.written)})
        if block.index in self.unit.spin_heads:
            self._yield(block)
        if self.unit.options.count:
            self.execution_cell = self.unit.plan.cell(2)
            self.unit.plan.executions.append((block.index, self.execution_cell))
            self.lanes_cell = self.execution_cell + 1
            self.count_execution()
        self.count_instructions(block)
        for self.position, i in enumerate(block.instructions):
            self.instruction(i)
        self.leave_block(block)

    def count_execution(self) -> None:
        """Counts that the current block runs, and for how many lanes."""
        self.bump(self.execution_cell, constant("i64", 1))
        self.bump(self.lanes_cell, self.resize(self.call("llvm.ctpop.i32", "i32", self.here), "i64"))

    def leave_block(self, block: Block) -> None:
        """What ends a block: its lanes' registers and where each of them goes on."""
        following = self._following(block)
        if following is None:
            return
        for name in sorted(self.defined & block.live_out):
            self._blend(name)
        self.store(self.select(self.mask, following, self.pcs), self._pcs_at(), align=64)
        self.br("dispatch")

    def _yield(self, block: Block) -> None:
        """Lets the other lanes go on before those that have looped here for long."""
        with self.yielding():
            later = constants("i16", [block.index | L.YIELD_FLAG] * WARP)
            self.store(self.select(self.mask, later, self.pcs), self._pcs_at(), align=64)
            self.br("dispatch")

    def _try_full(self, block: Block) -> None:
        """Back to `full` if all 32 lanes are here and every register that it keeps as a scalar fits its pattern."""
        together, check_next, stay = self.new_label("together"), self.new_label("fits"), self.new_label("stay")
        self.branch(self.icmp("eq", self.here, ALL_LANES), together, stay, then=together)
        fits = IRValue("i1", "true")
        scalars: dict[str, IRValue] = {}
        for name in sorted(block.live_in):
            pattern = self.pattern(name)
            if not pattern.known:
                continue
            value = self.restore(name, WARP)
            scalars[name] = self.first_lanes(value, lanes_of(pattern))
            fits = self.and_(fits, self.all_true(self.icmp("eq", value, self.widen(scalars[name], pattern))))
        self.branch(fits, check_next, stay, then=check_next)
        for name, scalar in scalars.items():
            self.save(name, scalar)
        self.ret(constant("i32", L.CONVERGED << 16 | block.index))
        self.label(stay)

    def _blend(self, name: str) -> None:
        """Stores the active lanes of a register."""
        value = self.known[name, WARP]
        if value.type == "i1":
            old, new = self.load("i32", self.slot(name)), self.mask_bits(value)
            self.store(self.or_(self.and_(new, self.here), self.and_(old, self.not_(self.here))), self.slot(name))
            return
        old = self.load(value.type, self.slot(name), WARP, align=64)
        self.store_where(self.mask, value, self.slot(name), old, align=64)

    def _following(self, block: Block) -> IRValue | None:
        """The block that each active lane goes to; None where the block ended the launch itself."""
        terminator = block.terminator
        line = self.count_terminator(block)
        self.spend(line, *block.successors)
        match terminator:
            case Return():
                return constants("i16", [L.EXITED] * WARP)
            case Jump(target):
                return constants("i16", [target] * WARP)
            case Barrier(target, i):
                self.count("barriers", line, per_warp=int(is_block_barrier(i)))
                self.name_barrier(i)
                mask = self.barrier_predicate(i)
                if mask is not None:
                    at = self.offset(CONTEXT, self.unit.context.PREDICATE)
                    held = self.and_(self.load("i32", at), self.not_(self.here))
                    self.store(self.or_(held, self.and_(mask, self.here)), at)
                return constants("i16", [target | L.BARRIER_FLAG] * WARP)
            case WarpBarrier(target, i):
                require_member(self, i)
                return self._meet(target, self.source(i.operands[0], "b32", WARP), orders=not i.added)
            case Branch():
                yes, no = ways(terminator)
                condition = self.get(terminator.guard.register, WARP)
                if self.unit.options.count and not terminator.instruction.added:
                    self._count_divergence(condition, line)
                return self.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
            case Switch(index, targets, _):
                following = self.chosen_target(index, targets)
                if self.unit.options.count:
                    self.count_parting(following, self.mask, line)
                return following
        raise AssertionError(terminator)

    def _meet(self, target: int, members: IRValue, *, orders: bool) -> IRValue:
        """At a warp barrier: lanes whose mask's lanes are all here go straight on, the others wait."""
        noted = self.offset(CONTEXT, self.unit.context.MEETING)
        held = self.load("i32", noted)
        self.store(self.and_(held, self.not_(self.here)) if orders else self.or_(held, self.here), noted)
        at = self.offset(CONTEXT, self.unit.context.WARP_MASKS)
        self.store_where(self.mask, members, at, self.load("i32", at, WARP, align=64), align=64)
        gone = self.mask_bits(self.icmp("eq", self.pcs, self.like(self.pcs, L.EXITED)))
        missing = self.and_(members, self.not_(self.splat(self.or_(self.here, gone))))
        complete = self.icmp("eq", missing, self.like(missing, 0))
        if self.unit.options.check and orders:
            together = self.and_(self.mask_bits(complete), self.here)
            with self.if_(self.icmp("ne", together, constant("i32", 0))):
                self.call("ws_warp_sync", "void", WORKER, CONTEXT, members, together)
        wait = constants("i16", [target | L.WARP_BARRIER_FLAG] * WARP)
        return self.select(complete, constants("i16", [target] * WARP), wait)

    def _count_divergence(self, condition: IRValue, line: int) -> None:
        taken = self.and_(self.mask_bits(condition), self.here)
        parted = self.and_(self.icmp("ne", taken, self.like(taken, 0)), self.icmp("ne", taken, self.here))
        self.count_divergence(parted, line)
