"""Instructions as functions that many kernels share.

A *stencil* is what `masked` makes of one instruction, with holes in place of all that differs from one use to the
next: the places of its registers, its constants, its displacement, the numbers of its sites and counters. A record
fills them (`runtime/control`), so that the same machine code serves every `fma.rn.f32` of every kernel: it is compiled
once for a machine and kept in the compile cache. A kernel made of them starts at once, and runs a few times slower.

Whatever makes a difference to the code but is no hole belongs to the stencil's key. What is not known here to be
independent of the kernel around it has no stencil: it is translated in place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ptxsim.adders import ORDERED
from ptxsim.analysis.lanes import LaneAnalysis
from ptxsim.codegen import layout as L
from ptxsim.codegen.access import space_of
from ptxsim.codegen.emit import CONTEXT, MASK, WARP, IRValue, arg, module_text
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.runtime.control import HOLES, RECORDED, WORD
from ptxsim.codegen.unit import CounterPlan, Options, Unit
from ptxsim.codegen.values import LLVM_TYPE, VALUES
from ptxsim.errors import UnsupportedInstruction
from ptxsim.syntax.bulk import is_bulk
from ptxsim.syntax.program import (
    Address,
    Block,
    Immediate,
    Instruction,
    InstructionOrigin,
    Kernel,
    Operand,
    PtxFile,
    Register,
    ResultPair,
    Return,
    Sink,
    Special,
    Vector,
    bytes_of,
    parts_of,
)

_OPEN = frozenset({
    "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "shl", "shr", "setp", "selp", "mov", "min", "max",
})  # fmt: skip
"""Instructions whose constants are holes: their handlers treat them like registers. Those of others are in the key."""
_PLAIN = frozenset({"ld", "ldu", "st"})
_MEMORY = _PLAIN | {"atom", "red"}
_WARP = frozenset({
    "mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix", "cp", "shfl", "vote", "match", "redux", "elect",
})  # fmt: skip
"""What a warp does together, or begins: their handlers take nothing from the block around them in `masked`."""
_PRODUCT, _SUMS = "product", "sums"
_SPACES = frozenset({"global", "shared", "const", "generic"})
_EXECUTIONS, _LANES = 0, 1
"""The first two cells of a stencil's own plan: how often its block runs, and for how many lanes."""


@dataclass(frozen=True, eq=False)
class Stencil:
    """A function, and what each of its uses has to give and to count. `stencil_for` makes each once."""

    name: str
    text: str
    per_block: tuple[tuple[int, str, int], ...]
    """(_EXECUTIONS or _LANES, counter, factor)"""
    cells: tuple[tuple[int, str], ...]
    """(which of its own cells, counter): they lie side by side"""
    cell_count: int
    sites: tuple[tuple[str, str], ...]
    """(space, access) of the sites that it names"""
    numbers: tuple[str, ...]
    """what a listener is told of by a number: _PRODUCT or _SUMS"""
    library: tuple[tuple[str, str], ...]
    """functions that it calls and that are compiled apart: (name, IR text)"""


@dataclass(frozen=True, eq=False)
class Form:
    """What a stencil is made of: an instruction with its holes, and what of its kernel makes a difference.

    `use_of` makes each once, so that they are compared, and found, by identity.
    """

    name: str
    """opcode and modifiers"""
    operands: tuple[Operand, ...]
    """registers are numbered in the order in which they are named"""
    selectors: tuple[str, ...]
    added: bool
    """whether it is the simulator's own, which no counter counts"""
    registers: tuple[str, ...]
    """their types; with a ~ where a register holds a number that was computed"""
    space: str = ""
    """of memory that is accessed where the instruction leaves it open; "" for none"""
    flags: tuple[str, ...] = ()
    """of an access: "optimistic", "waits"; "early": it may use sums too early"""

    @property
    def computes(self) -> bool:
        """Whether it does nothing but compute, whatever a launch asks for."""
        return self.name.split(".")[0] in VALUES and not self.flags


@dataclass(frozen=True)
class Use:
    """One instruction as a form and the fillings of its holes."""

    form: Form
    registers: tuple[str, ...]
    constants: tuple[int, ...]
    displacements: tuple[int, ...]


