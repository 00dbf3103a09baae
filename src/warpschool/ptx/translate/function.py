"""Translation of one kernel into the two LLVM functions `full` and `masked`.

`full` runs a warp whose 32 lanes are all active and together: registers are SSA values, uniform ones scalars. It leaves
at a branch where the lanes part, at a guard that fails, and at a barrier. `masked` runs any mixture: registers live in
the warp's context, every lane has its own program counter, and the block with the lowest number among them runs next
for the lanes that wait there, which is where parted lanes meet again. From there a whole warp goes back to `full` if the
registers that `full` keeps as scalars do fit their patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..emit import BITS, WARP, Builder, Value, constant, constants, float_constant, ir_type
from ..lanes import ZERO, LaneAnalysis, Lanes
from ..program import (
    WIDTH_BITS,
    Barrier,
    Block,
    Branch,
    Immediate,
    Instruction,
    Jump,
    Kernel,
    Operand,
    Pair,
    Register,
    Return,
    Sink,
    Special,
    Switch,
    Symbol,
    Vector,
    WarpBarrier,
    written,
)
from . import layout as L
from .plan import AccessSite, CounterPlan, instruction_class
from .values import LLVM_TYPE, VALUES, is_float, source_types, unsupported

ALL_LANES = constant("i32", -1)


@dataclass(frozen=True)
class Options:
    """What translated code does besides computing."""

    check: bool = True
    count: bool = True


@dataclass
class Unit:
    """Everything that the two functions of one kernel share."""

    kernel: Kernel
    block: tuple[int, int, int]
    analysis: LaneAnalysis
    options: Options
    context: L.ContextLayout
    pointers: dict[str, frozenset[str]]
    """register -> what it may point into (provenance)"""
    plan: CounterPlan = field(default_factory=CounterPlan)
    sites: list[AccessSite] = field(default_factory=list)
    helpers: dict[str, str] = field(default_factory=dict)
    """functions that this kernel needs, by name: IR text"""
    global_granule_log2: int = 2
    shared_granule_log2: int = 2
    symbol_slots: dict[str, int] = field(default_factory=dict)
    """module variable -> offset of its address behind the kernel's parameters"""

    def site(self, instruction: Instruction, space: str, access: str) -> int:
        self.sites.append(AccessSite(instruction.source.line, space, access))
        return len(self.sites) - 1


