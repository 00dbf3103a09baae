"""Instructions as functions that many kernels share.

A *stencil* is what `masked` makes of one instruction, with holes in place of all that differs from one use to the
next: the places of its registers, its constants, its displacement, the numbers of its sites and counters. They are
parameters of a function, so that the same machine code serves every `fma.rn.f32` of every kernel: it is compiled once
for a machine and kept in the compile cache. A kernel made of calls of them starts at once, and runs a few times slower.

Whatever makes a difference to the code but is no hole belongs to the stencil's key. What is not known here to be
independent of the kernel around it has no stencil: it is translated in place.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

from ptxsim.analysis.lanes import VARYING, Lanes
from ptxsim.codegen.access import space_of
from ptxsim.codegen.emit import CONTEXT, MASK, WARP, WORKER, IRValue, arg, module_text
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.unit import CounterPlan, Unit
from ptxsim.codegen.values import LLVM_TYPE, VALUES
from ptxsim.syntax.program import (
    Address,
    Block,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    ResultPair,
    Return,
    Sink,
    SourceLine,
    Special,
    Vector,
)

_OPEN = frozenset({
    "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "setp", "selp", "mov", "min", "max",
})  # fmt: skip
"""Instructions whose constants are holes: their handlers treat them like registers. Those of others are in the key."""
_MEMORY = frozenset({"ld", "ldu", "st"})
_SPACES = frozenset({"global", "shared", "const", "generic"})
_EXECUTIONS, _LANES = 0, 1
"""The first two cells of a stencil's own plan: how often its block runs, and for how many lanes."""


@dataclass(frozen=True)
class Stencil:
    """A function, and what each of its uses has to give and to count."""

    name: str
    text: str
    per_block: tuple[tuple[int, str, int], ...]
    """(_EXECUTIONS or _LANES, counter, factor)"""
    cells: tuple[str, ...]
    """counters of its own cells, side by side"""
    sites: tuple[tuple[str, str], ...]
    """(space, access) of the sites that it names"""


@dataclass(frozen=True)
class Use:
    """One instruction as a key and the fillings of its holes."""

    key: str
    instruction: Instruction
    """with registers by the order in which they are named"""
    registers: tuple[str, ...]
    constants: tuple[int, ...]
    displacement: int | None


@dataclass
class _Canon:
    """Operands without what differs from use to use."""

    kernel: Kernel
    opens: bool
    registers: list[str] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    displacement: int | None = None

    def operand(self, o: Operand) -> Operand | None:
        """The operand with its holes; None where it has no such form."""
        match o:
            case Register(name):
                if name not in self.registers:
                    self.registers.append(name)
                return Register(f"%{self.registers.index(name)}")
            case Immediate(bits):
                if not self.opens:
                    return o
                self.constants.append(bits)
                return _Hole(str(len(self.constants) - 1))
            case Vector(elements):
                parts = [self.operand(e) for e in elements]
                return Vector(tuple(p for p in parts if p is not None)) if None not in parts else None
            case ResultPair(first, second):
                a, b = self.operand(first), self.operand(second)
                return None if a is None or b is None else ResultPair(a, b)
            case Address(Register() as base, offset, ()):
                self.displacement = offset
                inner = self.operand(base)
                assert isinstance(inner, Register)
                return Address(inner)
            case Sink():
                return o
        return None


@dataclass(frozen=True, slots=True)
class _Hole(Special):
    """A constant that each use gives: its name is its number."""


class _Unknown:
    """The lane analysis of a register of any kernel."""

    def of(self, _name: str) -> Lanes:
        return VARYING


def use_of(unit: Unit, i: Instruction) -> Use | None:
    """How an instruction is a use of a stencil; None where it has to be translated in place."""
    if i.guard is not None or i.has("cc") or id(i) in unit.early_uses or id(i) in unit.shared_requests:
        return None
    if i.opcode not in VALUES and (i.opcode not in _MEMORY or unit.followed or i.has("async")):
        return None
    canon = _Canon(unit.kernel, i.opcode in _OPEN)
    holed = [canon.operand(o) for o in i.operands]
    operands = tuple(o for o in holed if o is not None)
    if len(operands) < len(holed):
        return None
    plain = replace(i, operands=operands, source=SourceLine(), ptx_line=0)
    kinds = ",".join(
        f"{unit.kernel.registers[name]}{'~' if name in unit.computed_floats else ''}" for name in canon.registers
    )
    about = f"{i.full_name} {operands} {i.selectors} {i.origin} {kinds} {unit.wide_vectors}"
    if i.opcode in _MEMORY:
        where = i.operands[0] if i.opcode == "st" else i.operands[1]
        if not isinstance(where, Address):
            return None
        space = space_of(unit, i, where)
        if space not in _SPACES or (space == "generic" and (unit.clusters or unit.kernel.local_bytes)):
            return None
        o = unit.options
        about += f" {space} {unit.global_granule_log2} {unit.shared_granule_log2} {o.check} {o.count}"
        about += f" {o.exact} {unit.partial_order}" if o.exact else ""
        about += f" {id(i) in unit.optimistic} {id(i) in unit.waits}"
    return Use(about, plain, tuple(canon.registers), tuple(canon.constants), canon.displacement)


