"""`masked`: any mixture of lanes; every one has its own program counter."""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant, constants
from ptxsim.codegen.functions import CONTEXT, WORKER
from ptxsim.codegen.translator import Translator, last_line
from ptxsim.codegen.unit import entries_of, lanes_of
from ptxsim.syntax.program import Barrier, Block, Branch, Jump, Return, Switch, WarpBarrier


class Masked(Translator):
    """Translation for lanes that have parted: everything is a vector, registers live in the warp's context."""

    masked = True

    @property
    def active(self) -> Value:
        return self.mask_bits

    def get(self, register: str, lanes: int) -> Value:
        key = (register, WARP)
        if key not in self.known:
            self.known[key] = self.restore(register, WARP)
        return self.known[key]

    def put(self, register: str, value: Value, own: Lanes) -> None:
        value = self.as_storage(register, value)
        self.versions[register] = self.versions.get(register, 0) + 1
        self.known[register, WARP] = value if value.lanes else self.b.splat(value)
        self.defined.add(register)

    def translate(self) -> str:
        b = self.b
        entries = set() if self.unit.options.parted else set(entries_of(self.unit))
        pcs_at = self._pcs_at
        b.label("entry")
        start = len(b.lines)
        if self.unit.frames:
            b.store(constant("i32", 1), b.offset(CONTEXT, self.unit.context.STALE))
        # warps that come back from a barrier: their lanes may go on
        status = b.load("i32", b.offset(CONTEXT, self.unit.context.STATUS))
        b.branch(b.icmp("eq", b.lshr(status, 16), constant("i32", L.YIELDED)), "dispatch", "awake")
        b.label("awake")
        pcs = b.load("i16", pcs_at(), WARP, align=64)
        gone = b.icmp("eq", pcs, b.like(pcs, L.EXITED))
        awake = b.and_const(pcs, L.MAX_BLOCKS - 1)
        b.store(b.select(gone, pcs, awake), pcs_at(), align=64)
        b.br("dispatch")
        b.label("dispatch")
        pcs = b.load("i16", pcs_at(), WARP, align=64)
        lowest, mask = self._next(pcs)
        bits = b.mask_bits(mask)
        b.emit(f"%now = bitcast i32 {bits.text} to i32")
        arms = " ".join(f"i16 {block.index}, label %M{block.index}" for block in self.kernel.blocks)
        b.emit(f"switch i16 {lowest.text}, label %idle [{arms}]")
        b.label("idle")
        verdict = b.call(
            "ws_idle", "i32", WORKER, CONTEXT, constant("i32", int(self.unit.options.check))
        )
        again, leave = b.new_label("again"), b.new_label("leave")
        b.branch(b.icmp("eq", verdict, constant("i32", -1)), "dispatch", leave)
        b.label(leave)
        b.ret(verdict)
        del again
        self.mask = mask
        self.mask_bits = bits
        self.pcs = pcs
        for block in self.kernel.blocks:
            self._block(block, block.index in entries)
        b.lines[start:start] = self.area_lines()
        return b.function("i32 @masked(ptr noalias %c, ptr noalias %w)")

    def _next(self, pcs: Value) -> tuple[Value, Value]:
        """The block that runs next, and for which lanes: the lowest; of lanes in calls, that of the deepest ones.

        So lanes meet again behind a call that only some of them make, although the callee's blocks are shared.
        """
        b, pointer = self.b, self.kernel.stack_pointer
        if pointer is None:
            lowest = b.call(f"llvm.vector.reduce.umin.v{WARP}i16", "i16", pcs)
            return lowest, b.icmp("eq", pcs, b.splat(lowest))
        numbers = b.resize(pcs, "i64")
        calls = b.and_(b.icmp("ult", pcs, b.like(pcs, L.MAX_BLOCKS)), b.icmp("ne", pcs, b.like(pcs, 0)))
        depths = b.select(calls, self.restore(pointer, WARP), b.like(numbers, 0))  # at block 0 it is not set yet
        turns = b.sub(numbers, b.shl(depths, 16))
        first = b.call(f"llvm.vector.reduce.smin.v{WARP}i64", "i64", turns)
        return b.resize(first, "i16"), b.icmp("eq", turns, b.splat(first))

    def _pcs_at(self) -> Value:
        return self.b.offset(CONTEXT, self.unit.context.PCS)

    def _block(self, block: Block, entry: bool) -> None:
        b = self.b
        self.block, self.known, self.defined, self.scratch, self.groups = block, {}, set(), {}, {}
        self.carry = None
        b.label(f"M{block.index}")
        if entry:
            self._try_full(block)
        if block.index in self.unit.spin_heads:
            self._yield(block)
        if self.unit.options.count:
            self.execution_cell = self.unit.plan.cell(2)
            self.lanes_cell = self.execution_cell + 1
            self.bump(self.execution_cell, constant("i64", 1))
            self.bump(self.lanes_cell, b.resize(b.call("llvm.ctpop.i32", "i32", self.mask_bits), "i64"))
        for self.position, i in enumerate(block.instructions):
            self.count_instruction(i)
            self.instruction(i)
        following = self._following(block)
        if following is None:
            return
        for name in sorted(self.defined & block.live_out):
            self._blend(name)
        b.store(b.select(self.mask, following, self.pcs), self._pcs_at(), align=64)
        b.br("dispatch")

    def _yield(self, block: Block) -> None:
        """Lets the other lanes go on before those that have looped here for long."""
        b = self.b
        with self.yielding():
            later = constants("i16", [block.index | L.YIELD_FLAG] * WARP)
            b.store(b.select(self.mask, later, self.pcs), self._pcs_at(), align=64)
            b.br("dispatch")

    def _try_full(self, block: Block) -> None:
        """Back to `full` if all 32 lanes are here and every register that it keeps as a scalar fits its pattern."""
        b = self.b
        together, check_next, stay = b.new_label("together"), b.new_label("fits"), b.new_label("stay")
        b.branch(b.icmp("eq", self.mask_bits, ALL_LANES), together, stay)
        b.label(together)
        fits = Value("i1", "true")
        scalars: dict[str, Value] = {}
        for name in sorted(block.live_in):
            pattern = self.pattern(name)
            if not pattern.known:
                continue
            value = self.restore(name, WARP)
            form = lanes_of(pattern)
            scalars[name] = self.first_lanes(value, form)
            same = b.all_true(b.icmp("eq", value, self.widen(scalars[name], pattern)))
            fits = b.and_(fits, same)
        b.branch(fits, check_next, stay)
        b.label(check_next)
        for name, scalar in scalars.items():
            self.save(name, scalar)
        b.ret(constant("i32", L.CONVERGED << 16 | block.index))
        b.label(stay)

    def _blend(self, name: str) -> None:
        """Stores the active lanes of a register."""
        b, value = self.b, self.known[name, WARP]
        if value.type == "i1":
            old, new = b.load("i32", self.slot(name)), b.mask_bits(value)
            b.store(b.or_(b.and_(new, self.mask_bits), b.and_(old, b.not_(self.mask_bits))), self.slot(name))
            return
        old = b.load(value.type, self.slot(name), WARP, align=64)
        b.store(b.select(self.mask, value, old), self.slot(name), align=64)

    def _following(self, block: Block) -> Value | None:
        """The block that each active lane goes to; None where the block ended the launch itself."""
        b, terminator = self.b, block.terminator
        instruction = getattr(terminator, "instruction", None)
        if instruction is not None:
            self.count_instruction(instruction)
        line = instruction.source.line if instruction is not None else last_line(block)
        if any(self.loops_back(s) for s in block.successors):
            self.spend(line)
        match terminator:
            case Return():
                return constants("i16", [L.EXITED] * WARP)
            case Jump(target):
                return constants("i16", [target] * WARP)
            case Barrier(target, i):
                self.count("barriers", line, per_warp=1)
                self.name_barrier(i)
                mask = self.barrier_predicate(i)
                if mask is not None:
                    at = b.offset(CONTEXT, self.unit.context.PREDICATE)
                    held = b.and_(b.load("i32", at), b.not_(self.mask_bits))
                    b.store(b.or_(held, b.and_(mask, self.mask_bits)), at)
                return constants("i16", [target | L.BARRIER_FLAG] * WARP)
            case WarpBarrier(target, i):
                return self._meet(target, self.source(i.operands[0], "b32", WARP))
            case Branch():
                yes, no = terminator.taken, terminator.fallthrough
                if terminator.guard.negated:
                    yes, no = no, yes
                condition = self.get(terminator.guard.register, WARP)
                if self.unit.options.count and not terminator.instruction.added:
                    self._count_divergence(condition, line)
                return b.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
            case Switch(index, targets, _):
                value = self.source(index, "u32", WARP)
                following = constants("i16", [targets[-1]] * WARP)
                for k, t in enumerate(targets[:-1]):
                    following = b.select(b.icmp("eq", value, b.like(value, k)), constants("i16", [t] * WARP), following)
                if self.unit.options.count:
                    self.count_parting(following, self.mask, line)
                return following
        raise AssertionError(terminator)

    def _meet(self, target: int, members: Value) -> Value:
        """At a warp barrier: lanes whose mask's lanes are all here go straight on, the others wait."""
        b = self.b
        at = b.offset(CONTEXT, self.unit.context.WARP_MASKS)
        b.store(b.select(self.mask, members, b.load("i32", at, WARP, align=64)), at, align=64)
        gone = b.mask_bits(b.icmp("eq", self.pcs, b.like(self.pcs, L.EXITED)))
        missing = b.and_(members, b.not_(b.splat(b.or_(self.mask_bits, gone))))
        complete = b.icmp("eq", missing, b.like(missing, 0))
        if self.unit.options.check:
            together = b.and_(b.mask_bits(complete), self.mask_bits)
            with b.if_(b.icmp("ne", together, constant("i32", 0))):
                b.call("ws_warp_sync", "void", WORKER, CONTEXT, members, together)
        wait = constants("i16", [target | L.WARP_BARRIER_FLAG] * WARP)
        return b.select(complete, constants("i16", [target] * WARP), wait)

    def _count_divergence(self, condition: Value, line: int) -> None:
        b = self.b
        taken = b.and_(b.mask_bits(condition), self.mask_bits)
        parted = b.and_(b.icmp("ne", taken, b.like(taken, 0)), b.icmp("ne", taken, self.mask_bits))
        self.count_divergence(parted, line)
