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

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ptxsim.analysis.effects import may_write_shared
from ptxsim.analysis.lanes import ZERO, Lanes
from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import (
    ALL_LANES,
    BITS,
    CONTEXT,
    WARP,
    WORKER,
    Builder,
    Helper,
    IRValue,
    constant,
    constants,
    float_constant,
    tell_async,
)
from ptxsim.codegen.floating import canonical_nan
from ptxsim.codegen.nans import KEEPS_PAYLOADS, canonical_bits, copies_nans, gives_nans
from ptxsim.codegen.unit import Unit, lanes_of, thread_count
from ptxsim.codegen.values import HANDLERS, LLVM_TYPE, NEXT_STEP, VALUES, source_types, unsupported
from ptxsim.errors import PtxsimError, UnsupportedInstruction
from ptxsim.syntax.program import (
    Block,
    Branch,
    Immediate,
    Instruction,
    Jump,
    Operand,
    Register,
    ResultPair,
    Sink,
    Special,
    Symbol,
    Vector,
)
from ptxsim.syntax.refusals import refused

UNIFORM = Lanes((0,) * WARP)


class Translator(Builder):
    """Base of the two translations, each a writer of one function: operands, results, one block's instructions."""

    masked = False

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.unit = unit
        self.kernel = unit.kernel
        self.known: dict[tuple[str, int], IRValue] = {}
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
        self._sites: dict[int, int] = {}
        self.stores = 0
        """how many instructions so far may have changed shared memory"""
        self.carry: IRValue | None = None
        """condition code, one i1 per lane"""
        self.block: Block
        self.position = 0
        self.execution_cell = 0
        self.lanes_cell = 0

    def site_of(self, i: Instruction, space: str, access: str) -> int:
        """The site of a load or store in this function."""
        if id(i) not in self._sites:
            self._sites[id(i)] = self.unit.site(i, space, access)
        return self._sites[id(i)]

    def loads_factors(self, a: Any, offsets: tuple[int, ...], place: IRValue) -> bool:
        """Loads what a product multiplies; False where a load serves no product. `place`: the register's address."""
        return False

    # -- registers ------------------------------------------------------------------------------------------------
    def storage(self, register: str) -> str:
        return L.storage(self.kernel.registers[register])

    def pattern(self, register: str) -> Lanes:
        return self.unit.analysis.of(register)

    def get(self, register: str, lanes: int) -> IRValue:
        """A register's raw bits: of lane 0 (`lanes` 0), of the first lanes of 2 or 4 groups, or of all 32 lanes."""
        raise NotImplementedError

    def put(self, register: str, value: IRValue, own: Lanes) -> None:
        raise NotImplementedError

    def area(self, name: str, nbytes: int) -> IRValue:
        """Memory of the function that all its blocks share."""
        self.areas[name] = max(nbytes, self.areas.get(name, 0))
        return IRValue("ptr", f'%"area {name}"')

    def area_lines(self) -> list[str]:
        """The areas as allocations, for the function's entry."""
        return [f'%"area {name}" = alloca [{size} x i8], align 64' for name, size in self.areas.items()]

    def slot(self, register: str, lanes: int = WARP) -> IRValue:
        """A register's place in the warp's context: as a vector, or in fewer lanes."""
        context = self.unit.context
        return self.offset(CONTEXT, (context.slots if lanes == WARP else context.scalars)[register])

    def places_of(self, registers: Sequence[Operand]) -> tuple[IRValue, bool] | None:
        """Words that say where registers of 32 bits are in the context, and whether they hold computed numbers.

        None where there is no such list, so that each register has to be named.
        """
        return None

    def save(self, register: str, value: IRValue) -> None:
        """Stores a register: a scalar among the scalars, a vector in its slot; predicates are a bit per lane."""
        lanes = value.lanes
        if value.type == "i1":
            value = self.resize(self.mask_bits(value) if value.lanes else value, "i32")
        self.store(value, self.slot(register, lanes), align=64 if value.lanes == WARP else None)

    def restore(self, register: str, lanes: int) -> IRValue:
        kind = self.storage(register)
        at = self.slot(register, lanes)
        if kind == "i1":
            bits = self.load("i32", at)
            return self.bits_mask(self.resize(bits, f"i{lanes}"), lanes) if lanes else self.resize(bits, "i1")
        return self.load(kind, at, lanes, align=64 if lanes == WARP else None)

    def widen(self, value: IRValue, own: Lanes, lanes: int = WARP) -> IRValue:
        """The first lanes of a pattern's groups, as the first lanes of more groups or as all 32 lanes."""
        have = max(1, value.lanes)
        if have == max(1, lanes) or value.lanes == WARP:
            return value
        wide = self.splat(value, lanes) if have == 1 else self.shuffle(value, [k * have // lanes for k in range(lanes)])
        if not own.known or own.offsets == ZERO:
            return wide
        offsets = [own.offsets[k * (WARP // lanes)] for k in range(lanes)]
        return self.add(wide, constants(value.type, offsets)) if any(offsets) else wide

    def first_lanes(self, value: IRValue, form: int) -> IRValue:
        """The lanes of a whole vector in which `full` keeps a pattern."""
        return self.shuffle(value, range(0, WARP, WARP // form)) if form else self.extract(value, 0)

    def form(self, register: str) -> int:
        """Lanes in which `full` keeps a register: 0, 2 or 4 first lanes, or 32."""
        return lanes_of(self.pattern(register))

    @property
    def active(self) -> IRValue:
        """The lanes that run the current block."""
        return ALL_LANES

    def start_block(self, block: Block) -> None:
        """Nothing that was known in another block holds in this one."""
        self.block, self.known, self.defined, self.scratch, self.groups = block, {}, set(), {}, {}
        self.carry = None

    # -- operands -------------------------------------------------------------------------------------------------
    def source(self, operand: Operand, type_: str, lanes: int) -> IRValue:
        """An operand read as PTX type `type_`; `lanes` as for `get`."""
        kind = LLVM_TYPE[type_]
        match operand:
            case Register(name):
                value = self.get(name, lanes)
                if kind[0] == "i" and name in self.unit.computed_floats:
                    value = canonical_bits(self, value)
                return self.reinterpret(value, kind)
            case Immediate(bits):
                if kind in ("float", "double", "half", "bfloat"):
                    text = float_constant(kind, bits)
                    return IRValue(kind, f"splat ({kind} {text})" if lanes else text, lanes)
                return constant(kind, bits, lanes)
            case Special(name):
                return self.reinterpret(special_register(self, name, lanes), kind)
            case Symbol():
                value = self.symbol(operand)
                value = self.reinterpret(value, kind)
                return self.splat(value, lanes) if lanes else value
        raise AssertionError(operand)

    def reinterpret(self, value: IRValue, kind: str) -> IRValue:
        """Raw bits as an IR type; a narrower type takes the low bits."""
        if value.type == kind:
            return value
        bits = BITS[kind]
        if BITS[value.type] != bits:
            value = self.resize(value, f"i{bits}")
        return self.bitcast(value, kind)

    def symbol(self, symbol: Symbol) -> IRValue:
        """Address of a variable in its own space."""
        variable = self.kernel.variables.get(symbol.name)
        if variable is None:
            param = next((p for p in self.kernel.params if p.name == symbol.name), None)
            if param is not None:  # of a structure that a kernel may take the address of (__grid_constant__)
                block = self.convert("ptrtoint", self.field("params", "ptr"), "i64")
                return self.add_const(block, param.offset + symbol.offset)
            raise UnsupportedInstruction(
                f"'{symbol.name[:40]}' is a function: the simulator does not take its address"
            )
        if variable.space in ("shared", "local"):
            return constant("i64", variable.offset + symbol.offset)
        slot = self.unit.symbol_slots.setdefault(symbol.name, len(self.unit.symbol_slots))
        at = self.offset(self.field("params", "ptr"), -(-self.kernel.param_bytes // 8) * 8 + 8 * slot)
        return self.add_const(self.load("i64", at, invariant=True), symbol.offset)

    def field(self, name: str, type_: str) -> IRValue:
        """A field of the worker that does not change while translated code runs."""
        return self.load(type_, self.offset(WORKER, L.field(name)), invariant=True)

    def warp_index(self) -> IRValue:
        return self.load("i32", self.offset(CONTEXT, self.unit.context.WARP_INDEX), invariant=True)

    def call_library(self, function: tuple[str, str], *arguments: IRValue) -> None:
        """Calls a function that is compiled apart from the kernel: (name, IR)."""
        name, text = function
        self.unit.library[name] = text
        self.call(name, "void", *arguments)

    def helper(self, name: str, result: str, parameters: Sequence[IRValue], body: Callable[[Helper], None]) -> str:
        """The name of a function of this kernel alone, which is written when it is first asked for."""
        if name not in self.unit.helpers:
            b = Helper(self.declared)
            b.label("entry")
            body(b)
            self.unit.helpers[name] = b.define(name, result, *parameters, internal=True)
        return name

    def displaced(self, value: IRValue, displacement: int) -> IRValue:
        """Addresses plus the constant that an instruction adds to them."""
        return self.add_const(value, displacement)

    def site_number(self, site: int) -> IRValue:
        """The number of an access's site, as the runtime takes it."""
        return constant("i32", site)

    def product_number(self, i: Instruction) -> IRValue:
        """The number of a product of a warpgroup, by which a listener is told of it."""
        return constant("i64", self.unit.product_number(i))

    def sums_number(self, i: Instruction) -> IRValue:
        """The number of the products whose sums an instruction may use too early."""
        return constant("i64", self.unit.sums_number(i))

    # -- instructions ---------------------------------------------------------------------------------------------
    def instruction(self, i: Instruction) -> None:
        """Translates one instruction. A form that its handler did not foresee is refused by name: PTX is hostile."""
        try:
            self._instruction(i)
            self.stores += may_write_shared(i)
        except UnsupportedInstruction as error:
            raise refused(self.kernel.module, i.source, error.message, error.next_step) from None
        except (PtxsimError, RecursionError, MemoryError):
            raise
        except Exception as error:
            what = f"the simulator does not execute '{i.full_name[:60]}': no handler foresees this form"
            raise refused(self.kernel.module, i.source, what, NEXT_STEP) from error

    def _instruction(self, i: Instruction) -> None:
        if self.unit.followed and id(i) in self.unit.early_uses:
            self._report_sums(i)
        handler = HANDLERS.get(f"{i.opcode}.cc") if i.has("cc") else None
        handler = handler or HANDLERS.get(i.opcode)
        if handler is not None:
            handler(self, i)
        elif i.opcode in VALUES:
            self._value(i)
        else:
            raise unsupported(i)

    def _report_sums(self, i: Instruction) -> None:
        """The instruction uses registers that products may still be writing."""
        site = self.site_number(self.unit.site(i, "registers", "read"))
        tell_async(self, L.AsyncEvent.SUMS, self.warp_index(), self.active, site, self.sums_number(i))

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
        sources = [self._nan_put_right(i, o, t, lanes) for o, t in zip(operands, source_types(i), strict=False)]
        result = VALUES[i.opcode].handler(self, i, *sources)
        if isinstance(result, IRValue) and result.type in ("half", "bfloat") and i.opcode not in KEEPS_PAYLOADS:
            result = canonical_nan(self, result)
        if isinstance(result, IRValue) and result.type == "float" and gives_nans(i, self.unit.computed_floats):
            result = canonical_bits(self, self.bitcast(result, "i32"))
        self.write(i.operands[0], result, own or Lanes())

    def _nan_put_right(self, i: Instruction, operand: Operand, type_: str, lanes: int) -> IRValue:
        """An operand, with the NaN that a GPU has, where the instruction's result has to have it."""
        value = self.source(operand, type_, lanes)
        if value.type != "float" or not copies_nans(i, operand, self.unit.computed_floats):
            return value
        return self.bitcast(canonical_bits(self, self.bitcast(value, "i32")), "float")

    def write(self, target: Operand, result: IRValue | tuple[IRValue, ...], own: Lanes) -> None:
        """Puts a result, or one per element of a vector or pair, into its destination."""
        match target:
            case Register(name):
                assert isinstance(result, IRValue)
                self.put(name, result, own)
            case Vector(elements):
                assert not isinstance(result, IRValue)
                for element, part in zip(elements, result, strict=True):
                    self.write(element, part, own)
            case ResultPair(first, second):
                parts = result if isinstance(result, tuple) and not isinstance(result, IRValue) else (result,)
                for element, part in zip((first, second), parts, strict=False):
                    self.write(element, part, own)
            case Sink():
                pass

    def as_storage(self, register: str, value: IRValue, signed: bool = False) -> IRValue:
        """A result as the raw bits that its register keeps."""
        kind = self.storage(register)
        if value.type in ("float", "double", "half", "bfloat"):
            value = self.bitcast(value, f"i{BITS[value.type]}")
        return value if value.type == kind else self.resize(value, kind, signed)

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

    def count_instructions(self, block: Block) -> None:
        """Counts what a block executes before its end, like instructions of a line together."""
        if not self.unit.options.count:
            return
        alike: dict[object, list[Instruction]] = {}
        for i in block.instructions:
            alike.setdefault((i.opcode, i.modifiers, i.origin, i.source.line), []).append(i)
        for some in alike.values():
            if not some[0].has("red"):  # what only fetches what bar.red found: counted in front of it
                self.count_instruction(some[0], len(some))

    def count_instruction(self, i: Instruction, times: int = 1) -> None:
        """Counts an instruction that a block executes several times."""
        if i.added:  # stands for a predicate: not an instruction of its own
            return
        line = i.source.line
        self.count("warp_instructions", line, per_warp=times)
        self.count("thread_instructions", line, per_lane=times)
        self.count(f"instructions_{i.counted}", line, per_warp=times)
        self.count(f"thread_instructions_{i.counted}", line, per_lane=times)
        if i.row.tally_warps:
            self.count(i.row.tally_warps, line, per_warp=times)
        name = i.row.tally.get(i.type) if i.types else None
        if name:
            self.count(name, line, per_lane=times)

    def count_terminator(self, block: Block) -> int:
        """Counts what ends a block; its source line."""
        instruction = getattr(block.terminator, "instruction", None)
        if instruction is None:
            return last_line(block)
        self.count_instruction(instruction)
        return instruction.source.line

    def chosen_target(self, index: Operand, targets: Sequence[int]) -> IRValue:
        """The block that each lane goes to from a switch."""
        value = self.source(index, "u32", WARP)
        following = constants("i16", [targets[-1]] * WARP)
        for k, t in enumerate(targets[:-1]):
            following = self.select(
                self.icmp("eq", value, self.like(value, k)), constants("i16", [t] * WARP), following
            )
        return following

    def count_parting(self, following: IRValue, mask: IRValue, line: int) -> None:
        """Counts a switch whose lanes go to different blocks."""
        ends = []
        for name, neutral in (("min", L.EXITED), ("max", 0)):
            taken = self.select(mask, following, self.like(following, neutral))
            ends.append(self.call(f"llvm.vector.reduce.u{name}.v{WARP}i16", "i16", taken))
        self.count_divergence(self.icmp("ne", *ends), line)

    def count_divergence(self, parted: IRValue, line: int) -> None:
        """Counts a branch whose lanes go to different blocks where `parted` holds."""
        cell = self.cells(line, "divergent_branches")
        if cell is not None:
            self.bump(cell, self.resize(parted, "i64"))

    def cells(self, line: int, *names: str) -> int | None:
        """The first of new counters with these names, where anything is counted."""
        if not self.unit.options.count:
            return None
        cell = self.unit.plan.cell(len(names))
        for k, name in enumerate(names):
            self.unit.plan.named(cell + k, name, line)
        return cell

    def counter_pointer(self, cell: int) -> IRValue:
        return self.offset(self.field("masked_counters" if self.masked else "counters", "ptr"), 8 * cell)

    def bump(self, cell: int, by: IRValue) -> None:
        self.increment(self.counter_pointer(cell), by)

    def leads_back(self, targets: Iterable[int]) -> bool:
        """Whether the current block ends a turn of a loop: one of these blocks is no later one."""
        return any(target <= self.block.index for target in targets)

    def spend(self, line: int, *targets: int) -> None:
        """One loop iteration off the block's budget, if a target is behind; leaves when it is used up."""
        if not self.leads_back(targets):
            return
        at = self.offset(WORKER, L.field("budget"))
        left = self.add_const(self.load("i64", at), -1)
        self.store(left, at)
        if self._draws_again(targets):
            self._let_draw()
        if self._looks_again(targets):
            self.store(constant("i32", 1), self.offset(WORKER, L.field("yield_due")))
        elif self.unit.spin_heads:
            patience = self.load("i64", self.offset(WORKER, L.field("patience")))
            due = self.icmp("eq", self.and_(left, patience), self.like(left, 0))
            with self.if_(due, likely=False):
                self.store(constant("i32", 1), self.offset(WORKER, L.field("yield_due")))
        with self.leaving(lambda: self.icmp("slt", left, self.like(left, 0)), "spent"):
            self.fault(L.FAULT_BUDGET, line)

    def _looks_again(self, targets: Iterable[int]) -> bool:
        """Whether the current block leads back to where a loop begins that only memory ends: others must run first."""
        waits, here = self.unit.pure_waits, self.block.index
        return any(head <= here and here in waits.get(head, ()) for head in targets)

    def _draws_again(self, targets: Iterable[int]) -> bool:
        """Whether the current block leads back to where blocks share turns among them: the others shall have some."""
        return any(head <= self.block.index for head in self.unit.drawing.intersection(targets))

    def _let_draw(self) -> None:
        """Gives way to blocks that draw, too; not for ever, for it may be that nobody will have what is waited for."""
        at = self.offset(WORKER, L.field("drawn"))
        drawn = self.load("i64", at)
        self.store(self.add_const(drawn, 1), at)
        with self.if_(self.icmp("ult", drawn, self.like(drawn, L.MOST_DRAWN))):
            for name in ("yield_due", "came_further"):
                self.store(constant("i32", 1), self.offset(WORKER, L.field(name)))

    def note_leaving(self, block: Block) -> None:
        """Somebody who waited in a loop may have found there what he waited for."""
        if block.index in self.unit.left_to:
            self.store(constant("i32", 1), self.offset(WORKER, L.field("changed")))
            self.store(constant("i32", 0), self.offset(WORKER, L.field("yield_due")))

    @contextmanager
    def yielding(self) -> Iterator[None]:
        """Code that gives way to others, where a loop has run for long."""
        due_at = self.offset(WORKER, L.field("yield_due"))
        with self.leaving(lambda: self.icmp("ne", self.load("i32", due_at), constant("i32", 0)), "wait"):
            self.store(constant("i32", 0), due_at)
            yield

    def fault(self, code: int, line: int) -> None:
        """Ends the launch: notes the fault and returns."""
        self.store(constant("i32", code), self.offset(WORKER, L.field("fault")))
        self.store(constant("i32", line), self.offset(WORKER, L.field("fault_site")))
        self.ret(constant("i32", L.FAULTED << 16))

    def end(self, code: int, line: int) -> None:
        """Ends the launch in the middle of a block."""
        self.fault(code, line)
        self.label(self.new_label("after"))

    def hazard(self, kind: int, site: int, lane: IRValue, state: int = 0, *, address: int = 0) -> None:
        """Notes a hazard whose address is known, or that has none."""
        of = constant("i32", kind), self.site_number(site), lane
        detail = constant("i64", address), constant("i64", state)
        self.call("ws_hazard", "void", WORKER, CONTEXT, *of, *detail)

    def name_barrier(self, i: Instruction) -> None:
        """Notes which barrier the warp comes to and for how many threads it is (0: all of the block)."""
        if not self.unit.named:
            return
        if i.opcode == "wgmma":  # the warpgroup's own
            if self.unit.followed:
                left = self.source(i.operands[0], "u32", 0)
                tell_async(self, L.AsyncEvent.WAIT_PRODUCTS, self.warp_index(), constant("i64", -1), left)
            number = self.add_const(self.lshr(self.warp_index(), 2), L.WARPGROUP_BARRIER)
            self.store(number, self.offset(CONTEXT, L.ContextLayout.BARRIER_ID))
            self.store(constant("i32", 4 * WARP), self.offset(CONTEXT, L.ContextLayout.BARRIER_COUNT))
            return
        operands = barrier_operands(i)
        for operand, at in zip(operands, (L.ContextLayout.BARRIER_ID, L.ContextLayout.BARRIER_COUNT), strict=True):
            self.store(self.of_first_lane(operand), self.offset(CONTEXT, at))

    def of_first_lane(self, operand: Operand) -> IRValue:
        """A 32-bit operand as the first active lane has it."""
        if not isinstance(operand, Register) or (not self.masked and self.form(operand.name) == 0):
            return self.source(operand, "u32", 0)
        value = self.source(operand, "u32", WARP)
        return self.extract(value, self.first_bit(self.active) if self.masked else 0)

    def barrier_predicate(self, i: Instruction) -> IRValue | None:
        """The predicate operand of bar.red as a lane mask."""
        return self.mask_bits(self.source(i.operands[-1], "pred", WARP)) if i.has("red") else None


def barrier_operands(i: Instruction) -> tuple[Operand, Operand]:
    """The number of a block barrier and how many threads it is for; 0 for all."""
    if i.has("cluster"):
        return Immediate(L.CLUSTER_BARRIER), Immediate(0)
    operands = i.operands[1:-1] if i.has("red") else i.operands
    return operands[0] if operands else Immediate(0), operands[1] if len(operands) > 1 else Immediate(0)


def ways(t: Branch) -> tuple[int, int]:
    """Where a branch goes where its register holds, and where it does not."""
    return (t.fallthrough, t.taken) if t.guard.negated else (t.taken, t.fallthrough)


def is_block_barrier(i: Instruction) -> bool:
    """Whether it is one of the block's barriers: not the cluster's, and no waiting for a warpgroup's products."""
    return i.opcode != "wgmma" and not i.has("cluster")


def last_line(block: Block) -> int:
    """The source line at which control leaves a block: its jump's, else its last instruction's."""
    if isinstance(block.terminator, Jump) and block.terminator.source.line:
        return block.terminator.source.line
    return block.instructions[-1].source.line if block.instructions else 0


_OF_ONE = {"smid": 0, "gridid": 0, "nsmid": 1, "WARP_SZ": WARP}
"""Registers that are constants: there is one multiprocessor and one grid."""
_OF_CLUSTERS = frozenset({
    "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank",
    "is_explicit_cluster",
})  # fmt: skip


def special_register(t: Translator, name: str, lanes: int) -> IRValue:
    """A special register as i32 (clocks: i64)."""
    base = name.split(".")[0]
    axis = "xyz".find(name[-1]) if "." in name else 0
    if axis < 0:  # what would be the fourth side of a shape: one place, and everybody is there
        return constant("i32", int(base[0] == "n" or base == "cluster_nctaid"), lanes)
    if base == "tid":
        return _thread_index(t, axis, lanes)
    if base == "laneid" or base.startswith("lanemask"):
        values = _lane_constants(base)
        return constants("i32", values[:: WARP // lanes]) if lanes else constant("i32", values[0])
    if base in ("ctaid", "nctaid"):
        value = t.load("i32", t.offset(WORKER, L.field(base) + 4 * axis), invariant=True)
    elif base == "warpid":
        value = t.warp_index()
    elif base in _OF_CLUSTERS:
        value = _of_cluster(t, base, axis)
    elif base in ("dynamic_smem_size", "total_smem_size", "aggr_smem_size"):
        value = t.resize(t.field("dynamic_bytes" if base == "dynamic_smem_size" else "shared_bytes", "i64"), "i32")
    elif base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
        value = t.lshr(_clock(t), 32 if base.endswith("_hi") else 0)
    elif base in ("envreg1", "envreg2"):  # the upper and the lower half of an address
        value = t.load("i32", t.offset(WORKER, L.field("workspace") + 4 * (base == "envreg1")), invariant=True)
    else:
        known = _OF_ONE | {"ntid": t.unit.block[axis], "nwarpid": -(-thread_count(t.unit.block) // WARP)}
        if base not in known:
            raise _unsupported_register(name)
        value = constant("i32", known[base])
    return t.splat(value, lanes) if lanes and not value.lanes else value


def _of_cluster(t: Translator, base: str, axis: int) -> IRValue:
    """Where the block is in its cluster, and the cluster in the grid."""

    def field(name: str, k: int) -> IRValue:
        return t.load("i32", t.offset(WORKER, L.field(name) + 4 * k), invariant=True)

    if base == "cluster_nctaid":
        return field("cluster_size", axis)
    if base in ("cluster_nctarank", "cluster_ctarank", "is_explicit_cluster"):
        sides = [field("cluster_size", k) for k in range(3)]
        if base == "is_explicit_cluster":
            blocks = t.mul(t.mul(sides[0], sides[1]), sides[2])
            return t.resize(t.icmp("ugt", blocks, t.like(blocks, 1)), "i32")
        if base == "cluster_nctarank":
            return t.mul(t.mul(sides[0], sides[1]), sides[2])
        at = [t.binary("urem", field("ctaid", k), side) for k, side in enumerate(sides)]
        return t.add(at[0], t.mul(sides[0], t.add(at[1], t.mul(sides[1], at[2]))))
    size = field("cluster_size", axis)
    if base == "cluster_ctaid":
        return t.binary("urem", field("ctaid", axis), size)
    return t.binary("udiv", field("ctaid" if base == "clusterid" else "nctaid", axis), size)


def _clock(t: Translator) -> IRValue:
    """Grows each time it is read, by about what reading it takes a GPU: loops that wait for a time wait less long."""
    at = t.offset(WORKER, L.field("clock"))
    value = t.add_const(t.load("i64", at), L.CLOCK_STEP)
    t.store(value, at)
    return value


def _thread_index(t: Translator, axis: int, lanes: int) -> IRValue:
    x, y, _ = t.unit.block
    linear = t.shl(t.warp_index(), 5)
    if lanes:
        linear = t.add(t.splat(linear, lanes), constants("i32", range(0, WARP, WARP // lanes)))
    if axis == 0:
        return t.binary("urem", linear, t.like(linear, x))
    if axis == 1:
        return t.binary("urem", t.binary("udiv", linear, t.like(linear, x)), t.like(linear, y))
    return t.binary("udiv", linear, t.like(linear, x * y))


def _unsupported_register(name: str) -> Exception:
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