@dataclass
class _Holes:
    """What of an instruction's operands differs from use to use, and what is left of them."""

    opens: bool
    registers: dict[str, int] = field(default_factory=dict)
    constants: list[int] = field(default_factory=list)
    displacements: list[int] = field(default_factory=list)

    def shape(self, o: Operand) -> object:
        """What an operand is but for its holes, as something to compare; None where it has no such form."""
        match o:
            case Register(name):
                return self.registers.setdefault(name, len(self.registers))
            case Immediate(bits):
                if not self.opens:
                    return o
                self.constants.append(bits)
                return _HOLE
            case Vector(elements):
                parts = tuple([self.shape(e) for e in elements])
                return None if None in parts else parts
            case ResultPair(first, second):
                pair = self.shape(first), self.shape(second), ResultPair
                return None if None in pair else pair
            case Address(Register(name), offset, ()):
                self.displacements.append(offset)
                return Address, self.registers.setdefault(name, len(self.registers))
            case Sink():
                return o
        return None

    def holed(self, o: Operand) -> Operand:
        """An operand that has a shape, with its holes; to be asked in the order of the operands."""
        match o:
            case Register(name):
                return Register(f"%{self.registers[name]}")
            case Immediate() if self.opens:
                self.constants.append(0)
                return Special(f"{_HOLE}{len(self.constants) - 1}")
            case Vector(elements):
                return Vector(tuple([self.holed(e) for e in elements]))
            case ResultPair(first, second):
                return ResultPair(self.holed(first), self.holed(second))
            case Address(Register(name)):
                self.displacements.append(0)
                return Address(Register(f"%{self.registers[name]}"), len(self.displacements) - 1)
        return o


_MANY = 4
"""Registers of a list that are moved by a loop over their places."""
_NAME = re.compile(r"%\w+")
_HOLE = "hole "
"""Begins the name of what stands for a constant that each use gives; no PTX text can spell it."""


class _Unknown(LaneAnalysis):
    """What is known of the lanes of a register of any kernel."""

    def __init__(self) -> None:
        self.patterns = {}


def use_of(unit: Unit, i: Instruction) -> Use | None:
    """How an instruction is a use of a stencil; None where it has to be translated in place."""
    if i.guard is not None or i.has("cc") or id(i) in unit.shared_requests or unit.copied.get(id(i)):
        return None
    is_access = i.opcode in _MEMORY
    if i.opcode not in VALUES and not is_access and not _is_warp_wide(i):
        return None
    if is_access and i.has("async"):
        return None
    holes = _Holes(i.opcode in _OPEN)
    shapes = tuple([holes.shape(o) for o in i.operands])
    if None in shapes:
        return None
    kinds = unit.register_kinds
    types = tuple([kinds[n] for n in holes.registers])
    space = ""
    if is_access or i.opcode == "wmma":
        where = next((o for o in i.operands if isinstance(o, Address)), None)
        if where is None and is_access:
            return None
        space = space_of(unit, i, where) if where is not None else ""
        if where is not None and not _is_simple(unit, i, space):
            return None
    flags: tuple[str, ...] = ()
    if is_access or unit.followed:
        early = unit.early_uses if unit.followed else ()
        named = ("optimistic", unit.optimistic), ("waits", unit.waits), ("copied", unit.copied), ("early", early)
        flags = tuple([name for name, ids in named if id(i) in ids])
    key = i.opcode, i.modifiers, i.selectors, i.added, shapes, types, space, flags
    form = _forms.get(key)
    if form is None:
        again = replace(holes, constants=[], displacements=[])
        operands = tuple([again.holed(o) for o in i.operands])
        made = Form(i.full_name, operands, i.selectors, i.added, types, space, flags)
        form = _forms.setdefault(key, made)  # another thread may have been quicker
    return Use(form, tuple(holes.registers), tuple(holes.constants), tuple(holes.displacements))


def _is_warp_wide(i: Instruction) -> bool:
    """Whether it is one of `_WARP` that is worth a stencil: others are calls already, or nothing."""
    if i.opcode == "cp":
        return not is_bulk(i) and (i.has("ca") or i.has("cg"))
    return i.opcode in _WARP and (i.opcode != "wgmma" or i.has("mma_async"))


