"""`masked` as calls of stencils: made in a tenth of the time, for the first launches, and where lanes seldom part.

Every register has a place in the warp's context, where stencils find it; those that do not outlive their block share
places. What has no stencil, and where a block leads, is translated in place, as in `masked`.
"""

from __future__ import annotations

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, NULL, WARP, WORKER, IRValue, constant
from ptxsim.codegen.layout import places_in
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.stencils import Stencil, Use, stencil_for, use_of
from ptxsim.codegen.translator import ways
from ptxsim.codegen.unit import Unit
from ptxsim.syntax.program import Block, Branch, Instruction, Jump, Return


class Outlined(Masked):
    """The function `masked`, with calls in place of most instructions."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.places: dict[str, int] = {}

    def start_block(self, block: Block) -> None:
        super().start_block(block)
        context = self.unit.context
        self.places, _ = places_in(block, self.kernel.registers, context.slots, context.pool)

    def slot(self, register: str, lanes: int = WARP) -> IRValue:
        if register in self.places and lanes == WARP:
            return self.offset(CONTEXT, self.places[register])
        return super().slot(register, lanes)

    def count_execution(self) -> None:
        self.call("ws_enter", "void", self.counter_pointer(self.execution_cell), self.here)

    def leave_block(self, block: Block) -> None:
        match block.terminator:
            case Return() | Jump():
                targets = block.successors or (L.EXITED,)
                self.spend(self.count_terminator(block), *block.successors)
                self.call("ws_go_on", "void", CONTEXT, self.here, constant("i32", targets[0]))
            case Branch() as branch:
                line, (yes, no) = self.count_terminator(block), ways(branch)
                self.spend(line, *block.successors)
                cell = None if branch.instruction.added else self.cells(line, "divergent_branches")
                counter = NULL if cell is None else self.counter_pointer(cell)
                arms = constant("i32", yes), constant("i32", no)
                self.call("ws_branch", "void", CONTEXT, self.here, self.slot(branch.guard.register), *arms, counter)
            case _:
                super().leave_block(block)
                return
        self.br("dispatch")

    def instruction(self, i: Instruction) -> None:
        use = use_of(self.unit, i)
        stencil = stencil_for(self.unit, use.form) if use is not None else None
        if use is not None and stencil is not None:
            self._call(i, use, stencil)
            return
        super().instruction(i)
        for name in sorted(self.defined):
            self._blend(name)
        self.defined.clear()

    def _call(self, i: Instruction, use: Use, stencil: Stencil) -> None:
        line, plan = i.source.line, self.unit.plan
        for which, name, factor in stencil.per_block:
            plan.scaled((self.execution_cell, self.lanes_cell)[which], name, line, factor)
        slots = self.unit.context.slots
        given = [self.places[name] if name in self.places else slots[name] for name in use.registers]
        filled = [constant("i64", n) for n in (*given, *use.constants)]
        filled += [constant("i64", displacement) for displacement in use.displacements]
        filled += [constant("i32", self.unit.site(i, space, access)) for space, access in stencil.sites]
        number_of = {"product": self.product_number, "sums": self.sums_number}
        filled += [number_of[name](i) for name in stencil.numbers]
        if stencil.cell_count:
            first = plan.cell(stencil.cell_count)
            for cell, name in stencil.cells:
                plan.named(first + cell, name, line)
            filled.append(constant("i64", 8 * first))
        self.stencils |= {**dict(stencil.library), stencil.name: stencil.text}
        self.call(stencil.name, "void", CONTEXT, WORKER, self.here, *filled)
        for name in i.written:
            self.known.pop((name, WARP), None)
