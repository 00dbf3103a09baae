"""`masked` as data: made in a fraction of the time, for the first launches, and where lanes seldom part.

Every register has a place in the warp's context, where stencils find it; those that do not outlive their block share
places. A use of a stencil is a record (`runtime/control`), and most blocks are nothing but a run of them, to their end.
What has no stencil is translated in place, as in `masked`, and ends a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import CONTEXT, WARP, WORKER, IRValue, constant
from ptxsim.codegen.masked import Masked
from ptxsim.codegen.runtime.control import WORD
from ptxsim.codegen.stencils import Form, Stencil, Use, stencil_for, use_of
from ptxsim.codegen.translator import ways
from ptxsim.codegen.unit import Runs, Unit
from ptxsim.syntax.program import Block, Branch, Instruction, Jump, Return

_BITS = (1 << 64) - 1


class Outlined(Masked):
    """The function `masked`, with records in place of most instructions."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.places: Mapping[str, int] = {}
        self.forms: dict[Form, Stencil | None] = {}
        self.uses: Counter[tuple[Stencil, int]] = Counter()
        """of stencils that count, in the current block, by source line"""
        self.functions: dict[str, int] = {}
        self.words: list[int] = []
        self.whole: dict[int, int] = {}
        """number of a block that is nothing but records -> its run's first word"""
        self.open = 0
        """the first word of the run that is being written"""
        self.written = 0
        """its records until now"""
        self.block_at = 0

    @property
    def runs(self) -> Runs:
        starts = [WORD * self.whole.get(block.index, 0) for block in self.kernel.blocks]
        words = [word & _BITS for word in self.words]
        return Runs((*self.functions,), np.array(words, np.uint64), np.array(starts, np.uint64))

    def write_blocks(self, entries: frozenset[int]) -> None:
        super().write_blocks(entries)
        self.label("records")
        whole = self.field("whole", "ptr")
        self._run(self.load("i64", self.let("ptr", 0, f"getelementptr i64, {whole}, {self.lowest}")))
        self.br("dispatch")

    def label_of(self, block: Block) -> str:
        return "records" if block.index in self.whole else super().label_of(block)

    def start_block(self, block: Block) -> None:
        super().start_block(block)
        self.places = self.unit.context.places[block.index]
        self.block_at = len(self.lines)

    def slot(self, register: str, lanes: int = WARP) -> IRValue:
        if register in self.places and lanes == WARP:
            return self.offset(CONTEXT, self.places[register])
        return super().slot(register, lanes)

    def count_execution(self) -> None:
        self._record("ws_enter", WORD * self.execution_cell)

    def leave_block(self, block: Block) -> None:
        for (stencil, line), times in self.uses.items():
            for which, name, factor in stencil.per_block:
                self.unit.plan.scaled((self.execution_cell, self.lanes_cell)[which], name, line, times * factor)
        self.uses.clear()
        match block.terminator:
            case Return() | Jump():
                targets = block.successors or (L.EXITED,)
                self._spend(self.count_terminator(block), block.successors)
                self._record("ws_go_on", targets[0])
            case Branch() as branch:
                line = self.count_terminator(block)
                self._spend(line, block.successors)
                cell = None if branch.instruction.added else self.cells(line, "divergent_branches")
                counter = L.NO_COUNTER if cell is None else WORD * cell
                self._record("ws_branch", self._place(branch.guard.register), *ways(branch), counter)
            case _:
                self._end_run()
                super().leave_block(block)
                return
        if self.lines[self.block_at :] == [f"{self.label_of(block)}:"]:
            del self.lines[self.block_at :]
            self.whole[block.index] = self._closed()
        else:
            self._end_run()
            self.br("dispatch")

    def _spend(self, line: int, targets: Sequence[int]) -> None:
        if self.leads_back(targets):
            self._end_run()
        self.spend(line, *targets)

    def instruction(self, i: Instruction) -> None:
        use = use_of(self.unit, i)
        stencil = self._stencil(use.form) if use is not None else None
        if use is not None and stencil is not None:
            self._use(i, use, stencil)
            return
        self._end_run()
        super().instruction(i)
        for name in sorted(self.defined):
            self._blend(name)
        self.defined.clear()

    def _stencil(self, form: Form) -> Stencil | None:
        if form not in self.forms:
            stencil = self.forms[form] = stencil_for(self.unit, form)
            if stencil is not None:
                self.stencils |= {**dict(stencil.library), stencil.name: stencil.text}
        return self.forms[form]

    def _use(self, i: Instruction, use: Use, stencil: Stencil) -> None:
        line, plan = i.source.line, self.unit.plan
        if stencil.per_block:
            self.uses[stencil, line] += 1
        filled = [self._place(name) for name in use.registers]
        filled += [*use.constants, *use.displacements]
        filled += [self.unit.site(i, space, access) for space, access in stencil.sites]
        if stencil.numbers:
            number_of = {"product": self.unit.product_number, "sums": self.unit.sums_number}
            filled += [number_of[name](i) for name in stencil.numbers]
        if stencil.cell_count:
            first = plan.cell(stencil.cell_count)
            for cell, name in stencil.cells:
                plan.named(first + cell, name, line)
            filled.append(WORD * first)
        self._record(stencil.name, *filled)
        if self.known:
            for name in i.written:
                self.known.pop((name, WARP), None)

    def _place(self, register: str) -> int:
        """Where a register is in the warp's context."""
        return self.places[register] if register in self.places else self.unit.context.slots[register]

    # -- records ----------------------------------------------------------------------------------------------------
    def _record(self, function: str, *holes: int) -> None:
        """A call of a function, as a part of the run that is being written."""
        if not self.written:
            self.open = len(self.words)
            self.words.append(0)
        if function not in self.functions:
            self.functions[function] = len(self.functions)
        self.words += [self.functions[function] | (1 + len(holes)) << 32, *holes]
        self.written += 1

    def _closed(self) -> int:
        """The first word of the run that is written now."""
        self.words[self.open], self.written = self.written, 0
        return self.open

    def _end_run(self) -> None:
        """Calls what was recorded: it comes before the code that is written next."""
        if self.written:
            self._run(constant("i64", WORD * self._closed()))

    def _run(self, at: IRValue) -> None:
        run = self.let("ptr", 0, f"getelementptr i8, {self.field('runs', 'ptr')}, {at}")
        self.call("ws_run", "void", CONTEXT, WORKER, self.here, self.field("functions", "ptr"), run)