def _is_simple(unit: Unit, i: Instruction, space: str) -> bool:
    """Whether an access needs nothing of its kernel besides what `_Setting` has."""
    if space == "generic" and (unit.clusters or unit.kernel.local_bytes):
        return False
    return space in _SPACES and (i.opcode in _PLAIN or space != "const")


@dataclass(frozen=True)
class _Setting:
    """What of a unit its stencils depend on, beside their forms."""

    wide_vectors: bool
    check: bool = False
    count: bool = False
    exact: bool = False
    partial_order: bool = False
    granules: tuple[int, int] = (2, 2)
    """log2 of those of global and of shared memory"""
    followed: bool = False
    copies_async: bool = False
    tensor_sums: str = ORDERED
    wide_entries: int = 0


def _setting(unit: Unit, form: Form) -> _Setting:
    if form.computes:
        return _Setting(unit.wide_vectors)
    o = unit.options
    granules = unit.global_granule_log2, unit.shared_granule_log2
    return _Setting(
        unit.wide_vectors, o.check, o.count, o.exact, o.exact and unit.partial_order, granules, unit.followed,
        unit.copies_async, o.tensor_sums, unit.wide_entries if form.name.startswith("wgmma") else 0,
    )  # fmt: skip


_forms: dict[object, Form] = {}
"""All forms: none is there twice."""
_known: dict[tuple[Form, _Setting], Stencil | None] = {}


def stencil_for(unit: Unit, form: Form) -> Stencil | None:
    """The stencil of a form, written when it is first asked for; None where its handler refuses it."""
    key = form, _setting(unit, form)
    if key not in _known:
        try:
            _known[key] = _Writer(*key).stencil()
        except UnsupportedInstruction:  # in place, its line will be named
            _known[key] = None
    return _known[key]


def _lone(form: Form, setting: _Setting) -> Unit:
    """A unit whose kernel is one instruction."""
    opcode, *modifiers = form.name.split(".")
    origin = InstructionOrigin.ADDED if form.added else InstructionOrigin.TEXT
    i = Instruction(opcode, tuple(modifiers), form.operands, origin=origin, selectors=form.selectors)
    names = [f"%{k}" for k in range(len(form.registers))]
    kernel = Kernel(
        name="stencil", module=PtxFile({}, {}, {}), params=(), param_bytes=0,
        registers={name: type_.rstrip("~") for name, type_ in zip(names, form.registers, strict=True)},
        blocks=[Block(0, [i], Return(i))], variables={}, shared_bytes=0, local_bytes=0,
    )  # fmt: skip
    roots = {"shared": "shared", "global": "param+0", "generic": "?"}.get(form.space)
    base = next((o.base for o in form.operands if isinstance(o, Address)), None)
    global_granule, shared_granule = setting.granules
    return Unit(
        kernel, (WARP, 1, 1), _Unknown(),
        Options(setting.check, setting.count, setting.exact, tensor_sums=setting.tensor_sums),
        L.context_layout(kernel, lambda _name: WARP),
        {base.name: frozenset({roots})} if roots and isinstance(base, Register) else {},
        plan=CounterPlan(2), global_granule_log2=global_granule, shared_granule_log2=shared_granule,
        computed_floats=frozenset(n for n, t in zip(names, form.registers, strict=True) if t.endswith("~")),
        optimistic=frozenset({id(i)} if "optimistic" in form.flags else ()),
        waits=frozenset({id(i)} if "waits" in form.flags else ()),
        copied={id(i): 0} if "copied" in form.flags else {},
        partial_order=setting.partial_order, wide_vectors=setting.wide_vectors, asynchronous=setting.followed,
        copies_async=setting.copies_async, wide_entries=setting.wide_entries,
        early_uses={id(i): ()} if "early" in form.flags else {},
    )  # fmt: skip


def _holes(form: Form, stencil: Stencil) -> list[IRValue]:
    """What a record fills, a word each, in its order: see `Use` and `Stencil`."""
    found = [arg("i64", f"o{k}") for k in range(len(form.registers))]
    holes = sum(isinstance(part, Special) for o in form.operands for part in parts_of(o))
    found += [arg("i64", f"k{k}") for k in range(holes)]
    found += [arg("i64", f"displacement{k}") for k in range(sum(isinstance(o, Address) for o in form.operands))]
    found += [arg("i32", f"site{k}") for k in range(len(stencil.sites))]
    found += [arg("i64", name) for name in stencil.numbers]
    return [*found, arg("i64", "cells")] if stencil.cell_count else found