_known: dict[str, Stencil] = {}


def stencil_for(unit: Unit, i: Instruction, use: Use) -> Stencil:
    """The stencil of a use, written when it is first asked for. Raises as the instruction's handler does."""
    if use.key not in _known:
        _known[use.key] = _Writer(_lone(unit, i, use), use).stencil()
    return _known[use.key]


def _lone(unit: Unit, i: Instruction, use: Use) -> Unit:
    """A unit whose kernel is one instruction."""
    names = {name: f"%{k}" for k, name in enumerate(use.registers)}
    kernel = Kernel(
        name="stencil", module=unit.kernel.module, params=(), param_bytes=0,
        registers={short: unit.kernel.registers[name] for name, short in names.items()},
        blocks=[Block(0, [use.instruction], Return(use.instruction))], variables={}, shared_bytes=0, local_bytes=0,
    )  # fmt: skip
    only = frozenset({id(use.instruction)})
    found: dict[str, Any] = {
        "pointers": {short: unit.pointers[name] for name, short in names.items() if name in unit.pointers},
        "computed_floats": frozenset(short for name, short in names.items() if name in unit.computed_floats),
        "optimistic": only if id(i) in unit.optimistic else frozenset(),
        "waits": only if id(i) in unit.waits else frozenset(),
        "asynchronous": False, "shared_requests": {}, "early_uses": {}, "frames": (), "analysis": _Unknown(),
        "plan": CounterPlan(2), "sites": [], "helpers": {}, "library": {}, "symbol_slots": {},
    }  # fmt: skip
    return replace(unit, kernel=kernel, **found)


def parameters_of(use: Use, stencil: Stencil) -> list[IRValue]:
    """The parameters behind the warp's context, the worker and the active lanes."""
    found = [arg("i64", f"o{k}") for k in range(len(use.registers))]
    found += [arg("i64", f"k{k}") for k in range(len(use.constants))]
    found += [arg("i64", "displacement")] if use.displacement is not None else []
    found += [arg("i32", f"site{k}") for k in range(len(stencil.sites))]
    return [*found, arg("i64", "cells")] if stencil.cells else found


class _Writer(Masked):
    """Writes the function of one stencil."""

    def __init__(self, unit: Unit, use: Use) -> None:
        super().__init__(unit)
        self.use = use

    def slot(self, register: str, lanes: int = WARP) -> IRValue:
        return self.offset(CONTEXT, arg("i64", f"o{register[1:]}"))

    def source(self, operand: Operand, type_: str, lanes: int) -> IRValue:
        if not isinstance(operand, _Hole):
            return super().source(operand, type_, lanes)
        value = self.reinterpret(arg("i64", f"k{operand.name}"), LLVM_TYPE[type_])
        return self.splat(value, lanes) if lanes else value

    def displaced(self, value: IRValue, displacement: int) -> IRValue:
        return self.add(value, self.splat(self.resize(arg("i64", "displacement"), value.type), value.lanes))

    def site_number(self, site: int) -> IRValue:
        return arg("i32", f"site{site}")

    def counter_pointer(self, cell: int) -> IRValue:
        return self.offset(self.offset(self.field("masked_counters", "ptr"), arg("i64", "cells")), 8 * (cell - 2))

    def stencil(self) -> Stencil:
        """The function, named by what it does, and what it counts."""
        i = self.use.instruction
        self.start_block(self.kernel.blocks[0])
        self.execution_cell, self.lanes_cell = _EXECUTIONS, _LANES
        self.here = MASK
        self.label("entry")
        self.mask = self.bits_mask(MASK)
        self.instruction(i)
        for name in sorted(self.defined):
            self._blend(name)
        self.ret()
        self.lines[1:1] = self.area_lines()
        plan, sites = self.unit.plan, self.unit.sites
        made = Stencil(
            f"ws_stencil_{hashlib.sha256(self.use.key.encode()).hexdigest()[:24]}", "",
            tuple((cell, name, factor) for cell, name, _, factor in plan.per_block),
            tuple(name for _, name, _ in sorted(plan.direct)), tuple((site.space, site.access) for site in sites),
        )  # fmt: skip
        listed = ", ".join(map(str, (CONTEXT, WORKER, MASK, *parameters_of(self.use, made))))
        text = self.function(f"void @{made.name}({listed})")
        return replace(made, text=module_text([text, *self.unit.helpers.values()], self.declared, self.unit.helpers))