class Translator:
    """Base of the two translations: operands, results, and one block's worth of instructions."""

    masked = False

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.kernel = unit.kernel
        self.b = Builder()
        self.known: dict[tuple[str, int], Value] = {}
        """values of registers in the current block: (register, lanes); 0 lanes: lane 0 alone, 2 or 4: a group's first lanes"""
        self.defined: set[str] = set()
        self.scratch: dict[object, Value] = {}
        self.block: Block
        self.position = 0
        self.execution_cell = 0
        self.lanes_cell = 0

    # -- registers ------------------------------------------------------------------------------------------------
    def storage(self, register: str) -> str:
        return L.storage(self.kernel.registers[register])

    def pattern(self, register: str) -> Lanes:
        return self.unit.analysis.of(register)

    def get(self, register: str, lanes: int) -> Value:
        """A register's raw bits: of lane 0 (`lanes` 0), of the first lanes of 2 or 4 groups, or of all 32 lanes."""
        raise NotImplementedError

    def put(self, register: str, value: Value, own: Lanes) -> None:
        raise NotImplementedError

    def slot(self, register: str) -> Value:
        return self.b.offset(Value("ptr", "%c"), self.unit.context.slots[register])

    def scalar_slot(self, register: str) -> Value:
        return self.b.offset(Value("ptr", "%c"), self.unit.context.scalars[register])

    def save(self, register: str, value: Value) -> None:
        """Stores a register: a scalar among the scalars, a vector in its slot; predicates are a bit per lane."""
        whole = value.lanes == WARP
        if value.type == "i1":
            value = self.b.resize(self.b.mask_bits(value) if value.lanes else value, "i32")
        self.b.store(value, self.slot(register) if whole else self.scalar_slot(register), align=64 if value.lanes == WARP else None)

    def restore(self, register: str, lanes: int) -> Value:
        kind = self.storage(register)
        at = self.slot(register) if lanes == WARP else self.scalar_slot(register)
        if kind == "i1":
            bits = self.b.load("i32", at)
            return self.b.bits_mask(self.b.resize(bits, f"i{lanes}"), lanes) if lanes else self.b.resize(bits, "i1")
        return self.b.load(kind, at, lanes, align=64 if lanes == WARP else None)

    def widen(self, value: Value, own: Lanes, lanes: int = WARP) -> Value:
        """The first lanes of a pattern's groups, as the first lanes of more groups or as all 32 lanes."""
        have = max(1, value.lanes)
        if have == max(1, lanes) or value.lanes == WARP:
            return value
        b = self.b
        wide = b.splat(value, lanes) if have == 1 else b.shuffle(value, [k * have // lanes for k in range(lanes)])
        if own.offsets is None or own.offsets == ZERO:
            return wide
        offsets = [own.offsets[k * (WARP // lanes)] for k in range(lanes)]
        return b.add(wide, constants(value.type, offsets)) if any(offsets) else wide

    def first_lanes(self, value: Value, form: int) -> Value:
        """The lanes of a whole vector in which `full` keeps a pattern."""
        return self.b.shuffle(value, range(0, WARP, WARP // form)) if form else self.b.extract(value, 0)

    def form(self, register: str) -> int:
        """Lanes in which `full` keeps a register: 0, 2 or 4 first lanes, or 32."""
        return lanes_of(self.pattern(register))

    # -- operands -------------------------------------------------------------------------------------------------
    def source(self, operand: Operand, type_: str, lanes: int) -> Value:
        """An operand read as PTX type `type_`; `lanes` as for `get`."""
        kind = LLVM_TYPE[type_]
        match operand:
            case Register(name):
                return self.reinterpret(self.get(name, lanes), kind)
            case Immediate(bits):
                if kind in ("float", "double", "half", "bfloat"):
                    text = float_constant(kind, bits)
                    return Value(kind, f"splat ({kind} {text})" if lanes else text, lanes)
                return constant(kind, bits, lanes)
            case Special(name):
                return self.b.resize(self.special(name, lanes), kind)
            case Symbol():
                value = self.symbol(operand)
                value = self.b.resize(value, kind)
                return self.b.splat(value, lanes) if lanes else value
        raise AssertionError(operand)

    def reinterpret(self, value: Value, kind: str) -> Value:
        """Raw bits as an IR type; a narrower type takes the low bits."""
        if value.type == kind:
            return value
        bits = BITS[kind]
        if BITS[value.type] != bits:
            value = self.b.resize(value, f"i{bits}")
        return self.b.bitcast(value, kind)

    def symbol(self, symbol: Symbol) -> Value:
        """Address of a variable in its own space."""
        variable = self.kernel.variables[symbol.name]
        if variable.space in ("shared", "local"):
            return constant("i64", variable.offset + symbol.offset)
        slot = self.unit.symbol_slots.setdefault(symbol.name, len(self.unit.symbol_slots))
        at = self.b.offset(self.field("params", "ptr"), -(-self.kernel.param_bytes // 8) * 8 + 8 * slot)
        return self.b.add_const(self.b.load("i64", at, invariant=True), symbol.offset)

    def field(self, name: str, type_: str) -> Value:
        """A field of the worker that does not change while translated code runs."""
        return self.b.load(type_, self.b.offset(Value("ptr", "%w"), L.field(name)), invariant=True)

    def warp_index(self) -> Value:
        return self.b.load("i32", self.b.offset(Value("ptr", "%c"), self.unit.context.WARP_INDEX), invariant=True)

    def special(self, name: str, lanes: int) -> Value:
        """A special register as i32 (clocks: i64)."""
        b = self.b
        axis = "xyz".find(name[-1]) if "." in name else 0
        base = name.split(".")[0]
        if base == "tid":
            return self._thread_index(axis, lanes)
        if base == "laneid" or base.startswith("lanemask"):
            values = _lane_constants(base)
            return constants("i32", values[:: WARP // lanes]) if lanes else constant("i32", values[0])
        if base in ("ctaid", "nctaid"):
            at = b.offset(Value("ptr", "%w"), L.field(base) + 4 * axis)
            value = b.load("i32", at, invariant=True)
        elif base == "ntid":
            value = constant("i32", self.unit.block[axis])
        elif base == "warpid":
            value = self.warp_index()
        elif base == "nwarpid":
            value = constant("i32", -(-_threads(self.unit.block) // WARP))
        elif base in ("smid", "gridid", "clusterid", "cluster_ctaid", "cluster_ctarank"):
            value = constant("i32", 0)
        elif base in ("nsmid", "nclusterid", "cluster_nctaid", "cluster_nctarank"):
            value = constant("i32", 1)
        elif base == "WARP_SZ":
            value = constant("i32", WARP)
        elif base == "dynamic_smem_size":
            value = b.resize(self.field("dynamic_bytes", "i64"), "i32")
        elif base in ("total_smem_size", "aggr_smem_size"):
            value = b.resize(self.field("shared_bytes", "i64"), "i32")
        elif base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
            value = self._clock()
            if base.endswith("_hi"):
                value = b.lshr(value, 32)
        else:
            raise _unsupported_register(name)
        return b.splat(value, lanes) if lanes and not value.lanes else value

    def _clock(self) -> Value:
        """Steps of this worker so far: grows by one each time it is read."""
        at = self.b.offset(Value("ptr", "%w"), L.field("clock"))
        value = self.b.add_const(self.b.load("i64", at), 1)
        self.b.store(value, at)
        return value

    def _thread_index(self, axis: int, lanes: int) -> Value:
        b, (x, y, _) = self.b, self.unit.block
        linear = b.shl(self.warp_index(), 5)
        if lanes:
            linear = b.add(b.splat(linear, lanes), constants("i32", range(0, WARP, WARP // lanes)))
        if axis == 0:
            return b.binary("urem", linear, b.like(linear, x))
        if axis == 1:
            return b.binary("urem", b.binary("udiv", linear, b.like(linear, x)), b.like(linear, y))
        return b.binary("udiv", linear, b.like(linear, x * y))

    # -- instructions ---------------------------------------------------------------------------------------------
    def instruction(self, i: Instruction) -> None:
        from . import atomics, memory, warp

        if i.opcode in VALUES:
            self._value(i)
        elif i.opcode in ("ld", "ldu", "st"):
            memory.translate(self, i)
        elif i.opcode in ("atom", "red"):
            atomics.translate(self, i)
        elif i.opcode in warp.HANDLERS:
            warp.HANDLERS[i.opcode](self, i)
        else:
            raise unsupported(i)

    def scalar_result(self, i: Instruction) -> Lanes | None:
        """The instruction's own pattern if it is computed once per warp, else None."""
        if self.masked:
            return None
        own = self.unit.analysis.result(i)
        return own if own is not None and own.known else None

    def _value(self, i: Instruction) -> None:
        own = self.scalar_result(i)
        lanes = WARP if own is None else lanes_of(own)
        operands = i.operands[1:]
        if i.opcode == "mov" and isinstance(operands[0], Vector):
            operands = operands[0].elements
        sources = [self.source(o, t, lanes) for o, t in zip(operands, source_types(i), strict=False)]
        result = VALUES[i.opcode].handler(self.b, i, *sources)
        self.write(i.operands[0], result, own or Lanes())

    def write(self, target: Operand, result: Value | tuple[Value, ...], own: Lanes) -> None:
        """Puts a result, or one per element of a vector or pair, into its destination."""
        match target:
            case Register(name):
                assert isinstance(result, Value)
                self.put(name, result, own)
            case Vector(elements):
                for element, part in zip(elements, result, strict=True):
                    self.write(element, part, own)
            case Pair(first, second):
                parts = result if isinstance(result, tuple) and not isinstance(result, Value) else (result,)
                for element, part in zip((first, second), parts, strict=False):
                    self.write(element, part, own)
            case Sink():
                pass

    def as_storage(self, register: str, value: Value, signed: bool = False) -> Value:
        """A result as the raw bits that its register keeps."""
        kind = self.storage(register)
        if value.type in ("float", "double", "half", "bfloat"):
            value = self.b.bitcast(value, f"i{BITS[value.type]}")
        return value if value.type == kind else self.b.resize(value, kind, signed)

    # -- counting -------------------------------------------------------------------------------------------------
    def count(self, name: str, line: int, *, per_warp: int = 0, per_lane: int = 0) -> None:
        """Books a count that follows from how often the current block runs."""
        if not self.unit.options.count:
            return
        plan = self.unit.plan
        if self.masked:
            plan.scaled(self.execution_cell, name, line, per_warp)
            plan.scaled(self.lanes_cell, name, line, per_lane)
        else:
            plan.scaled(self.execution_cell, name, line, per_warp + WARP * per_lane)

    def count_instruction(self, i: Instruction) -> None:
        if i.has("skip"):  # stands for a predicate: not an instruction of its own
            return
        line, kind = i.source.line, instruction_class(i.opcode, i.modifiers)
        self.count("warp_instructions", line, per_warp=1)
        self.count("thread_instructions", line, per_lane=1)
        self.count(f"instructions_{kind}", line, per_warp=1)
        name = {"fma": "fma", "mad": "fma", "add": "fadd", "sub": "fadd", "mul": "fmul"}.get(i.opcode)
        if name and i.types and i.type == "f32":
            self.count(f"{name}_instructions", line, per_lane=1)

    def counter_pointer(self, cell: int) -> Value:
        return self.b.offset(self.field("counters", "ptr"), 8 * cell)

    def bump(self, cell: int, by: Value) -> None:
        self.b.increment(self.counter_pointer(cell), by)

    def spend(self, line: int) -> None:
        """One loop iteration off the block's budget; leaves when it is used up."""
        b = self.b
        at = b.offset(Value("ptr", "%w"), L.field("budget"))
        left = b.add_const(b.load("i64", at), -1)
        b.store(left, at)
        spent, go_on = b.new_label("spent"), b.new_label("goon")
        b.branch(b.icmp("slt", left, b.like(left, 0)), spent, go_on, likely=False)
        b.label(spent)
        self.fault(L.FAULT_BUDGET, line)
        b.label(go_on)

    def fault(self, code: int, line: int) -> None:
        """Ends the launch: notes the fault and returns."""
        worker = Value("ptr", "%w")
        self.b.store(constant("i32", code), self.b.offset(worker, L.field("fault")))
        self.b.store(constant("i32", line), self.b.offset(worker, L.field("fault_site")))
        self.b.ret(constant("i32", L.FAULTED << 16))

    def loops_back(self, target: int) -> bool:
        return target <= self.block.index

    def barrier_predicate(self, i: Instruction) -> Value | None:
        """The predicate operand of bar.red as a lane mask."""
        return self.b.mask_bits(self.source(i.operands[-1], "pred", WARP)) if i.has("red") else None


def _threads(block: tuple[int, int, int]) -> int:
    return block[0] * block[1] * block[2]


def _unsupported_register(name: str) -> Exception:
    from ...errors import UnsupportedInstruction

    return UnsupportedInstruction(f"the simulator does not know the special register %{name}")


def lanes_of(pattern: Lanes) -> int:
    """Lanes that stand for a pattern: 0 (lane 0 alone), the first lanes of 2 or 4 groups, or all 32."""
    if not pattern.known:
        return WARP
    return 0 if pattern.groups == 1 else pattern.groups


def _lane_constants(name: str) -> list[int]:
    masks = {
        "laneid": range(WARP),
        "lanemask_eq": [1 << n for n in range(WARP)],
        "lanemask_le": [(2 << n) - 1 for n in range(WARP)],
        "lanemask_lt": [(1 << n) - 1 for n in range(WARP)],
        "lanemask_ge": [~((1 << n) - 1) for n in range(WARP)],
        "lanemask_gt": [~((2 << n) - 1) for n in range(WARP)],
    }
    if name not in masks:
        raise _unsupported_register(name)
    return list(masks[name])


# ---------------------------------------------------------------- all lanes active


class Full(Translator):
    """Translation for a whole warp: registers are allocas that LLVM turns into SSA values."""

    def get(self, register: str, lanes: int) -> Value:
        key = (register, lanes)
        if key not in self.known:
            form = self.form(register)
            if form == lanes:
                self.known[key] = self._load_home(register, form)
            else:
                assert lanes > form, f"{register} needs {form} lanes"
                self.known[key] = self.widen(self.get(register, form), self.pattern(register), lanes)
        return self.known[key]

    def put(self, register: str, value: Value, own: Lanes) -> None:
        value = self.as_storage(register, value)
        for lanes in (0, 2, 4, WARP):
            self.known.pop((register, lanes), None)
        form = self.form(register)
        if value.lanes == WARP and form != WARP:  # computed lane by lane although its first lanes say it all
            self.known[register, WARP] = value
            value = self.first_lanes(value, form)
        self.known[register, form] = self.widen(value, own, form)
        self.defined.add(register)

    def _load_home(self, register: str, form: int) -> Value:
        return self.b.load(self.storage(register), self._home(register), form, align=64 if form == WARP else None)

    def _store_home(self, register: str, value: Value) -> None:
        self.b.store(value, self._home(register), align=64 if value.lanes == WARP else None)

    def _home(self, register: str) -> Value:
        return Value("ptr", f'%"R{register}"')

    def translate(self) -> str:
        b, unit = self.b, self.unit
        entries = _entries(unit)
        self.unsaved = _unsaved(self.kernel.blocks)
        for block in self.kernel.blocks:
            self._block(block)
        body, b.lines = b.lines, []
        b.label("entry")
        for name, type_ in self.kernel.registers.items():
            form, kind = self.form(name), L.storage(type_)
            b.emit(f'%"R{name}" = alloca {ir_type(kind, form)}{", align 64" if form == WARP else ""}')
        targets = " ".join(f"i32 {e}, label %E{e}" for e in entries)
        b.emit(f"switch i32 %entry_block, label %nowhere [{targets}]")
        b.label("nowhere")
        b.ret(constant("i32", L.FAULTED << 16))
        for e in entries:
            b.label(f"E{e}")
            for name in sorted(self.kernel.blocks[e].live_in):
                self._store_home(name, self.restore(name, self.form(name)))
            b.br(f"F{e}")
        b.lines += body
        return b.function("i32 @full(ptr noalias %c, ptr noalias %w, i32 %entry_block)")

    def _block(self, block: Block) -> None:
        b = self.b
        self.block, self.known, self.defined, self.scratch = block, {}, set(), {}
        b.label(f"F{block.index}")
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
        """Leaves for `masked` where widening would be wrong for some lane. The block starts here, so it can start over."""
        from ..lanes import _widened_source

        b = self.b
        low, high = self.unit.analysis.guarded[id(i)]
        source = _widened_source(i)
        form = self.form(source.name) if isinstance(source, Register) else lanes_of(self.unit.analysis.operand(source) or Lanes())
        value = b.resize(self.source(source, i.type, form), "i64", i.type[0] == "s")
        fits = b.all_true(b.and_(b.icmp("sge", value, b.like(value, low)), b.icmp("sle", value, b.like(value, high))))
        wraps, fine = b.new_label("wraps"), b.new_label("fine")
        b.branch(fits, fine, wraps, likely=True)
        b.label(wraps)
        known = dict(self.known)
        self._leave(constants("i16", [self.block.index] * WARP), self.block.live_in)
        self.known = known
        b.label(fine)

    def _leave(self, counters: Value, live: frozenset[str]) -> None:
        """Hands the warp to `masked`, every lane at its own block."""
        for name in sorted(live):
            self.save(name, self.get(name, WARP))
        at = self.b.offset(Value("ptr", "%c"), self.unit.context.PCS)
        self.b.store(counters, at, align=64)
        self.b.ret(constant("i32", L.DIVERGED << 16))

    def _write_back(self, live: frozenset[str]) -> None:
        for name in sorted(self.defined & live):
            self._store_home(name, self.known[name, self.form(name)])

    def _terminator(self, block: Block) -> None:
        b, terminator = self.b, block.terminator
        instruction = getattr(terminator, "instruction", None)
        if instruction is not None:
            self.count_instruction(instruction)
        line = instruction.source.line if instruction is not None else _last_line(block)
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
                mask = self.barrier_predicate(i)
                if mask is not None:
                    b.store(mask, b.offset(Value("ptr", "%c"), self.unit.context.PREDICATE))
                for name in sorted(block.live_out & self.unsaved[block.index]):
                    self.save(name, self.get(name, self.form(name)))
                b.ret(constant("i32", L.AT_BARRIER << 16 | target))
            case WarpBarrier(target, _):
                self._write_back(block.live_out)
                if self.unit.options.check:
                    b.call("ws_warp_sync", "void", Value("ptr", "%w"), Value("ptr", "%c"))
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
        if self.unit.options.count and not t.instruction.has("skip"):
            cell = self.unit.plan.cell()
            self.unit.plan.named(cell, "divergent_branches", line)
            self.bump(cell, constant("i64", 1))
        counters = b.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
        self._leave(counters, block.live_out)

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
        self._leave(counters, block.live_out)


def _unsaved(blocks: list[Block]) -> list[set[str]]:
    """Registers that, at the end of a block, may have changed since the warp entered `full`: their slots are out of date."""
    changes = [{name for i in block.instructions for name in written(i)} for block in blocks]
    before: list[set[str]] = [set() for _ in blocks]
    after = [set(c) for c in changes]
    pending = list(range(len(blocks)))
    while pending:
        k = pending.pop(0)
        after[k] = before[k] | changes[k]
        if isinstance(blocks[k].terminator, Barrier):
            continue  # `full` is left here and entered anew
        for s in blocks[k].successors:
            if not after[k] <= before[s]:
                before[s] |= after[k]
                pending.append(s)
    return after


def _last_line(block: Block) -> int:
    return block.instructions[-1].source.line if block.instructions else 0


def _entries(unit: Unit) -> list[int]:
    """Blocks at which a whole warp may enter `full`: the start, behind barriers, and where parted lanes meet again."""
    blocks = unit.kernel.blocks
    entries = {0}
    meeting = _immediate_post_dominators(blocks)
    for block in blocks:
        t = block.terminator
        if isinstance(t, Barrier | WarpBarrier):
            entries.add(t.target)
        parts = isinstance(t, Branch) and not unit.analysis.of(t.guard.register).uniform
        parts = parts or (isinstance(t, Switch) and isinstance(t.index, Register))
        if parts and (meet := meeting[block.index]) is not None:
            entries.add(meet)
    return sorted(entries)


def _immediate_post_dominators(blocks: list[Block]) -> list[int | None]:
    """For every block the nearest block that all its paths pass (None: only the exit). Sets are bit masks."""
    count = len(blocks)
    exit_ = count
    everything = (1 << (count + 1)) - 1
    after = [everything] * count + [1 << exit_]
    changed = True
    while changed:
        changed = False
        for k in range(count - 1, -1, -1):
            common = everything
            for s in blocks[k].successors or (exit_,):
                common &= after[s]
            common |= 1 << k
            if common != after[k]:
                after[k], changed = common, True
    nearest: list[int | None] = []
    for k in range(count):
        candidates = after[k] & ~(1 << k)
        best = None
        rest = candidates
        while rest:
            low = rest & -rest
            c = low.bit_length() - 1
            if after[c] & candidates == candidates:  # c is passed before all the others
                best = c
                break
            rest ^= low
        nearest.append(best if best != exit_ else None)
    return nearest


# ---------------------------------------------------------------- any mixture of lanes


class Masked(Translator):
    """Translation for lanes that have parted: everything is a vector, registers live in the warp's context."""

    masked = True

    def get(self, register: str, lanes: int) -> Value:
        key = (register, WARP)
        if key not in self.known:
            self.known[key] = self.restore(register, WARP)
        return self.known[key]

    def put(self, register: str, value: Value, own: Lanes) -> None:
        value = self.as_storage(register, value)
        self.known[register, WARP] = value if value.lanes else self.b.splat(value)
        self.defined.add(register)

    def translate(self) -> str:
        b = self.b
        entries = set(_entries(self.unit))
        pcs_at = self._pcs_at
        b.label("entry")
        # warps that come back from a barrier: their lanes may go on
        pcs = b.load("i16", pcs_at(), WARP, align=64)
        gone = b.icmp("eq", pcs, b.like(pcs, L.EXITED))
        awake = b.and_const(pcs, L.MAX_BLOCKS - 1)
        b.store(b.select(gone, pcs, awake), pcs_at(), align=64)
        b.br("dispatch")
        b.label("dispatch")
        pcs = b.load("i16", pcs_at(), WARP, align=64)
        lowest = b.call(f"llvm.vector.reduce.umin.v{WARP}i16", "i16", pcs)
        mask = b.icmp("eq", pcs, b.splat(lowest))
        bits = b.mask_bits(mask)
        b.emit(f"%now = bitcast i32 {bits.text} to i32")
        arms = " ".join(f"i16 {block.index}, label %M{block.index}" for block in self.kernel.blocks)
        b.emit(f"switch i16 {lowest.text}, label %idle [{arms}]")
        b.label("idle")
        verdict = b.call("ws_idle", "i32", Value("ptr", "%w"), Value("ptr", "%c"), constant("i32", int(self.unit.options.check)))
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
        return b.function("i32 @masked(ptr noalias %c, ptr noalias %w)")

    def _pcs_at(self) -> Value:
        return self.b.offset(Value("ptr", "%c"), self.unit.context.PCS)

    def _block(self, block: Block, entry: bool) -> None:
        b = self.b
        self.block, self.known, self.defined, self.scratch = block, {}, set(), {}
        b.label(f"M{block.index}")
        if entry:
            self._try_full(block)
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
        line = instruction.source.line if instruction is not None else _last_line(block)
        if any(self.loops_back(s) for s in block.successors):
            self.spend(line)
        match terminator:
            case Return():
                return constants("i16", [L.EXITED] * WARP)
            case Jump(target):
                return constants("i16", [target] * WARP)
            case Barrier(target, i):
                self.count("barriers", line, per_warp=1)
                mask = self.barrier_predicate(i)
                if mask is not None:
                    at = b.offset(Value("ptr", "%c"), self.unit.context.PREDICATE)
                    held = b.and_(b.load("i32", at), b.not_(self.mask_bits))
                    b.store(b.or_(held, b.and_(mask, self.mask_bits)), at)
                return constants("i16", [target | L.BARRIER_FLAG] * WARP)
            case WarpBarrier(target, _):
                return constants("i16", [target | L.WARP_BARRIER_FLAG] * WARP)
            case Branch():
                yes, no = terminator.taken, terminator.fallthrough
                if terminator.guard.negated:
                    yes, no = no, yes
                condition = self.get(terminator.guard.register, WARP)
                if self.unit.options.count and not terminator.instruction.has("skip"):
                    self._count_divergence(condition, line)
                return b.select(condition, constants("i16", [yes] * WARP), constants("i16", [no] * WARP))
            case Switch(index, targets, _):
                value = self.source(index, "u32", WARP)
                following = constants("i16", [targets[-1]] * WARP)
                for k, t in enumerate(targets[:-1]):
                    following = b.select(b.icmp("eq", value, b.like(value, k)), constants("i16", [t] * WARP), following)
                return following
        raise AssertionError(terminator)

    def _count_divergence(self, condition: Value, line: int) -> None:
        b = self.b
        taken = b.and_(b.mask_bits(condition), self.mask_bits)
        parted = b.and_(b.icmp("ne", taken, b.like(taken, 0)), b.icmp("ne", taken, self.mask_bits))
        cell = self.unit.plan.cell()
        self.unit.plan.named(cell, "divergent_branches", line)
        self.bump(cell, b.resize(parted, "i64"))


_ = (is_float, WIDTH_BITS)