def _read(holes: Iterable[tuple[int, IRValue]], named: Container[str]) -> Iterator[str]:
    """What reads those holes of a record that are named, and not read by a loop."""
    for k, hole in holes:
        if hole.text in named:
            yield f"{hole.text}.at = getelementptr i8, {HOLES}, i64 {WORD * k}"
            yield f"{hole.text} = load {hole.type}, ptr {hole.text}.at, align {WORD}, !invariant.load !0"


class _Writer(Masked):
    """Writes the function of one stencil."""

    def __init__(self, form: Form, setting: _Setting) -> None:
        super().__init__(_lone(form, setting))
        self.made_of, self.setting = form, setting
        self.numbers: list[str] = []

    def slot(self, register: str, lanes: int = WARP) -> IRValue:
        return self.offset(CONTEXT, arg("i64", f"o{register[1:]}"))

    def places_of(self, registers: Sequence[Operand]) -> tuple[IRValue, bool] | None:
        numbers = [int(r.name[1:]) for r in registers if isinstance(r, Register)]
        types = {self.made_of.registers[n] for n in numbers}
        is_list = len(numbers) == len(registers) >= _MANY and numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        if not is_list or len(types) > 1 or bytes_of((type_ := types.pop()).rstrip("~")) != 4:
            return None
        return self.offset(HOLES, WORD * numbers[0]), type_.endswith("~")

    def source(self, operand: Operand, type_: str, lanes: int) -> IRValue:
        if not isinstance(operand, Special):
            return super().source(operand, type_, lanes)
        value = self.reinterpret(arg("i64", f"k{operand.name.removeprefix(_HOLE)}"), LLVM_TYPE[type_])
        return self.splat(value, lanes) if lanes else value

    def displaced(self, value: IRValue, displacement: int) -> IRValue:
        by = self.resize(arg("i64", f"displacement{displacement}"), value.type)
        return self.add(value, self.splat(by, value.lanes) if value.lanes else by)

    def site_number(self, site: int) -> IRValue:
        return arg("i32", f"site{site}")

    def product_number(self, i: Instruction) -> IRValue:
        self.numbers.append(_PRODUCT)
        return arg("i64", _PRODUCT)

    def sums_number(self, i: Instruction) -> IRValue:
        self.numbers.append(_SUMS)
        return arg("i64", _SUMS)

    def counter_pointer(self, cell: int) -> IRValue:
        return self.offset(self.offset(self.field("masked_counters", "ptr"), arg("i64", "cells")), 8 * (cell - 2))

    def stencil(self) -> Stencil:
        """The function, named by what it does, and what it counts."""
        (block,) = self.kernel.blocks
        self.start_block(block)
        self.execution_cell, self.lanes_cell = _EXECUTIONS, _LANES
        self.here = MASK
        self.label("entry")
        self.mask = self.bits_mask(MASK)
        self.instruction(block.instructions[0])
        for name in sorted(self.defined):
            self._blend(name)
        self.ret()
        plan, sites = self.unit.plan, self.unit.sites
        number = hashlib.sha256(f"{self.made_of} {self.setting}".encode()).hexdigest()[:24]
        made = Stencil(
            f"ws_stencil_{number}", "",
            tuple((cell, name, factor) for cell, name, _, factor in plan.per_block),
            tuple((cell - 2, name) for cell, name, _ in plan.direct), plan.size - 2,
            tuple((site.space, site.access) for site in sites), tuple(self.numbers), tuple(self.unit.library.items()),
        )  # fmt: skip
        named = set(_NAME.findall("\n".join(self.lines)))
        read = _read(enumerate(_holes(self.made_of, made)), named)
        self.lines[1:1] = [*self.area_lines(), *read]
        text = self.function(f"void @{made.name}({', '.join(map(str, RECORDED))})")
        return replace(made, text=module_text([text, *self.unit.helpers.values()], self.declared, self.unit.helpers))
