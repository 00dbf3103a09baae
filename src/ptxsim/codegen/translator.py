"""What the two translations of a kernel share: operands, results, counting, one instruction after another.

`full` runs a warp whose 32 lanes are all active and together: registers are SSA values, uniform ones scalars. It leaves
at a branch where the lanes part, at a guard that fails, and at a barrier. `masked` runs any mixture: registers live in
the warp's context, every lane has its own program counter, and the block with the lowest number among them runs next
for the lanes that wait there, which is where parted lanes meet again. From there a whole warp goes back to `full` if
the registers that `full` keeps as scalars do fit their patterns.

What an instruction becomes is said by the handlers that other modules register in `values`; they work on a Translator
and know nothing of the two that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ptxsim.analysis.lanes import ZERO, Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import ALL_LANES, BITS, WARP, Builder, Value, constant, constants, float_constant
from ptxsim.codegen.floating import canonical_bits, canonical_nan, half_results
from ptxsim.codegen.functions import CONTEXT, WORKER, Helper
from ptxsim.codegen.unit import Unit, lanes_of, thread_count
from ptxsim.codegen.values import HANDLERS, LLVM_TYPE, NEXT_STEP, VALUES, source_types, unsupported
from ptxsim.errors import PtxsimError, UnsupportedInstruction
from ptxsim.syntax.program import (
    Block,
    Immediate,
    Instruction,
    Jump,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from ptxsim.syntax.refusals import refused


class Translator:
    """Base of the two translations: operands, results, and one block's worth of instructions."""

    masked = False

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.kernel = unit.kernel
        self.b = Builder()
        self.known: dict[tuple[str, int], Value] = {}
        """values of registers in the current block: (register, lanes); 0 lanes: lane 0 alone, 2 or 4: a group's first
        lanes"""
        self.defined: set[str] = set()
        self.versions: dict[str, int] = {}
        """how often translated code has written a register so far"""
        self.areas: dict[str, int] = {}
        """memory of the function, by name: bytes"""
        self.scratch: dict[object, Any] = {}
        """values computed once per block"""
        self.groups: dict[object, Any] = {}
        """accesses of the block that were examined together"""
        self.carry: Value | None = None
        """condition code, one i1 per lane"""
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

    def area(self, name: str, nbytes: int) -> Value:
        """Memory of the function that all its blocks share."""
        self.areas[name] = max(nbytes, self.areas.get(name, 0))
        return Value("ptr", f'%"area {name}"')

    def area_lines(self) -> list[str]:
        """The areas as allocations, for the function's entry."""
        return [f'%"area {name}" = alloca [{size} x i8], align 64' for name, size in self.areas.items()]

    def slot(self, register: str) -> Value:
        return self.b.offset(CONTEXT, self.unit.context.slots[register])

    def scalar_slot(self, register: str) -> Value:
        return self.b.offset(CONTEXT, self.unit.context.scalars[register])

    def save(self, register: str, value: Value) -> None:
        """Stores a register: a scalar among the scalars, a vector in its slot; predicates are a bit per lane."""
        whole = value.lanes == WARP
        if value.type == "i1":
            value = self.b.resize(self.b.mask_bits(value) if value.lanes else value, "i32")
        self.b.store(
            value,
            self.slot(register) if whole else self.scalar_slot(register),
            align=64 if value.lanes == WARP else None,
        )

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

    @property
    def active(self) -> Value:
        """The lanes that run the current block."""
        return ALL_LANES

    # -- operands -------------------------------------------------------------------------------------------------
    def source(self, operand: Operand, type_: str, lanes: int) -> Value:
        """An operand read as PTX type `type_`; `lanes` as for `get`."""
        kind = LLVM_TYPE[type_]
        match operand:
            case Register(name):
                value = self.get(name, lanes)
                if kind[0] == "i" and name in self.unit.computed_floats:
                    value = canonical_bits(self.b, value)
                return self.reinterpret(value, kind)
            case Immediate(bits):
                if kind in ("float", "double", "half", "bfloat"):
                    text = float_constant(kind, bits)
                    return Value(kind, f"splat ({kind} {text})" if lanes else text, lanes)
                return constant(kind, bits, lanes)
            case Special(name):
                return self.reinterpret(special_register(self, name, lanes), kind)
            case Symbol():
                value = self.symbol(operand)
                value = self.reinterpret(value, kind)
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
        variable = self.kernel.variables.get(symbol.name)
        if variable is None:
            raise UnsupportedInstruction(
                f"'{symbol.name[:40]}' is a parameter or a function: the simulator does not take its address"
            )
        if variable.space in ("shared", "local"):
            return constant("i64", variable.offset + symbol.offset)
        slot = self.unit.symbol_slots.setdefault(symbol.name, len(self.unit.symbol_slots))
        at = self.b.offset(self.field("params", "ptr"), -(-self.kernel.param_bytes // 8) * 8 + 8 * slot)
        return self.b.add_const(self.b.load("i64", at, invariant=True), symbol.offset)

    def field(self, name: str, type_: str) -> Value:
        """A field of the worker that does not change while translated code runs."""
        return self.b.load(type_, self.b.offset(WORKER, L.field(name)), invariant=True)

    def warp_index(self) -> Value:
        return self.b.load("i32", self.b.offset(CONTEXT, self.unit.context.WARP_INDEX), invariant=True)

    def call_library(self, function: tuple[str, str], *arguments: Value) -> None:
        """Calls a function that is compiled apart from the kernel: (name, IR)."""
        name, text = function
        self.unit.library[name] = text
        self.b.call(name, "void", *arguments)

    def helper(self, name: str, result: str, parameters: Sequence[Value], body: Callable[[Helper], None]) -> str:
        """The name of a function of this kernel alone, which is written when it is first asked for."""
        if name not in self.unit.helpers:
            b = Helper(self.b.declared)
            b.label("entry")
            body(b)
            self.unit.helpers[name] = b.define(name, result, *parameters, internal=True)
        return name

    # -- instructions ---------------------------------------------------------------------------------------------
    def instruction(self, i: Instruction) -> None:
        """Translates one instruction. A form that its handler did not foresee is refused by name: PTX is hostile."""
        try:
            self._instruction(i)
        except UnsupportedInstruction as error:
            raise refused(self.kernel.module, i.source, error.message, error.next_step) from None
        except (PtxsimError, RecursionError, MemoryError):
            raise
        except Exception as error:
            what = f"the simulator does not execute '{i.full_name[:60]}': no handler foresees this form"
            raise refused(self.kernel.module, i.source, what, NEXT_STEP) from error

    def _instruction(self, i: Instruction) -> None:
        handler = HANDLERS.get(f"{i.opcode}.cc") if i.has("cc") else None
        handler = handler or HANDLERS.get(i.opcode)
        if handler is not None:
            handler(self, i)
        elif i.opcode in VALUES:
            self._value(i)
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
        if isinstance(result, Value) and result.type in ("half", "bfloat") and half_results(i):
            result = canonical_nan(self.b, result)
        self.write(i.operands[0], result, own or Lanes())

    def write(self, target: Operand, result: Value | tuple[Value, ...], own: Lanes) -> None:
        """Puts a result, or one per element of a vector or pair, into its destination."""
        match target:
            case Register(name):
                assert isinstance(result, Value)
                self.put(name, result, own)
            case Vector(elements):
                assert not isinstance(result, Value)
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
        if i.added:  # stands for a predicate: not an instruction of its own
            return
        if i.has("red") and i in self.block.instructions:  # only fetches what bar.red found: counted in front of it
            return
        line = i.source.line
        self.count("warp_instructions", line, per_warp=1)
        self.count("thread_instructions", line, per_lane=1)
        self.count(f"instructions_{i.counted}", line, per_warp=1)
        name = i.row.tally.get(i.type) if i.types else None
        if name:
            self.count(name, line, per_lane=1)

    def count_parting(self, following: Value, mask: Value, line: int) -> None:
        """Counts a switch whose lanes go to different blocks."""
        b = self.b
        ends = []
        for name, neutral in (("min", L.EXITED), ("max", 0)):
            taken = b.select(mask, following, b.like(following, neutral))
            ends.append(b.call(f"llvm.vector.reduce.u{name}.v{WARP}i16", "i16", taken))
        self.count_divergence(b.icmp("ne", *ends), line)

    def count_divergence(self, parted: Value, line: int) -> None:
        """Counts a branch whose lanes go to different blocks where `parted` holds."""
        cell = self.cells(line, "divergent_branches")
        if cell is not None:
            self.bump(cell, self.b.resize(parted, "i64"))

    def cells(self, line: int, *names: str) -> int | None:
        """The first of new counters with these names, where anything is counted."""
        if not self.unit.options.count:
            return None
        cell = self.unit.plan.cell(len(names))
        for k, name in enumerate(names):
            self.unit.plan.named(cell + k, name, line)
        return cell

    def counter_pointer(self, cell: int) -> Value:
        return self.b.offset(self.field("masked_counters" if self.masked else "counters", "ptr"), 8 * cell)

    def bump(self, cell: int, by: Value) -> None:
        self.b.increment(self.counter_pointer(cell), by)

    def spend(self, line: int) -> None:
        """One loop iteration off the block's budget; leaves when it is used up."""
        b = self.b
        at = b.offset(WORKER, L.field("budget"))
        left = b.add_const(b.load("i64", at), -1)
        b.store(left, at)
        if self.unit.spin_heads:
            due = b.icmp("eq", b.and_const(left, L.YIELD_EVERY - 1), b.like(left, 0))
            with b.if_(due, likely=False):
                b.store(constant("i32", 1), b.offset(WORKER, L.field("yield_due")))
        with b.leaving(lambda: b.icmp("slt", left, b.like(left, 0)), "spent"):
            self.fault(L.FAULT_BUDGET, line)

    @contextmanager
    def yielding(self) -> Iterator[None]:
        """Code that gives way to others, where a loop has run for long."""
        b, due_at = self.b, self.b.offset(WORKER, L.field("yield_due"))
        with b.leaving(lambda: b.icmp("ne", b.load("i32", due_at), constant("i32", 0)), "wait"):
            b.store(constant("i32", 0), due_at)
            yield

    def fault(self, code: int, line: int) -> None:
        """Ends the launch: notes the fault and returns."""
        worker = WORKER
        self.b.store(constant("i32", code), self.b.offset(worker, L.field("fault")))
        self.b.store(constant("i32", line), self.b.offset(worker, L.field("fault_site")))
        self.b.ret(constant("i32", L.FAULTED << 16))

    def loops_back(self, target: int) -> bool:
        return target <= self.block.index

    def name_barrier(self, i: Instruction) -> None:
        """Notes which barrier the warp comes to and for how many threads it is (0: all of the block)."""
        if not self.unit.named:
            return
        b, operands = self.b, barrier_operands(i)
        for operand, at in zip(operands, (L.ContextLayout.BARRIER_ID, L.ContextLayout.BARRIER_COUNT), strict=True):
            b.store(self.of_first_lane(operand), b.offset(CONTEXT, at))

    def of_first_lane(self, operand: Operand) -> Value:
        """A 32-bit operand as the first active lane has it."""
        if not isinstance(operand, Register) or (not self.masked and self.form(operand.name) == 0):
            return self.source(operand, "u32", 0)
        value = self.source(operand, "u32", WARP)
        if not self.masked:
            return self.b.extract(value, 0)
        lane = self.b.first_bit(self.active)
        return self.b.extract(value, lane)

    def barrier_predicate(self, i: Instruction) -> Value | None:
        """The predicate operand of bar.red as a lane mask."""
        return self.b.mask_bits(self.source(i.operands[-1], "pred", WARP)) if i.has("red") else None


def barrier_operands(i: Instruction) -> tuple[Operand, Operand]:
    """The number of a block barrier and how many threads it is for; 0 for all."""
    operands = list(i.operands)
    if i.has("red"):
        operands = operands[1:-1]
    return operands[0] if operands else Immediate(0), operands[1] if len(operands) > 1 else Immediate(0)


def last_line(block: Block) -> int:
    """The source line at which control leaves a block: its jump's, else its last instruction's."""
    if isinstance(block.terminator, Jump) and block.terminator.source.line:
        return block.terminator.source.line
    return block.instructions[-1].source.line if block.instructions else 0


def special_register(t: Translator, name: str, lanes: int) -> Value:
    """A special register as i32 (clocks: i64)."""
    b = t.b
    axis = "xyz".find(name[-1]) if "." in name else 0
    base = name.split(".")[0]
    if base == "tid":
        return _thread_index(t, axis, lanes)
    if base == "laneid" or base.startswith("lanemask"):
        values = _lane_constants(base)
        return constants("i32", values[:: WARP // lanes]) if lanes else constant("i32", values[0])
    if base in ("ctaid", "nctaid"):
        at = b.offset(WORKER, L.field(base) + 4 * axis)
        value = b.load("i32", at, invariant=True)
    elif base == "ntid":
        value = constant("i32", t.unit.block[axis])
    elif base == "warpid":
        value = t.warp_index()
    elif base == "nwarpid":
        value = constant("i32", -(-thread_count(t.unit.block) // WARP))
    elif base in ("smid", "gridid", "clusterid", "cluster_ctaid", "cluster_ctarank"):
        value = constant("i32", 0)
    elif base in ("nsmid", "nclusterid", "cluster_nctaid", "cluster_nctarank"):
        value = constant("i32", 1)
    elif base == "WARP_SZ":
        value = constant("i32", WARP)
    elif base == "dynamic_smem_size":
        value = b.resize(t.field("dynamic_bytes", "i64"), "i32")
    elif base in ("total_smem_size", "aggr_smem_size"):
        value = b.resize(t.field("shared_bytes", "i64"), "i32")
    elif base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
        value = _clock(t)
        if base.endswith("_hi"):
            value = b.lshr(value, 32)
    else:
        raise _unsupported_register(name)
    return b.splat(value, lanes) if lanes and not value.lanes else value


def _clock(t: Translator) -> Value:
    """Steps of this worker so far: grows by one each time it is read."""
    at = t.b.offset(WORKER, L.field("clock"))
    value = t.b.add_const(t.b.load("i64", at), 1)
    t.b.store(value, at)
    return value


def _thread_index(t: Translator, axis: int, lanes: int) -> Value:
    b, (x, y, _) = t.b, t.unit.block
    linear = b.shl(t.warp_index(), 5)
    if lanes:
        linear = b.add(b.splat(linear, lanes), constants("i32", range(0, WARP, WARP // lanes)))
    if axis == 0:
        return b.binary("urem", linear, b.like(linear, x))
    if axis == 1:
        return b.binary("urem", b.binary("udiv", linear, b.like(linear, x)), b.like(linear, y))
    return b.binary("udiv", linear, b.like(linear, x * y))


def _unsupported_register(name: str) -> Exception:
    if name.startswith("envreg"):  # cooperative groups find the grid's barrier through them
        return UnsupportedInstruction(
            f"no barrier of a whole grid (grid.sync() reads %{name}): blocks run one after the other, in any order",
            next_step="End the kernel where all blocks have to meet, and go on in a second one.",
        )
    return UnsupportedInstruction(f"the simulator does not know the special register %{name}")


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
