"""`full`: a warp whose 32 lanes are all active and together."""

from __future__ import annotations

from ptxsim.analysis.lanes import Lanes, widened_source
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import ALL_LANES, WARP, Value, constant, constants, ir_type
from ptxsim.codegen.functions import CONTEXT, WORKER
from ptxsim.codegen.tensor_frames import ResidentFrames, product_groups
from ptxsim.codegen.tensor_products import NARROW, WIDE
from ptxsim.codegen.translator import Translator, last_line
from ptxsim.codegen.unit import Part, Unit, lanes_of
from ptxsim.syntax.program import (
    Barrier,
    Block,
    Branch,
    Instruction,
    Jump,
    Operand,
    Register,
    Return,
    Switch,
    WarpBarrier,
)


class Full(Translator):
    """Translation for a whole warp: registers are allocas that LLVM turns into SSA values.

    In a long kernel they live in the warp's context instead, as in `masked`, in the form in which `full` keeps them.
    The host has too few registers to hold many values from block to block anyway, and so nothing need be done where
    the warp enters or leaves: that would be most of such a kernel's code.
    """

    def __init__(self, unit: Unit, part: Part) -> None:
        super().__init__(unit)
        self.part = part
        self.homes: set[str] = set()
        """registers that have an alloca"""
        self.frames = ResidentFrames(self, unit.frames)

    def get(self, register: str, lanes: int) -> Value:
        key = (register, lanes)
        if key not in self.known:
            form = self.form(register)
            if register in self.frames.of:
                self.frames.read(self.frames.of[register])
            elif form == lanes:
                self.known[key] = self._load_home(register, form)
            else:
                assert lanes > form, f"{register} needs {form} lanes"
                self.known[key] = self.widen(self.get(register, form), self.pattern(register), lanes)
        return self.known[key]

    def put(self, register: str, value: Value, own: Lanes) -> None:
        value = self.as_storage(register, value)
        self.versions[register] = self.versions.get(register, 0) + 1
        for lanes in (0, 2, 4, WARP):
            self.known.pop((register, lanes), None)
        form = self.form(register)
        if value.lanes == WARP and form != WARP:  # computed lane by lane although its first lanes say it all
            self.known[register, WARP] = value
            value = self.first_lanes(value, form)
        self.known[register, form] = self.widen(value, own, form)
        if register in self.frames.of:
            self.frames.dirty.add(register)
        else:
            self.defined.add(register)

    def _load_home(self, register: str, form: int) -> Value:
        if self._in_context(register):
            return self.restore(register, form)
        return self.b.load(self.storage(register), self._home(register), form, align=64 if form == WARP else None)

    def _store_home(self, register: str, value: Value) -> None:
        if self._in_context(register):
            self.save(register, value)
        else:
            self.b.store(value, self._home(register), align=64 if value.lanes == WARP else None)

    def _home(self, register: str) -> Value:
        self.homes.add(register)
        return Value("ptr", f'%"R{register}"')

    def _in_context(self, register: str) -> bool:
        return self.unit.long and register in self.unit.context.slots

    def translate(self) -> str:
        """The function that enters at `self.part.entries`."""
        b, part = self.b, self.part
        blocks = [self.kernel.blocks[k] for k in part.blocks]
        self.unsaved_before, self.unsaved = _unsaved(self.kernel.blocks, part)
        for block in blocks:
            self._block(block)
        mentioned = _mentioned(blocks)
        self._leave_block(mentioned)
        body, b.lines = b.lines, []
        self.frames.enter(frozenset().union(*(self.kernel.blocks[e].live_in for e in part.entries)))
        targets = " ".join(f"i32 {e}, label %E{e}" for e in part.entries[1:])
        b.emit(f"switch i32 %entry_block, label %E{part.entries[0]} [{targets}]")
        for e in part.entries:
            b.label(f"E{e}")
            for name in sorted(self.kernel.blocks[e].live_in - self.frames.of.keys()):
                if not self._in_context(name):
                    self._store_home(name, self.restore(name, self.form(name)))
            b.br(f"F{e}")
        entering, b.lines = b.lines, []
        b.label("entry")
        # the frame starts a page: see engine._aligned
        b.emit("%pin = alloca i8, align 4096\nstore volatile i8 0, ptr %pin")
        for name in sorted(self.homes):
            form, kind = self.form(name), self.storage(name)
            b.emit(f'%"R{name}" = alloca {ir_type(kind, form)}{", align 64" if form == WARP else ""}')
        b.emit(f"%parted_pcs = alloca <{WARP} x i16>, align 64\n%parted_code = alloca i32")
        b.lines += self.area_lines()
        b.lines += entering
        b.lines += body
        return b.function(f"i32 @{part.name}(ptr noalias %c, ptr noalias %w, i32 %entry_block)")

    def _block(self, block: Block) -> None:
        b = self.b
        self.block, self.known, self.defined, self.scratch, self.groups = block, {}, set(), {}, {}
        self.carry = None
        self.frames.dirty = set()
        self.products = product_groups(block, WIDE if self.unit.wide_vectors else NARROW, self.frames.find)
        b.label(f"F{block.index}")
        if block.index in self.unit.spin_heads:
            self._yield(block)
        if block.instructions and id(block.instructions[0]) in self.unit.analysis.guarded:
            self._guard(block.instructions[0])
        if self.unit.options.count:
            self.execution_cell = self.unit.plan.cell()
            self.bump(self.execution_cell, constant("i64", 1))
        for self.position, i in enumerate(block.instructions):
            self.count_instruction(i)
            self.instruction(i)
        self._terminator(block)

    def _guard(self, i: Instruction) -> None:
        """Leaves for `masked` where widening would be wrong for some lane. The block starts here, so it can start
        over."""
        b = self.b
        low, high = self.unit.analysis.guarded[id(i)]
        source = widened_source(i)
        assert source is not None
        form = (
            self.form(source.name)
            if isinstance(source, Register)
            else lanes_of(self.unit.analysis.operand(source) or Lanes())
        )
        value = b.resize(self.source(source, i.type, form), "i64", i.type[0] == "s")
        fits = b.all_true(b.and_(b.icmp("sge", value, b.like(value, low)), b.icmp("sle", value, b.like(value, high))))
        wraps, fine = b.new_label("wraps"), b.new_label("fine")
        b.branch(fits, fine, wraps, likely=True)
        b.label(wraps)
        self._leave(constants("i16", [self.block.index] * WARP), self._old_on_entry(self.block))
        b.label(fine)

    def _yield(self, block: Block) -> None:
        """Leaves for the driver, to go on here once the other warps have run."""
        with self.yielding():
            self._leave(constants("i16", [block.index] * WARP), self._old_on_entry(block), L.YIELDED)

    def _old_on_entry(self, block: Block) -> frozenset[str]:
        """Live registers whose slots are out of date where a block starts."""
        return block.live_in & self.unsaved_before[block.index]

    def _old_at_end(self, block: Block) -> frozenset[str]:
        """Live registers whose slots are out of date where a block ends."""
        return block.live_out & self.unsaved[block.index]

    def _leave(self, counters: Value, old: frozenset[str], code: int = L.DIVERGED) -> None:
        """Hands the warp to `masked`, every lane at its own block. All live registers must be written back.

        The old ones are saved here, each in its own form: were it done in one place for all the ways that lead there,
        every register would stay alive up to it, and code generation would take five times as long.
        """
        known, self.known = self.known, {}  # what is computed on this path is not known on the other
        for name in sorted(old & self.unit.context.slots.keys() - self.frames.of.keys()):
            if not self._in_context(name):
                self.save(name, self.get(name, self.form(name)))
        self.known = known
        self.b.store(counters, Value("ptr", "%parted_pcs"), align=64)
        self.b.store(constant("i32", code << 16), Value("ptr", "%parted_code"))
        self.b.br("leave")

    def _leave_block(self, mentioned: set[str]) -> None:
        """The one place where scalars and matrices go to their slots for `masked`; dead ones carry anything."""
        b = self.b
        b.label("leave")
        self.known = {}
        for name in sorted(self.unit.context.slots.keys() & mentioned):
            if self.frames.leaves(name):
                self.save(name, self.get(name, WARP))
            elif self.form(name) != WARP:
                self.save(name, self.widen(self.restore(name, self.form(name)), self.pattern(name)))
        pcs = b.load("i16", Value("ptr", "%parted_pcs"), WARP, align=64)
        b.store(pcs, b.offset(CONTEXT, self.unit.context.PCS), align=64)
        b.ret(b.load("i32", Value("ptr", "%parted_code")))

    def _write_back(self, live: frozenset[str]) -> None:
        self.frames.flush_live(live)
        for name in sorted(self.defined & live):
            self._store_home(name, self.known[name, self.form(name)])

    def _terminator(self, block: Block) -> None:
        b, terminator = self.b, block.terminator
        instruction = getattr(terminator, "instruction", None)
        if instruction is not None:
            self.count_instruction(instruction)
        line = instruction.source.line if instruction is not None else last_line(block)
        match terminator:
            case Return():
                b.ret(constant("i32", L.DONE << 16))
            case Jump(target):
                self._write_back(block.live_out)
                if self.loops_back(target):
                    self.spend(line)
                b.br(f"F{target}")
            case Barrier(target, i):
                self.count("barriers", line, per_warp=1)
                if self.loops_back(target):
                    self.spend(line)
                self.name_barrier(i)
                mask = self.barrier_predicate(i)
                if mask is not None:
                    b.store(mask, b.offset(CONTEXT, self.unit.context.PREDICATE))
                if self.unit.long:
                    self._write_back(block.live_out)
                else:
                    self.frames.flush_live(block.live_out)
                    for name in sorted(self._old_at_end(block) - self.frames.of.keys()):
                        self.save(name, self.get(name, self.form(name)))
                b.ret(constant("i32", L.AT_BARRIER << 16 | target))
            case WarpBarrier(target, i):
                if self.unit.options.check:
                    members = self.source(i.operands[0], "b32", WARP)
                    b.call("ws_warp_sync", "void", WORKER, CONTEXT, members, ALL_LANES)
                self._write_back(block.live_out)
                if self.loops_back(target):
                    self.spend(line)
                b.br(f"F{target}")
            case Branch():
                self._branch(terminator, block, line)
            case Switch(index, targets, i):
                self._switch(index, targets, block, line)

    def _branch(self, t: Branch, block: Block, line: int) -> None:
        b = self.b
        yes, no = (t.fallthrough, t.taken) if t.guard.negated else (t.taken, t.fallthrough)
        if self.loops_back(yes) or self.loops_back(no):
            self.spend(line)
        name = t.guard.register
        if self.pattern(name).uniform:
            condition = self.get(name, 0)
            self._write_back(block.live_out)
            b.branch(condition, f"F{yes}", f"F{no}")
            return
        condition = self.get(name, WARP)
        self._write_back(block.live_out)
        bits = b.mask_bits(condition)
        parted = b.new_label("parted")
        b.emit(f"switch i32 {bits.text}, label %{parted} [i32 -1, label %F{yes} i32 0, label %F{no}]")
        b.label(parted)
        if self.unit.options.count and not t.instruction.added:
            self.count_divergence(constant("i64", 1), line)
        counters = b.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
        self._leave(counters, self._old_at_end(block))

    def _switch(self, index: Operand, targets: tuple[int, ...], block: Block, line: int) -> None:
        b = self.b
        if any(self.loops_back(t) for t in targets):
            self.spend(line)
        uniform = not isinstance(index, Register) or self.pattern(index.name).uniform
        if uniform:
            value = self.source(index, "u32", 0)
            self._write_back(block.live_out)
            arms = " ".join(f"i32 {k}, label %F{t}" for k, t in enumerate(targets))
            b.emit(f"switch i32 {value.text}, label %F{targets[-1]} [{arms}]")
            return
        value = self.source(index, "u32", WARP)
        counters = constants("i16", [targets[-1]] * WARP)
        for k, t in enumerate(targets[:-1]):
            counters = b.select(b.icmp("eq", value, b.like(value, k)), constants("i16", [t] * WARP), counters)
        self._write_back(block.live_out)
        if self.unit.options.count:
            self.count_parting(counters, constant("i1", 1, WARP), line)
        self._leave(counters, self._old_at_end(block))


def _mentioned(blocks: list[Block]) -> set[str]:
    """Registers that live in or out of these blocks or are written there."""
    names: set[str] = set()
    for block in blocks:
        names |= block.live_in | block.live_out
        for i in block.instructions:
            names |= {*i.written, *i.read}
    return names


def _unsaved(blocks: list[Block], part: Part) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
    """Registers that, where a block starts and where it ends, may have changed since the warp entered `full`: their
    slots are out of date."""
    changes = {k: {name for i in blocks[k].instructions for name in i.written} for k in part.blocks}
    before: dict[int, set[str]] = {k: set() for k in part.blocks}
    after = {k: set(c) for k, c in changes.items()}
    pending = list(part.blocks)
    while pending:
        k = pending.pop(0)
        after[k] = before[k] | changes[k]
        if isinstance(blocks[k].terminator, Barrier):
            continue  # `full` is left here and entered anew
        for s in blocks[k].successors:
            if not after[k] <= before[s]:
                before[s] |= after[k]
                pending.append(s)
    return before, after
