"""`full`: a warp whose 32 lanes are all active and together."""

from __future__ import annotations

from dataclasses import replace

from ptxsim.analysis.lanes import Lanes, widened_source
from ptxsim.codegen import chains, layout as L, lockstep
from ptxsim.codegen.access import MemoryAccess
from ptxsim.codegen.conditions import Condition, condition
from ptxsim.codegen.emit import ALL_LANES, CONTEXT, WARP, WORKER, IRValue, constant, constants, ir_type
from ptxsim.codegen.grids import OuterProduct
from ptxsim.codegen.outer_products import ProductLoops
from ptxsim.codegen.tensor_frames import ResidentFrames, product_groups
from ptxsim.codegen.tensor_products import NARROW, WIDE
from ptxsim.codegen.translator import Translator, is_block_barrier, ways
from ptxsim.codegen.unit import FullPart, Unit, lanes_of
from ptxsim.codegen.warp import require_member
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

_MOST_EXITS = 4
"""Places where a function is left for lanes that have parted."""


class Full(Translator):
    """Translation for a whole warp: registers are allocas that LLVM turns into SSA values.

    In a long kernel they live in the warp's context instead, as in `masked`, in the form in which `full` keeps them.
    The host has too few registers to hold many values from block to block anyway, and so nothing need be done where
    the warp enters or leaves: that would be most of such a kernel's code.
    """

    def __init__(self, unit: Unit, part: FullPart) -> None:
        super().__init__(unit)
        self.part = part
        self.homes: set[str] = set()
        """registers that have an alloca"""
        self.loops: ProductLoops | None = None
        """of the block that is being translated"""
        self.condition: Condition | None = None
        """of its branch, if a few numbers may decide it"""
        self.frames = ResidentFrames(self, unit.frames)
        self.where_needed = _where_needed(unit.kernel.blocks, part)
        mentioned = _mentioned([self.kernel.blocks[k] for k in part.blocks])
        self.scalars = {name for name in unit.context.slots.keys() & mentioned if self.form(name) != WARP}
        """registers that `masked` wants in another form"""
        self.exits: list[set[str]] = []
        """the places where `full` is left for `masked`: the scalars that go to their slots there"""

    def get(self, register: str, lanes: int) -> IRValue:
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

    def put(self, register: str, value: IRValue, own: Lanes) -> None:
        value = self.as_storage(register, value)
        if self.loops is not None and register in self.loops.places:
            return self.loops.take(register, self.widen(value, own) if value.lanes else value)
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

    def _load_home(self, register: str, form: int) -> IRValue:
        if self._in_context(register):
            return self.restore(register, form)
        return self.load(self.storage(register), self._home(register), form, align=64 if form == WARP else None)

    def _store_home(self, register: str, value: IRValue) -> None:
        if self._in_context(register):
            self.save(register, value)
        else:
            self.store(value, self._home(register), align=64 if value.lanes == WARP else None)

    def _home(self, register: str) -> IRValue:
        self.homes.add(register)
        return IRValue("ptr", f'%"R{register}"')

    def _in_context(self, register: str) -> bool:
        """Whether a register has no home but its place in the context."""
        in_place = self.unit.long or register in self.where_needed
        return register in self.unit.grid_sums or (in_place and register in self.unit.context.slots)

    def loads_factors(self, a: MemoryAccess, offsets: tuple[int, ...], place: IRValue) -> bool:
        return self.loops is not None and self.loops.load(a, offsets, place)

    def translate(self) -> str:
        """The function that enters at `self.part.entries`."""
        part = self.part
        blocks = [self.kernel.blocks[k] for k in part.blocks]
        self.unsaved_before, self.unsaved = _unsaved(self.kernel.blocks, part)
        for block in blocks:
            self._block(block)
        for number, names in enumerate(self.exits):
            self._leave_block(number, names)
        body, self.lines = self.lines, []
        self.frames.enter(frozenset().union(*(self.kernel.blocks[e].live_in for e in part.entries)))
        targets = " ".join(f"i32 {e}, label %E{e}" for e in part.entries[1:])
        self.emit(f"switch i32 %entry_block, label %E{part.entries[0]} [{targets}]")
        for e in part.entries:
            self.label(f"E{e}")
            for name in sorted(self.kernel.blocks[e].live_in - self.frames.of.keys()):
                if not self._in_context(name):
                    self._store_home(name, self.restore(name, self.form(name)))
            self.br(f"F{e}")
        entering, self.lines = self.lines, []
        self.once = [*entering, *body]
        """what a single warp does"""
        self.label("entry")
        # the frame starts a page: see engine._aligned
        self.emit("%pin = alloca i8, align 4096\nstore volatile i8 0, ptr %pin")
        for name in sorted(self.homes):
            form, kind = self.form(name), self.storage(name)
            self.emit(f'%"R{name}" = alloca {ir_type(kind, form)}{", align 64" if form == WARP else ""}')
        self.emit(f"%parted_pcs = alloca <{WARP} x i16>, align 64\n%parted_code = alloca i32")
        in_lockstep = self.unit.in_lockstep
        self.lines += self.area_lines()
        self.lines += lockstep.one_after_another(self.once, self.unit.context.size) if in_lockstep else self.once
        return self.function(lockstep.header(part.name, in_lockstep=in_lockstep))

    def _block(self, block: Block) -> None:
        product = self.unit.grids.get(block.index) if not self.unit.options.exact else None
        room = chains.WIDE if self.unit.wide_vectors else chains.NARROW
        ordered = product.at_once(block) if product else chains.in_chains(block, room)
        block = replace(block, instructions=[*ordered])
        self.start_block(block)
        self.loops = ProductLoops(self, product) if product else None
        self.frames.dirty = set()
        self.condition = condition(self, block)
        late = {id(i) for i in self.condition.makers.values()} if self.condition else ()
        self.products = product_groups(block, WIDE if self.unit.wide_vectors else NARROW, self.frames.find)
        self.label(f"F{block.index}")
        self.note_leaving(block)
        if block.index in self.unit.spin_heads:
            self._yield(block)
        if block.instructions and id(block.instructions[0]) in self.unit.analysis.guarded:
            self._guard(block.instructions[0])
        if self.unit.options.count:
            self.execution_cell = self.unit.plan.cell()
            self.unit.plan.executions.append((block.index, self.execution_cell))
            self.bump(self.execution_cell, constant("i64", 1))
        self.count_instructions(block)
        for self.position, i in enumerate(block.instructions):
            if product and id(i) in product.instructions:
                if i is product.last:
                    self._add_up(product)
            elif id(i) not in late:
                self.instruction(i)
        self._terminator(block)

    def _add_up(self, product: OuterProduct) -> None:
        """A block's product, at the place of its last multiply-add."""
        assert self.loops is not None
        sums = [name for row in product.sums for name in row]
        self._write_back(frozenset(sums))
        self.loops.add_up(self.unit.context.slots[sums[0]])
        for name in sums:
            self.versions[name] = self.versions.get(name, 0) + 1
            self.known.pop((name, WARP), None)
        self.defined.difference_update(sums)

    def _guard(self, i: Instruction) -> None:
        """Leaves for `masked` where widening would be wrong for some lane. The block starts here, so it can start
        over."""
        low, high = self.unit.analysis.guarded[id(i)]
        source = widened_source(i)
        assert source is not None
        form = lanes_of(self.unit.analysis.operand(source) or Lanes())
        value = self.resize(self.source(source, i.type, form), "i64", i.type[0] == "s")
        fits = self.all_true(
            self.and_(self.icmp("sge", value, self.like(value, low)), self.icmp("sle", value, self.like(value, high)))
        )
        wraps, fine = self.new_label("wraps"), self.new_label("fine")
        self.branch(fits, fine, wraps, likely=True, then=wraps)
        here = constants("i16", [self.block.index] * WARP)
        self._leave(here, self.block.live_in, self._old_on_entry(self.block))
        self.label(fine)

    def _yield(self, block: Block) -> None:
        """Leaves for the driver, to go on here once the other warps have run."""
        with self.yielding():
            if block.index in self.unit.entries:
                self._save(self._old_on_entry(block))
                self.ret(constant("i32", L.GAVE_WAY << 16 | block.index))
            else:
                here = constants("i16", [block.index] * WARP)
                self._leave(here, block.live_in, self._old_on_entry(block), L.YIELDED)

    def _old_on_entry(self, block: Block) -> frozenset[str]:
        """Live registers whose slots are out of date where a block starts."""
        return block.live_in & self.unsaved_before[block.index]

    def _old_at_end(self, block: Block) -> frozenset[str]:
        """Live registers whose slots are out of date where a block ends."""
        return block.live_out & self.unsaved[block.index]

    def _leave(
        self, counters: IRValue, live: frozenset[str], old: frozenset[str], code: int = L.DIVERGED
    ) -> None:
        """Hands the warp to `masked`, every lane at its own block. All live registers must be written back.

        The old ones are saved here, each in its own form: were it done in one place for all the ways that lead there,
        every register would stay alive up to it, and code generation would take five times as long.
        """
        self._save(old)
        self.store(counters, IRValue("ptr", "%parted_pcs"), align=64)
        self.store(constant("i32", code << 16), IRValue("ptr", "%parted_code"))
        self.br(f"leave{self._exit(self.scalars & live)}")

    def _exit(self, live: set[str]) -> int:
        """A place to leave where these scalars go to their slots, and not many more: what is live in one part of a long
        kernel is not in others, but with a place for each way out the code would grow."""
        few = len(self.scalars) // 2
        grown = [names | live for names in self.exits]
        fits = [n for n, names in enumerate(grown) if len(names) <= few or names == self.exits[n]]
        if not fits and len(grown) < _MOST_EXITS:
            fits = [len(grown)]
            grown.append(live)
            self.exits.append(live)
        number = min(fits or range(len(grown)), key=lambda n: len(grown[n]))
        self.exits[number] = grown[number]
        return number

    def _save(self, old: frozenset[str]) -> None:
        """Puts registers into their slots, each in its own form; matrices are where they stay."""
        known, self.known = self.known, {}  # what is computed on this path is not known on the other
        for name in sorted(old & self.unit.context.slots.keys() - self.frames.of.keys()):
            if not self._in_context(name):
                self.save(name, self.get(name, self.form(name)))
        self.known = known

    def _leave_block(self, number: int, names: set[str]) -> None:
        """A place where scalars go to their slots for `masked`."""
        self.label(f"leave{number}")
        self.known = {}
        for name in sorted(names):
            self.save(name, self.widen(self.restore(name, self.form(name)), self.pattern(name)))
        pcs = self.load("i16", IRValue("ptr", "%parted_pcs"), WARP, align=64)
        self.store(pcs, self.offset(CONTEXT, self.unit.context.PCS), align=64)
        self.ret(self.load("i32", IRValue("ptr", "%parted_code")))

    def _write_back(self, live: frozenset[str]) -> None:
        self.frames.flush_live(live)
        for name in sorted(self.defined & live):
            self._store_home(name, self.known[name, self.form(name)])

    def _terminator(self, block: Block) -> None:
        terminator = block.terminator
        line = self.count_terminator(block)
        match terminator:
            case Return():
                self.ret(constant("i32", L.DONE << 16))
            case Jump(target):
                self._write_back(block.live_out)
                self.spend(line, target)
                self.br(f"F{target}")
            case Barrier(target, i):
                self.count("barriers", line, per_warp=int(is_block_barrier(i)))
                self.spend(line, target)
                self.name_barrier(i)
                mask = self.barrier_predicate(i)
                if mask is not None:
                    self.store(mask, self.offset(CONTEXT, self.unit.context.PREDICATE))
                if self.unit.long:
                    self._write_back(block.live_out)
                else:
                    self.frames.flush_live(block.live_out)
                    for name in sorted(self._old_at_end(block) - self.frames.of.keys()):
                        if name in self.defined or not self._in_context(name):
                            self.save(name, self.get(name, self.form(name)))
                self.ret(constant("i32", L.AT_BARRIER << 16 | target))
            case WarpBarrier(target, i):
                require_member(self, i)
                if self.unit.options.check and not i.added:
                    members = self.source(i.operands[0], "b32", WARP)
                    self.call("ws_warp_sync", "void", WORKER, CONTEXT, members, ALL_LANES)
                self._write_back(block.live_out)
                self.spend(line, target)
                self.br(f"F{target}")
            case Branch():
                self._branch(terminator, block, line)
            case Switch(index, targets, i):
                self._switch(index, targets, block, line)

    def _branch(self, t: Branch, block: Block, line: int) -> None:
        yes, no = ways(t)
        self.spend(line, yes, no)
        name = t.guard.register
        if self.pattern(name).uniform:
            condition = self.get(name, 0)
            self._write_back(block.live_out)
            self.branch(condition, f"F{yes}", f"F{no}")
            return
        if self.condition is not None:
            self._decide(self.condition, block, yes, no)
        condition = self.get(name, WARP)
        self._write_back(block.live_out)
        bits, parted = self.mask_bits(condition), self.new_label("parted")
        self.emit(f"switch i32 {bits.text}, label %{parted} [i32 -1, label %F{yes} i32 0, label %F{no}]")
        self.label(parted)
        if self.unit.options.count and not t.instruction.added:
            self.count_divergence(constant("i64", 1), line)
        counters = self.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
        self._leave(counters, block.live_out, self._old_at_end(block))

    def _decide(self, condition: Condition, block: Block, yes: int, no: int) -> None:
        """Goes where all lanes go if a few numbers tell; behind that the condition is worked out lane by lane."""
        everywhere, nowhere = condition.facts(self)
        self._write_back(block.live_out)
        for holds, target in ((nowhere, no), (everywhere, yes)):
            if holds is not None:
                undecided = self.new_label("undecided")
                self.branch(holds, f"F{target}", undecided, then=undecided)
        for i in condition.makers.values():
            self.instruction(i)

    def _switch(self, index: Operand, targets: tuple[int, ...], block: Block, line: int) -> None:
        self.spend(line, *targets)
        if not isinstance(index, Register) or self.pattern(index.name).uniform:
            value = self.source(index, "u32", 0)
            self._write_back(block.live_out)
            arms = " ".join(f"i32 {k}, label %F{t}" for k, t in enumerate(targets))
            self.emit(f"switch i32 {value.text}, label %F{targets[-1]} [{arms}]")
            return
        counters = self.chosen_target(index, targets)
        self._write_back(block.live_out)
        if self.unit.options.count:
            self.count_parting(counters, constant("i1", 1, WARP), line)
        self._leave(counters, block.live_out, self._old_at_end(block))


def _mentioned(blocks: list[Block]) -> set[str]:
    """Registers that live in or out of these blocks or are written there."""
    live = (names for block in blocks for names in (block.live_in, block.live_out))
    named = (names for block in blocks for i in block.instructions for names in (i.written, i.read))
    return set().union(*live, *named)


def _where_needed(blocks: list[Block], part: FullPart) -> set[str]:
    """Registers that `full` takes from the context where it needs them: never written here, and read in no loop.

    Were they loaded where the warp enters, the host would keep many of them in memory of its own until then.
    """
    once = _outside_loops(blocks, part)
    busy = {name for k in part.blocks for i in blocks[k].executed for name in i.written}
    busy |= {name for k in part.blocks if k not in once for i in blocks[k].executed for name in i.read}
    return {name for k in part.blocks for name in blocks[k].live_in} - busy


def _outside_loops(blocks: list[Block], part: FullPart) -> set[int]:
    """Blocks that a warp comes to once at most: those before the first loop, and those behind the last."""
    ends = {k for k in part.blocks if isinstance(blocks[k].terminator, Barrier)}
    following = {k: [*dict.fromkeys(blocks[k].successors)] if k not in ends else [] for k in part.blocks}
    preceding: dict[int, list[int]] = {k: [] for k in part.blocks}
    for k, targets in following.items():
        for target in targets:
            preceding[target].append(k)
    return _ahead_of_loops(following, preceding) | _ahead_of_loops(preceding, following)


def _ahead_of_loops(following: dict[int, list[int]], preceding: dict[int, list[int]]) -> set[int]:
    missing = {k: len(before) for k, before in preceding.items()}
    ready, found = [k for k, count in missing.items() if not count], set[int]()
    while ready:
        found.add(k := ready.pop())
        for target in following[k]:
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return found


def _unsaved(blocks: list[Block], part: FullPart) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
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
